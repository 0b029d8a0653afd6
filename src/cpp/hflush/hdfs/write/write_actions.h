// What the machines of a stream ask their shell (pipeline_shell.h) to do. Values; the shell
// performs them in order.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/write_stream.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

namespace action {

// Calls to the NameNode, answered by the event of the same name.
struct AddBlock {
  std::optional<ExtendedBlock> previous;
  std::vector<DatanodeInfo> excluded;
};
struct AbandonBlock {
  ExtendedBlock block;
};
struct UpdateBlockForPipeline {
  ExtendedBlock block;
};
struct UpdatePipeline {
  ExtendedBlock old_block;
  ExtendedBlock new_block;
  std::vector<Replica> replicas;
};
struct GetAdditionalDatanode {
  ExtendedBlock block;
  std::vector<Replica> replicas;
  std::vector<DatanodeInfo> excluded;
};
struct Fsync {
  std::uint64_t block_length;  // acknowledged bytes of the block under construction
};
struct Complete {
  std::optional<ExtendedBlock> last;
};
// Where the bytes are now; may be under way beside one of the others. Answered by located().
struct GetBlockLocations {
  std::uint64_t offset;
  std::uint64_t length;
  std::optional<ExtendedBlock> block{};  // a finished one, that is there
};
// No thread waits for the answer.
struct RecoverLease {};

// How many bytes of the block each of these DataNodes shows to readers, answered one by one by
// replica_answered(), as far as they answer.
struct AskReplicas {
  QuestionNumber question;
  ExtendedBlock block;
  std::vector<DatanodeInfo> nodes;
  // With a reader's token, which the NameNode gives: without its answer none is asked.
  bool as_reader = false;
};
// No answer of a DataNode is waited for any more; a reader's token is not to be kept.
struct DropQuestions {};

// Answered by connected() or connection_lost(). What the connection then has to send is output().
struct Connect {
  ConnectionNumber connection;
  DatanodeInfo node;
  env::Duration timeout;
};
struct Disconnect {
  ConnectionNumber connection;
};

// To the stream above (stream::SinkEvents).
struct Acknowledged {
  std::uint64_t offset;
};
struct Reached {
  stream::Level level;
  std::uint64_t offset;
};
struct NotReached {
  stream::Level level;
  std::uint64_t offset;
  Status why;
};
struct Finished {};
struct Failed {
  Status failure;
  bool is_closed = false;  // the file is: the NameNode has completed it
};

}  // namespace action

using Action = std::variant<action::AddBlock, action::AbandonBlock, action::UpdateBlockForPipeline,
                            action::UpdatePipeline, action::GetAdditionalDatanode, action::Fsync,
                            action::Complete, action::GetBlockLocations, action::RecoverLease,
                            action::AskReplicas, action::DropQuestions, action::Connect,
                            action::Disconnect, action::Acknowledged, action::Reached,
                            action::NotReached, action::Finished, action::Failed>;
using Actions = std::vector<Action>;

}  // namespace hflush::hdfs
