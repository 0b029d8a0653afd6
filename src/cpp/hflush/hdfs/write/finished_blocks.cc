#include "hflush/hdfs/write/finished_blocks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <span>
#include <utility>

#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {
namespace {

bool is_same(const LocatedBlock& one, const ExtendedBlock& other) {
  return one.block.id == other.id && one.block.pool == other.pool;
}

}  // namespace

void FinishedBlocks::clear() noexcept {
  blocks_.clear();
  gone_.clear();
  forget_location();
}

void FinishedBlocks::forget_location() noexcept {
  is_located_ = false;
  not_located_ = {};
  candidates_.clear();
  tried_ = synced_ = 0;
  unsynced_ = 0;
  faults_.clear();
  last_fault_ = {};
}

FinishedBlocks::Step FinishedBlocks::next() {
  while (!blocks_.empty()) {
    if (!is_located_) return Locate{};
    while (tried_ < candidates_.size() && synced_ > 0 && is_gone(candidates_[tried_])) ++tried_;
    if (tried_ < candidates_.size()) return Open{};
    if (synced_ == 0) {
      GiveUp step{failure()};
      gone_.clear();
      forget_location();
      return step;
    }
    left_out_ += unsynced_;
    blocks_.pop_front();
    forget_location();
  }
  gone_.clear();
  return Nothing{};
}

void FinishedBlocks::located(const Result<LocatedBlocks>& answer) {
  is_located_ = true;
  std::vector<Candidate> known;
  if (answer.ok()) {
    known = candidates(*answer);
  } else if (answer.status().code() == StatusCode::kPermissionDenied) {
    // Of a file that its writer may not read.
    for (const Replica& written : block().replicas) known.push_back({written, true});
  } else {
    not_located_ = answer.status();
  }
  const auto is_listed = [](const Candidate& candidate) { return candidate.is_listed; };
  unsynced_ = std::ranges::count_if(known, is_listed);
  for (const bool last : {false, true}) {
    std::ranges::copy_if(known, std::back_inserter(candidates_),
                         [&](const Candidate& candidate) { return is_gone(candidate) == last; });
  }
}

const LocatedBlock* FinishedBlocks::find(const LocatedBlocks& answer, const ExtendedBlock& block) {
  const auto is_it = [&block](const LocatedBlock& one) { return is_same(one, block); };
  const auto found = std::ranges::find_if(answer.blocks, is_it);
  if (found != answer.blocks.end()) return &*found;
  return answer.last_block && is_it(*answer.last_block) ? &*answer.last_block : nullptr;
}

// Those that are listed, then those where the block was written. None if it is not the file's.
std::vector<FinishedBlocks::Candidate> FinishedBlocks::candidates(
    const LocatedBlocks& answer) const {
  const LocatedBlock* const now = find(answer, block().block);
  std::vector<Candidate> candidates;
  if (now == nullptr) return candidates;
  for (const Replica& listed : now->replicas) candidates.push_back({listed, true});
  for (const Replica& written : block().replicas) {
    const std::size_t place = place_of(written.node.transfer_address(), now->replicas);
    if (place == now->replicas.size()) candidates.push_back({written, false});
  }
  return candidates;
}

bool FinishedBlocks::is_gone(const Candidate& candidate) const noexcept {
  return std::ranges::find(gone_, candidate.replica.node.transfer_address()) != gone_.end();
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
  if (candidates_[tried_].is_listed) --unsynced_;
  ++synced_;
  ++tried_;
}

void FinishedBlocks::replica_failed(const Status& fault, bool node_is_gone) {
  const std::string node = replica().node.transfer_address();
  faults_ += (faults_.empty() ? "DataNode " : "; DataNode ") + node + " " + reason(fault);
  last_fault_ = fault;
  if (node_is_gone && !is_gone(candidates_[tried_])) gone_.push_back(node);
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
  if (candidates_.empty()) {
    return Status(StatusCode::kIo, what + "is not in the file any more" + still, {}, EIO);
  }
  return Status(StatusCode::kIo, what + "could be synced on no DataNode: " + faults_ + still, {},
                last_fault_.error_number());
}

}  // namespace hflush::hdfs
