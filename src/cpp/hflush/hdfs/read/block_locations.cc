#include "hflush/hdfs/read/block_locations.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/env/answer.h"
#include "hflush/hdfs/read/visible_length.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {
namespace {

constexpr std::uint64_t kMaxLength = std::numeric_limits<std::int64_t>::max();

std::string text(std::uint64_t number) { return std::to_string(number); }

Status unsupported(const std::string& kind, const std::string& path) {
  return Status(StatusCode::kUnsupported, "open: a file " + kind + " cannot be read", path,
                ENOTSUP);
}

bool is_same(const LocatedBlock& one, const LocatedBlock& other) {
  return one.offset == other.offset && one.block.id == other.block.id &&
         one.block.pool == other.block.pool;
}

bool holds(const LocatedBlock& block, std::uint64_t position) noexcept {
  return block.offset <= position && position < block.end();
}

}  // namespace

Result<LocatedBlocks> locate(RpcClient& name_node, const std::string& path, std::uint64_t offset,
                             std::uint64_t length, env::Interrupt& interrupt,
                             env::Duration patience) {
  GetBlockLocations request;
  request.path = path;
  request.offset = offset;
  request.length = std::min(length, kMaxLength);
  HFLUSH_ASSIGN_OR_RETURN(auto answer, name_node.call(request, path, interrupt, patience));
  if (!answer) return Status(StatusCode::kNotFound, "open: no such file", path, ENOENT);
  const bool striped = std::any_of(answer->blocks.begin(), answer->blocks.end(),
                                   [](const LocatedBlock& block) { return block.is_striped; });
  if (answer->erasure_coded || striped) return unsupported("that is erasure coded", path);
  return *std::move(answer);
}

Result<std::unique_ptr<BlockLocations>> BlockLocations::open(const ReadContext& context,
                                                             const std::string& path,
                                                             env::Interrupt& interrupt) {
  std::unique_ptr<BlockLocations> locations(new BlockLocations(context, path));
  HFLUSH_RETURN_IF_ERROR(locations->start(interrupt));
  return locations;
}

Status BlockLocations::start(env::Interrupt& interrupt) {
  const ReadSettings& settings = context_.settings.read;
  for (int retries = 0;; ++retries) {
    HFLUSH_ASSIGN_OR_RETURN(LocatedBlocks answer, ask(0, settings.prefetch_bytes, {}, interrupt));
    length_ = answer.file_length;
    if (answer.last_block && !answer.last_block_complete) {
      HFLUSH_ASSIGN_OR_RETURN(const auto length,
                              length_of_unfinished(*answer.last_block, interrupt));
      if (!length) {
        if (retries < settings.last_block_length_retries) {
          HFLUSH_RETURN_IF_ERROR(env::pause(settings.last_block_length_interval, interrupt));
          continue;
        }
        return Status(StatusCode::kIo,
                      "open: " + answer.last_block->block.to_string() + ", the last block, has " +
                          text(answer.last_block->block.length) +
                          " bytes or more and no replica with them on any DataNode, asked " +
                          std::to_string(retries + 1) + " times",
                      path_, EIO);
      }
      unfinished_id_ = answer.last_block->block.id;
      unfinished_length_ = *length;
      length_ += *length;
      extend_unfinished(answer);
    }
    return keep(answer);
  }
}

Result<std::optional<std::uint64_t>> BlockLocations::length_of_unfinished(
    const LocatedBlock& last, env::Interrupt& interrupt) {
  if (last.replicas.empty()) {
    if (last.block.length > 0) return std::optional<std::uint64_t>();
    return std::optional<std::uint64_t>(0);
  }
  const auto length = visible_length(context_, last, interrupt);
  if (!length.ok()) return length.status().with_path(path_);
  // Bytes that the NameNode has recorded are somewhere: where it said they were none has them now.
  if (*length == 0 && last.block.length > 0) return std::optional<std::uint64_t>();
  return std::optional(*length);
}

Result<LocatedBlocks> BlockLocations::ask(std::uint64_t position, std::uint64_t length,
                                          env::Duration patience, env::Interrupt& interrupt) {
  {
    const MutexLock lock(mutex_);
    ++calls_;
  }
  HFLUSH_ASSIGN_OR_RETURN(LocatedBlocks answer,
                          locate(context_.name_node, path_, position, length, interrupt, patience));
  if (answer.encrypted) return unsupported("of an encryption zone", path_);
  return answer;
}

Result<BlockLocations::Block> BlockLocations::find(std::uint64_t position,
                                                   env::Interrupt& interrupt) {
  HFLUSH_DCHECK(position < length());
  if (Block block = known_at(position)) return block;
  return find_anew(position, interrupt);
}

Result<BlockLocations::Block> BlockLocations::find_anew(std::uint64_t position,
                                                        env::Interrupt& interrupt) {
  const env::Duration patience = context_.settings.write.name_node_patience;
  HFLUSH_ASSIGN_OR_RETURN(LocatedBlocks answer, ask(position, context_.settings.read.prefetch_bytes,
                                                    patience, interrupt));
  if (has_another_end(answer)) {
    // Appended to, cut, or another file, which has another first block, too.
    HFLUSH_ASSIGN_OR_RETURN(LocatedBlocks first, ask(0, 1, patience, interrupt));
    extend_unfinished(first);
    HFLUSH_RETURN_IF_ERROR(keep(first));
  }
  extend_unfinished(answer);
  HFLUSH_RETURN_IF_ERROR(keep(answer));
  // What was known before may be gone.
  const bool is_there = (answer.last_block && holds(*answer.last_block, position)) ||
                        std::ranges::any_of(answer.blocks, [&](const LocatedBlock& block) {
                          return holds(block, position);
                        });
  if (is_there) {
    if (Block block = known_at(position)) return block;
    // Another thread got another answer meanwhile.
    return Status(StatusCode::kIo,
                  "read at " + text(position) + ": the blocks of the file changed meanwhile", path_,
                  ESTALE);
  }
  return Status(StatusCode::kIo,
                "read at " + text(position) + ": the file had " + text(length_) +
                    " bytes when it was opened, and has no block there now: it was truncated, or "
                    "recovered shorter",
                path_, EIO);
}

Status BlockLocations::keep(const LocatedBlocks& answer) {
  const MutexLock lock(mutex_);
  for (const LocatedBlock& block : answer.blocks) {
    HFLUSH_RETURN_IF_ERROR(keep_block_locked(block));
  }
  if (answer.last_block) HFLUSH_RETURN_IF_ERROR(keep_block_locked(*answer.last_block));
  last_block_ = answer.last_block;
  return {};
}

bool BlockLocations::has_another_end(const LocatedBlocks& answer) const {
  const MutexLock lock(mutex_);
  return answer.last_block && !(last_block_ && is_same(*last_block_, *answer.last_block));
}

// What is kept has a byte at least that is read here, and no two blocks share one.
Status BlockLocations::keep_block_locked(const LocatedBlock& block) {
  // A writer gives up a block without bytes, and begins another one there.
  if (block.offset >= length_ || block.block.length == 0) return {};
  const auto at = blocks_.lower_bound(block.offset);
  const bool is_known = at != blocks_.end() && is_same(*at->second, block);
  const auto after = is_known ? std::next(at) : at;
  if (at != blocks_.begin() && holds(*std::prev(at)->second, block.offset)) {
    return replaced(*std::prev(at)->second, block);
  }
  if (after != blocks_.end() && holds(block, after->first)) return replaced(*after->second, block);
  blocks_.insert_or_assign(block.offset, std::make_shared<LocatedBlock>(block));
  return {};
}

Status BlockLocations::replaced(const LocatedBlock& was, const LocatedBlock& is) const {
  return Status(StatusCode::kIo,
                "read: the file was replaced by another one: at " + text(was.offset) + " was " +
                    was.block.to_string() + ", and at " + text(is.offset) + " is " +
                    is.block.to_string(),
                path_, ESTALE);
}

// The NameNode learns late how long a block is that is being written. Once it is complete, its
// length is the NameNode's: a recovery may have cut it.
void BlockLocations::extend_unfinished(LocatedBlocks& answer) const noexcept {
  if (!answer.last_block || answer.last_block_complete) return;
  const auto extend = [&](LocatedBlock& block) {
    if (block.block.id != unfinished_id_) return;
    block.block.length = std::max(block.block.length, unfinished_length_);
  };
  std::ranges::for_each(answer.blocks, extend);
  extend(*answer.last_block);
}

BlockLocations::Block BlockLocations::known_at(std::uint64_t position) const {
  const MutexLock lock(mutex_);
  auto after = blocks_.upper_bound(position);
  if (after == blocks_.begin()) return nullptr;
  const Block& block = std::prev(after)->second;
  return holds(*block, position) ? block : nullptr;
}

std::vector<LocatedBlock> BlockLocations::known() const {
  const MutexLock lock(mutex_);
  std::vector<LocatedBlock> blocks;
  for (const auto& [offset, block] : blocks_) blocks.push_back(*block);
  return blocks;
}

std::int64_t BlockLocations::calls() const {
  const MutexLock lock(mutex_);
  return calls_;
}

}  // namespace hflush::hdfs
