// Fiber: a function with a stack of its own, which runs when it is resumed and until it yields. On
// one thread; but what it runs takes itself for a thread (std::this_thread::get_id()), so that
// several of them are the callers of one stream.
//
// In programs that are linked with --wrap=pthread_self.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace hflush::sim {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Of another one, or of none.
  void resume();
  // Of this one: resume() returns, and the next one returns here.
  void yield();
  bool has_ended() const noexcept { return ended_; }

 private:
  // A stack, as the sanitizers want to know of it.
  struct Side {
    ucontext_t context{};
    void* thread = nullptr;
    void* frames = nullptr;
    const void* stack = nullptr;
    std::size_t size = 0;
  };

  static void enter();
  static void leave(Side& from, const Side& to, bool for_good);
  static void arrive(Side& at, Side* from);

  std::function<void()> body_;
  const std::unique_ptr<std::byte[]> stack_;
  Side own_;
  Side callers_;
  bool ended_ = false;
};

}  // namespace hflush::sim
