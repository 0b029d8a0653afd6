#include "hflush/env/event_loop.h"

namespace hflush::env {
namespace {

// The loop whose guest this thread is.
thread_local const EventLoop* guest_here = nullptr;

}  // namespace

bool EventLoop::by_guest() const noexcept { return guest_here == this; }

EventLoop::Guest::Guest(EventLoop* loop) noexcept : before_(guest_here) {
  if (loop == nullptr || guest_here == loop) return;
  loop_ = loop;
  guest_here = loop;
  loop->enter();
}

EventLoop::Guest::~Guest() {
  if (loop_ == nullptr) return;
  guest_here = before_;
  loop_->leave();
}

}  // namespace hflush::env
