// BlockDialogue: what a client says to the DataNodes of a conversation when it writes a block:
// pipelines, set up one at a time, each on a connection of its own, and their packets. Steps are
// words, and so are their answers:
//
//   set-up STAGE …            accepted, refused; of a pipeline: refused by the node at a place
//   packet NUMBER OFFSET SIZE [sync] [last]      acknowledged, refused
//
// Bytes are content(BLOCK, …) (content.h).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hflush/hdfs/wire/data_transfer.h"
#include "sim/lines.h"

namespace hflush::sim {

// "append-recovery"; none of a word that is no stage.
std::optional<hdfs::WriteStage> stage_called(std::string_view word);
// After its "packet".
std::optional<hdfs::PacketHeader> packet_header(std::istream& words);

class BlockDialogue {
 public:
  static constexpr std::uint64_t kBlockSize = 1U << 20U;

  // `lines` outlive it.
  explicit BlockDialogue(Lines& lines) : lines_(lines) {}

  std::string set_up(hdfs::WriteBlockOperation operation);
  std::string packet(hdfs::PacketHeader header);
  // Closes the connection.
  void leave() { line_.reset(); }

 private:
  // The next message, with its length; none if the connection has ended.
  std::optional<std::string> receive();

  Lines& lines_;
  std::unique_ptr<Line> line_;
  std::string arrived_;
  std::uint64_t block_ = 0;
  std::size_t nodes_ = 0;
};

}  // namespace hflush::sim
