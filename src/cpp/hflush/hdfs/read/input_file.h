// InputFile: positioned reads of one open file, from its replicas.
//
// Holds no position, so that any number of threads may read at once (READ-11), each over a
// connection of its own. A read that goes on where the last one ended, or starts at 0, finds the
// connection of that one still sending: the DataNode was asked for all the rest of the block, and
// the sockets' buffers read ahead. A small step forward reads over what lies between. Any other
// read asks for just its range.
//
// Bytes are verified before they are returned, unless opened without (READ-16); what one replica
// cannot give comes from the next (READ-17, replica_search.h). The file is as long as it was at
// open (block_locations.h). An interrupted or failed read leaves the file as it was. Thread-safe;
// no lock is held while a DataNode or the NameNode is waited for. Not usable in a forked child
// (kForked).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/block_locations.h"
#include "hflush/hdfs/read/block_stream.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/read/replica_search.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

class InputFile {
 public:
  // kNotFound; kNotAFile of a directory; kUnsupported of erasure coded and encrypted files.
  static Result<std::unique_ptr<InputFile>> open(ReadContext context, const std::string& path,
                                                 bool verify, env::Interrupt& interrupt);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Fills `out` from `position` on and returns how many bytes that were: fewer than asked for only
  // if the file ends there, 0 at or past its end. After a failure `out` holds anything. The failure
  // names the block and says what each replica answered; kChecksum, with the chunk's position, if
  // none is intact.
  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt);
  Result<std::uint64_t> length();
  // Calls under way finish. Idempotent.
  void close();
  bool closed();
  // Are the bytes checked against stored sums?
  bool verified() const noexcept { return verify_; }
  const std::string& path() const noexcept { return path_; }
  // The blocks whose places are known by now.
  std::vector<LocatedBlock> locations() const { return locations_->known(); }

  // Lets the connection go that waits for the next read in order, with what it has sent ahead.
  void unbuffer();
  // What the DataNodes are asked to do from the next request on: drop what they read from their
  // cache, read so many bytes ahead. nullopt: as they are configured.
  void set_drop_behind(std::optional<bool> value);
  void set_readahead(std::optional<std::int64_t> bytes);
  // Adds the file's own counters. Never waits for I/O.
  void add_statistics(Statistics& statistics) const;

  // A gap of no more than this is read over rather than asked around.
  static constexpr std::uint64_t kSkipWindow = std::uint64_t{256} << 10U;

 private:
  // A stream over the rest of a block, for reads in order.
  struct Ahead {
    BlockLocations::Block block;
    std::unique_ptr<BlockStream> stream;

    std::uint64_t position() const { return block->offset + stream->position(); }
    // False without a stream.
    bool leads_to(std::uint64_t target) const;
  };
  // What is still to be filled.
  struct Rest {
    std::uint64_t position;
    MutableByteView out;

    void advance(std::uint64_t size) {
      position += size;
      out = out.subspan(size);
    }
  };
  // One call of read_at().
  struct Call {
    explicit Call(env::Interrupt& caller) : interrupt(caller) {}

    bool in_order = false;
    Ahead ahead;
    ReadOptions options;
    ReadCounts counts;
    env::Interrupt& interrupt;
  };

  InputFile(ReadContext context, std::string path, bool verify);

  Status read_all(Rest rest, Call& call);
  // From the block at the position, as much as it has of what is wanted; how much that was.
  Result<std::size_t> read_block(const Rest& wanted, Call& call);
  // Fills `rest` through the stream that is open. Fine also if that broke and a replica can be
  // asked for what is left of `rest`.
  Status read_ahead(Rest& rest, ReplicaSearch& search, Call& call);
  // Fills `rest` from one replica after the other. `block`: as it is known at last.
  Status read_replicas(BlockLocations::Block& block, Rest& rest, ReplicaSearch& search, Call& call);
  Status read_replica(const BlockLocations::Block& block, const ReplicaSearch::Try& attempt,
                      Rest& rest, Call& call);
  static Status fill(BlockStream& stream, Rest& rest, Call& call);
  // Keeps the stream for the next read, or ends it if it has no more to give.
  void put_by(Ahead ahead, Call& call);
  std::uint64_t end_of(const LocatedBlock& block) const noexcept;
  ReplicaSearch search_at(std::uint64_t position, const LocatedBlock& block);
  void remember_failure(const DatanodeInfo& node, const Status& failure, ReplicaSearch& search,
                        Call& call);
  void report(const LocatedBlock& block, const ReplicaSearch& search);
  Status forked() const;
  Status closed_failure() const;
  bool is_foreign() const noexcept;

  const ReadContext context_;
  const std::string path_;
  const bool verify_;
  const std::uint32_t generation_;
  std::unique_ptr<BlockLocations> locations_;  // constant after open()

  mutable Mutex mutex_;
  bool closed_ HFLUSH_GUARDED_BY(mutex_) = false;
  // Where the next read is if reads go in order; and a stream that is there, unless a call uses it.
  std::uint64_t next_position_ HFLUSH_GUARDED_BY(mutex_) = 0;
  Ahead ahead_ HFLUSH_GUARDED_BY(mutex_);
  ReadOptions options_ HFLUSH_GUARDED_BY(mutex_);
  DeadNodes dead_ HFLUSH_GUARDED_BY(mutex_);
  std::set<std::uint64_t> unsummed_ HFLUSH_GUARDED_BY(mutex_);  // blocks written without checksums
  ReadCounts counts_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::hdfs
