#include "hflush/hdfs/read/block_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/base/endian.h"
#include "hflush/base/result.h"
#include "hflush/crc/checksum.h"

namespace hflush::hdfs {
namespace {

// A refusal carries a Java exception's text.
constexpr std::size_t kMaxReplySize = std::size_t{64} << 10U;
// Received at once where a reply is expected: with it come the first packet's head, and all of a
// small read.
constexpr std::size_t kReplyRoom = std::size_t{4} << 10U;
// Header and sums of the next packet are received together with the data before them, if they are
// like those of the packet before. No larger than this.
constexpr std::size_t kMaxHeadRoom = std::size_t{8} << 10U;
constexpr std::size_t kHeaderSize = 31;
// Staged for reads that are smaller than this.
constexpr std::size_t kStageSize = std::size_t{8} << 10U;

std::uint64_t round_down(std::uint64_t size, std::uint64_t unit) noexcept {
  return size / unit * unit;
}
std::uint64_t round_up(std::uint64_t size, std::uint64_t unit) noexcept {
  return round_down(size + unit - 1, unit);
}

std::string text(std::uint64_t number) { return std::to_string(number); }

}  // namespace

Status refusal(const OperationReply& reply) {
  std::string what = "refused with " + std::string(to_string(reply.status));
  if (!reply.message.empty()) what += ": " + reply.message;
  if (reply.status == TransferStatus::kErrorAccessToken) {
    return Status(StatusCode::kPermissionDenied, std::move(what), {}, EACCES);
  }
  return Status(StatusCode::kIo, std::move(what), {}, EIO);
}

BlockReader::BlockReader(std::uint64_t offset, std::uint64_t length, Sums sums)
    : end_(offset + length), sums_wanted_(sums), position_(offset) {}

Status BlockReader::deliver(MutableByteView out) {
  HFLUSH_DCHECK(out.size() <= remaining());
  out_ = out;
  deliver_staged();
  return advance();
}

std::span<const MutableByteView> BlockReader::wanted() {
  piece_count_ = 0;
  const auto add = [&](MutableByteView piece) { pieces_[piece_count_++] = piece; };
  const bool idle = out_.empty() && remaining() > 0 && state_ != State::kReply;
  if (idle) return {};
  switch (state_) {
    case State::kReply:
      add(inbox_room(kReplyRoom));
      break;
    case State::kHeader:  // a byte at least is missing
      add(inbox_room(std::max(next_head_size(), inbox_size() + 1) - inbox_size()));
      break;
    case State::kSums:
    case State::kData:
      add(missing_target());
      if (packet_left_ > 0) break;
      add(inbox_room(next_head_size()));
      if (run_to_ == RunTo::kCaller) add_next_packets();
      break;
    case State::kDone:
    case State::kFailed:
      break;
  }
  return std::span(pieces_).first(piece_count_);
}

void BlockReader::add_next_packets() {
  if (sums_.size() > kMaxHeadRoom) return;
  const std::size_t head_size = kHeaderSize + sums_.size();
  const std::uint64_t left = end_ - std::min(end_, next_ + run_.size());
  const MutableByteView room = out_.subspan(run_.size());
  const std::size_t count = std::min<std::uint64_t>(
      {left / packet_size_, room.size() / packet_size_, (kMaxPieces - piece_count_) / 2});
  heads_.resize(count * head_size);
  for (std::size_t i = 0; i < count; ++i) {
    pieces_[piece_count_++] = room.subspan(i * packet_size_, packet_size_);
    pieces_[piece_count_++] = MutableByteView(heads_).subspan(i * head_size, head_size);
  }
}

Status BlockReader::received(std::size_t count) {
  const std::size_t direct = std::min(count, missing_target().size());
  (state_ == State::kSums ? sums_filled_ : run_filled_) += direct;
  const bool has_target = state_ == State::kSums || state_ == State::kData;
  const std::size_t inbox_piece = has_target ? 1 : 0;
  const std::size_t room = inbox_piece < piece_count_ ? pieces_[inbox_piece].size() : 0;
  const std::size_t to_inbox = std::min(count - direct, room);
  inbox_end_ += to_inbox;
  ahead_next_ = inbox_piece + 1;
  ahead_left_ = count - direct - to_inbox;
  return advance();
}

bool BlockReader::is_guessed(const DecodedPacketHeader& decoded) const noexcept {
  return decoded.size == kHeaderSize && decoded.header.sums_size == sums_.size() &&
         decoded.header.data_size == packet_size_;
}

void BlockReader::take_head_ahead() {
  if (ahead_left_ == 0 || inbox_size() > 0) return;
  const MutableByteView piece = pieces_[ahead_next_++];
  const std::size_t size = std::min(ahead_left_, piece.size());
  append_to_inbox(piece.first(size));
  ahead_left_ -= size;
}

void BlockReader::collect_ahead() {
  while (ahead_left_ > 0) {
    const MutableByteView piece = pieces_[ahead_next_++];
    const std::size_t size = std::min(ahead_left_, piece.size());
    append_to_inbox(piece.first(size));
    ahead_left_ -= size;
  }
}

void BlockReader::append_to_inbox(ByteView bytes) {
  std::memcpy(inbox_room(bytes.size()).data(), bytes.data(), bytes.size());
  inbox_end_ += bytes.size();
}

Status BlockReader::advance() {
  for (;;) {
    switch (state_) {
      case State::kReply: {
        const auto size = delimited_size(inbox(), kMaxReplySize);
        if (!size.ok()) return fail(size.status());
        if (*size == 0) return {};
        HFLUSH_RETURN_IF_ERROR(take_reply(inbox().first(*size)));
        inbox_begin_ += *size;
        break;
      }
      case State::kHeader: {
        take_head_ahead();
        const auto decoded = decode_packet_header(inbox());
        if (!decoded.ok()) return fail(decoded.status());
        const bool is_whole = decoded->has_value();
        if (ahead_left_ > 0 && (!is_whole || !is_guessed(**decoded))) {
          collect_ahead();
          break;
        }
        if (!is_whole) return {};
        HFLUSH_RETURN_IF_ERROR(take_header((*decoded)->header));
        inbox_begin_ += (*decoded)->size;
        break;
      }
      case State::kSums:
        sums_filled_ += take_from_inbox(missing_target());
        if (sums_filled_ < sums_.size()) return {};
        state_ = State::kData;
        break;
      case State::kData:
        if (run_to_ == RunTo::kNowhere) {
          if (packet_left_ == 0) {
            state_ = State::kHeader;
            break;
          }
          if (out_.empty() && remaining() > 0) return {};
          plan_run();
        }
        run_filled_ += take_from_inbox(missing_target());
        if (run_filled_ < run_.size()) return {};
        HFLUSH_RETURN_IF_ERROR(finish_run());
        break;
      case State::kDone:
      case State::kFailed:
        return {};
    }
  }
}

Status BlockReader::take_reply(ByteView message) {
  const auto reply = decode_operation_reply(message);
  if (!reply.ok()) return fail(reply.status());
  if (reply->status != TransferStatus::kSuccess) return fail(refusal(*reply));
  if (!reply->read_checksum) return break_off("accepted without saying how the block is summed");
  checksum_ = *reply->read_checksum;
  const std::uint64_t chunk = checksum_.bytes_per_checksum;
  if (checksum_.kind != crc::Kind::kNone) {
    unit_ = chunk;
  } else if (sums_wanted_ == Sums::kRequired) {
    return fail(Status(StatusCode::kUnsupported, "has no checksums of the block", {}, EIO));
  }
  const std::uint64_t start = reply->chunk_offset;
  if (start > position_ || position_ - start >= chunk) {
    return break_off("starts at " + text(start) + " of the block to read from " + text(position_) +
                     ", with " + text(chunk) + " bytes per checksum");
  }
  next_ = start;
  data_limit_ = start + round_up(end_ - start, chunk);
  state_ = State::kHeader;
  return {};
}

Status BlockReader::take_header(const PacketHeader& header) {
  const auto wrong = [&](const std::string& what) {
    return break_off("packet " + std::to_string(header.sequence_number) + " at " +
                     text(header.offset_in_block) + " of " + text(header.data_size) +
                     " bytes: " + what);
  };
  if (header.sequence_number != next_sequence_number_) {
    return wrong("packet " + std::to_string(next_sequence_number_) + " was due");
  }
  if (header.offset_in_block != next_) return wrong("offset " + text(next_) + " was due");
  ++next_sequence_number_;
  if (header.last_in_block) {
    if (header.data_size != 0 || header.sums_size != 0) return wrong("the last one is not empty");
    if (next_ < end_) return wrong("the last one, " + text(end_ - next_) + " bytes early");
    state_ = State::kDone;
    return {};
  }
  if (header.data_size == 0) return wrong("empty, and not the last one");
  if (header.data_size > data_limit_ - std::min(data_limit_, next_)) {
    return wrong("the range ends at " + text(end_));
  }
  const std::uint64_t sums =
      checksum_.kind == crc::Kind::kNone
          ? 0
          : crc::checksum_count(header.data_size, unit_) * std::uint64_t{crc::kSumSize};
  if (header.sums_size != sums) {
    return wrong(text(header.sums_size) + " bytes of checksums where " + text(sums) + " belong");
  }
  sums_.resize(sums);
  sums_filled_ = 0;
  sums_used_ = 0;
  packet_size_ = header.data_size;
  packet_left_ = header.data_size;
  state_ = State::kSums;
  return {};
}

std::size_t BlockReader::lead() const noexcept {
  return position_ > next_ ? static_cast<std::size_t>(position_ - next_) : 0;
}

// Whole chunks go to the caller if it wants all of them. Otherwise they are staged: one chunk, or
// more of them for a caller that takes little at a time. What follows the range is staged too, and
// forgotten.
void BlockReader::plan_run() {
  const std::size_t direct =
      out_.size() >= packet_left_ ? packet_left_ : round_down(out_.size(), unit_);
  if (lead() == 0 && direct > 0) {
    run_to_ = RunTo::kCaller;
    run_ = out_.first(direct);
    if (ahead_left_ > 0) {  // there already
      run_filled_ = std::min(ahead_left_, run_.size());
      ahead_left_ -= run_filled_;
      ++ahead_next_;
    }
  } else {
    const std::size_t least = out_.size() < kStageSize ? kStageSize : 1;
    const std::size_t size = round_up(std::max(lead(), least), unit_);
    stage_.resize(std::min(packet_left_, size));
    run_to_ = RunTo::kStage;
    run_ = stage_;
  }
  packet_left_ -= run_.size();
}

Status BlockReader::finish_run() {
  const std::byte* const sums = sums_.data() + sums_used_;
  if (const auto wrong = crc::first_mismatch(checksum_.kind, run_, unit_, sums)) {
    const std::size_t begin = *wrong * unit_;
    const ByteView chunk = ByteView(run_).subspan(begin, std::min(unit_, run_.size() - begin));
    const std::uint64_t at = next_ + begin;
    return fail(Status(StatusCode::kChecksum,
                       "bytes at " + text(at) + " of the block do not match their checksum", {},
                       EIO)
                    .with_mismatch({at, load_be32(sums + *wrong * crc::kSumSize),
                                    crc::extend(checksum_.kind, 0, chunk)}));
  }
  if (checksum_.kind != crc::Kind::kNone) {
    sums_used_ += crc::checksum_count(run_.size(), unit_) * crc::kSumSize;
  }
  if (run_to_ == RunTo::kCaller) {
    position_ += run_.size();
    out_ = out_.subspan(run_.size());
  } else {
    stage_begin_ = std::min(lead(), run_.size());
    stage_end_ = run_.size();
  }
  next_ += run_.size();
  run_to_ = RunTo::kNowhere;
  run_ = {};
  run_filled_ = 0;
  deliver_staged();
  return {};
}

void BlockReader::deliver_staged() {
  const std::size_t size = std::min(out_.size(), stage_end_ - stage_begin_);
  if (size == 0) return;
  std::memcpy(out_.data(), stage_.data() + stage_begin_, size);
  stage_begin_ += size;
  position_ += size;
  out_ = out_.subspan(size);
}

std::size_t BlockReader::take_from_inbox(MutableByteView target) {
  const std::size_t size = std::min(target.size(), inbox_size());
  if (size == 0) return 0;
  std::memcpy(target.data(), inbox_.data() + inbox_begin_, size);
  inbox_begin_ += size;
  return size;
}

MutableByteView BlockReader::missing_target() noexcept {
  if (state_ == State::kSums) return MutableByteView(sums_).subspan(sums_filled_);
  if (state_ == State::kData) return run_.subspan(run_filled_);
  return {};
}

std::uint64_t BlockReader::still_to_come() const noexcept {
  const std::uint64_t here = std::max(next_, position_) + run_filled_ + inbox_size();
  return end_ - std::min(end_, here);
}

std::size_t BlockReader::next_head_size() const noexcept {
  const bool ends = next_ + run_.size() >= end_;
  return kHeaderSize + (ends ? 0 : std::min(sums_.size(), kMaxHeadRoom));
}

MutableByteView BlockReader::inbox_room(std::size_t size) {
  if (inbox_begin_ > 0) {
    std::copy(inbox_.begin() + static_cast<std::ptrdiff_t>(inbox_begin_),
              inbox_.begin() + static_cast<std::ptrdiff_t>(inbox_end_), inbox_.begin());
    inbox_end_ -= inbox_begin_;
    inbox_begin_ = 0;
  }
  if (inbox_.size() < inbox_end_ + size) inbox_.resize(inbox_end_ + size);
  return MutableByteView(inbox_).subspan(inbox_end_, size);
}

Status BlockReader::break_off(std::string what) {
  return fail(Status(StatusCode::kIo, std::move(what), {}, EIO));
}

Status BlockReader::fail(Status failure) {
  state_ = State::kFailed;
  out_ = {};
  return failure;
}

std::string BlockReader::end_of_read() const {
  const bool verified = checksum_.kind != crc::Kind::kNone;
  return encode_client_read_status(verified ? TransferStatus::kChecksumOk
                                            : TransferStatus::kSuccess);
}

}  // namespace hflush::hdfs
