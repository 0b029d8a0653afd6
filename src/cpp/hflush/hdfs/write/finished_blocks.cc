#include "hflush/hdfs/write/finished_blocks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <span>
#include <utility>

namespace hflush::hdfs {

void FinishedBlocks::clear() noexcept {
  blocks_.clear();
  gone_.clear();
  forget_location();
}

void FinishedBlocks::forget_location() noexcept {
  is_located_ = false;
  not_located_ = {};
  replicas_.clear();
  tried_ = synced_ = 0;
  faults_.clear();
  last_fault_ = {};
}

FinishedBlocks::Step FinishedBlocks::next() {
  while (!blocks_.empty()) {
    if (!is_located_) return Locate{};
    while (tried_ < replicas_.size() && synced_ > 0 && is_gone(replicas_[tried_])) ++tried_;
    if (tried_ < replicas_.size()) return Open{};
    if (synced_ == 0) {
      GiveUp step{failure()};
      gone_.clear();
      forget_location();
      return step;
    }
    left_out_ += static_cast<std::int64_t>(replicas_.size() - synced_);
    blocks_.pop_front();
    forget_location();
  }
  gone_.clear();
  return Nothing{};
}

void FinishedBlocks::located(const Result<LocatedBlocks>& answer) {
  const LocatedBlock& due = blocks_.front();
  is_located_ = true;
  std::vector<Replica> listed;
  if (answer.ok()) {
    const auto is_due = [&due](const LocatedBlock& block) {
      return block.block.id == due.block.id;
    };
    const auto found = std::ranges::find_if(answer->blocks, is_due);
    if (found != answer->blocks.end()) {
      listed = found->replicas;
    } else if (answer->last_block && is_due(*answer->last_block)) {
      listed = answer->last_block->replicas;
    }
  } else if (answer.status().code() == StatusCode::kPermissionDenied) {
    listed = due.replicas;  // of a file that its writer may not read
  } else {
    not_located_ = answer.status();
  }
  for (const bool last : {false, true}) {
    std::ranges::copy_if(listed, std::back_inserter(replicas_),
                         [&](const Replica& replica) { return is_gone(replica) == last; });
  }
}

bool FinishedBlocks::is_gone(const Replica& replica) const noexcept {
  return std::ranges::find(gone_, replica.node.transfer_address()) != gone_.end();
}

std::string FinishedBlocks::request(const std::string& client_name, std::uint64_t block_size,
                                    ChecksumParameters checksum) const {
  const LocatedBlock& finished = block();
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
  ++synced_;
  ++tried_;
}

void FinishedBlocks::replica_failed(const Status& fault, bool node_is_gone) {
  const std::string node = replica().node.transfer_address();
  faults_ += (faults_.empty() ? "DataNode " : "; DataNode ") + node + " " + fault.message();
  if (fault.cause() != nullptr) faults_ += ": " + fault.cause()->message();
  last_fault_ = fault;
  if (node_is_gone && !is_gone(replica())) gone_.push_back(node);
  ++tried_;
}

// Why no replica of the first block could be synced.
Status FinishedBlocks::failure() const {
  const std::string what = "hsync: the finished block " + block().block.to_string() + ", " +
                           std::to_string(block().block.length) + " bytes, ";
  const std::string still = "; the stream is still open, and hsync may be called again";
  if (!not_located_.ok()) {
    return Status(not_located_.code(),
                  what + "cannot be synced, as the NameNode does not say where it is: " +
                      not_located_.message() + still,
                  {}, not_located_.error_number())
        .with_remote_class(not_located_.remote_class());
  }
  if (replicas_.empty()) {
    return Status(StatusCode::kIo, what + "has no replica on any live DataNode" + still, {}, EIO);
  }
  return Status(StatusCode::kIo, what + "could be synced on no DataNode: " + faults_ + still, {},
                last_fault_.error_number());
}

}  // namespace hflush::hdfs
