// CallTable: what each event makes of a call in each stage, and what the client does for it.
#include "hflush/s3/call/call_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testing/page_table.h"
#include "testing/scarce_memory.h"

namespace hflush::s3 {
namespace {

using hflush::testing::for_each_cell;
using hflush::testing::page_table;
using hflush::testing::PageTable;
using hflush::testing::ScarceMemory;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Actions = CallTable::Actions;
using CallId = CallTable::CallId;
using CallRef = CallTable::CallRef;
using Stage = CallTable::Stage;

const SystemTime kWallTime{seconds(1'700'000'000)};

// Pauses that are short, and less time than tokens for a retry need.
Settings settings() {
  Settings settings;
  settings.host = "s3.us-east-1.amazonaws.com";
  settings.max_uploads = 1;
  settings.retry.limit = 1000;
  settings.retry.interval = milliseconds(1);
  settings.retry.max_interval = milliseconds(1);
  settings.retry.deadline = seconds(3);
  settings.retry.credentials_wait = seconds(1);
  return settings;
}

Failure failure(FailureKind kind) {
  Failure made;
  made.kind = kind;
  return made;
}

// Ambiguous, and tried again in a second at the earliest.
Failure broken() {
  Failure made = failure(FailureKind::kAmbiguous);
  made.http_status = 500;
  made.retry_after = seconds(1);
  return made;
}

Failure skewed() {
  Failure made = failure(FailureKind::kClock);
  made.server_time_s = 1'700'003'600;
  return made;
}

CallRef call(std::string bucket = "b", bool is_upload = false) {
  auto made = std::make_shared<Call>();
  made->operation = is_upload ? "PutObject" : "HeadObject";
  made->bucket = std::move(bucket);
  made->is_upload = is_upload;
  return made;
}

// A table, the time, and what the last event asked for.
struct Table {
  explicit Table(Settings with = settings())
      : its_settings(std::move(with)), table(its_settings, 7) {}

  CallId start(const CallRef& which) {
    const CallId id = table.start(which, next());
    ids[which] = id;
    return id;
  }
  CallId start_upload() { return start(call("b", true)); }
  void sent(CallId id, std::uint64_t attempt, CallTable::ExchangeId exchange) {
    table.sent(id, attempt, exchange, next());
  }
  void succeed(CallId id) { table.succeeded(id, now, next()); }
  void fail(CallId id, const Failure& why, bool may_repeat = true) {
    table.failed(id, {.failure = why, .may_repeat = may_repeat, .time = kWallTime}, now, next());
  }
  // Until the table has something to do, if it has.
  void wait() {
    if (table.due() != env::TimePoint::max()) now = std::max(now, table.due());
    table.time_passed(now, next());
  }
  // 500 tokens, by a call that stays with the network.
  void use_up_budget() {
    const env::TimePoint since = now;
    spender = start(call());
    for (int paid = 0; paid <= 50; ++paid) {
      fail(spender, failure(FailureKind::kAmbiguous));
      while (table.stage(spender) != Stage::kStarting) wait();
    }
    REQUIRE(now - since < RetryBudget::kNewTokenEvery);
  }

  Actions& next() {
    actions.clear();
    return actions;
  }
  // The last actions, or those that are not of another call; "send 1.2" is the second attempt of
  // call 1.
  std::string did(const Call* only = nullptr) const {
    std::string text;
    for (const CallTable::Action& action : actions) {
      const Call* const of = std::visit([](const auto& what) { return call_of(what); }, action);
      if (only != nullptr && of != nullptr && of != only) continue;
      text += (text.empty() ? "" : ", ");
      text += std::visit([this](const auto& what) { return name(what); }, action);
    }
    return text;
  }
  template <typename T>
  static const Call* call_of(const T& what) {
    if constexpr (requires { what.call; }) return what.call.get();
    return nullptr;
  }
  std::string id_of(const CallRef& which) const { return std::to_string(ids.at(which)); }
  std::string name(const CallTable::Send& send) const {
    return "send " + id_of(send.call) + "." + std::to_string(send.attempt);
  }
  std::string name(const CallTable::Resume& resume) const {
    return "resume " + std::to_string(resume.exchange);
  }
  std::string name(const CallTable::WantCredentials& want) const {
    return "want " + id_of(want.call) + "." + std::to_string(want.attempt);
  }
  std::string name(const CallTable::StopWanting& stop) const {
    return "stop wanting " + std::to_string(stop.want);
  }
  std::string name(const CallTable::Answer& answer) const {
    return "answer " + id_of(answer.call) + " after " + std::to_string(answer.attempts) +
           (answer.ambiguous ? " in doubt" : "");
  }
  std::string name(const CallTable::End& end) const {
    return "end " + id_of(end.call) +
           (end.exchange == 0 ? std::string() : " and " + std::to_string(end.exchange));
  }
  std::int64_t counted(const char* what) const {
    Statistics statistics;
    table.add_statistics(statistics);
    return statistics[what];
  }

  const Settings its_settings;
  env::TimePoint now = env::TimePoint() + hours(1);
  CallTable table;
  Actions actions;
  std::map<CallRef, CallId> ids;
  CallId spender = 0;
};

// --- every event in every stage ------------------------------------------------------------------

// As the page calls them.
constexpr std::array kStages = {
    "waits for its turn", "starting", "sent", "pausing", "in line", "expired", "stopping"};

std::string name_of(const std::optional<Stage>& stage) {
  return stage ? kStages[static_cast<std::size_t>(*stage)] : "over";
}

// Call 1 in that stage. What waits for its turn is an upload, nothing else is.
struct Staged : Table {
  explicit Staged(const std::string& stage) {
    if (stage == "waits for its turn") {
      uploading = start_upload();
      id = start_upload();
    } else {
      id = start(call());
    }
    if (stage == "sent" || stage == "expired") sent(id, 1, 11);
    if (stage == "pausing" || stage == "in line") {
      fail(id, broken());
      wait();
      fail(id, broken());
      attempt = 2;
    }
    if (stage == "in line") {
      use_up_budget();
      wait();
    }
    if (stage == "expired") {
      fail(id, failure(FailureKind::kCredentials));
      table.wanted(id, 1, 21, next());
    }
    if (stage == "stopping") CHECK(table.cancel(id, next()) != nullptr);
    REQUIRE(name_of(table.stage(id)) == stage);
    next();
  }

  // What the last event asked for on behalf of that call.
  std::string did_for_it() const {
    const auto of = std::ranges::find(ids, id, &std::pair<const CallRef, CallId>::second);
    return did(of->first.get());
  }

  CallId id = 0;
  CallId uploading = 0;
  std::uint64_t attempt = 1;
};

using Events = std::map<std::string, std::function<void(Staged&)>>;

const Events& events() {
  static const Events events = {
      {"room for an upload",
       [](Staged& t) {
         if (t.uploading == 0) t.uploading = t.start_upload();
         t.succeed(t.uploading);
       }},
      {"its exchange has a number", [](Staged& t) { t.sent(t.id, t.attempt, 12); }},
      {"it could not be sent", [](Staged& t) { t.sent(t.id, t.attempt, 0); }},
      {"an exchange of an earlier attempt", [](Staged& t) { t.sent(t.id, t.attempt - 1, 12); }},
      {"success", [](Staged& t) { t.succeed(t.id); }},
      {"a failure for good", [](Staged& t) { t.fail(t.id, failure(FailureKind::kFinal)); }},
      {"after a part was handed on", [](Staged& t) { t.fail(t.id, broken(), false); }},
      {"a failure", [](Staged& t) { t.fail(t.id, broken()); }},
      {"a skewed clock", [](Staged& t) { t.fail(t.id, skewed()); }},
      {"another address",
       [](Staged& t) {
         Failure moved = failure(FailureKind::kAddress);
         moved.region = "eu-west-1";
         t.fail(t.id, moved);
       }},
      {"expired credentials", [](Staged& t) { t.fail(t.id, failure(FailureKind::kCredentials)); }},
      {"newer credentials",
       [](Staged& t) { t.table.credentials_newer(t.id, t.attempt, t.next()); }},
      {"credentials newer than those of an earlier attempt",
       [](Staged& t) { t.table.credentials_newer(t.id, t.attempt - 1, t.next()); }},
      {"tokens",
       [](Staged& t) {
         if (t.spender == 0) t.spender = t.start(call());
         t.succeed(t.spender);
       }},
      {"its time is over", [](Staged& t) { t.wait(); }},
      {"its time is over and there are no tokens",
       [](Staged& t) {
         if (t.spender == 0) t.use_up_budget();
         t.wait();
       }},
      {"resume", [](Staged& t) { static_cast<void>(t.table.resume(t.id)); }},
      {"cancel", [](Staged& t) { static_cast<void>(t.table.cancel(t.id, t.next())); }},
      {"close", [](Staged& t) { t.table.close(t.next()); }},
  };
  return events;
}

// What a call that becomes that needs from the client.
void check_actions(const Staged& t, const std::string& event, const std::string& from,
                   const std::string& to) {
  const std::string id = std::to_string(t.id);
  const std::string did = t.did_for_it();
  const bool is_cancelled = event == "cancel" || event == "close" || from == "stopping";
  std::string expected;
  if (to == "starting") {
    const std::uint64_t attempt = from == "waits for its turn" ? 1 : t.attempt + 1;
    expected = "send " + id + "." + std::to_string(attempt);
  }
  if (to == "expired") expected = "want " + id + "." + std::to_string(t.attempt);
  if (to == "over" && from == "expired") expected = "stop wanting 21, ";
  if (to == "over") expected += (is_cancelled ? "end " : "answer ") + id;
  CHECK_MESSAGE(did.starts_with(expected), did);
  CHECK(did.empty() == expected.empty());
}

TEST_CASE("calls: every event in every stage: as the page's table says") {
  const PageTable table = page_table("s3-client.md", "### The stages of a call");
  CHECK(table.columns == std::vector<std::string>(kStages.begin(), kStages.end()));
  const auto check = [](const std::string& event, const std::string& stage,
                        const std::string& cell) {
    Staged t(stage);
    events().at(event)(t);
    CHECK(name_of(t.table.stage(t.id)) == (cell == "–" ? stage : cell));
    check_actions(t, event, stage, cell);
  };
  for_each_cell(table, events(), check);
}

// --- calls ---------------------------------------------------------------------------------------

TEST_CASE("calls: one that succeeds is sent and answered") {
  Table t;
  const CallRef wanted = call();
  CHECK(t.start(wanted) == 1);
  CHECK(t.did() == "send 1.1");
  t.sent(1, 1, 11);
  CHECK(t.did().empty());
  t.succeed(1);
  CHECK(t.did() == "answer 1 after 1");
  const auto& answer = std::get<CallTable::Answer>(t.actions.front());
  CHECK(answer.call == wanted);
  CHECK_FALSE(answer.deadline);
  CHECK_FALSE(t.table.stage(1));
  CHECK(t.table.due() == env::TimePoint::max());
  CHECK(t.counted("store_io_request") == 1);
  CHECK(t.counted("store_io_retry") == 0);
  CHECK(t.counted("object_metadata_request") == 1);
  CHECK(t.counted("object_put_request") == 0);
}

TEST_CASE("calls: a failure is followed by a pause, and at the limit by the answer") {
  Table t;
  const CallRef limited = call();
  limited->retry_limit = 1;
  t.start(limited);
  t.fail(1, broken());
  const env::TimePoint due = t.table.due();
  CHECK(due == t.now + seconds(1));
  t.table.time_passed(due - milliseconds(1), t.next());
  CHECK(t.did().empty());
  t.wait();
  CHECK(t.did() == "send 1.2");
  t.fail(1, broken());
  CHECK(t.did() == "answer 1 after 2 in doubt");
  CHECK(std::get<CallTable::Answer>(t.actions.front()).deadline.has_value());
  CHECK(t.counted("store_io_request") == 2);
  CHECK(t.counted("store_io_retry") == 1);
}

TEST_CASE("calls: a response that comes before the exchange has a number") {
  Table t;
  t.start(call());
  t.fail(1, broken());
  CHECK(t.table.stage(1) == Stage::kPausing);
  t.sent(1, 1, 11);
  CHECK(t.did().empty());
  CHECK(t.table.stage(1) == Stage::kPausing);
  t.wait();
  CHECK(t.did() == "send 1.2");
  t.sent(1, 1, 11);  // of the first attempt, later still
  CHECK(t.table.stage(1) == Stage::kStarting);
}

TEST_CASE("calls: a download is resumed as soon as it is sent") {
  Table t;
  t.start(call());
  CHECK(t.table.resume(1) == 0);
  t.sent(1, 1, 11);
  CHECK(t.did() == "resume 11");
  CHECK(t.table.resume(1) == 11);
  t.fail(1, broken());
  CHECK(t.table.resume(1) == 0);
  CHECK(t.table.resume(99) == 0);
  t.wait();
  t.sent(1, 2, 12);  // the next attempt pauses by itself
  CHECK(t.did().empty());
}

TEST_CASE("calls: one that is cancelled as it starts ends when its exchange has a number") {
  Table t;
  const CallRef wanted = call();
  t.start(wanted);
  CHECK(t.table.cancel(1, t.next()) == wanted);
  CHECK(t.did().empty());
  CHECK(t.table.cancel(1, t.next()) == nullptr);  // again
  t.succeed(1);
  CHECK(t.did().empty());
  t.sent(1, 1, 11);
  CHECK(t.did() == "end 1 and 11");
  CHECK_FALSE(t.table.stage(1));
  CHECK(t.table.cancel(1, t.next()) == nullptr);
}

TEST_CASE("calls: no attempt begins after a call's end, and no wait outlives it") {
  Table t;
  const CallRef ending = call();
  ending->ends = t.now + milliseconds(500);
  t.start(ending);
  t.fail(1, broken());  // again in a second
  CHECK(t.did() == "answer 1 after 1 in doubt");

  const CallRef waiting = call();
  waiting->ends = t.now + milliseconds(500);
  t.start(waiting);
  t.fail(2, failure(FailureKind::kCredentials));
  CHECK(t.did() == "want 2.1");
  CHECK(t.table.due() == *waiting->ends);
  t.wait();
  CHECK(t.did() == "answer 2 after 1");
}

TEST_CASE("calls: an answer may cancel a call whose time has come, too") {
  Table t;
  for (CallId id = 1; id <= 2; ++id) {
    const CallRef waiting = call();
    waiting->ends = t.now + milliseconds(500);
    t.start(waiting);
    t.fail(id, failure(FailureKind::kCredentials));
    CHECK(t.did() == "want " + std::to_string(id) + ".1");
  }
  t.wait();
  CHECK(t.did() == "answer 1 after 1");
  CHECK(t.table.due() == t.now);
  CHECK(t.table.cancel(2, t.next()) != nullptr);
  t.wait();
  CHECK(t.did().empty());
}

TEST_CASE("calls: newer credentials that are there before the store has noted the wish") {
  Table t;
  t.start(call());
  t.fail(1, failure(FailureKind::kCredentials));
  t.table.credentials_newer(1, 1, t.next());
  CHECK(t.did() == "send 1.2");
  CHECK(t.counted("store_io_retry") == 1);
  t.table.wanted(1, 1, 0, t.next());
  CHECK(t.did().empty());
  t.table.wanted(1, 1, 21, t.next());
  CHECK(t.did() == "stop wanting 21");
  t.table.wanted(99, 1, 22, t.next());
  CHECK(t.did() == "stop wanting 22");
}

TEST_CASE("calls: what an answer says of the address and the clock counts from the next attempt") {
  Table t;
  t.start(call());
  t.start(call("other"));
  t.fail(1, skewed());
  CHECK(t.did() == "send 1.2");
  CHECK(t.table.target(1).clock_ahead == hours(1));
  Failure moved = failure(FailureKind::kAddress);
  moved.location = "https://b.s3.eu-west-1.amazonaws.com/k";
  moved.is_temporary = true;
  t.fail(1, moved);
  CHECK(t.did() == "send 1.3");
  CHECK(t.table.target(1).authority == "b.s3.eu-west-1.amazonaws.com");
  CHECK(t.table.target(2).authority == "other.s3.us-east-1.amazonaws.com");
  CHECK(t.table.target(2).clock_ahead == hours(1));
  const CallId next = t.start(call());
  CHECK(t.table.target(next).authority == "b.s3.us-east-1.amazonaws.com");
  t.fail(1, skewed());  // a second time
  CHECK(t.did() == "answer 1 after 3");
}

TEST_CASE("calls: each success lets others follow, and a deadline ends the wait in line") {
  Table t;
  t.start(call());
  t.start(call());
  t.use_up_budget();
  for (const CallId id : {CallId{1}, CallId{2}}) {
    t.fail(id, failure(FailureKind::kAmbiguous));
    while (t.table.stage(id) != Stage::kStarting) t.wait();
    t.fail(id, failure(FailureKind::kAmbiguous));
    while (t.table.stage(id) != Stage::kInLine) t.wait();
  }
  t.succeed(t.spender);
  CHECK(t.did() == "send 1.3, send 2.3, answer 3 after 52 in doubt");

  Staged in_line("in line");
  in_line.wait();
  CHECK(in_line.did() == "answer 1 after 2 in doubt");
  in_line.succeed(in_line.spender);
  CHECK(in_line.did() == "answer 2 after 52 in doubt");  // and nothing for the one that has left
}

// --- uploads -------------------------------------------------------------------------------------

TEST_CASE("calls: uploads are sent as there is room, and others do not wait for them") {
  Settings with = settings();
  with.max_uploads = 2;
  Table t(with);
  t.start_upload();
  t.start_upload();
  CHECK(t.did() == "send 2.1");
  t.start_upload();
  CHECK(t.did().empty());
  t.start(call());
  CHECK(t.did() == "send 4.1");
  t.succeed(1);
  CHECK(t.did() == "send 3.1, answer 1 after 1");
  t.start_upload();
  t.start_upload();
  static_cast<void>(t.table.cancel(5, t.next()));  // it waits
  CHECK(t.did() == "end 5");
  t.sent(2, 1, 12);
  static_cast<void>(t.table.cancel(2, t.next()));
  CHECK(t.did() == "send 6.1, end 2 and 12");
}

TEST_CASE("calls: no upload is sent that would wait for a connection") {
  Settings with = settings();
  with.max_uploads = 5;
  with.http.max_connections = 2;
  Table t(with);
  t.start_upload();
  t.start_upload();
  CHECK(t.did() == "send 2.1");
  t.start_upload();
  CHECK(t.did().empty());
  t.succeed(1);
  CHECK(t.did() == "send 3.1, answer 1 after 1");
}

TEST_CASE("calls: an upload that is tried again comes before others of its stream") {
  Table t;
  t.start_upload();
  t.start_upload();
  t.fail(1, broken());
  CHECK(t.did() == "send 2.1");
  t.wait();
  CHECK(t.table.stage(1) == Stage::kWaitingForTurn);
  t.start_upload();
  t.succeed(2);
  CHECK(t.did() == "send 1.2, answer 2 after 1");
}

TEST_CASE("calls: a store that throttles gets half as many uploads") {
  Settings with = settings();
  with.max_uploads = 4;
  Table t(with);
  for (int i = 0; i < 6; ++i) t.start_upload();
  Failure slow = failure(FailureKind::kThrottled);
  slow.code = "SlowDown";
  slow.retry_after = seconds(1);
  t.fail(1, slow);
  CHECK(t.did().empty());  // three are under way, two may be
  CHECK(t.counted("store_io_throttled") == 1);
  t.succeed(2);
  CHECK(t.did() == "send 5.1, answer 2 after 1");
}

// --- memory --------------------------------------------------------------------------------------

TEST_CASE("calls: without memory a call is not started, and a cancelled one goes on") {
  for (const bool cancels : {false, true}) {
    CAPTURE(cancels);
    int thrown = 0;
    bool is_enough = false;
    for (int number = 0; !is_enough; ++number) {
      Table t;
      const CallId first = t.start_upload();
      t.start_upload();
      t.sent(first, 1, 11);
      if (!cancels) t.succeed(first);
      if (!cancels) t.succeed(2);
      const CallRef wanted = call("b", true);
      Actions actions;
      bool failed = false;
      {
        const ScarceMemory scarce(number);
        try {
          if (cancels) {
            static_cast<void>(t.table.cancel(first, actions));
          } else {
            t.table.start(wanted, actions);
          }
        } catch (const std::bad_alloc&) {
          failed = true;
        }
        is_enough = !scarce.has_failed();
      }
      CHECK(failed == !is_enough);
      if (!failed) continue;
      ++thrown;
      CHECK(actions.empty());
      if (cancels) {
        CHECK(t.table.stage(first) == Stage::kSent);
        CHECK(t.table.stage(2) == Stage::kWaitingForTurn);
      } else {
        CHECK(wanted.use_count() == 1);
        CHECK(t.counted("object_put_request") == 2);
        CHECK(t.start(wanted) == 3);
        CHECK(t.did() == "send 3.1");
      }
    }
    CHECK(thrown >= (cancels ? 1 : 4));
  }
}

TEST_CASE("calls: without memory newer credentials change nothing, and the call has its end") {
  for (const bool is_upload : {false, true}) {
    CAPTURE(is_upload);
    int thrown = 0;
    bool is_enough = false;
    for (int number = 0; !is_enough; ++number) {
      Table t;
      const CallId id = t.start(call("b", is_upload));
      t.fail(id, failure(FailureKind::kCredentials));
      REQUIRE(t.table.stage(id) == Stage::kExpired);
      Actions actions;
      bool failed = false;
      {
        const ScarceMemory scarce(number);
        try {
          t.table.credentials_newer(id, 1, actions);
        } catch (const std::bad_alloc&) {
          failed = true;
        }
        is_enough = !scarce.has_failed();
      }
      CHECK(failed == !is_enough);
      CHECK(t.table.stage(id) == (failed ? Stage::kExpired : Stage::kStarting));
      CHECK(actions.empty() == failed);
      if (!failed) continue;
      ++thrown;
      if (number % 2 == 0) {
        t.wait();
        CHECK(t.did() == "answer 1 after 1");
      } else {
        t.table.credentials_newer(id, 1, t.next());
        CHECK(t.did() == "send 1.2");
      }
    }
    CHECK(thrown >= (is_upload ? 2 : 1));
  }
}

}  // namespace
}  // namespace hflush::s3
