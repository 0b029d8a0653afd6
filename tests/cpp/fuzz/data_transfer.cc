#include "hflush/hdfs/wire/data_transfer.h"

#include <array>
#include <cerrno>
#include <limits>

#include "fuzz/targets.h"

namespace hflush::fuzz {
namespace {

constexpr std::size_t kMaxMessage = std::size_t{64} << 10U;

void require_fine_or_refusal(const Status& status) {
  if (status.ok()) return;
  require(status.code() == StatusCode::kIo);
  require(status.error_number() == EBADMSG);
  require(status.message().starts_with("malformed "));
}

// Every delimited message of `input` through `decode` and `check`; the first that is not sound ends
// it.
template <typename Decode, typename Check>
Status each_message(ByteView input, Decode decode, Check check) {
  for (;;) {
    HFLUSH_ASSIGN_OR_RETURN(const std::size_t size, hdfs::delimited_size(input, kMaxMessage));
    require(size <= input.size());
    if (size == 0) return {};
    HFLUSH_ASSIGN_OR_RETURN(const auto message, decode(input.first(size)));
    check(message, size);
    input = input.subspan(size);
  }
}

void require_known(hdfs::TransferStatus status) { require(to_string(status) != "UNKNOWN"); }

}  // namespace

void operation_reply(ByteView input) {
  require_fine_or_refusal(each_message(
      input, hdfs::decode_operation_reply, [](const hdfs::OperationReply& reply, std::size_t size) {
        require_known(reply.status);
        require(reply.first_bad_link.size() + reply.message.size() < size);
        if (reply.read_checksum) require(reply.read_checksum->bytes_per_checksum > 0);
      }));
}

void pipeline_ack(ByteView input) {
  require_fine_or_refusal(each_message(input, hdfs::decode_pipeline_ack,
                                       [](const hdfs::PipelineAck& ack, std::size_t size) {
                                         require(ack.replies.size() < size);
                                         for (std::size_t i = 0; i < ack.replies.size(); ++i)
                                           require_known(ack.replies[i]);
                                       }));
}

void packet_header(ByteView input) {
  const auto decoded = hdfs::decode_packet_header(input);
  require_fine_or_refusal(decoded.status());
  if (!decoded.ok()) return;
  if (!decoded->has_value()) {
    require(input.size() < hdfs::PacketHeader::kMaxReceivedSize);
    return;
  }
  const auto& [header, size] = **decoded;
  require(size <= input.size() && size <= hdfs::PacketHeader::kMaxReceivedSize);
  require(size + header.sums_size + header.data_size <= hdfs::kMaxPacketSize + 2);
  require(header.offset_in_block <=
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  // Spelled as usual it means the same.
  std::array<std::byte, hdfs::PacketHeader::kMaxSize> buffer;
  const MutableByteView out = MutableByteView(buffer).first(header.encoded_size());
  header.encode_to(out);
  const auto again = hdfs::decode_packet_header(out);
  require(again.ok() && again->has_value());
  require((*again)->size == out.size());
  require((*again)->header == header);
}

}  // namespace hflush::fuzz
