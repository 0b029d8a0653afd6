#include "hflush/hdfs/finished_blocks.h"

#include <array>
#include <span>

namespace hflush::hdfs {

std::string FinishedBlocks::request(const std::string& client_name, std::uint64_t block_size,
                                    ChecksumParameters checksum) const {
  const Block& finished = blocks_.front();
  WriteBlockOperation open;
  open.block = finished.block;
  open.block.length = block_size;
  open.token = finished.token;
  open.client_name = client_name;
  open.pipeline = std::span<const Replica>(&replica(), 1);
  open.stage = WriteStage::kSetupAppend;
  open.min_bytes_received = open.max_bytes_received = finished.block.length;
  open.latest_generation_stamp = finished.block.generation_stamp;
  open.checksum = checksum;
  std::string bytes = open.encode();

  PacketHeader last;
  last.offset_in_block = finished.block.length;
  last.last_in_block = last.sync_block = true;
  std::array<std::byte, PacketHeader::kMaxSize> header;
  last.encode_to(MutableByteView(header).first(last.encoded_size()));
  bytes += as_text(ByteView(header).first(last.encoded_size()));
  return bytes;
}

bool FinishedBlocks::is_durable(const PipelineAck& ack) noexcept {
  return ack.sequence_number == 0 && ack.replies.size() == 1 &&
         ack.replies[0] == TransferStatus::kSuccess;
}

void FinishedBlocks::replica_is_durable() noexcept {
  if (++replica_ < blocks_.front().replicas.size()) return;
  blocks_.pop_front();
  replica_ = 0;
}

}  // namespace hflush::hdfs
