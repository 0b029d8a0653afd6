// FinishedBlocks: the blocks that a stream has ended without a sync, and how hsync makes them
// durable afterwards. A state machine without I/O, part of Promises.
//
// HDFS has no call for that: a sync travels with a packet, and a finished block takes none. What
// works is to open each replica again as an append does (PIPELINE_SETUP_APPEND, a pipeline of that
// one node), but with the block's own generation stamp and length, and to end it again at once with
// a last packet that carries a sync. The DataNode moves the replica back to "being written", syncs
// data, sums and directories, and finalizes it. Seen on 3.5.0: generation stamp, length, contents,
// the NameNode's view, readers (also those that come in between) and later appends are as before;
// an RBW report for a complete block with its own stamp is ignored by the NameNode.
//
// What a crash in between does: a DataNode that dies before it has finalized the replica again
// comes back with a replica "waiting to be recovered", which the NameNode takes for corrupt and
// replaces from another node. So one replica of a block is opened at a time, and operation and
// packet go out together, in one segment: a client that dies leaves nothing half done, as either
// all of it arrives or nothing. A block whose only replica is on a DataNode that dies in these
// milliseconds (seconds, if much is to be synced) is lost, though its bytes are on that node's
// disk. A file of one replica for which that is not acceptable is created with SYNC_BLOCK: then
// every block is synced at its end and is never opened again. That is not the default because every
// writer would wait for the disks at every block's end, also one that never asks for hsync.
//
// For each block the NameNode is asked where its replicas are when its turn comes: since it was
// written, nodes may have failed and HDFS may have placed replicas elsewhere. The nodes of the
// block's own pipeline are asked too, as one that has not reported its replica yet is not listed.
// hsync then promises that every replica is durable, except for those whose node is gone or
// refuses: these are left out, as the recovery of a pipeline leaves nodes out. One on a node that
// is not listed may be missing: HDFS may have replaced it, or moved it away. At least one replica
// of each block must have synced; where none could, this hsync has failed, and the stream
// continues. A later one begins with that block, and asks again where its replicas are. (A replica
// whose sync failed does not become durable by trying again: its DataNode keeps it as "being
// written", and refuses to open it in this way.)
//
// It costs one call and, for each replica, one connection and one sync, once: from the first hsync
// on every block ends with a sync.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "hflush/base/check.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

class FinishedBlocks {
 public:
  // Step is what to do next.
  //
  // Nothing: every block is durable.
  struct Nothing {};
  // Locate: ask where block() is. located() takes the answer.
  struct Locate {};
  // Open: open replica() and send request(). replica_is_durable() or replica_failed() follows.
  struct Open {};
  // GiveUp: report to the callers that wait why block() is not durable. The stream continues.
  struct GiveUp {
    Status failure;
  };
  using Step = std::variant<Nothing, Locate, Open, GiveUp>;

  bool empty() const noexcept { return blocks_.empty(); }
  // A block with its final length and generation stamp, its pipeline, and a token to write it.
  void add(LocatedBlock block) { blocks_.push_back(std::move(block)); }
  void clear() noexcept;

  // Not while an answer is due.
  Step next();

  void located(const Result<LocatedBlocks>& answer);
  // The block in an answer about its file; null: the answer is of another one.
  static const LocatedBlock* find(const LocatedBlocks& answer, const ExtendedBlock& block);
  // The node answered with a reply and one ack: whether the latter says that the replica is
  // durable.
  static bool is_durable(const PipelineAck& ack) noexcept;
  void replica_is_durable() noexcept;
  // `fault` goes on after the node's name. One that is gone is not asked again for another block
  // before next() has come to an end, unless no other node has that block.
  void replica_failed(const Status& fault, bool node_is_gone);

  // Requires: a step with that block, or replica.
  const LocatedBlock& block() const noexcept {
    HFLUSH_DCHECK(!blocks_.empty());
    return blocks_.front();
  }
  const Replica& replica() const noexcept {
    HFLUSH_DCHECK(tried_ < candidates_.size());
    return candidates_[tried_].replica;
  }
  std::string request(const std::string& client_name, std::uint64_t block_size,
                      ChecksumParameters checksum) const;

  // Replicas that were listed and not synced, of blocks that are durable elsewhere.
  std::int64_t left_out() const noexcept { return left_out_; }

 private:
  struct Candidate {
    Replica replica;
    bool is_listed;
  };

  std::vector<Candidate> candidates(const LocatedBlocks& answer) const;
  bool is_gone(const Candidate& candidate) const noexcept;
  Status failure() const;
  void forget_location() noexcept;

  std::deque<LocatedBlock> blocks_;
  // Of the first block, once it is located.
  bool is_located_ = false;
  Status not_located_;
  std::vector<Candidate> candidates_;
  std::size_t tried_ = 0;  // of them
  std::size_t synced_ = 0;
  std::string faults_;         // of the others
  std::int64_t unsynced_ = 0;  // of those that are listed
  Status last_fault_;

  std::vector<std::string> gone_;  // transfer addresses
  std::int64_t left_out_ = 0;
};

}  // namespace hflush::hdfs
