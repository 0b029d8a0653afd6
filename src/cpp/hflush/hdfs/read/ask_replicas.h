// ask_replicas(): one question about a block, put to its replicas in turn until one answers, as a
// read would go about it (replica_search.h). Internal: included by .cc files only.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "hflush/base/result.h"
#include "hflush/env/answer.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/block_locations.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/read/replica_search.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

struct Question {
  const ReadContext& context;
  const std::string& path;
  const char* operation;  // starts the message of a failure
  env::Interrupt& interrupt;
  DeadNodes dead{};  // as several blocks of one file find them
};

// `block` as the NameNode knows it now, and as long as it was.
inline Result<LocatedBlock> locate_anew(const Question& question, const LocatedBlock& block) {
  HFLUSH_ASSIGN_OR_RETURN(
      const LocatedBlocks located,
      locate(question.context.name_node, question.path, block.offset,
             std::max<std::uint64_t>(block.block.length, 1), question.interrupt));
  for (const LocatedBlock& one : located.blocks) {
    if (one.block.id != block.block.id) continue;
    LocatedBlock found = one;
    found.block.length = block.block.length;
    return found;
  }
  return Status(StatusCode::kIo,
                std::string(question.operation) + ": " + block.block.to_string() +
                    " is not a block of the file any more",
                question.path, ESTALE);
}

// `ask(block, node, sums)` answers a Result<T>.
template <typename T, typename Ask>
Result<T> ask_replicas(Question& question, LocatedBlock block, const Ask& ask) {
  ReplicaSearch search(question.context.settings.read, question.operation);
  while (true) {
    const auto step = search.next(block, question.dead, 0.5);
    if (const auto* const give_up = std::get_if<ReplicaSearch::GiveUp>(&step)) {
      return give_up->failure.with_path(question.path);
    }
    if (const auto* const refetch = std::get_if<ReplicaSearch::Refetch>(&step)) {
      HFLUSH_RETURN_IF_ERROR(env::pause(refetch->delay, question.interrupt));
      if (refetch->forget_dead_nodes) question.dead.clear();
      Result<LocatedBlock> found = locate_anew(question, block);
      if (!found.ok()) {
        return search.without_locations(block, found.status()).with_path(question.path);
      }
      block = *std::move(found);
      continue;
    }
    const auto& attempt = std::get<ReplicaSearch::Try>(step);
    const DatanodeInfo& node = block.replicas[attempt.replica].node;
    Result<T> answer = ask(block, node, attempt.sums);
    if (answer.ok() || answer.status().code() == StatusCode::kInterrupted) return answer;
    if (search.failed(node, answer.status())) question.dead.add(node);
  }
}

}  // namespace hflush::hdfs
