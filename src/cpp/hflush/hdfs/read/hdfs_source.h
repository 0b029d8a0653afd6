// HdfsSource: the bytes of one open file, from its replicas.
//
// Each concurrent read has a connection of its own. A read in order (stream/ordered_reads.h) finds
// the connection of the last one still sending: the DataNode was asked for all the rest of the
// block, and the sockets' buffers read ahead.
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
#include <random>
#include <set>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/own_process.h"
#include "hflush/hdfs/read/block_locations.h"
#include "hflush/hdfs/read/block_stream.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/read/replica_search.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/stream/ordered_reads.h"
#include "hflush/stream/source.h"

namespace hflush::hdfs {

class HdfsSource final : public stream::Source {
 public:
  // kNotFound; kNotAFile of a directory; kUnsupported of erasure coded and encrypted files.
  static Result<std::unique_ptr<HdfsSource>> open(ReadContext context, const std::string& path,
                                                  bool verify, env::Interrupt& interrupt);
  ~HdfsSource() override;

  const std::string& path() const noexcept override { return path_; }
  // The failure names the block and says what each replica answered; kChecksum, with the chunk's
  // position, if none is intact.
  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt) override;
  Result<std::uint64_t> length() const override;
  void close() override;
  bool verified() const noexcept override { return verify_; }
  void unbuffer() override;
  // For DataNodes, from the next request on.
  void advise(const Advice& advice) override;
  void add_statistics(Statistics& statistics) const override;
  // The blocks whose places are known by now.
  std::vector<LocatedBlock> locations() const { return locations_->known(); }

  // A gap of no more than this is read over rather than asked around.
  static constexpr std::uint64_t kSkipWindow = std::uint64_t{256} << 10U;

 private:
  // A stream over the rest of a block, for reads in order.
  struct Ahead {
    BlockLocations::Block block;
    std::unique_ptr<BlockStream> stream;

    std::uint64_t position() const { return block->offset + stream->position(); }
    stream::StreamAhead span() const {
      if (stream == nullptr) return {};
      return {position(), stream->remaining()};
    }
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

  HdfsSource(ReadContext context, std::string path, bool verify);

  static Rest up_to(std::uint64_t end, const Rest& rest) noexcept;
  Status read_all(Rest rest, Call& call);
  // From the block at the position, as much as it has of what is wanted; how much that was.
  Result<std::size_t> read_block(const Rest& wanted, Call& call);
  // Fills `rest` through the stream that is open. Fine also if that broke and a replica can be
  // asked for what is left of `rest`.
  Status read_ahead(Rest& rest, ReplicaSearch& search, Call& call);
  // Fills `rest` from one replica after the other. `block`: as it is known at last; if it is
  // shorter by then, so is `rest`.
  Status read_replicas(BlockLocations::Block& block, Rest& rest, ReplicaSearch& search, Call& call);
  Status read_replica(const BlockLocations::Block& block, const ReplicaSearch::Try& attempt,
                      Rest& rest, Call& call);
  static Status fill(BlockStream& stream, Rest& rest, Call& call);
  // Keeps the stream for the next read, or ends it if it has no more to give. Fails only if it is
  // interrupted.
  Status put_by(Ahead ahead, Call& call);
  std::uint64_t end_of(const LocatedBlock& block) const noexcept;
  ReplicaSearch search_at(std::uint64_t position, const LocatedBlock& block);
  // Carries out what the search says.
  Status locate_anew(const ReplicaSearch::Refetch& refetch, BlockLocations::Block& block,
                     Rest& rest, const ReplicaSearch& search, Call& call);
  void remember_failure(const DatanodeInfo& node, const Status& failure, ReplicaSearch& search,
                        Call& call);
  void report(const LocatedBlock& block, const ReplicaSearch& search);
  Status forked() const;
  Status closed_failure() const;

  const ReadContext context_;
  const std::string path_;
  const bool verify_;
  const env::Origin origin_;
  std::unique_ptr<BlockLocations> locations_;  // constant after open()

  // Never held while a DataNode or the NameNode is waited for.
  mutable Mutex mutex_;
  bool closed_ HFLUSH_GUARDED_BY(mutex_) = false;
  stream::OrderedReads order_ HFLUSH_GUARDED_BY(mutex_){kSkipWindow};
  Ahead ahead_ HFLUSH_GUARDED_BY(mutex_);  // no stream while a call uses it
  ReadOptions options_ HFLUSH_GUARDED_BY(mutex_);
  std::minstd_rand random_ HFLUSH_GUARDED_BY(mutex_);
  DeadNodes dead_ HFLUSH_GUARDED_BY(mutex_);
  std::set<std::uint64_t> unsummed_ HFLUSH_GUARDED_BY(mutex_);  // blocks written without checksums
  ReadCounts counts_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::hdfs
