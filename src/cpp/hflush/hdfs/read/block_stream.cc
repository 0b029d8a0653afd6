#include "hflush/hdfs/read/block_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/env/process.h"
#include "hflush/hdfs/wire/data_transfer.h"

namespace hflush::hdfs {
namespace {

constexpr env::Duration kEndPatience = std::chrono::seconds(1);
constexpr std::size_t kSkipBuffer = std::size_t{64} << 10U;
// How much is worth waiting for.
constexpr std::uint64_t kMinLowWater = std::uint64_t{64} << 10U;
constexpr std::uint64_t kMaxLowWater = std::uint64_t{512} << 10U;

static_assert(BlockReader::kMaxPieces <= env::Socket::kMaxPieces);

// An idle connection if there is one, else a fresh one.
Result<env::BlockingSocket> connection_to(const env::Endpoint& datanode, const ReadContext& context,
                                          bool idle_allowed, ReadCounts& counts,
                                          env::Interrupt& interrupt) {
  if (idle_allowed) {
    if (auto idle = context.connections.take(datanode)) {
      ++counts.connections_reused;
      return *std::move(idle);
    }
  }
  ++counts.connections_opened;
  return context.connector.connect(datanode, context.settings.read.socket_timeout, interrupt);
}

}  // namespace

ReadCounts& ReadCounts::operator+=(const ReadCounts& other) noexcept {
  blocks_requested += other.blocks_requested;
  connections_opened += other.connections_opened;
  connections_reused += other.connections_reused;
  bytes_received += other.bytes_received;
  replica_failures += other.replica_failures;
  corrupt_replicas += other.corrupt_replicas;
  return *this;
}

Result<std::unique_ptr<BlockStream>> BlockStream::open(
    const ReadContext& context, const LocatedBlock& block, const DatanodeInfo& node, Range range,
    const ReadOptions& options, ReadCounts& counts, env::Interrupt& interrupt) {
  const ReadSettings& settings = context.settings.read;
  const env::Endpoint datanode = node.transfer_endpoint(settings.use_datanode_hostname);
  const std::string operation =
      ReadBlockOperation{
          .block = block.block,
          .token = block.token,
          .client_name = context.settings.client_name,
          .offset = range.offset,
          .length = range.length,
          .send_checksums = options.verify,
          .drop_behind = options.drop_behind,
          .readahead = options.readahead,
      }
          .encode();
  for (int attempt = 0;; ++attempt) {
    const std::int64_t reused_before = counts.connections_reused;
    const bool idle_allowed = attempt < settings.cached_connection_retries;
    HFLUSH_ASSIGN_OR_RETURN(env::BlockingSocket socket,
                            connection_to(datanode, context, idle_allowed, counts, interrupt));
    const bool is_reused = counts.connections_reused > reused_before;
    std::unique_ptr<BlockStream> stream(new BlockStream(
        std::move(socket), node, range, options.verify ? options.sums : Sums::kOptional, settings));
    Status status = stream->start(operation, counts, interrupt);
    if (status.ok()) return stream;
    const bool was_closed = status.code() == StatusCode::kIo && stream->received_ == 0;
    if (!is_reused || !was_closed) return status;
  }
}

Status BlockStream::start(const std::string& operation, ReadCounts& counts,
                          env::Interrupt& interrupt) {
  ++counts.blocks_requested;
  const std::array<ByteView, 1> pieces = {as_bytes(operation)};
  HFLUSH_RETURN_IF_ERROR(socket_.send_all(pieces, timeout_, interrupt));
  while (!reader_.accepted()) HFLUSH_RETURN_IF_ERROR(receive(timeout_, counts, interrupt));
  return {};
}

Status BlockStream::read(MutableByteView out, ReadCounts& counts, env::Interrupt& interrupt) {
  HFLUSH_RETURN_IF_ERROR(reader_.deliver(out));
  while (!reader_.delivered()) {
    // Bytes may come so fast that no wait ever asks.
    HFLUSH_RETURN_IF_ERROR(interrupt.check_if_due());
    HFLUSH_RETURN_IF_ERROR(receive(timeout_, counts, interrupt));
  }
  return {};
}

Status BlockStream::skip(std::uint64_t size, ReadCounts& counts, env::Interrupt& interrupt) {
  if (size == 0) return {};
  const Buffer buffer = env::Process::current().buffers().take(kSkipBuffer);
  const MutableByteView room(buffer.data(), buffer.size());
  while (size > 0) {
    const std::size_t part = std::min<std::uint64_t>(size, room.size());
    HFLUSH_RETURN_IF_ERROR(read(room.first(part), counts, interrupt));
    size -= part;
  }
  return {};
}

Status BlockStream::finish(std::unique_ptr<BlockStream> stream, DatanodeConnections& connections,
                           ReadCounts& counts, env::Interrupt& interrupt) {
  HFLUSH_DCHECK(stream->remaining() == 0);
  const Status ended = stream->end(counts, interrupt);
  if (ended.ok()) connections.give_back(std::move(stream->socket_));
  return ended.code() == StatusCode::kInterrupted ? ended : Status();
}

Status BlockStream::end(ReadCounts& counts, env::Interrupt& interrupt) {
  while (!reader_.done()) {
    if (reader_.wanted().empty()) return Status(StatusCode::kIo, "more came than was asked for");
    HFLUSH_RETURN_IF_ERROR(receive(kEndPatience, counts, interrupt));
  }
  const std::string status = reader_.end_of_read();
  const std::array<ByteView, 1> pieces = {as_bytes(status)};
  return socket_.send_all(pieces, kEndPatience, interrupt);
}

Status BlockStream::receive(env::Duration timeout, ReadCounts& counts, env::Interrupt& interrupt) {
  const auto wanted = reader_.wanted();
  socket_.set_low_water(low_water());
  HFLUSH_ASSIGN_OR_RETURN(const std::size_t size, socket_.receive_some(wanted, timeout, interrupt));
  if (size == 0) {
    return Status(StatusCode::kIo, socket_.endpoint().to_string() + " closed the connection", {},
                  ECONNRESET);
  }
  received_ += size;
  counts.bytes_received += static_cast<std::int64_t>(size);
  return reader_.received(size);
}

// Grows with what has come: the first bytes of a stream are wanted soon, those of a long one
// cheaply.
std::size_t BlockStream::low_water() const noexcept {
  const std::uint64_t worthwhile =
      std::min({std::bit_floor(received_), reader_.still_to_come(), kMaxLowWater});
  return worthwhile < kMinLowWater ? 1 : worthwhile;
}

}  // namespace hflush::hdfs
