#include "sim/fiber.h"

#include <pthread.h>

#include <bit>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HFLUSH_SIM_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define HFLUSH_SIM_TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HFLUSH_SIM_ASAN
#endif
#if defined(__SANITIZE_THREAD__)
#define HFLUSH_SIM_TSAN
#endif

#ifdef HFLUSH_SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
// In the function that switches: its caller's frames are not those of the next one.
#ifdef HFLUSH_SIM_TSAN
#include <sanitizer/tsan_interface.h>
#define HFLUSH_SIM_SWITCH_TO(side) __tsan_switch_to_fiber((side).thread, 0)
#else
#define HFLUSH_SIM_SWITCH_TO(side) static_cast<void>(0)
#endif

namespace hflush::sim {
namespace {

constexpr std::size_t kStackBytes = 1U << 20U;  // sanitizers need more than programs

// For enter(), which has no arguments: makecontext(3) takes none of a pointer's size.
Fiber* entering = nullptr;

// The one that runs on a thread.
thread_local const Fiber* running = nullptr;

}  // namespace

pthread_t own_identity() noexcept asm("__real_pthread_self");

// What the C++ library asks instead of pthread_self(3).
pthread_t identity() noexcept asm("__wrap_pthread_self");
pthread_t identity() noexcept {
  return running == nullptr ? own_identity() : std::bit_cast<pthread_t>(running);
}

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)), stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)) {
  ::getcontext(&own_.context);
  own_.context.uc_stack.ss_sp = stack_.get();
  own_.context.uc_stack.ss_size = kStackBytes;
  own_.stack = stack_.get();
  own_.size = kStackBytes;
  ::makecontext(&own_.context, &Fiber::enter, 0);
#ifdef HFLUSH_SIM_TSAN
  own_.thread = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef HFLUSH_SIM_TSAN
  __tsan_destroy_fiber(own_.thread);
#endif
}

void Fiber::resume() {
  entering = this;
#ifdef HFLUSH_SIM_TSAN
  callers_.thread = __tsan_get_current_fiber();
#endif
  const Fiber* const before = std::exchange(running, this);
  leave(callers_, own_, false);
  HFLUSH_SIM_SWITCH_TO(own_);
  ::swapcontext(&callers_.context, &own_.context);
  arrive(callers_, nullptr);
  running = before;
}

void Fiber::yield() {
  leave(own_, callers_, false);
  HFLUSH_SIM_SWITCH_TO(callers_);
  ::swapcontext(&own_.context, &callers_.context);
  arrive(own_, &callers_);
}

void Fiber::enter() {
  Fiber& fiber = *entering;
  arrive(fiber.own_, &fiber.callers_);
  fiber.body_();
  fiber.body_ = nullptr;
  fiber.ended_ = true;
  leave(fiber.own_, fiber.callers_, true);
  HFLUSH_SIM_SWITCH_TO(fiber.callers_);
  ::setcontext(&fiber.callers_.context);
}

void Fiber::leave([[maybe_unused]] Side& from, [[maybe_unused]] const Side& to,
                  [[maybe_unused]] bool for_good) {
#ifdef HFLUSH_SIM_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.frames, to.stack, to.size);
#endif
}

void Fiber::arrive([[maybe_unused]] Side& at, [[maybe_unused]] Side* from) {
#ifdef HFLUSH_SIM_ASAN
  const void* stack = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(at.frames, &stack, &size);
  if (from == nullptr) return;
  from->stack = stack;
  from->size = size;
#endif
}

}  // namespace hflush::sim
