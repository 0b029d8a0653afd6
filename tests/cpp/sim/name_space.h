// NameSpace: what the NameNodes of a model cluster keep in their common journal, and the calls that
// read and change it: files, blocks from their allocation to the reports that complete them,
// leases with both limits, recovery of leases and of blocks, and the retry cache.
//
// A call that is carried out here is in the journal. An edit that a NameNode loses before that was
// never answered: to its caller it is a call that was not carried out.
//
// Stricter than a real one where that trusts its clients: a length that is committed, or recorded,
// beyond what the replicas hold is a breach of the world.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/hdfs/wire/types.h"
#include "sim/data_node.h"
#include "sim/network.h"
#include "sim/rpc_call.h"
#include "sim/world.h"

namespace hflush::sim {

class NameSpace {
 public:
  // A lease that was not renewed for so long may be taken by another client.
  static constexpr Duration kSoftLimit = std::chrono::seconds(60);
  // A recovery of a block that took so long may have got lost.
  static constexpr Duration kRecoveryLimit = std::chrono::seconds(90);

  struct Block {
    enum class State : std::uint8_t { kBeingWritten, kUnderRecovery, kCommitted, kComplete };
    std::uint64_t id = 0;
    std::uint64_t stamp = 0;
    std::uint64_t length = 0;       // recorded, and from its commit on final
    bool is_recorded_late = false;  // by a call that may have been meant for another block
    State state = State::kBeingWritten;
    std::uint64_t recovery = 0;  // the stamp of the last recovery that was begun
    TimePoint recovery_end{};    // when it may be begun anew
    std::vector<DataNode*> pipeline;
    bool is_ended = false;  // its last set-up has finalized all replicas (PIPELINE_CLOSE_RECOVERY)
    std::vector<DataNode*> reported;  // finalized, with this stamp
    // Whom readers, and an hsync of a finished block, are sent to: more than the pipeline where
    // copies came that replaced none.
    std::vector<const DataNode*> listed() const;
    // What a balancer has done to it since it was finished.
    struct Moved {
      TimePoint listed;
      std::uint64_t synced_elsewhere;  // of the bytes, where they were copied from
    };
    std::map<const DataNode*, Moved> moved;
    std::set<const DataNode*> leaving;   // whose replicas are to be deleted
    std::set<const DataNode*> deleting;  // and that were told so
    std::uint64_t deleted_synced = 0;    // the most that one of those had synced
    TimePoint last_deletion{};
    // Whether that node was told to delete its replica before an append came, which was given the
    // node nevertheless: it has not reported yet that it has.
    bool is_gone(const DataNode* node) const;
    // For another DataNode.
    struct Search {
      std::set<std::string> left;
      int answers = 0;
      decltype(RpcCall::key) asked_by;      // the last of them
      std::set<const DataNode*> copied_to;  // who was to get a copy from one that is left
      bool found_none = false;              // one that has left may come back now
    };
    Search search;
    // With one that the NameNode does not know yet.
    std::vector<std::pair<DataNode*, std::uint64_t>> early;
  };
  struct File {
    std::uint64_t id = 0;
    std::string path;
    std::string holder;            // empty: closed
    std::uint64_t sessions = 0;    // how often it was opened for writing
    std::uint64_t recoveries = 0;  // how often its lease was taken from its holder
    std::uint64_t seizures = 0;    // how often another client asked for that
    std::uint32_t replication = 0;
    std::uint64_t block_size = 0;
    std::vector<Block> blocks;
    // A recovery took the length of a replica that had lost a chunk, as the shortest of its kind.
    struct Loss {
      std::uint64_t session;  // the last one that it concerns
      std::uint64_t from;
    };
    std::vector<Loss> losses;
    bool has_lost_block = false;  // of which no DataNode had a byte when it was recovered

    std::uint64_t length() const noexcept;
    // Where the block begins.
    std::uint64_t start_of(std::uint64_t block) const noexcept;
    // What is left of so many bytes that a session was promised.
    std::uint64_t left_of(std::uint64_t promised, std::uint64_t session) const noexcept;
  };
  using Exception = RpcException;
  using Answer = RpcAnswer;
  using Call = RpcCall;

  NameSpace(World& world, Network& network, std::vector<std::unique_ptr<DataNode>>& nodes,
            Duration hard_limit);

  Answer carry_out(const Call& call);
  // Whether safe mode refuses it.
  static bool changes(const std::string& method);

  // Whether a NameNode is there to recover leases, and to hear of what was recovered.
  void serve(bool is_served);
  bool is_served() const noexcept { return is_served_; }

  // Recovers every file that is open, as after the hard limit.
  void recover_all();
  // From a DataNode.
  void finalized(DataNode& node, std::uint64_t block, std::uint64_t stamp, std::uint64_t length);
  void is_to_copy(std::uint64_t block, const DataNode* target);
  void is_set_up(std::uint64_t block);

  // --- for a balancer

  enum class Moved : std::uint8_t {
    kLate,      // the copy is of an older stamp
    kAdded,     // and the old replica stays
    kReplaced,  // the old one is to be deleted
  };
  // A copy of the replica of `source` is reported.
  Moved moved(std::uint64_t block, std::uint64_t stamp, DataNode& source, DataNode& target);
  // With a heartbeat of that node: whether it is told to delete its replica.
  bool tell_to_delete(std::uint64_t block, const DataNode& node);
  // It is about to do so, and has reported that it has.
  void deletes(std::uint64_t block, const DataNode& node);
  void deleted(std::uint64_t block, const DataNode& node);

  const std::map<std::string, File>& files() const noexcept { return files_; }
  const File* find(const std::string& path) const;
  const File* file_of_block(std::uint64_t block) const;

  // Each by a file that is open.
  bool leases_are_held() const;
  // None without a lease.
  std::optional<TimePoint> renewed(const std::string& holder) const;

 private:
  struct Lease {
    TimePoint renewed;
    World::EventId watch = 0;
  };
  struct BlockAt {
    File* file;
    Block* block;
  };

  Answer carry_out_now(const Call& call);
  Answer create(const Call& call);
  Answer append(const Call& call);
  Answer add_block(const Call& call);
  Answer abandon_block(const Call& call);
  Answer complete(const Call& call);
  Answer fsync(const Call& call);
  Answer renew_lease(const Call& call);
  Answer recover_lease(const Call& call);
  Answer is_file_closed(const Call& call);
  Answer get_file_info(const Call& call);
  Answer update_block_for_pipeline(const Call& call);
  Answer update_pipeline(const Call& call);
  Answer get_additional_datanode(const Call& call);
  Answer get_block_locations(const Call& call);
  Answer report_bad_blocks(const Call& call);

  File* file_at(const std::string& path);
  // By its id, or without one by its path.
  File* file_of(std::uint64_t id, const std::string& path);
  std::variant<File*, Exception> open_file(std::uint64_t id, const std::string& path,
                                           const std::string& holder);
  std::variant<BlockAt, Exception> open_block(const hdfs::ExtendedBlock& block,
                                              const std::string& holder);
  BlockAt block_at(std::uint64_t id);
  // Empty if it could be.
  std::optional<Exception> commit(File& file, const hdfs::ExtendedBlock& last);
  void settle(Block& block);
  std::vector<DataNode*> choose(std::size_t count, const std::set<std::string>& not_these);
  hdfs::LocatedBlock located(const Block& block, std::uint64_t start,
                             const std::vector<DataNode*>& nodes) const;
  std::string status(const File& file) const;

  // --- leases

  void open(File& file, const std::string& holder);
  void close(File& file);
  // Whether it could be.
  bool close_if_complete(File& file);
  void hand_over(File& file, const std::string& holder);
  bool is_stale(const std::string& holder, Duration limit) const;
  // Why a file that is open cannot be opened by `caller`: none if it is closed now. One whose lease
  // is not renewed is recovered.
  std::optional<Exception> busy(File& file, const std::string& caller);
  void watch(const std::string& holder, Duration after);
  // Whether the file is closed now; else its last block is recovered, for `holder`: also one that
  // its writer has committed, and that no DataNode has reported.
  bool recover(File& file, const std::string& holder);
  void recover_block(std::uint64_t id, std::uint64_t recovery, int attempt);
  void recover_later(std::uint64_t id, std::uint64_t recovery, int attempt);

  World& world_;
  Network& network_;
  std::vector<std::unique_ptr<DataNode>>& nodes_;
  const Duration hard_limit_;
  Chance chance_;
  bool is_served_ = true;
  std::map<std::string, File> files_;
  std::map<decltype(Call::key), std::string> retry_cache_;
  std::map<std::string, Lease> leases_;  // by holder
  std::uint64_t last_file_ = 16385;
  std::uint64_t last_block_ = 1073741824;
  std::uint64_t last_stamp_ = 1000;
};

}  // namespace hflush::sim
