// NameNode: a model of one: Hadoop RPC over simulated connections, the calls that writing makes,
// leases by holder, blocks from their allocation to the reports that complete them, and the retry
// cache.
//
// Stricter than a real one where that trusts its clients: a length that is committed, or recorded,
// beyond what the replicas hold is a breach of the world.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
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
#include "sim/world.h"

namespace hflush::sim {

class NameNode {
 public:
  struct Block {
    enum class State : std::uint8_t { kBeingWritten, kCommitted, kComplete };
    std::uint64_t id = 0;
    std::uint64_t stamp = 0;
    std::uint64_t length = 0;  // recorded, and from its commit on final
    State state = State::kBeingWritten;
    std::vector<DataNode*> pipeline;
    std::vector<DataNode*> reported;  // finalized, with this stamp
  };
  struct File {
    std::uint64_t id = 0;
    std::string path;
    std::string holder;  // empty: closed
    std::uint32_t replication = 0;
    std::uint64_t block_size = 0;
    std::vector<Block> blocks;

    std::uint64_t length() const noexcept;
    // Where the block begins.
    std::uint64_t start_of(std::uint64_t block) const noexcept;
  };
  // How calls fare, one in so many; 0: all of them well.
  struct Faults {
    std::uint64_t lost_calls = 0;    // the connection is reset before the call is carried out
    std::uint64_t lost_answers = 0;  // or after it
    std::uint64_t late_answers = 0;
  };

  NameNode(World& world, Network& network, std::vector<std::unique_ptr<DataNode>>& nodes);

  env::Endpoint endpoint() const { return {kIp, kPort}; }
  void suffer(Faults faults) { faults_ = faults; }
  // Gone for so long: its connections are reset, and it takes none.
  void restart(Duration absence);
  // Calls that a fault has hit.
  std::uint64_t hits() const noexcept { return hits_; }

  const File* find(const std::string& path) const;
  const File* file_of_block(std::uint64_t block) const;
  bool has_lease(const std::string& holder) const;
  // From a DataNode.
  void finalized(DataNode& node, std::uint64_t block, std::uint64_t stamp, std::uint64_t length);

  static constexpr const char* kIp = "10.0.1.1";

 private:
  static constexpr std::uint16_t kPort = 8020;

  class Connection;
  struct Exception {
    std::string class_name;
    std::string message;
  };
  // The response's message, or what was thrown.
  using Answer = std::variant<std::string, Exception>;
  using CallKey = std::pair<std::string, std::int32_t>;

  struct BlockAt {
    File* file;
    Block* block;
  };

  void listen();
  Answer carry_out(const std::string& method, ByteView request);
  Answer carry_out_once(const CallKey& key, const std::string& method, ByteView request);

  Answer create(ByteView request);
  Answer add_block(ByteView request);
  Answer abandon_block(ByteView request);
  Answer complete(ByteView request);
  Answer fsync(ByteView request);
  Answer renew_lease(ByteView request);
  Answer recover_lease(ByteView request);
  Answer update_block_for_pipeline(ByteView request);
  Answer update_pipeline(ByteView request);
  Answer get_additional_datanode(ByteView request);
  Answer get_block_locations(ByteView request);

  std::variant<File*, Exception> open_file(std::uint64_t id, const std::string& path,
                                           const std::string& holder);
  std::variant<BlockAt, Exception> open_block(const hdfs::ExtendedBlock& block,
                                              const std::string& holder);
  // Empty if it could be.
  std::optional<Exception> commit(File& file, const hdfs::ExtendedBlock& last);
  void settle(Block& block);
  std::vector<DataNode*> choose(std::size_t count, const std::set<std::string>& not_these);
  hdfs::LocatedBlock located(const Block& block, std::uint64_t start,
                             const std::vector<DataNode*>& nodes) const;
  std::string status(const File& file) const;

  World& world_;
  Network& network_;
  std::vector<std::unique_ptr<DataNode>>& nodes_;
  Chance chance_;
  Faults faults_;
  std::uint64_t hits_ = 0;
  std::map<std::string, File> files_;
  std::map<CallKey, std::string> retry_cache_;
  std::uint64_t last_file_ = 16385;
  std::uint64_t last_block_ = 1073741824;
  std::uint64_t last_stamp_ = 1000;
};

}  // namespace hflush::sim
