// FinishedBlocks: the blocks that a stream has ended without a sync, and how hsync makes them
// durable afterwards. A state machine without I/O, part of WritePipeline.
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
// disk. Who cannot accept that for a file of one replica creates it with SYNC_BLOCK: then every
// block is synced at its end and nothing is ever opened again. That is not the default because it
// makes every writer wait for the disks at every block's end, whether it ever asks for hsync or
// not.
//
// It costs one connection and one sync for each replica, once: from the first hsync on every block
// ends with a sync. A replica that is not there any more, or a node that does not answer, is a
// failure of hsync: it promises every replica.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/hdfs/data_transfer.h"
#include "hflush/hdfs/types.h"

namespace hflush::hdfs {

class FinishedBlocks {
 public:
  struct Block {
    ExtendedBlock block;  // with its final length and generation stamp
    Token token;
    std::vector<Replica> replicas;
  };

  bool empty() const noexcept { return blocks_.empty(); }
  void add(Block block) { blocks_.push_back(std::move(block)); }
  void clear() noexcept {
    blocks_.clear();
    replica_ = 0;
  }

  // The replica that is to be opened next. Requires: !empty().
  const Replica& replica() const noexcept { return blocks_.front().replicas[replica_]; }
  const ExtendedBlock& block() const noexcept { return blocks_.front().block; }
  // What to send to its node. The node answers with a reply and one ack. Requires: !empty().
  std::string request(const std::string& client_name, std::uint64_t block_size,
                      ChecksumParameters checksum) const;
  // Whether this ack says that the replica is durable.
  static bool is_durable(const PipelineAck& ack) noexcept;
  // That replica is durable. Requires: !empty().
  void replica_is_durable() noexcept;

 private:
  std::deque<Block> blocks_;  // none without replicas
  std::size_t replica_ = 0;   // of the first block
};

}  // namespace hflush::hdfs
