// CallTable, fed with anything in any order.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "hflush/s3/call/call_table.h"

namespace hflush::s3 {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Actions = CallTable::Actions;
using CallId = CallTable::CallId;
using CallRef = CallTable::CallRef;
using Stage = CallTable::Stage;

// A client, a network and a credential store that do anything in any order: each call is answered
// once, or ends once if it is cancelled, and no more uploads are under way than allowed.
class Chaos {
 public:
  explicit Chaos(std::uint32_t seed) : random_(seed), settings_(make_settings()) {}

  void run() {
    for (int step = 0; step < 300; ++step) {
      if (step < 200 && dice(3) == 0) start();
      step_once();
      check();
    }
    if (dice(2) == 0) {
      feed([&](Actions& actions) { table_.close(actions); });
      for (auto& [made, known] : open_) known.is_cancelled = true;
    }
    for (int step = 0; !open_.empty() && step < 20'000; ++step) step_once();
    CHECK(open_.empty());
    CHECK(std::ranges::all_of(flying_, [](const auto& flight) { return flight.second.is_over; }));
    CHECK(table_.due() == env::TimePoint::max());
  }
  int answered() const { return answered_; }
  int ended() const { return ended_; }
  int retried() const { return retried_; }

 private:
  struct Flight {
    bool has_number = false;
    bool is_over = false;  // perhaps before it had one
  };
  using FlightId = std::pair<CallId, std::uint64_t>;  // and the attempt
  struct Known {
    CallId id = 0;
    bool is_upload = false;
    bool is_cancelled = false;
  };

  static Settings make_settings() {
    Settings settings;
    settings.host = "s3.us-east-1.amazonaws.com";
    settings.max_uploads = 3;
    settings.retry.limit = 4;
    settings.retry.interval = milliseconds(1);
    settings.retry.max_interval = milliseconds(1);
    settings.retry.deadline = seconds(3);
    settings.retry.credentials_wait = seconds(1);
    return settings;
  }
  int dice(int sides) { return static_cast<int>(random_() % static_cast<unsigned>(sides)); }
  template <typename T>
  const T& any(const std::vector<T>& of) {
    return of[random_() % of.size()];
  }

  void start() {
    auto made = std::make_shared<Call>();
    made->operation = "PutObject";
    made->bucket = dice(2) == 0 ? "b" : "c";
    made->is_upload = dice(2) == 0;
    made->stream = static_cast<std::uint64_t>(dice(3));
    made->urgent = dice(5) == 0;
    made->repeat = dice(3) == 0 ? Repeat::kNotTwice : Repeat::kFreely;
    if (dice(4) == 0) made->ends = now_ + milliseconds(dice(2000));
    Actions actions;
    const CallId id = table_.start(made, actions);
    open_[made.get()] = {id, made->is_upload, false};
    refs_[id] = made;
    take(actions);
  }

  void step_once() {
    switch (dice(5)) {
      case 0:
        return give_number();
      case 1:
        return respond();
      case 2:
        return cancel();
      case 3:
        return renew();
      default:
        return wait();
    }
  }

  // An attempt of which nothing is known so far, if there is one.
  std::optional<FlightId> any_flight(bool Flight::* known) {
    std::vector<FlightId> found;
    for (const auto& [id, flight] : flying_) {
      if (!(flight.*known)) found.push_back(id);
    }
    if (found.empty()) return {};
    return any(found);
  }
  void learn(const FlightId& id, bool Flight::* known) {
    Flight& flight = flying_.at(id);
    flight.*known = true;
    if (flight.has_number && flight.is_over) flying_.erase(id);
  }

  void give_number() {
    const std::optional<FlightId> id = any_flight(&Flight::has_number);
    if (!id) return;
    learn(*id, &Flight::has_number);
    feed([&](Actions& actions) { table_.sent(id->first, id->second, ++last_exchange_, actions); });
  }

  void respond() {
    const std::optional<FlightId> id = any_flight(&Flight::is_over);
    if (!id) return;
    learn(*id, &Flight::is_over);
    if (dice(3) == 0) {
      return feed([&](Actions& actions) { table_.succeeded(id->first, now_, actions); });
    }
    const Failure why = any_failure();
    feed([&](Actions& actions) {
      table_.failed(id->first, {.failure = why, .may_repeat = dice(9) != 0, .time = SystemTime()},
                    now_, actions);
    });
  }

  Failure any_failure() {
    Failure why;
    why.kind = static_cast<FailureKind>(dice(static_cast<int>(FailureKind::kFinal) + 1));
    if (why.kind == FailureKind::kAddress) why.region = "eu-west-1";
    if (why.kind == FailureKind::kClock) why.server_time_s = 1;
    if (dice(3) == 0) why.retry_after = milliseconds(dice(1000));
    return why;
  }

  void cancel() {
    if (open_.empty() || dice(4) != 0) return;
    Known& known = std::next(open_.begin(), dice(static_cast<int>(open_.size())))->second;
    Actions actions;
    const CallRef there = table_.cancel(known.id, actions);
    CHECK((there == nullptr) == known.is_cancelled);
    known.is_cancelled = true;
    take(actions);
  }

  void renew() {
    if (wants_.empty()) return;
    const FlightId want = any(wants_);
    std::erase(wants_, want);
    if (dice(2) == 0) {
      feed(
          [&](Actions& actions) { table_.wanted(want.first, want.second, ++last_want_, actions); });
    }
    if (dice(2) == 0) {
      feed([&](Actions& actions) { table_.credentials_newer(want.first, want.second, actions); });
    }
  }

  void wait() {
    if (table_.due() == env::TimePoint::max()) return;
    now_ = std::max(now_, table_.due());
    feed([&](Actions& actions) { table_.time_passed(now_, actions); });
  }

  template <typename Event>
  void feed(const Event& event) {
    Actions actions;
    event(actions);
    take(actions);
  }

  void take(const Actions& actions) {
    for (const CallTable::Action& action : actions) {
      if (const auto* send = std::get_if<CallTable::Send>(&action)) {
        const Known& known = open_.at(send->call.get());
        CHECK_FALSE(known.is_cancelled);
        if (send->attempt > 1) ++retried_;
        CHECK(flying_.emplace(FlightId(known.id, send->attempt), Flight{}).second);
        CHECK_FALSE(table_.target(known.id).authority.empty());
      } else if (const auto* want = std::get_if<CallTable::WantCredentials>(&action)) {
        wants_.emplace_back(open_.at(want->call.get()).id, want->attempt);
      } else if (const auto* answer = std::get_if<CallTable::Answer>(&action)) {
        CHECK_FALSE(open_.at(answer->call.get()).is_cancelled);
        forget(*answer->call);
        ++answered_;
      } else if (const auto* end = std::get_if<CallTable::End>(&action)) {
        const CallId id = open_.at(end->call.get()).id;
        std::erase_if(flying_, [id](const auto& flight) {
          return flight.first.first == id && !flight.second.is_over;
        });
        forget(*end->call);
        ++ended_;
      }
    }
  }

  void forget(const Call& which) { CHECK(open_.erase(&which) == 1); }

  bool is_flying(CallId id) const {
    return std::ranges::any_of(flying_, [id](const auto& flight) {
      return flight.first.first == id && !flight.second.is_over;
    });
  }

  void check() {
    std::size_t uploads = 0;
    for (const auto& [made, known] : open_) {
      const std::optional<Stage> stage = table_.stage(known.id);
      REQUIRE(stage);
      const bool is_with_network = stage == Stage::kStarting || stage == Stage::kSent;
      CHECK((stage == Stage::kStopping) <= known.is_cancelled);
      if (stage != Stage::kStopping) CHECK(is_with_network == is_flying(known.id));
      if (known.is_upload && is_with_network) ++uploads;
    }
    CHECK(uploads <= settings_.max_uploads);
  }

  std::mt19937 random_;
  const Settings settings_;
  CallTable table_{settings_, random_()};
  env::TimePoint now_ = env::TimePoint() + hours(1);
  std::map<const Call*, Known> open_;
  std::map<CallId, CallRef> refs_;  // so that no address is used again
  std::map<FlightId, Flight> flying_;
  std::vector<FlightId> wants_;
  CallTable::ExchangeId last_exchange_ = 0;
  CallTable::WantId last_want_ = 0;
  int answered_ = 0;
  int ended_ = 0;
  int retried_ = 0;
};

TEST_CASE("calls: a simulation answers or ends every call once") {
  int answered = 0;
  int ended = 0;
  int retried = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Chaos chaos(seed);
    chaos.run();
    answered += chaos.answered();
    ended += chaos.ended();
    retried += chaos.retried();
  }
  CHECK(answered > 3000);
  CHECK(ended > 1000);
  CHECK(retried > 1000);
}

}  // namespace
}  // namespace hflush::s3
