// Driven: state that several threads have events for, and that one of them at a time may touch.
//
// A thread with an event calls drive(). If no thread drives, this one does: it feeds its event,
// performs the actions that follow from it, then handles the events that others have left in the
// inbox, until it is empty. If another thread drives, or this one does already (an
// action that calls drive()), the event is left in the inbox. So events are handled one at a time
// and in order, and no thread waits for another, except in abandon().
//
// Only the driver may touch the State. It is constructed inside, with a Reports& and the arguments
// of Driven, and passed to events alone. It has
//
//   Actions actions;            a vector of variants: filled by events, performed in order
//   void perform(const A&);     for each alternative A of the variants; may add actions
//   void settled();             after each round of actions; may add actions
//   void release() noexcept;    memory has run out: drops what it holds, cancels what is under way
//
// If an allocation fails, also that of an event, the state is released, the stream fails with
// `out_of_memory`, and no event is taken from then on. Events and actions throw nothing else, and
// drive() throws nothing. The end of the stream is reported once (reports.h).
//
// Thread-safe. The mutex guards the inbox; it is not held while an event is fed or an action is
// performed.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/stream/reports.h"

namespace hflush::stream {

template <typename State>
class Driven {
 public:
  template <typename... Arguments>
  explicit Driven(Status out_of_memory, Arguments&&... arguments)
      : out_of_memory_(std::move(out_of_memory)),
        state_(reports_, std::forward<Arguments>(arguments)...) {}
  Driven(const Driven&) = delete;
  Driven& operator=(const Driven&) = delete;

  // Calls `feed(state)`: now, or later on the thread that drives at the moment.
  template <typename Feed>
  void drive(Feed feed) HFLUSH_EXCLUDES(mutex_) {
    if (takes_turn(feed)) run(feed);
  }

  // The same in a call of the stream, to which reports go from now on.
  template <typename Feed>
  void drive_for(SinkEvents& stream, Feed feed) HFLUSH_EXCLUDES(mutex_) {
    reports_.listen(stream);
    drive(std::move(feed));
  }

  // The memory for an event was missing before it could be fed.
  void event_lost() noexcept HFLUSH_EXCLUDES(mutex_) {
    drive([](State&) { throw std::bad_alloc(); });
  }

  // Waits for the thread that drives, though not for the inbox, and then calls `last(state)` on
  // this one. Nothing is reported after its return. Events are still fed: what is under way may
  // have to be cleaned up. Requires: not called by an event or an action.
  template <typename Last>
  void abandon(Last last) noexcept HFLUSH_EXCLUDES(mutex_) {
    reports_.stop();
    if (waits_for_turn()) run(last);
  }

 private:
  enum class Phase : std::uint8_t {
    kIdle,
    kDriving,
    kEnded,  // memory has run out
  };

  // The right to drive, for the analysis.
  class HFLUSH_CAPABILITY("turn") Turn {
   public:
    void leave() HFLUSH_RELEASE() {}
  };

  struct Event {
    Event() = default;
    virtual ~Event() = default;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    virtual void feed(State& state) = 0;
  };
  template <typename Feed>
  struct EventOf final : Event {
    explicit EventOf(Feed its_feed) : held(std::move(its_feed)) {}
    void feed(State& state) override { held(state); }
    Feed held;
  };
  using Events = std::vector<std::unique_ptr<Event>>;

  template <typename Feed>
  bool takes_turn(Feed& feed) noexcept HFLUSH_TRY_ACQUIRE(true, turn_) HFLUSH_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (phase_ == Phase::kEnded || starving_) return false;
    if (phase_ == Phase::kIdle && abandoning_ == 0) {
      phase_ = Phase::kDriving;
      return true;
    }
    try {
      inbox_.push_back(std::make_unique<EventOf<Feed>>(std::move(feed)));
    } catch (const std::bad_alloc&) {
      starving_ = true;
    }
    return false;
  }

  bool waits_for_turn() noexcept HFLUSH_TRY_ACQUIRE(true, turn_) HFLUSH_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++abandoning_;
    while (phase_ == Phase::kDriving) idle_.wait(mutex_);
    --abandoning_;
    if (phase_ == Phase::kEnded) return false;
    phase_ = Phase::kDriving;
    return true;
  }

  template <typename Feed>  // nothing but a failed allocation is thrown
  // NOLINTNEXTLINE(bugprone-exception-escape)
  void run(Feed& feed) noexcept HFLUSH_RELEASE(turn_) HFLUSH_EXCLUDES(mutex_) {
    try {
      feed(state_);
      settle();
      for (Events late; takes_inbox(late);) {
        for (const std::unique_ptr<Event>& event : late) event->feed(state_);
        settle();
      }
    } catch (const std::bad_alloc&) {
      end();
    }
    turn_.leave();
  }

  void settle() HFLUSH_REQUIRES(turn_) {
    do {
      performing_.swap(state_.actions);
      for (const auto& action : performing_) {
        std::visit([this](const auto& what) HFLUSH_REQUIRES(turn_) { state_.perform(what); },
                   action);
      }
      performing_.clear();
      state_.settled();
    } while (!state_.actions.empty());
  }

  // Takes the events in the inbox; false if this thread no longer drives: the inbox is empty, or
  // the thread that abandons is next.
  bool takes_inbox(Events& late) HFLUSH_REQUIRES(turn_) HFLUSH_EXCLUDES(mutex_) {
    late.clear();
    MutexLock lock(mutex_);
    if (starving_) throw std::bad_alloc();
    if (inbox_.empty() || abandoning_ > 0) {
      phase_ = Phase::kIdle;
      if (abandoning_ > 0) idle_.notify_all();
      return false;
    }
    late.swap(inbox_);
    return true;
  }

  void end() noexcept HFLUSH_REQUIRES(turn_) HFLUSH_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      starving_ = true;
    }
    state_.release();
    try {
      reports_.failed(out_of_memory_);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
      // The stream has taken the failure before anything could be thrown.
    }
    Events dropped;  // destroyed without the lock
    MutexLock lock(mutex_);
    phase_ = Phase::kEnded;
    dropped.swap(inbox_);
    idle_.notify_all();
  }

  const Status out_of_memory_;  // made while there is memory
  Reports reports_;

  // Never held across an event, an action or a report.
  Mutex mutex_;
  CondVar idle_;  // no thread drives
  Phase phase_ HFLUSH_GUARDED_BY(mutex_) = Phase::kIdle;
  bool starving_ HFLUSH_GUARDED_BY(mutex_) = false;  // an event is lost, or there is no memory
  int abandoning_ HFLUSH_GUARDED_BY(mutex_) = 0;     // threads that wait in abandon()
  Events inbox_ HFLUSH_GUARDED_BY(mutex_);

  Turn turn_;
  State state_ HFLUSH_GUARDED_BY(turn_);
  decltype(State::actions) performing_ HFLUSH_GUARDED_BY(turn_);  // kept for its memory
};

}  // namespace hflush::stream
