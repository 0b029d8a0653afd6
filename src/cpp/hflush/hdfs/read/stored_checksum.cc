#include "hflush/hdfs/read/stored_checksum.h"

#include <algorithm>
#include <cerrno>

#include "hflush/base/check.h"
#include "hflush/hdfs/read/ask_replicas.h"
#include "hflush/hdfs/read/block_stream.h"

namespace hflush::hdfs {
namespace {

// Ends what waits when its caller does, or at the deadline. `caller` outlives it.
class Until final : public env::Interrupt {
 public:
  Until(env::TimePoint deadline, env::Interrupt& caller)
      : Interrupt(caller.clock()), deadline_(deadline), caller_(caller) {}

  // Whether it was the deadline that has ended something.
  bool has_passed() const noexcept { return has_passed_; }

 private:
  Status check() override {
    HFLUSH_RETURN_IF_ERROR(caller_.check_now());
    has_passed_ = clock().now() >= deadline_;
    return has_passed_ ? Status(StatusCode::kInterrupted, "no replica has answered in time")
                       : Status();
  }

  const env::TimePoint deadline_;
  env::Interrupt& caller_;
  bool has_passed_ = false;
};

}  // namespace

Result<ChecksumParameters> stored_checksum(const ReadContext& context, const std::string& path,
                                           const LocatedBlock& block, env::Interrupt& interrupt) {
  HFLUSH_DCHECK(block.block.length > 0);
  ReadCounts counts;
  const auto ask = [&](const LocatedBlock& at, const DatanodeInfo& node,
                       Sums sums) -> Result<ChecksumParameters> {
    ReadOptions options;
    options.sums = sums;
    HFLUSH_ASSIGN_OR_RETURN(
        auto stream, BlockStream::open(context, at, node, {0, 1}, options, counts, interrupt));
    return stream->checksum();
  };
  Question question{context, path, "stored checksum", interrupt};
  return ask_replicas<ChecksumParameters>(question, block, ask);
}

Result<ChecksumParameters> stored_checksum_within(env::Duration patience,
                                                  const ReadContext& context,
                                                  const std::string& path,
                                                  const LocatedBlock& block,
                                                  env::Interrupt& interrupt) {
  Settings settings = context.settings;
  settings.read.max_block_acquire_failures = 1;
  settings.read.retry_window = env::Duration::zero();
  settings.read.socket_timeout = std::min(settings.read.socket_timeout, patience / 3);
  const ReadContext hasty{context.owner, context.name_node,          context.connections,
                          settings,      context.ask_visible_length, context.connector,
                          context.clock, context.randomness};
  Until until(interrupt.clock().now() + patience, interrupt);
  Result<ChecksumParameters> stored = stored_checksum(hasty, path, block, until);
  if (!until.has_passed()) return stored;
  return Status(StatusCode::kTimedOut, stored.status().message(), path, ETIMEDOUT);
}

}  // namespace hflush::hdfs
