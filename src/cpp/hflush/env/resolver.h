// Resolver: the Executor that looks up names.
//
// A lookup may take as long as the system's resolver likes, so every task is queued: one that hangs
// keeps back other lookups at most, and the caller gives up by a timer of its own. Few threads,
// which start when there is work. They are detached, because the end of the process does not wait
// for a lookup either: a task may outlive the Resolver, and what it uses has to. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>

#include "hflush/env/executor.h"

namespace hflush::env {

class Resolver final : public Executor {
 public:
  explicit Resolver(std::size_t max_threads);
  ~Resolver() override;
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // False if the system refuses a thread, or after stop().
  bool run(Task task) override;
  // Drops what waits, and leaves alone what runs. Idempotent; run() answers false from here on.
  void stop();

 private:
  struct Queue;

  const std::shared_ptr<Queue> queue_;  // the threads' as well
};

}  // namespace hflush::env
