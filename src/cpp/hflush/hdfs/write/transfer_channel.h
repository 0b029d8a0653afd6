// TransferChannel: one open connection to a DataNode, as a machine sees it: the operation, and
// later the heartbeats, that are sent on it before any packet; and when bytes were last sent, and
// since when an answer is due. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"
#include "hflush/env/clock.h"

namespace hflush::hdfs {

class TransferChannel {
 public:
  // A timeout is longer by this for each node of a pipeline.
  static constexpr env::Duration kTimeoutPerNode = std::chrono::seconds(5);

  TransferChannel(std::string operation, env::TimePoint now)
      : control_(std::move(operation)), last_sent_(now), silent_since_(now) {}

  // A packet without data, behind what is left of an operation or of another one.
  void send(std::string_view control) { control_ += control; }
  bool has_control() const noexcept { return !control_.empty(); }

  void heard(env::TimePoint now) noexcept { silent_since_ = now; }
  // All that was sent is answered: silence begins with what is sent next. A DataNode counts the
  // silence of the next one so too, and for less long: it can say which node is silent.
  void rest() noexcept { is_resting_ = true; }
  // Nothing was sent yet that matters from now on: both times begin anew.
  void restart(env::TimePoint now) noexcept { last_sent_ = silent_since_ = now; }
  env::TimePoint last_sent() const noexcept { return last_sent_; }
  env::TimePoint silent_since() const noexcept { return silent_since_; }
  // When a pipeline of `nodes` has been silent for too long. Never while it rests: this process may
  // have been stopped, and its heartbeat is what asks.
  env::TimePoint silent_until(env::Duration timeout, std::size_t nodes) const noexcept {
    if (is_resting_) return env::TimePoint::max();
    return env::deadline_after(silent_since_, for_nodes(timeout, nodes));
  }
  static env::Duration for_nodes(env::Duration timeout, std::size_t nodes) noexcept {
    const env::Duration more = static_cast<int>(nodes) * kTimeoutPerNode;
    return timeout < env::kNoTimeout - more ? timeout + more : env::kNoTimeout;
  }

  // What is left of the operation or heartbeat: fills `pieces`, returns how many. Requires: there
  // is room for one.
  std::size_t output(std::span<ByteView> pieces) const noexcept {
    HFLUSH_DCHECK(!pieces.empty());
    if (control_.empty()) return 0;
    pieces[0] = as_bytes(control_).subspan(control_sent_);
    return 1;
  }
  // `bytes` were sent; returns how many of them were packets.
  std::size_t sent(std::size_t bytes, env::TimePoint now) noexcept {
    last_sent_ = now;
    if (std::exchange(is_resting_, false)) silent_since_ = now;
    const std::size_t control = std::min(bytes, control_.size() - control_sent_);
    control_sent_ += control;
    if (control_sent_ == control_.size()) {
      control_ = {};
      control_sent_ = 0;
    }
    return bytes - control;
  }

 private:
  std::string control_;
  std::size_t control_sent_ = 0;  // < control_.size(), or 0
  env::TimePoint last_sent_;
  env::TimePoint silent_since_;
  bool is_resting_ = false;
};

}  // namespace hflush::hdfs
