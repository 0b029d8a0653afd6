#include "hflush/env/event_loop.h"

#include <utility>

#include "hflush/base/check.h"
#include "hflush/env/process.h"

namespace hflush::env {
namespace {

// What this thread is a guest by.
thread_local EventLoop::Guest* guest_here = nullptr;

}  // namespace

bool EventLoop::by_guest() const noexcept {
  if (guest_here == nullptr || guest_here->loop_ != this) return false;
  guest_here->has_asked_ = true;
  return true;
}

bool EventLoop::takes_errands() const noexcept {
  return waits_for_errands() && guest_here != nullptr && guest_here->loop_ == this &&
         !guest_here->has_asked_ && !on_loop_thread();
}

void EventLoop::add_errand(std::shared_ptr<Errand> errand) const {
  HFLUSH_DCHECK(takes_errands());
  guest_here->errands_.push_back(std::move(errand));
}

bool EventLoop::has_errands() const noexcept {
  return guest_here != nullptr && guest_here->loop_ == this && !guest_here->errands_.empty() &&
         waits_for_errands();
}

void EventLoop::run_errands(TimePoint deadline) noexcept {
  // The guest will wait for the loop, which then has all of it.
  if (guest_here->has_asked_) return guest_here->leave_errands();
  wait_for_errands(guest_here->errands_, deadline);
}

EventLoop::Guest::Guest(EventLoop* loop) noexcept : before_(guest_here) {
  if (loop == nullptr || (guest_here != nullptr && guest_here->loop_ == loop)) return;
  if (!loop->enter()) return;
  loop_ = loop;
  guest_here = this;
}

EventLoop::Guest::~Guest() {
  if (loop_ == nullptr) return;
  leave_errands();
  guest_here = before_;
  loop_->leave();
}

// They may begin others meanwhile.
void EventLoop::Guest::leave_errands() noexcept {
  while (!errands_.empty()) {
    std::shared_ptr<Errand> errand = std::move(errands_.back());
    errands_.pop_back();
    if (loop_->waits_for_errands()) {
      errand->leave_to_loop();
    } else {  // forked meanwhile
      leave_to_parent(std::move(errand));
    }
  }
}

}  // namespace hflush::env
