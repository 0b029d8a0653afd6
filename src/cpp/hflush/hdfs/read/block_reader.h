// BlockReader: one READ_BLOCK conversation with a DataNode. A state machine without I/O.
//
// Bytes of the DataNode go in, in any split; verified bytes of a block come out. The reader says
// where the next bytes belong: whole chunks go from the socket straight into the caller's memory
// and are verified there; only a chunk that the caller wants a part of passes through a buffer.
// Packets are as large as the one before, so the places of many of them are known at once; where
// that guess is wrong, what has come is collected and put in its right place.
//
//   AwaitingReply  BlockOpResponse: refused, or how the block is summed and where the first chunk
//                  starts
//   ReadingHeader  of a packet: sequence number, offset and sizes are what they must be, or it ends
//                  here
//   ReadingSums    of the packet's chunks
//   ReadingData    of the packet, in runs of whole chunks; a run is delivered when it is verified
//   Done           the empty last packet has come: the connection can carry another operation
//   Failed         nothing more is taken
//
// Nothing that a DataNode says is trusted: what breaks the protocol is a Status that says how, and
// memory is bounded by one packet. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/crc/checksum.h"
#include "hflush/hdfs/read/byte_queue.h"
#include "hflush/hdfs/read/receive_pieces.h"
#include "hflush/hdfs/wire/data_transfer.h"

namespace hflush::hdfs {

// What a DataNode's answer means that is not kSuccess: kPermissionDenied if it does not accept the
// block's token, kIo otherwise.
Status refusal(const OperationReply& reply);

// Whether a replica without checksums is read all the same. It may be that its block was written
// without them, or that they are lost.
enum class Sums : std::uint8_t { kOptional, kRequired };

// The failure of a reader that requires them.
inline bool is_without_sums(const Status& failure) noexcept {
  return failure.code() == StatusCode::kUnsupported;
}

class BlockReader {
 public:
  // Of the `length` bytes of a block from `offset` on, as the READ_BLOCK operation asked for them.
  // A packet of more than `max_packet_size` breaks the protocol. Requires: length > 0.
  BlockReader(std::uint64_t offset, std::uint64_t length, Sums sums = Sums::kOptional,
              std::size_t max_packet_size = kMaxPacketSize);

  // Asks for the next bytes of the range; `out` is written until delivered(), and holds anything if
  // the reader fails. Requires: delivered(), out.size() <= remaining().
  Status deliver(MutableByteView out);
  bool delivered() const noexcept { return out_.empty(); }

  // Where the bytes that come next are to be put, one piece after the other; empty if none are
  // needed now. Valid until the next call. More may be asked for than will come.
  std::span<const MutableByteView> wanted();
  // The first `count` bytes of wanted() have been filled. A failure is
  //   kChecksum           data does not match its sum: the mismatch's position is in the block
  //   kPermissionDenied   the DataNode does not accept the block's token
  //   kUnsupported        it has no checksums, and they are required
  //   kIo                 it refused for another reason, or broke the protocol
  // and position() still says how much is delivered.
  Status received(std::size_t count);

  // How many bytes will come yet for certain, unless the DataNode fails.
  std::uint64_t still_to_come() const noexcept;
  // Offset in the block of the next byte to be delivered.
  std::uint64_t position() const noexcept { return position_; }
  // Bytes of the range that are not delivered yet.
  std::uint64_t remaining() const noexcept { return end_ - position_; }
  // Whether the DataNode has accepted the operation.
  bool accepted() const noexcept { return !is<AwaitingReply>() && !is<Failed>(); }
  // How the replica is summed. Requires: accepted().
  const ChecksumParameters& checksum() const noexcept { return checksum_; }
  // Whether all has come, and nothing else: end_of_read() may be sent, and then the connection used
  // again. Not before everything is delivered.
  bool done() const noexcept { return is<Done>() && inbox_.empty() && !pieces_.has_ahead(); }
  // ClientReadStatus. Requires: done().
  std::string end_of_read() const;

  static constexpr std::size_t kMaxPieces = ReceivePieces::kMax;

 private:
  // Whole chunks that are received and verified together.
  struct Run {
    bool is_callers = false;  // in the caller's memory; otherwise on the stage
    MutableByteView bytes;
    std::size_t filled = 0;

    MutableByteView missing() const noexcept { return bytes.subspan(filled); }
  };
  // The packet that comes, or came last: the next one is expected to be like it.
  struct Packet {
    std::vector<std::byte> sums;
    std::size_t size = 0;  // of the data
  };

  struct AwaitingReply {};
  struct ReadingHeader {};
  struct ReadingSums {
    std::size_t filled = 0;
  };
  struct ReadingData {
    std::size_t left = 0;       // bytes that no run has taken yet
    std::size_t sums_used = 0;  // bytes; by the runs before this one
    std::optional<Run> run{};
  };
  struct Done {};
  struct Failed {};

  template <typename State>
  bool is() const noexcept {
    return std::holds_alternative<State>(state_);
  }

  // Takes what has come, as far as it goes.
  Status advance();
  // One step: whether there may be another one. The state may be another one afterwards.
  Result<bool> step(const AwaitingReply& state);
  Result<bool> step(const ReadingHeader& state);
  Result<bool> step(ReadingSums& state);
  Result<bool> step(ReadingData& state);
  static Result<bool> step(const Done& /*state*/) { return false; }
  static Result<bool> step(const Failed& /*state*/) { return false; }

  Status take_reply(const OperationReply& reply);
  Status take_header(const PacketHeader& header);
  Run next_run(ReadingData& data);
  Status finish_run(ReadingData& data);
  void deliver_staged();
  // How many bytes at the next run's front lie before what the caller wants.
  std::size_t lead() const noexcept;
  // Bytes that are verified together; 1 if nothing is.
  std::size_t unit() const noexcept;

  // Adds the places of the packets that follow this run, as far as they are the caller's.
  void add_next_packets(const Run& run);
  // Whether the packet with this header is where it was expected to be.
  bool is_expected(const DecodedPacketHeader& decoded) const noexcept;
  const Run* run() const noexcept;
  // The part of the run, or of the sums, that has not come yet.
  MutableByteView missing() noexcept;
  std::size_t next_head_size() const noexcept;

  Status fail(Status failure);
  Status break_off(std::string what);

  const std::uint64_t end_;
  const Sums sums_wanted_;
  const std::size_t max_packet_size_;
  std::uint64_t position_;
  MutableByteView out_;  // what the caller waits for

  // Since the reply.
  ChecksumParameters checksum_;
  std::uint64_t next_ = 0;        // offset in the block of the next run
  std::uint64_t data_limit_ = 0;  // where the chunk with the range's last byte ends
  std::int64_t next_sequence_number_ = 0;

  std::variant<AwaitingReply, ReadingHeader, ReadingSums, ReadingData, Done, Failed> state_;
  Packet packet_;
  ByteQueue inbox_;  // received but not looked at yet: heads of packets, mostly
  ByteQueue stage_;  // verified, for a caller that will want it
  ReceivePieces pieces_;
};

}  // namespace hflush::hdfs
