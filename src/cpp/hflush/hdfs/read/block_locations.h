// BlockLocations: where the blocks of one open file are, asked in batches and remembered.
//
// The file's length is that at open, the visible part of a block that is being written included;
// what is appended later belongs to later opens (READ-14, READ-18). Locations are asked again as
// reads need them, with the patience of a stream's calls (hflush.hdfs.namenode.patience); a block
// that shares a byte with another one that is known is of another file, and refused. Where the
// answer ends with another block than before, the first block is asked for, too: a file that was
// appended to, or cut, has it still.
// Thread-safe; no lock is held while the NameNode is asked.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// What the NameNode says of `length` bytes of a file from `offset` on. kNotFound; kNotAFile of a
// directory; kUnsupported of an erasure coded file.
Result<LocatedBlocks> locate(RpcClient& name_node, const std::string& path, std::uint64_t offset,
                             std::uint64_t length, env::Interrupt& interrupt,
                             env::Duration patience = {});

class BlockLocations {
 public:
  using Block = std::shared_ptr<const LocatedBlock>;

  // Of the file at `path`. kNotFound; kNotAFile of a directory; kUnsupported of a file that is
  // erasure coded or encrypted. `context` outlives it.
  static Result<std::unique_ptr<BlockLocations>> open(const ReadContext& context,
                                                      const std::string& path,
                                                      env::Interrupt& interrupt);

  std::uint64_t length() const noexcept { return length_; }
  // The block with the byte at `position`. Requires: position < length().
  Result<Block> find(std::uint64_t position, env::Interrupt& interrupt);
  // The same, as the NameNode knows it now: other replicas, other tokens.
  Result<Block> find_anew(std::uint64_t position, env::Interrupt& interrupt);
  // What is known, in order.
  std::vector<LocatedBlock> known() const;
  // How often the NameNode was asked.
  std::int64_t calls() const;

 private:
  using Blocks = std::map<std::uint64_t, Block>;  // by offset in the file

  BlockLocations(const ReadContext& context, std::string path)
      : context_(context), path_(std::move(path)) {}

  Result<LocatedBlocks> ask(std::uint64_t position, std::uint64_t length, env::Duration patience,
                            env::Interrupt& interrupt);
  // Everything that open() decides once.
  Status start(env::Interrupt& interrupt);
  // Bytes of a last block that is not complete; nullopt if no DataNode has it yet, or none has it
  // any more where it was: it may have been finished since, and moved.
  Result<std::optional<std::uint64_t>> length_of_unfinished(const LocatedBlock& last,
                                                            env::Interrupt& interrupt);
  // Gives the block that was unfinished at open the length that a replica showed, as long as it is.
  void extend_unfinished(LocatedBlocks& answer) const noexcept;
  Status keep(const LocatedBlocks& answer);
  // Whether its last block is not the one that is known as such.
  bool has_another_end(const LocatedBlocks& answer) const;
  Status keep_block_locked(const LocatedBlock& block) HFLUSH_REQUIRES(mutex_);
  Status replaced(const LocatedBlock& was, const LocatedBlock& is) const;
  Block known_at(std::uint64_t position) const;

  const ReadContext& context_;
  const std::string path_;
  // Constant after start().
  std::uint64_t length_ = 0;
  std::uint64_t unfinished_id_ = 0;  // 0: every block was complete
  std::uint64_t unfinished_length_ = 0;

  // Never held while a DataNode or the NameNode is waited for.
  mutable Mutex mutex_;
  Blocks blocks_ HFLUSH_GUARDED_BY(mutex_);
  // Of the newest answer that was kept.
  std::optional<LocatedBlock> last_block_ HFLUSH_GUARDED_BY(mutex_);
  std::int64_t calls_ HFLUSH_GUARDED_BY(mutex_) = 0;
};

}  // namespace hflush::hdfs
