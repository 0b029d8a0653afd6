// BlockStream: a range of one replica, read in order. The shell around BlockReader: it owns the
// connection and moves bytes.
//
// Runs on the thread that calls, waits at most the socket timeout for each step, and can be
// interrupted. After any failure it is good for nothing but its destructor, which closes the
// connection; one that was read to its end gives the connection back instead (finish()).
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/env/blocking_socket.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/block_reader.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// What a range is read with.
struct ReadOptions {
  bool verify = true;
  std::optional<bool> drop_behind;
  std::optional<std::int64_t> readahead;
  Sums sums = Sums::kRequired;  // if it is verified
};

// Counts of one file's readers.
struct ReadCounts {
  std::int64_t blocks_requested = 0;    // READ_BLOCK operations
  std::int64_t connections_opened = 0;  // to DataNodes
  std::int64_t connections_reused = 0;
  std::int64_t bytes_received = 0;  // of replies and packets
  std::int64_t replica_failures = 0;
  std::int64_t corrupt_replicas = 0;

  ReadCounts& operator+=(const ReadCounts& other) noexcept;
};

class BlockStream {
 public:
  struct Range {
    std::uint64_t offset = 0;  // in the block
    std::uint64_t length = 0;  // > 0
  };

  // Asks `node` for a range of `block`; returns when it has accepted. An idle connection that turns
  // out to be closed is not a failure: the operation goes out again on another one, at last on a
  // fresh one. kPermissionDenied: the token is not accepted; is_without_sums(). `counts` outlives
  // open() and what is called with it.
  static Result<std::unique_ptr<BlockStream>> open(const ReadContext& context,
                                                   const LocatedBlock& block,
                                                   const DatanodeInfo& node, Range range,
                                                   const ReadOptions& options, ReadCounts& counts,
                                                   env::Interrupt& interrupt);

  // Fills `out`. After a failure position() says how much of it is filled. Requires:
  // out.size() <= remaining().
  Status read(MutableByteView out, ReadCounts& counts, env::Interrupt& interrupt);
  // Reads `size` bytes and forgets them.
  Status skip(std::uint64_t size, ReadCounts& counts, env::Interrupt& interrupt);
  // Requires: remaining() == 0. Ends the conversation; if all is well the connection goes back to
  // the pool. It waits for what is on its way already, a second at most. Only an interrupt is a
  // failure: whatever else goes wrong, the bytes are there.
  static Status finish(std::unique_ptr<BlockStream> stream, DatanodeConnections& connections,
                       ReadCounts& counts, env::Interrupt& interrupt);

  const DatanodeInfo& node() const noexcept { return node_; }
  // Of the next byte, in the block.
  std::uint64_t position() const noexcept { return reader_.position(); }
  std::uint64_t remaining() const noexcept { return reader_.remaining(); }
  const ChecksumParameters& checksum() const noexcept { return reader_.checksum(); }

 private:
  BlockStream(env::BlockingSocket socket, DatanodeInfo node, Range range, Sums sums,
              const ReadSettings& settings)
      : socket_(std::move(socket)),
        node_(std::move(node)),
        reader_(range.offset, range.length, sums, settings.max_packet_size),
        timeout_(settings.socket_timeout) {}

  // Sends the operation and waits until it is accepted.
  Status start(const std::string& operation, ReadCounts& counts, env::Interrupt& interrupt);
  // Takes the last packet, and says so.
  Status end(ReadCounts& counts, env::Interrupt& interrupt);
  std::size_t low_water() const noexcept;
  // One receive.
  Status receive(env::Duration timeout, ReadCounts& counts, env::Interrupt& interrupt);

  env::BlockingSocket socket_;
  const DatanodeInfo node_;
  BlockReader reader_;
  const env::Duration timeout_;
  std::uint64_t received_ = 0;  // bytes
};

}  // namespace hflush::hdfs
