#include "sim/callers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "hflush/env/interrupt.h"

namespace hflush::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using stream::Level;

constexpr std::uint64_t kMostOperations = 16;

std::int64_t recoveries(const stream::OutputStream& stream) {
  return stream.statistics()["hdfs_pipeline_recoveries"];
}

Status sync_to(Level level, stream::OutputStream& stream, env::Interrupt& interrupt) {
  if (level == Level::kVisible) return stream.hflush(interrupt);
  if (level == Level::kDurable) return stream.hsync(interrupt);
  return stream.hsync_and_end_block(interrupt);
}

}  // namespace

Callers::Callers(World& world, Promises& promises, Texts& texts, stream::OutputStream& stream,
                 Journal& journal, Refused refused, Ended ended)
    : world_(world),
      promises_(promises),
      texts_(texts),
      stream_(stream),
      journal_(journal),
      refused_(std::move(refused)),
      ended_(std::move(ended)),
      records_(journal.file),
      chance_(world.seed(), "callers of " + journal.path) {}

std::optional<Status> Callers::run() {
  const std::size_t count = chance_.between(2, Records::kMostCallers);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "caller " + std::to_string(i) + " of " + journal_.path;
    callers_.push_back(std::make_unique<Caller>(Caller{i, Chance(world_.seed(), name)}));
  }
  world_.note(journal_.path, " has ", count, " callers");
  for (std::size_t i = 1; i < count; ++i) {
    ++working_;
    world_.start([this, &caller = *callers_[i]] {
      act(caller);
      --working_;
      if (waiting_ != nullptr) world_.wake(waiting_);
    });
  }
  act(*callers_.front());
  if (chance_.one_in(2)) wait_for_others();
  std::optional<Status> closed;
  if (chance_.one_in(16)) {
    world_.note(journal_.path, " is abandoned");
    stream_.abandon();
  } else {
    env::Uninterrupted interrupt(world_.clock());
    world_.note(journal_.path, " is to be closed");
    closed = stream_.close(interrupt);
  }
  journal_.written = stream_.position();
  check_records();
  wait_for_others();
  if (closed && closed->ok()) check_published();
  return closed;
}

void Callers::wait_for_others() {
  waiting_ = world_.running();
  while (working_ > 0) world_.wait_until(TimePoint::max());
  waiting_ = nullptr;
}

void Callers::act(Caller& caller) {
  const std::uint64_t operations = caller.chance.between(0, kMostOperations);
  for (std::uint64_t i = 0; i < operations; ++i) {
    // One that it shares with others may have begun before.
    const TimePoint now = world_.now();
    const TimePoint began = began_.empty() ? now : std::min(now, *began_.begin());
    const Status status = operate(caller);
    if (status.ok()) continue;
    world_.note(journal_.path, " caller ", caller.number, ": ", status.to_string());
    if (stream_.state() != stream::State::kOpen) {
      ended_();
      return failures_.push_back({status, began});
    }
    refused_(status, began);
  }
}

Status Callers::operate(Caller& caller) {
  env::Uninterrupted interrupt(world_.clock());
  const std::uint64_t kind = caller.chance.below(12);
  if (kind < 6) return write(caller);
  if (kind < 8) return sync(caller, Level::kVisible);
  if (kind < 9) {
    return sync(caller, caller.chance.one_in(4) ? Level::kBlockEnded : Level::kDurable);
  }
  if (kind < 10) return stream_.flush(interrupt);
  const Duration pause = caller.chance.up_to(caller.chance.one_in(10) ? 100s : 5ms);
  world_.clock().sleep_until(world_.now() + pause);
  return {};
}

Status Callers::write(Caller& caller) {
  static constexpr std::uint64_t kSizes[] = {1, 20, 300, 2000, 20000};
  const std::size_t size =
      Records::kHeadSize +
      caller.chance.between(0, std::min(caller.chance.one_of(kSizes), 8 * journal_.block_size));
  const std::string record = records_.make(caller.number, caller.accepted + 1, size);
  const std::int64_t recoveries_before = recoveries(stream_);
  env::Uninterrupted interrupt(world_.clock());
  Status status;
  if (!stream_.try_write(as_bytes(record))) status = stream_.write(as_bytes(record), interrupt);
  if (!status.ok()) return status;
  ++caller.accepted;
  world_.note(journal_.path, " caller ", caller.number, " has written ", size);
  journal_.written = stream_.position();
  journal_.recoveries_at_write = std::max(journal_.recoveries_at_write, recoveries_before);
  return status;
}

Status Callers::sync(Caller& caller, Level level) {
  const std::size_t accepted = caller.accepted;
  const std::uint64_t covered = stream_.position();
  const std::int64_t recoveries_before = journal_.recoveries_at_write;
  const bool is_durable = level != Level::kVisible;
  if (is_durable) journal_.hsync_begins(covered, world_.now());
  if (level == Level::kBlockEnded) journal_.ends_blocks = true;
  const auto began = is_durable ? began_.insert(world_.now()) : began_.end();
  env::Uninterrupted interrupt(world_.clock());
  const Status status = sync_to(level, stream_, interrupt);
  if (is_durable) began_.erase(began);
  if (!status.ok()) return status;
  world_.note(journal_.path, " caller ", caller.number, is_durable ? " hsync" : " hflush", " of ",
              covered, " returns");
  journal_.written = stream_.position();
  if (covered > journal_.acknowledged) {
    journal_.recoveries_at_ack = std::max(journal_.recoveries_at_ack, recoveries_before);
  }
  journal_.acknowledged = std::max(journal_.acknowledged, covered);
  if (is_durable) journal_.durable = std::max(journal_.durable, covered);
  check_records();
  const bool has_all = records_.count(caller.number) >= accepted &&
                       (accepted == 0 || records_.end_of(caller.number, accepted) <= covered);
  world_.require(has_all || !texts_.is_shared(journal_.file), journal_.path, ": caller ",
                 caller.number, " has written ", accepted,
                 " records, and what is acknowledged has ", records_.count(caller.number));
  promises_.check_kept(journal_);
  return status;
}

// Another client may have the file by now: theirs is dead, or cut off.
void Callers::check_records() {
  if (!texts_.is_shared(journal_.file)) return;
  const std::string& text = texts_.shared(journal_.file);
  world_.require(records_.read(text), journal_.path, " has no whole record behind ",
                 records_.end());
  world_.require(text.size() >= journal_.acknowledged, journal_.path, ": ", journal_.acknowledged,
                 " bytes are acknowledged, the DataNodes were given ", text.size());
}

void Callers::check_published() {
  world_.require(records_.end() == journal_.written, journal_.path, ": the records end at ",
                 records_.end(), " of ", journal_.written);
  for (const auto& caller : callers_) {
    const std::size_t count = records_.count(caller->number);
    world_.require(count == caller->accepted, journal_.path, ": ", count, " records of caller ",
                   caller->number, " are published, ", caller->accepted, " were accepted");
  }
  for (const auto& [status, began] : failures_) {
    // An hsync that is refused while the stream is being closed breaks nothing.
    const bool is_refused = status.message().find("hsync may be called again") != std::string::npos;
    if (is_refused) refused_(status, began);
    world_.require(is_refused || status.code() == StatusCode::kClosed, journal_.path,
                   " is published, and has failed before: ", status.to_string());
  }
}

}  // namespace hflush::sim
