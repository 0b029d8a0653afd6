#include "hflush/hdfs/read/block_reader.h"

#include <algorithm>
#include <cerrno>
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

BlockReader::BlockReader(std::uint64_t offset, std::uint64_t length, Sums sums,
                         std::size_t max_packet_size)
    : end_(offset + length),
      sums_wanted_(sums),
      max_packet_size_(max_packet_size),
      position_(offset) {
  HFLUSH_DCHECK(length > 0);
}

Status BlockReader::deliver(MutableByteView out) {
  HFLUSH_DCHECK(delivered() && out.size() <= remaining());
  out_ = out;
  deliver_staged();
  return advance();
}

std::span<const MutableByteView> BlockReader::wanted() {
  pieces_.clear();
  const bool is_idle = out_.empty() && remaining() > 0 && !is<AwaitingReply>();
  if (is_idle) return {};
  if (is<AwaitingReply>()) {
    pieces_.add(inbox_.room(kReplyRoom));
  } else if (is<ReadingHeader>()) {  // a byte at least is missing
    pieces_.add(inbox_.room(std::max(next_head_size(), inbox_.size() + 1) - inbox_.size()));
  } else if (is<ReadingSums>()) {
    pieces_.add(missing());
  } else if (const auto* const data = std::get_if<ReadingData>(&state_)) {
    pieces_.add(missing());
    if (data->left == 0) {
      pieces_.add(inbox_.room(next_head_size()));
      if (data->run->is_callers) add_next_packets(*data->run);
    }
  }
  return pieces_.all();
}

void BlockReader::add_next_packets(const Run& run) {
  if (packet_.sums.size() > kMaxHeadRoom) return;
  const std::uint64_t left = end_ - std::min(end_, next_ + run.bytes.size());
  const MutableByteView room = out_.subspan(run.bytes.size());
  const std::size_t count = std::min<std::uint64_t>(
      {left / packet_.size, room.size() / packet_.size, pieces_.room() / 2});
  pieces_.add_packets(count, room, packet_.size, kHeaderSize + packet_.sums.size());
}

Status BlockReader::received(std::size_t count) {
  const bool has_target = is<ReadingSums>() || is<ReadingData>();
  const std::size_t direct = std::min(count, missing().size());
  if (auto* const sums = std::get_if<ReadingSums>(&state_)) sums->filled += direct;
  if (auto* const data = std::get_if<ReadingData>(&state_); data != nullptr && data->run) {
    data->run->filled += direct;
  }
  const std::size_t inbox_piece = has_target ? 1 : 0;
  const auto pieces = pieces_.all();
  const std::size_t room = inbox_piece < pieces.size() ? pieces[inbox_piece].size() : 0;
  const std::size_t to_inbox = std::min(count - direct, room);
  inbox_.filled(to_inbox);
  pieces_.came_ahead(inbox_piece + 1, count - direct - to_inbox);
  return advance();
}

bool BlockReader::is_expected(const DecodedPacketHeader& decoded) const noexcept {
  return decoded.size == kHeaderSize && decoded.header.sums_size == packet_.sums.size() &&
         decoded.header.data_size == packet_.size;
}

Status BlockReader::advance() {
  while (true) {
    const auto goes_on = std::visit([this](auto& state) { return this->step(state); }, state_);
    if (!goes_on.ok()) return goes_on.status();
    if (!*goes_on) return {};
  }
}

Result<bool> BlockReader::step(const AwaitingReply& /*state*/) {
  const auto size = delimited_size(inbox_.bytes(), kMaxReplySize);
  if (!size.ok()) return fail(size.status());
  if (*size == 0) return false;
  const auto reply = decode_operation_reply(inbox_.bytes().first(*size));
  if (!reply.ok()) return fail(reply.status());
  inbox_.drop(*size);
  HFLUSH_RETURN_IF_ERROR(take_reply(*reply));
  return true;
}

Result<bool> BlockReader::step(const ReadingHeader& /*state*/) {
  if (inbox_.empty() && pieces_.has_ahead()) inbox_.append(pieces_.take_ahead());
  const auto decoded = decode_packet_header(inbox_.bytes(), max_packet_size_);
  if (!decoded.ok()) return fail(decoded.status());
  const bool is_whole = decoded->has_value();
  if (pieces_.has_ahead() && (!is_whole || !is_expected(**decoded))) {
    // Not what was expected: all that has come is put in its right place.
    while (pieces_.has_ahead()) inbox_.append(pieces_.take_ahead());
    return true;
  }
  if (!is_whole) return false;
  inbox_.drop((*decoded)->size);
  HFLUSH_RETURN_IF_ERROR(take_header((*decoded)->header));
  return true;
}

Result<bool> BlockReader::step(ReadingSums& state) {
  state.filled += inbox_.take(missing());
  if (state.filled < packet_.sums.size()) return false;
  state_ = ReadingData{.left = packet_.size};
  return true;
}

Result<bool> BlockReader::step(ReadingData& state) {
  if (!state.run) {
    if (state.left == 0) {
      state_ = ReadingHeader{};
      return true;
    }
    if (out_.empty() && remaining() > 0) return false;
    state.run = next_run(state);
  }
  state.run->filled += inbox_.take(missing());
  if (!missing().empty()) return false;
  HFLUSH_RETURN_IF_ERROR(finish_run(state));
  return true;
}

Status BlockReader::take_reply(const OperationReply& reply) {
  if (reply.status != TransferStatus::kSuccess) return fail(refusal(reply));
  if (!reply.read_checksum) return break_off("accepted without saying how the block is summed");
  checksum_ = *reply.read_checksum;
  const std::uint64_t chunk = checksum_.bytes_per_checksum;
  if (checksum_.kind == crc::Kind::kNone && sums_wanted_ == Sums::kRequired) {
    return fail(Status(StatusCode::kUnsupported, "has no checksums of the block", {}, EIO));
  }
  const std::uint64_t start = reply.chunk_offset;
  if (start > position_ || position_ - start >= chunk) {
    return break_off("starts at " + text(start) + " of the block to read from " + text(position_) +
                     ", with " + text(chunk) + " bytes per checksum");
  }
  next_ = start;
  data_limit_ = start + round_up(end_ - start, chunk);
  state_ = ReadingHeader{};
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
    state_ = Done{};
    return {};
  }
  if (header.data_size == 0) return wrong("empty, and not the last one");
  if (header.data_size > data_limit_ - std::min(data_limit_, next_)) {
    return wrong("the range ends at " + text(end_));
  }
  const std::uint64_t sums =
      checksum_.kind == crc::Kind::kNone
          ? 0
          : crc::checksum_count(header.data_size, unit()) * std::uint64_t{crc::kSumSize};
  if (header.sums_size != sums) {
    return wrong(text(header.sums_size) + " bytes of checksums where " + text(sums) + " belong");
  }
  packet_.sums.resize(sums);
  packet_.size = header.data_size;
  state_ = ReadingSums{};
  return {};
}

std::size_t BlockReader::unit() const noexcept {
  return checksum_.kind == crc::Kind::kNone ? 1 : checksum_.bytes_per_checksum;
}

std::size_t BlockReader::lead() const noexcept {
  return position_ > next_ ? static_cast<std::size_t>(position_ - next_) : 0;
}

// Whole chunks go to the caller if it wants all of them. Otherwise they are staged: one chunk, or
// more of them for a caller that takes little at a time. What follows the range is staged too, and
// forgotten.
BlockReader::Run BlockReader::next_run(ReadingData& data) {
  const std::size_t direct = out_.size() >= data.left ? data.left : round_down(out_.size(), unit());
  Run run;
  if (lead() == 0 && direct > 0) {
    run.is_callers = true;
    run.bytes = out_.first(direct);
    if (pieces_.has_ahead()) run.filled = pieces_.take_ahead().size();
  } else {
    const std::size_t least = out_.size() < kStageSize ? kStageSize : 1;
    const std::size_t size = round_up(std::max(lead(), least), unit());
    stage_.clear();
    run.bytes = stage_.room(std::min(data.left, size));
  }
  data.left -= run.bytes.size();
  return run;
}

Status BlockReader::finish_run(ReadingData& data) {
  const Run run = *std::exchange(data.run, std::nullopt);
  const std::byte* const sums = packet_.sums.data() + data.sums_used;
  if (const auto wrong = crc::first_mismatch(checksum_.kind, run.bytes, unit(), sums)) {
    const std::size_t begin = *wrong * unit();
    const std::size_t size = std::min(unit(), run.bytes.size() - begin);
    const std::uint64_t at = next_ + begin;
    return fail(
        Status(StatusCode::kChecksum,
               "bytes at " + text(at) + " of the block do not match their checksum", {}, EIO)
            .with_mismatch({at, load_be32(sums + *wrong * crc::kSumSize),
                            crc::extend(checksum_.kind, 0, run.bytes.subspan(begin, size))}));
  }
  if (checksum_.kind != crc::Kind::kNone) {
    data.sums_used += crc::checksum_count(run.bytes.size(), unit()) * crc::kSumSize;
  }
  if (run.is_callers) {
    position_ += run.bytes.size();
    out_ = out_.subspan(run.bytes.size());
  } else {
    stage_.filled(run.bytes.size());
    stage_.drop(std::min(lead(), run.bytes.size()));
  }
  next_ += run.bytes.size();
  deliver_staged();
  return {};
}

void BlockReader::deliver_staged() {
  const std::size_t size = stage_.take(out_);
  position_ += size;
  out_ = out_.subspan(size);
}

const BlockReader::Run* BlockReader::run() const noexcept {
  const auto* const data = std::get_if<ReadingData>(&state_);
  return data != nullptr && data->run ? &*data->run : nullptr;
}

MutableByteView BlockReader::missing() noexcept {
  if (const auto* const sums = std::get_if<ReadingSums>(&state_)) {
    return MutableByteView(packet_.sums).subspan(sums->filled);
  }
  return run() == nullptr ? MutableByteView() : run()->missing();
}

std::uint64_t BlockReader::still_to_come() const noexcept {
  const std::size_t filled = run() == nullptr ? 0 : run()->filled;
  const std::uint64_t here = std::max(next_, position_) + filled + inbox_.size();
  return end_ - std::min(end_, here);
}

std::size_t BlockReader::next_head_size() const noexcept {
  const bool ends = next_ + (run() == nullptr ? 0 : run()->bytes.size()) >= end_;
  return kHeaderSize + (ends ? 0 : std::min(packet_.sums.size(), kMaxHeadRoom));
}

Status BlockReader::break_off(std::string what) {
  return fail(Status(StatusCode::kIo, std::move(what), {}, EIO));
}

Status BlockReader::fail(Status failure) {
  state_ = Failed{};
  out_ = {};
  return failure;
}

std::string BlockReader::end_of_read() const {
  HFLUSH_DCHECK(done());
  const bool verified = checksum_.kind != crc::Kind::kNone;
  return encode_client_read_status(verified ? TransferStatus::kChecksumOk
                                            : TransferStatus::kSuccess);
}

}  // namespace hflush::hdfs
