// BlockReader: one READ_BLOCK conversation with a DataNode. A state machine without I/O.
//
// Bytes of the DataNode go in, in any split; verified bytes of a block come out. The reader says
// where the next bytes belong: whole chunks go from the socket straight into the caller's memory
// and are verified there; only a chunk that the caller wants a part of passes through a buffer.
// Packets are as large as the one before, so the places of many of them are known at once; where
// that guess is wrong, what has come is collected and put in its right place.
//
//   kReply    BlockOpResponse: refused, or how the block is summed and where the first chunk starts
//   kHeader   of a packet: sequence number, offset and sizes are what they must be, or it ends here
//   kSums     of the packet's chunks
//   kData     of the packet, in runs of whole chunks; a run is delivered when it is verified
//   kDone     the empty last packet has come: the connection can carry another operation
//   kFailed   nothing more is taken
//
// Nothing that a DataNode says is trusted: what breaks the protocol is a Status that says how, and
// memory is bounded by one packet (16 MiB). Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/status.h"
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
  // Requires: length > 0.
  BlockReader(std::uint64_t offset, std::uint64_t length, Sums sums = Sums::kOptional);

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
  bool accepted() const noexcept { return state_ != State::kReply && state_ != State::kFailed; }
  // How the replica is summed. Requires: accepted().
  const ChecksumParameters& checksum() const noexcept { return checksum_; }
  // Whether all has come, and nothing else: end_of_read() may be sent, and then the connection used
  // again. Not before everything is delivered.
  bool done() const noexcept {
    return state_ == State::kDone && inbox_size() == 0 && ahead_left_ == 0;
  }
  // ClientReadStatus. Requires: done().
  std::string end_of_read() const;

  static constexpr std::size_t kMaxPieces = 64;

 private:
  enum class State : std::uint8_t { kReply, kHeader, kSums, kData, kDone, kFailed };
  enum class RunTo : std::uint8_t { kNowhere, kCaller, kStage };

  // Takes what is in the inbox as far as it goes.
  Status advance();
  Status take_reply(ByteView message);
  Status take_header(const PacketHeader& header);
  void plan_run();
  // How many bytes at the next run's front lie before what the caller wants.
  std::size_t lead() const noexcept;
  Status finish_run();
  void deliver_staged();
  // Adds the places of the packets that follow the current one, as far as they are the caller's.
  void add_next_packets();
  // Whether the packet with this header is where it was guessed to be.
  bool is_guessed(const DecodedPacketHeader& decoded) const noexcept;
  // Gives the head of the next packet to the inbox, if it has come ahead.
  void take_head_ahead();
  // Moves all that has come ahead to the inbox: the guess was wrong.
  void collect_ahead();
  void append_to_inbox(ByteView bytes);
  // Moves bytes from the inbox to `target`; how many that were.
  std::size_t take_from_inbox(MutableByteView target);
  Status fail(Status failure);
  Status break_off(std::string what);

  std::size_t inbox_size() const noexcept { return inbox_end_ - inbox_begin_; }
  ByteView inbox() const noexcept { return ByteView(inbox_).subspan(inbox_begin_, inbox_size()); }
  MutableByteView inbox_room(std::size_t size);
  std::size_t next_head_size() const noexcept;
  // The part of the run, or of the sums, that has not come yet.
  MutableByteView missing_target() noexcept;

  const std::uint64_t end_;
  const Sums sums_wanted_;
  std::uint64_t position_;
  State state_ = State::kReply;
  ChecksumParameters checksum_;
  std::size_t unit_ = 1;          // bytes that are verified together; 1 if nothing is
  std::uint64_t next_ = 0;        // offset in the block of the next run
  std::uint64_t data_limit_ = 0;  // where the chunk with the range's last byte ends
  std::int64_t next_sequence_number_ = 0;

  MutableByteView out_;  // what the caller waits for

  // Bytes received but not looked at yet: heads of packets, mostly.
  std::vector<std::byte> inbox_;
  std::size_t inbox_begin_ = 0;
  std::size_t inbox_end_ = 0;

  // The current packet.
  std::vector<std::byte> sums_;
  std::size_t sums_filled_ = 0;
  std::size_t sums_used_ = 0;    // in bytes; of the runs before this one
  std::size_t packet_size_ = 0;  // data bytes
  std::size_t packet_left_ = 0;  // of them, those that no run has taken yet

  RunTo run_to_ = RunTo::kNowhere;
  MutableByteView run_;
  std::size_t run_filled_ = 0;

  // Verified bytes that wait for the caller to want them.
  std::vector<std::byte> stage_;
  std::size_t stage_begin_ = 0;
  std::size_t stage_end_ = 0;

  // What wanted() says: the rest of the sums or the run, room in the inbox, and then, ahead of what
  // has been looked at, data and head of one packet after the other.
  std::array<MutableByteView, kMaxPieces> pieces_;
  std::size_t piece_count_ = 0;
  std::size_t ahead_next_ = 0;  // the piece that the next byte ahead is at the front of
  std::size_t ahead_left_ = 0;  // bytes that have come ahead
  std::vector<std::byte> heads_;
};

}  // namespace hflush::hdfs
