// Conversation: what one client says to one DataNode about its replicas, step by step, so that the
// model of this simulator and a DataNode of Hadoop can be asked the same (see
// tests/integration/test_hdfs_model.py). A step is a line, and so is its answer:
//
//   set-up STAGE BLOCK STAMP LATEST MIN MAX  accepted, refused
//   packet NUMBER OFFSET SIZE [sync] [last]  acknowledged, refused
//   leave                                    left: the connection is closed
//   replica BLOCK                            none, or its state, stamp, received and visible bytes;
//                                            of the model only
//
// Each set-up is on a connection of its own (block_dialogue.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hflush/hdfs/wire/types.h"
#include "sim/block_dialogue.h"
#include "sim/lines.h"

namespace hflush::sim {

// The DataNode, as seen by its client.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual hdfs::DatanodeInfo info() const = 0;
  virtual Lines& lines() = 0;
  virtual std::string replica(std::uint64_t block) = 0;
};

std::unique_ptr<Peer> model_peer();
// A real one on this machine.
std::unique_ptr<Peer> hadoop_peer(std::uint16_t port);

class Conversation {
 public:
  // `peer` outlives it; `pool` is the id of the block pool.
  Conversation(Peer& peer, std::string pool)
      : peer_(peer), pool_(std::move(pool)), dialogue_(peer.lines()) {}
  // What a step led to; nothing for a step that is none.
  std::optional<std::string> answer(std::string_view step);

 private:
  Peer& peer_;
  const std::string pool_;
  BlockDialogue dialogue_;
};

// Answers the steps on stdin until it ends. Returns the exit status.
int converse(const std::function<std::optional<std::string>(std::string_view step)>& answer);

}  // namespace hflush::sim
