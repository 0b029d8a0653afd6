// The length of a block that is being written, which only its DataNodes know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// LengthSearch: what the answers of the DataNodes mean that were asked. Decisions without I/O.
//
//   a length     is the block's, unless the NameNode has recorded more; nothing else is waited for
//   less, or     the DataNode has lost bytes, or does not have the block yet; if all say so, the
//   no replica   block has no bytes for now
//   starting     the DataNode is asked again
//   any failure  another DataNode may know; if none does, the failure says what each one answered
//
// Thread-compatible.
class LengthSearch {
 public:
  // All of its replicas are asked. Requires: replicas. `block` outlives the search.
  explicit LengthSearch(const LocatedBlock& block);

  // A negative length: the DataNode does not know it.
  void answered(std::size_t replica, const Result<std::int64_t>& length);
  // nullopt while answers are due.
  std::optional<Result<std::uint64_t>> outcome() const;
  // Those that were starting when they answered: they are asked again, each once.
  std::vector<std::size_t> take_starting();
  bool any_is_starting() const noexcept;
  // The failure once `timeout` is over.
  Status timed_out(env::Duration timeout) const;

 private:
  enum class State : std::uint8_t { kAsked, kStarting, kWithout, kFailed };
  struct Asked {
    State state = State::kAsked;
    Status failure{};
  };

  static State state_after(const Status& failure);
  Status failure(const Status& unanswered) const;

  const LocatedBlock& block_;
  std::vector<Asked> nodes_;
  std::optional<std::uint64_t> length_;
};

// Asks all replicas of `block` at once for the bytes that they show to readers: the first length
// counts. 0 if no DataNode has its replica yet, with what is recorded of it. Answers within
// dfs.client.socket-timeout, whatever becomes of the DataNodes. Runs on the thread that calls, and
// can be interrupted. Requires: replicas.
Result<std::uint64_t> visible_length(const ReadContext& context, const LocatedBlock& block,
                                     env::Interrupt& interrupt);

}  // namespace hflush::hdfs
