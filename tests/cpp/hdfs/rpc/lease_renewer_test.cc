// The lease machine in every state, and its shell: one renewal for all files, none without files.
#include "hflush/hdfs/rpc/lease_renewer.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "env/loopback.h"
#include "hdfs/messages.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {
namespace {

using Action = LeaseRenewal::Action;
using State = LeaseRenewal::State;
using env::testing::Shared;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const env::TimePoint kStart = env::TimePoint() + std::chrono::hours(1);

Status refused() { return Status(StatusCode::kIo, "connection refused", {}, ECONNREFUSED); }

void check_step(const LeaseRenewal::Step& step, Action action, env::TimePoint when = {}) {
  CHECK(step.action == action);
  CHECK(step.when == when);
}

// A machine in `state`, whose lease was last renewed at kStart.
LeaseRenewal machine_in(State state) {
  LeaseRenewal renewal(seconds(120), minutes(20));
  if (state == State::kIdle) return renewal;
  renewal.opened(kStart);
  if (state == State::kWaiting) return renewal;
  renewal.timer_fired();
  if (state == State::kRenewing) return renewal;
  renewal.emptied();
  return renewal;
}

TEST_CASE("every event in every state") {
  enum class Event : std::uint8_t { kOpened, kEmptied, kTimerFired, kRenewed, kFailed };
  struct Row {
    State state;
    Event event;
    State after;
    Action action;
    env::TimePoint when{};
  };
  const env::TimePoint now = kStart + minutes(1);
  const env::TimePoint period_later = now + seconds(30);
  const Row rows[] = {
      {State::kIdle, Event::kOpened, State::kWaiting, Action::kArm, period_later},
      {State::kIdle, Event::kEmptied, State::kIdle, Action::kNothing},
      {State::kIdle, Event::kTimerFired, State::kIdle, Action::kNothing},
      {State::kIdle, Event::kRenewed, State::kIdle, Action::kNothing},
      {State::kIdle, Event::kFailed, State::kIdle, Action::kNothing},
      {State::kWaiting, Event::kOpened, State::kWaiting, Action::kNothing},
      {State::kWaiting, Event::kEmptied, State::kIdle, Action::kDisarm},
      {State::kWaiting, Event::kTimerFired, State::kRenewing, Action::kRenew},
      {State::kWaiting, Event::kRenewed, State::kWaiting, Action::kNothing},
      {State::kWaiting, Event::kFailed, State::kWaiting, Action::kNothing},
      {State::kRenewing, Event::kOpened, State::kRenewing, Action::kNothing},
      {State::kRenewing, Event::kEmptied, State::kFinishing, Action::kNothing},
      {State::kRenewing, Event::kTimerFired, State::kRenewing, Action::kNothing},
      {State::kRenewing, Event::kRenewed, State::kWaiting, Action::kArm, period_later},
      {State::kRenewing, Event::kFailed, State::kWaiting, Action::kArm, now + seconds(1)},
      {State::kFinishing, Event::kOpened, State::kRenewing, Action::kNothing},
      {State::kFinishing, Event::kEmptied, State::kFinishing, Action::kNothing},
      {State::kFinishing, Event::kTimerFired, State::kFinishing, Action::kNothing},
      {State::kFinishing, Event::kRenewed, State::kIdle, Action::kNothing},
      {State::kFinishing, Event::kFailed, State::kIdle, Action::kNothing},
  };
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.state));
    CAPTURE(static_cast<int>(row.event));
    LeaseRenewal renewal = machine_in(row.state);
    REQUIRE(renewal.state() == row.state);
    LeaseRenewal::Step step;
    switch (row.event) {
      case Event::kOpened:
        step = renewal.opened(now);
        break;
      case Event::kEmptied:
        step = renewal.emptied();
        break;
      case Event::kTimerFired:
        step = renewal.timer_fired();
        break;
      case Event::kRenewed:
        step = renewal.renewed(now);
        break;
      case Event::kFailed:
        step = renewal.failed(now, refused());
        break;
    }
    check_step(step, row.action, row.when);
    CHECK(renewal.state() == row.after);
  }
}

TEST_CASE("HDFS-2: half the soft limit, or half the rpc timeout if that is less") {
  const auto period = [](env::Duration rpc_timeout) {
    return LeaseRenewal(rpc_timeout, minutes(20)).opened(kStart).when - kStart;
  };
  CHECK(period(seconds(120)) == seconds(30));
  CHECK(period(seconds(20)) == seconds(10));
  CHECK(period(seconds(0)) == seconds(30));
}

TEST_CASE("failures are tried again each second, until the hard limit has passed") {
  LeaseRenewal renewal = machine_in(State::kRenewing);
  env::TimePoint now = kStart + seconds(30);
  int attempts = 0;
  while (true) {
    const LeaseRenewal::Step step = renewal.failed(now, refused());
    ++attempts;
    if (step.action == Action::kGiveUp) break;
    check_step(step, Action::kArm, now + seconds(1));
    now = step.when;
    CHECK(renewal.timer_fired().action == Action::kRenew);
  }
  CHECK(now == kStart + minutes(20) + seconds(1));
  CHECK(attempts == 20 * 60 - 30 + 2);
  CHECK(renewal.state() == State::kIdle);
}

TEST_CASE("a success starts the hard limit anew, and so does a file that is opened from idleness") {
  LeaseRenewal renewal = machine_in(State::kRenewing);
  renewal.renewed(kStart + minutes(19));
  renewal.timer_fired();
  CHECK(renewal.failed(kStart + minutes(38), refused()).action == Action::kArm);
  renewal.emptied();
  renewal.opened(kStart + minutes(50));
  renewal.timer_fired();
  CHECK(renewal.failed(kStart + minutes(60), refused()).action == Action::kArm);
  renewal.timer_fired();
  renewal.emptied();
  renewal.opened(kStart + minutes(100));
  CHECK(renewal.failed(kStart + minutes(101), refused()).action == Action::kArm);
}

TEST_CASE("a stalled lookup, connect or answer is tried again, whoever says that it stalled") {
  const Status stalls[] = {
      Status(StatusCode::kTimedOut, "resolve host: timed out", {}, ETIMEDOUT),
      Status(StatusCode::kTimedOut, "connect: timed out", {}, ETIMEDOUT),
      Status(StatusCode::kTimedOut, "no answer within 120000 ms", {}, ETIMEDOUT),
      Status(StatusCode::kTimedOut, "a router's")
          .with_remote_class("java.net.SocketTimeoutException"),
      Status(StatusCode::kPermissionDenied, "not now")
          .with_remote_class("x.AccessControlException"),
      Status(StatusCode::kIo, "starting", {}, EROFS).with_remote_class("x.SafeModeException"),
      Status(StatusCode::kIo, "no longer active").with_remote_class("x.StandbyException"),
      Status(StatusCode::kIo, "closed the connection", {}, ECONNRESET),
  };
  for (const Status& stall : stalls) {
    CAPTURE(stall.message());
    LeaseRenewal renewal = machine_in(State::kRenewing);
    const env::TimePoint late = kStart + minutes(20);
    check_step(renewal.failed(late, stall), Action::kArm, late + seconds(1));
    CHECK(renewal.timer_fired().action == Action::kRenew);
    CHECK(renewal.failed(late + seconds(1), stall).action == Action::kGiveUp);
  }
}

TEST_CASE("a lost lease and a closed client end it at once") {
  for (const StatusCode code : {StatusCode::kLeaseLost, StatusCode::kClosed}) {
    LeaseRenewal renewal = machine_in(State::kRenewing);
    CHECK(renewal.failed(kStart + seconds(31), Status(code, "x")).action == Action::kGiveUp);
    CHECK(renewal.state() == State::kIdle);
    CHECK(renewal.opened(kStart + minutes(2)).action == Action::kArm);
  }
}

// --- the shell -----------------------------------------------------------------------------------

// Renewals that were asked for, answered by the test.
class FakeRpc final : public RpcClient {
 public:
  struct Asked {
    int count = 0;
    std::string body;
    Done answer;
  };

  using RpcClient::start;
  CallId start(std::string_view method, Repetition repetition, std::string body, std::string,
               Done answer) override {
    if (method != "renewLease") {
      others.update([&](std::vector<Other>& value) {
        value.push_back(
            {std::string(method), repetition.repeat, std::move(body), std::move(answer)});
      });
      return 1;
    }
    asked.update([&](Asked& value) {
      ++value.count;
      value.body = std::move(body);
      value.answer = std::move(answer);
    });
    return 1;
  }
  void cancel(CallId) override {}
  void disown(CallId, std::string) override {}
  void close() override {}
  void add_statistics(Statistics&) const override {}

  bool wait_for(int count) {
    return asked.wait_until([count](const Asked& value) { return value.count >= count; });
  }
  // On the loop thread, as the real one does.
  void answer(env::EventLoop& loop, Result<std::string> body) {
    const Asked renewal = asked.get();
    answered_ = renewal.count;
    loop.post([answer = renewal.answer, body] { answer(body); });
    env::testing::drain(loop);
  }
  // The renewal behind the last that was answered: it may have been asked for already.
  void answer_next(env::EventLoop& loop) {
    REQUIRE(wait_for(answered_ + 1));
    answer(loop, std::string());
  }

  // The next question that is no renewal.
  struct Other {
    std::string method;
    Repeat repeat;
    std::string body;
    Done answer;
  };
  Other other(std::size_t number) {
    REQUIRE(others.wait_until([&](const auto& value) { return value.size() > number; }));
    return others.get()[number];
  }
  void answer(env::EventLoop& loop, const Other& other, Result<std::string> body) {
    loop.post([answer = other.answer, body] { answer(body); });
    env::testing::drain(loop);
  }

  Shared<Asked> asked;
  Shared<std::vector<Other>> others;

 private:
  int answered_ = 0;
};

class Holder final : public LeaseHolder {
 public:
  void lease_lost(const Status& failure) override {
    told.update([&](std::vector<Status>& value) { value.push_back(failure); });
  }
  Shared<std::vector<Status>> told;
};

struct Fixture {
  env::EpollLoop loop{env::steady_clock()};
  std::shared_ptr<FakeRpc> rpc = std::make_shared<FakeRpc>();
  // Renews every 10 ms.
  std::shared_ptr<LeaseRenewer> renewer =
      LeaseRenewer::make(loop, rpc, "C1", milliseconds(20), minutes(20));
  std::shared_ptr<Holder> one = std::make_shared<Holder>();
  std::shared_ptr<Holder> two = std::make_shared<Holder>();
};

TEST_CASE("one renewal serves all files, and there is none without files") {
  Fixture f;
  for (std::uint64_t file = 0; file < 1000; ++file) f.renewer->begin(file, "", f.one);
  REQUIRE(f.rpc->wait_for(1));
  CHECK(f.rpc->asked.get().body == testing::length_delimited(1, "C1"));
  CHECK(f.renewer->renewals() == 1);
  f.rpc->answer(f.loop, std::string());
  REQUIRE(f.rpc->wait_for(2));
  for (std::uint64_t file = 0; file < 1000; ++file) f.renewer->end(file, f.one.get());
  f.rpc->answer(f.loop, std::string());
  // Renewed again only when a file is open again. No timer fires within a task.
  f.loop.post([&] {
    f.renewer->begin(7, "", f.one);
    f.renewer->end(7, f.one.get());
  });
  env::testing::drain(f.loop);
  CHECK(f.renewer->renewals() == 2);
  f.renewer->begin(8, "", f.one);
  REQUIRE(f.rpc->wait_for(3));
  CHECK(f.renewer->renewals() == 3);
  CHECK(f.one->told.get().empty());
}

TEST_CASE("name spaces are named if every open file has one") {
  Fixture f;
  f.loop.post([&] {  // no timer fires within a task
    f.renewer->begin(1, "b", f.one);
    f.renewer->begin(2, "a", f.one);
    f.renewer->begin(3, "a", f.two);
  });
  REQUIRE(f.rpc->wait_for(1));
  CHECK(f.rpc->asked.get().body == testing::length_delimited(1, "C1") +
                                       testing::length_delimited(2, "a") +
                                       testing::length_delimited(2, "b"));
  f.renewer->begin(4, "", f.two);
  f.rpc->answer(f.loop, std::string());
  REQUIRE(f.rpc->wait_for(2));
  CHECK(f.rpc->asked.get().body == testing::length_delimited(1, "C1"));
}

TEST_CASE("a lost lease is told to every holder that is still there, once, and forgotten") {
  Fixture f;
  f.renewer->begin(1, "", f.one);
  f.renewer->begin(2, "", f.two);
  f.renewer->begin(3, "", std::make_shared<Holder>());
  REQUIRE(f.rpc->wait_for(1));
  f.rpc->answer(f.loop, Status(StatusCode::kLeaseLost, "expired"));
  for (const auto& holder : {f.one, f.two}) {
    REQUIRE(holder->told.get().size() == 1);
    CHECK(holder->told.get()[0].code() == StatusCode::kLeaseLost);
  }
  f.renewer->end(1, f.one.get());
  f.renewer->begin(4, "", f.one);
  REQUIRE(f.rpc->wait_for(2));
  CHECK(f.two->told.get().size() == 1);
}

TEST_CASE("a file is told from another holder's with the same id") {
  Fixture f;
  f.renewer->begin(1, "", f.one);
  f.renewer->begin(1, "", f.two);
  f.renewer->end(1, f.one.get());
  REQUIRE(f.rpc->wait_for(1));
  f.rpc->answer(f.loop, Status(StatusCode::kLeaseLost, "x"));
  CHECK(f.one->told.get().empty());
  CHECK(f.two->told.get().size() == 1);
}

using GiveBack = LeaseRenewer::GiveBack;

const std::string kInode7 = "/.reserved/.inodes/7";

// Answers renewals until something else is asked.
FakeRpc::Other next_other(Fixture& f, std::size_t number) {
  while (f.rpc->others.get().size() <= number) f.rpc->answer_next(f.loop);
  return f.rpc->other(number);
}

Status remote(StatusCode code, std::string_view class_name) {
  return Status(code, "refused").with_remote_class(std::string(class_name));
}

TEST_CASE("a file that was given up is given back beside others: is it ours still, then recover") {
  Fixture f;
  f.renewer->begin(7, "", f.one);
  f.renewer->begin(8, "", f.two);
  f.renewer->give_up(7, f.one.get(), GiveBack::kAfterSoftLimit);
  CHECK(f.rpc->others.get().empty());
  const FakeRpc::Other question = next_other(f, 0);
  CHECK(question.method == "fsync");
  CHECK(question.body == Fsync{kInode7, "C1", -1, 7}.encode());
  SUBCASE("it is") {
    f.rpc->answer(f.loop, question, std::string());
    const FakeRpc::Other recovery = f.rpc->other(1);
    CHECK(recovery.method == "recoverLease");
    CHECK(recovery.repeat == Repeat::kNever);
    CHECK(recovery.body == RecoverLease{kInode7, "C1_recovery"}.encode());
    SUBCASE("done") { f.rpc->answer(f.loop, recovery, testing::number(1, 1)); }
    SUBCASE("refused") {
      f.rpc->answer(f.loop, recovery,
                    remote(StatusCode::kNotFound, "java.io.FileNotFoundException"));
    }
    SUBCASE("not known: first of all, is it ours still") {
      f.rpc->answer(f.loop, recovery, Status(StatusCode::kIo, "connection lost"));
      const FakeRpc::Other again = next_other(f, 2);
      CHECK(again.body == question.body);
      f.rpc->answer(f.loop, again, remote(StatusCode::kLeaseLost, "x.LeaseExpiredException"));
    }
  }
  SUBCASE("it is somebody else's") {
    f.rpc->answer(f.loop, question, remote(StatusCode::kLeaseLost, "x.LeaseExpiredException"));
  }
  SUBCASE("nobody answers") {
    f.rpc->answer(f.loop, question, Status(StatusCode::kTimedOut, "no answer"));
    const FakeRpc::Other again = next_other(f, 1);
    CHECK(again.body == question.body);
    f.rpc->answer(f.loop, again, remote(StatusCode::kNotFound, "java.io.FileNotFoundException"));
  }
  // Nothing is asked about it any more.
  const std::size_t asked = f.rpc->others.get().size();
  for (int i = 0; i < 4; ++i) f.rpc->answer_next(f.loop);
  CHECK(f.rpc->others.get().size() == asked);
  CHECK(f.one->told.get().empty());
  CHECK(f.two->told.get().empty());
}

TEST_CASE("a file that was given up and is written again is kept") {
  Fixture f;
  f.renewer->begin(7, "", f.one);
  f.renewer->begin(8, "", f.two);
  f.renewer->give_up(7, f.one.get(), GiveBack::kAfterSoftLimit);
  SUBCASE("before it is asked about") {
    f.renewer->begin(7, "", f.one);
    for (int i = 0; i < 4; ++i) f.rpc->answer_next(f.loop);
    CHECK(f.rpc->others.get().empty());
  }
  SUBCASE("after that") {
    const FakeRpc::Other question = next_other(f, 0);
    f.renewer->begin(7, "", f.one);
    f.rpc->answer(f.loop, question, std::string());
    CHECK(f.rpc->others.get().size() == 1);
  }
}

TEST_CASE("without other files the lease ends by itself; a new one brings the question up again") {
  Fixture f;
  f.loop.post([&] {  // no timer fires within a task
    f.renewer->begin(7, "", f.one);
    f.renewer->give_up(7, f.one.get(), GiveBack::kAfterSoftLimit);
  });
  env::testing::drain(f.loop);
  CHECK(f.renewer->renewals() == 0);
  f.renewer->begin(8, "", f.two);
  CHECK(next_other(f, 0).method == "fsync");
}

TEST_CASE("a file that was given up is given back beside files that live shortly, unrenewed") {
  Fixture f;
  f.loop.post([&] {  // no timer fires within a task
    f.renewer->begin(7, "", f.one);
    f.renewer->give_up(7, f.one.get(), GiveBack::kAfterSoftLimit);
  });
  env::testing::drain(f.loop);
  const env::TimePoint patience = env::steady_clock().now() + env::testing::kPatience;
  while (f.rpc->others.get().empty() && env::steady_clock().now() < patience) {
    f.loop.post([&] {
      f.renewer->begin(8, "", f.two);
      f.renewer->end(8, f.two.get());
    });
    env::testing::drain(f.loop);
  }
  CHECK(f.rpc->other(0).method == "fsync");
  CHECK(f.renewer->renewals() == 0);
  // Asked about once.
  f.renewer->begin(9, "", f.two);
  CHECK(f.rpc->others.get().size() == 1);
}

// Renewals and answers until whatever is due has been asked.
void renew_some(Fixture& f) {
  for (int i = 0; i < 6; ++i) f.rpc->answer_next(f.loop);
}

TEST_CASE("nothing is asked about a file behind a router, or one that another stream writes") {
  Fixture f;
  f.renewer->begin(8, "", f.two);
  SUBCASE("a router") { f.renewer->begin(7, "ns", f.one); }
  SUBCASE("another stream") {
    f.renewer->begin(7, "", f.one);
    f.renewer->begin(7, "", f.two);
  }
  SUBCASE("an older server") { f.renewer->begin(0, "", f.one); }
  f.renewer->give_up(7, f.one.get(), GiveBack::kNow);
  f.renewer->give_up(0, f.one.get(), GiveBack::kNow);
  renew_some(f);
  CHECK(f.rpc->others.get().empty());
}

TEST_CASE("a late answer does not speak of what was given up after it was asked for") {
  Fixture f;
  f.renewer->begin(7, "", f.one);
  f.renewer->give_up(7, f.one.get(), GiveBack::kNow);
  const FakeRpc::Other early = f.rpc->other(0);
  f.renewer->begin(7, "", f.one);
  f.renewer->give_up(7, f.one.get(), GiveBack::kNow);
  const FakeRpc::Other late = f.rpc->other(1);
  SUBCASE("that it is ours") { f.rpc->answer(f.loop, early, std::string()); }
  SUBCASE("that it is not") {
    f.rpc->answer(f.loop, early, remote(StatusCode::kLeaseLost, "x.LeaseExpiredException"));
  }
  CHECK(f.rpc->others.get().size() == 2);
  f.rpc->answer(f.loop, late, std::string());
  CHECK(f.rpc->other(2).method == "recoverLease");
}

TEST_CASE("files whose lease could not be renewed are given back when there are others again") {
  Fixture f;
  f.renewer = LeaseRenewer::make(f.loop, f.rpc, "C1", milliseconds(20), seconds(-1));
  f.renewer->begin(7, "", f.one);
  f.renewer->begin(7, "", f.two);
  REQUIRE(f.rpc->wait_for(1));
  f.rpc->answer(f.loop, Status(StatusCode::kTimedOut, "no answer"));
  CHECK(f.one->told.get().size() == 1);
  CHECK(f.two->told.get().size() == 1);
  f.renewer->end(7, f.one.get());  // as their streams do
  f.renewer->begin(8, "", f.two);
  CHECK(next_other(f, 0).body == Fsync{kInode7, "C1", -1, 7}.encode());
  renew_some(f);
  CHECK(f.rpc->others.get().size() == 1);
}

TEST_CASE("a file that is given up for others at once does not wait for a renewal") {
  Fixture f;
  f.loop.post([&] {  // no timer fires within a task
    f.renewer->begin(7, "", f.one);
    f.renewer->give_up(7, f.one.get(), GiveBack::kNow);
  });
  f.rpc->answer(f.loop, f.rpc->other(0), std::string());
  CHECK(f.rpc->other(1).method == "recoverLease");
  CHECK(f.renewer->renewals() == 0);
}

TEST_CASE("a closed renewer renews no more and tells nobody") {
  Fixture f;
  f.renewer->begin(1, "", f.one);
  REQUIRE(f.rpc->wait_for(1));
  f.renewer->close();
  f.renewer->close();
  f.renewer->begin(2, "", f.two);
  f.rpc->answer(f.loop, Status(StatusCode::kLeaseLost, "x"));
  CHECK(f.one->told.get().empty());
  CHECK(f.two->told.get().empty());
  CHECK(f.renewer->renewals() == 1);
}

TEST_CASE("the renewer may go while a renewal is under way") {
  Fixture f;
  f.renewer->begin(1, "", f.one);
  REQUIRE(f.rpc->wait_for(1));
  f.renewer.reset();
  f.rpc->answer(f.loop, Status(StatusCode::kLeaseLost, "x"));
  CHECK(f.one->told.get().empty());
}

TEST_CASE("files come and go on many threads while the lease is renewed") {
  Fixture f;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        f.renewer->begin(t * 1000 + i, "", f.one);
        f.renewer->end(t * 1000 + i, f.one.get());
      }
    });
  }
  f.renewer->begin(9999, "", f.two);
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(f.rpc->wait_for(i));
    f.rpc->answer(f.loop, std::string());
  }
  for (std::thread& thread : threads) thread.join();
  f.renewer->end(9999, f.two.get());
}

}  // namespace
}  // namespace hflush::hdfs
