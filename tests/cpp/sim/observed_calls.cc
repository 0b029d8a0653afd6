// What hdfs/rpc does in a run: the calls of CallTable, and LeaseRenewal. See observed.h.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/hdfs/rpc/call_table.h"
#include "hflush/hdfs/rpc/lease_renewal.h"
#include "sim/observed.h"
#include "sim/transitions.h"

namespace hflush::sim {

using namespace hdfs;  // NOLINT(google-build-using-namespace)
using env::TimePoint;

namespace {

using CallId = CallTable::CallId;
using Stage = CallTable::Stage;

// An event of a table, and the calls that it may concern.
class CallsEvent {
 public:
  CallsEvent(CallTable& table, const CallTable::Actions& actions)
      : table_(table), actions_(actions), count_(actions.size()) {
    for (const CallId call : calls()) before_.emplace(call, *table.stage(call));
  }
  CallsEvent(const CallsEvent&) = delete;
  CallsEvent& operator=(const CallsEvent&) = delete;

  static void begin(CallTable& table, CallId call) {
    if (table.stage(call)) calls_[&table].insert(call);
  }

  // `name` is given each call that is at another stage than before, or gone, with what it is
  // answered, if it is.
  template <typename Name>
  void end(Name name) {
    for (const auto& [call, before] : before_) {
      const std::optional<Stage> after = table_.stage(call);
      if (after == before) continue;
      if (!after) calls().erase(call);
      name(before, after, answer(call));
    }
  }
  bool has_disconnected() const { return any<CallTable::Disconnect>(); }

  static void add(Stage state, std::string_view event, std::string_view after) {
    Transitions::seen().add("CallTable", name_of(state), event, after);
  }
  static std::string_view name_of(Stage stage) {
    if (stage == Stage::kConnecting) return "connecting";
    return stage == Stage::kSent ? "sent" : "pause";
  }

 private:
  std::set<CallId>& calls() const { return calls_[&table_]; }
  template <typename T>
  bool any() const {
    return std::any_of(begin_of_new(), actions_.end(), [](const CallTable::Action& action) {
      return std::holds_alternative<T>(action);
    });
  }
  CallTable::Actions::const_iterator begin_of_new() const {
    return actions_.begin() + static_cast<std::ptrdiff_t>(count_);
  }
  const CallTable::Answer* answer(CallId call) const {
    for (auto action = begin_of_new(); action != actions_.end(); ++action) {
      const auto* const answer = std::get_if<CallTable::Answer>(&*action);
      if (answer != nullptr && answer->call == call) return answer;
    }
    return nullptr;
  }

  // Those that are under way.
  static inline std::map<const CallTable*, std::set<CallId>> calls_;

  CallTable& table_;
  const CallTable::Actions& actions_;
  const std::size_t count_;
  std::map<CallId, Stage> before_;
};

using Answered = const CallTable::Answer*;
constexpr std::string_view kFailed = "failed";

}  // namespace

HFLUSH_EVENT(CallTable, start, CallId, CallTable* table, std::string_view method,
             Repetition repetition, std::string body, std::string path, TimePoint now,
             CallTable::Actions& actions) {
  const CallId call = observed_CallTable_start(table, method, repetition, std::move(body),
                                               std::move(path), now, actions);
  CallsEvent::begin(*table, call);
  return call;
}

HFLUSH_EVENT(CallTable, cancel, bool, CallTable* table, CallId call, TimePoint now) {
  static const CallTable::Actions kNone;
  CallsEvent event(*table, kNone);
  const bool was_known = observed_CallTable_cancel(table, call, now);
  event.end([](Stage before, std::optional<Stage>, Answered) {
    CallsEvent::add(before, "cancelled", "forgotten");
  });
  return was_known;
}

HFLUSH_EVENT(CallTable, disown, bool, CallTable* table, CallId call, std::string question,
             TimePoint now) {
  static const CallTable::Actions kNone;
  CallsEvent event(*table, kNone);
  const std::optional<Stage> stage = table->stage(call);
  const bool goes_on = observed_CallTable_disown(table, call, std::move(question), now);
  if (goes_on && stage) CallsEvent::add(*stage, "disowned: it was sent", Transitions::kStays);
  event.end([](Stage before, std::optional<Stage>, Answered) {
    CallsEvent::add(before, "disowned: it was never sent", "forgotten");
  });
  return goes_on;
}

HFLUSH_EVENT(CallTable, close, void, CallTable* table, CallTable::Actions& actions) {
  CallsEvent event(*table, actions);
  observed_CallTable_close(table, actions);
  event.end([](Stage before, std::optional<Stage>, Answered) {
    CallsEvent::add(before, "the client is closed", "answered");
  });
}

HFLUSH_EVENT(CallTable, connected, void, CallTable* table, CallTable::LinkId link,
             std::string_view peer_address, const sasl::HeldTokens& tokens, TimePoint now,
             CallTable::Actions& actions) {
  CallsEvent event(*table, actions);
  observed_CallTable_connected(table, link, peer_address, tokens, now, actions);
  event.end([](Stage before, std::optional<Stage> after, Answered) {
    CallsEvent::add(before, "the connection stands", after ? CallsEvent::name_of(*after) : "gone");
  });
}

HFLUSH_EVENT(CallTable, connect_failed, void, CallTable* table, CallTable::LinkId link,
             const Status& why, TimePoint now, CallTable::Actions& actions) {
  CallsEvent event(*table, actions);
  observed_CallTable_connect_failed(table, link, why, now, actions);
  event.end([](Stage before, std::optional<Stage>, Answered) {
    CallsEvent::add(before, "connecting failed", kFailed);
  });
}

HFLUSH_EVENT(CallTable, received, void, CallTable* table, CallTable::LinkId link, ByteView bytes,
             TimePoint now, CallTable::Actions& actions) {
  CallsEvent event(*table, actions);
  observed_CallTable_received(table, link, bytes, now, actions);
  const bool is_fatal = event.has_disconnected();
  event.end([is_fatal](Stage before, std::optional<Stage>, Answered answer) {
    if (answer != nullptr && answer->body.ok()) {
      CallsEvent::add(before, "a response", "answered");
    } else {
      CallsEvent::add(before, is_fatal ? "FATAL or not the protocol" : "an error", kFailed);
    }
  });
}

HFLUSH_EVENT(CallTable, lost, void, CallTable* table, CallTable::LinkId link, int error_number,
             TimePoint now, CallTable::Actions& actions) {
  CallsEvent event(*table, actions);
  observed_CallTable_lost(table, link, error_number, now, actions);
  event.end([](Stage before, std::optional<Stage>, Answered) {
    CallsEvent::add(before, "the connection is lost", kFailed);
  });
}

HFLUSH_EVENT(CallTable, time_passed, void, CallTable* table, TimePoint now,
             CallTable::Actions& actions) {
  CallsEvent event(*table, actions);
  observed_CallTable_time_passed(table, now, actions);
  event.end([](Stage before, std::optional<Stage> after, Answered) {
    const bool was_pausing = before != Stage::kSent && before != Stage::kConnecting;
    if (!was_pausing) CallsEvent::add(before, "no answer in time", kFailed);
    if (after != Stage::kSent && after != Stage::kConnecting) return;
    // It may have failed just now: a pause of no length.
    CallsEvent::add(Stage::kRetryPause,
                    after == Stage::kSent ? "the pause is over: the connection stands"
                                          : "the pause is over: there is no connection",
                    CallsEvent::name_of(*after));
  });
}

// --- LeaseRenewal

namespace {

void add(const LeaseRenewal& renewal, LeaseRenewal::State before, std::string_view event) {
  Transitions::seen().add(
      "LeaseRenewal", to_string(before), event,
      renewal.state() == before ? Transitions::kStays : to_string(renewal.state()));
}

}  // namespace

HFLUSH_EVENT(LeaseRenewal, opened, LeaseRenewal::Step, LeaseRenewal* renewal, TimePoint now) {
  const LeaseRenewal::State before = renewal->state();
  const LeaseRenewal::Step step = observed_LeaseRenewal_opened(renewal, now);
  add(*renewal, before, "a file is opened");
  return step;
}

HFLUSH_EVENT(LeaseRenewal, emptied, LeaseRenewal::Step, LeaseRenewal* renewal) {
  const LeaseRenewal::State before = renewal->state();
  const LeaseRenewal::Step step = observed_LeaseRenewal_emptied(renewal);
  add(*renewal, before, "no file is open any more");
  return step;
}

HFLUSH_EVENT(LeaseRenewal, timer_fired, LeaseRenewal::Step, LeaseRenewal* renewal) {
  const LeaseRenewal::State before = renewal->state();
  const LeaseRenewal::Step step = observed_LeaseRenewal_timer_fired(renewal);
  add(*renewal, before, "the timer");
  return step;
}

HFLUSH_EVENT(LeaseRenewal, renewed, LeaseRenewal::Step, LeaseRenewal* renewal, TimePoint now) {
  const LeaseRenewal::State before = renewal->state();
  const LeaseRenewal::Step step = observed_LeaseRenewal_renewed(renewal, now);
  add(*renewal, before, "renewed");
  return step;
}

HFLUSH_EVENT(LeaseRenewal, failed, LeaseRenewal::Step, LeaseRenewal* renewal, TimePoint now,
             const Status& failure) {
  const LeaseRenewal::State before = renewal->state();
  const LeaseRenewal::Step step = observed_LeaseRenewal_failed(renewal, now, failure);
  const bool is_final = step.action == LeaseRenewal::Action::kGiveUp;
  add(*renewal, before, is_final ? "failed for good" : "failed");
  return step;
}

}  // namespace hflush::sim
