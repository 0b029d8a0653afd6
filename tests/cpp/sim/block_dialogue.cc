#include "sim/block_dialogue.h"

#include <algorithm>
#include <istream>
#include <map>
#include <span>
#include <utility>

#include "hflush/crc/checksum.h"
#include "sim/content.h"

namespace hflush::sim {
namespace {

constexpr std::size_t kLongestMessage = 1U << 16U;

bool is_success(const hdfs::NodeReplies& replies) {
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (replies[i] != hdfs::TransferStatus::kSuccess) return false;
  }
  return true;
}

}  // namespace

std::optional<hdfs::WriteStage> stage_called(std::string_view word) {
  using hdfs::WriteStage;
  static const std::map<std::string_view, WriteStage> kStages = {
      {"create", WriteStage::kSetupCreate},
      {"append", WriteStage::kSetupAppend},
      {"append-recovery", WriteStage::kSetupAppendRecovery},
      {"streaming-recovery", WriteStage::kSetupStreamingRecovery},
      {"close-recovery", WriteStage::kCloseRecovery},
  };
  const auto found = kStages.find(word);
  return found == kStages.end() ? std::nullopt : std::optional(found->second);
}

std::optional<hdfs::PacketHeader> packet_header(std::istream& words) {
  hdfs::PacketHeader header;
  words >> header.sequence_number >> header.offset_in_block >> header.data_size;
  if (!words) return std::nullopt;
  for (std::string flag; words >> flag;) {
    (flag == "last" ? header.last_in_block : header.sync_block) = true;
  }
  return header;
}

std::string BlockDialogue::set_up(hdfs::WriteBlockOperation operation) {
  block_ = operation.block.id;
  nodes_ = operation.pipeline.size();
  operation.block.length = kBlockSize;
  operation.client_name = "conversation";
  leave();
  arrived_.clear();
  line_ = lines_.connect(operation.pipeline.front().node.transfer_endpoint(false));
  if (!line_) return "refused";
  line_->send(operation.encode());
  const std::optional<std::string> message = receive();
  if (!message) return "refused";
  const auto reply = hdfs::decode_operation_reply(as_bytes(*message));
  if (!reply.ok()) return "refused";
  if (reply->status == hdfs::TransferStatus::kSuccess) return "accepted";
  const auto bad = std::ranges::find_if(operation.pipeline, [&](const hdfs::Replica& replica) {
    return replica.node.transfer_address() == reply->first_bad_link;
  });
  if (bad == operation.pipeline.end()) return "refused";
  return "refused by " + std::to_string(bad - operation.pipeline.begin());
}

std::string BlockDialogue::packet(hdfs::PacketHeader header) {
  if (!line_) return "refused";
  const hdfs::ChecksumParameters checksum;
  const std::string data = content(block_, header.offset_in_block, header.data_size);
  const std::size_t chunk = checksum.bytes_per_checksum;
  std::string sums(crc::checksum_count(data.size(), chunk) * crc::kSumSize, '\0');
  crc::chunk_sums(checksum.kind, as_bytes(data), chunk, reinterpret_cast<std::byte*>(sums.data()));
  header.sums_size = static_cast<std::uint32_t>(sums.size());
  std::string bytes(header.encoded_size(), '\0');
  header.encode_to(std::as_writable_bytes(std::span(bytes)));
  line_->send(bytes + sums + data);
  const std::optional<std::string> message = receive();
  if (!message) return "refused";
  const auto ack = hdfs::decode_pipeline_ack(as_bytes(*message));
  const bool is_acknowledged = ack.ok() && ack->sequence_number == header.sequence_number &&
                               ack->replies.size() == nodes_ && is_success(ack->replies);
  return is_acknowledged ? "acknowledged" : "refused";
}

std::optional<std::string> BlockDialogue::receive() {
  while (true) {
    const auto size = hdfs::delimited_size(as_bytes(arrived_), kLongestMessage);
    if (!size.ok()) return std::nullopt;
    if (*size != 0) {
      std::string message = arrived_.substr(0, *size);
      arrived_.erase(0, *size);
      return message;
    }
    const std::optional<std::string> more = line_->receive();
    if (!more) return std::nullopt;
    arrived_ += *more;
  }
}

}  // namespace hflush::sim
