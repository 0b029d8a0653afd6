// SimLoop: the event loop of one simulated process: tasks, timers and connections of a world.
//
// Everything that the loop runs is an event of the world, so it runs on no program's stack; a
// program that waits gives way to events until it is notified. What would need the machine, a
// descriptor above all, is a breach.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "hflush/env/event_loop.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {

class SimLoop final : public env::EventLoop {
 public:
  SimLoop(World& world, Network& network, std::string host);

  Status start() override { return {}; }
  void post(Task task) override;
  TimerId run_at(TimePoint when, Task task) override;
  void cancel(TimerId timer) override;
  std::shared_ptr<env::TcpConnection> connect(
      env::Executor& resolver, env::Endpoint endpoint, env::TcpConnection::Options options,
      std::shared_ptr<env::TcpConnection::Events> events) override;
  Status watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler) override;
  void change(int descriptor, Interest interest) override;
  void unwatch(int descriptor) override;
  bool on_loop_thread() const noexcept override { return world_.running() == nullptr; }
  void stop() override;

  World& world() noexcept { return world_; }
  Network& network() noexcept { return network_; }
  const std::string& host() const noexcept { return host_; }
  // That are to come.
  std::size_t timers() const noexcept { return timers_.size(); }

 private:
  bool enter() override { return false; }  // callers are fibers of one thread
  void leave() override {}
  bool take_turn() override { return true; }
  void run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept override;
  void nudge() override;
  void run_tasks();

  World& world_;
  Network& network_;
  const std::string host_;
  Chance chance_;
  bool stopped_ = false;
  std::vector<Task> tasks_;
  bool has_scheduled_tasks_ = false;
  std::unordered_map<TimerId, World::EventId> timers_;
  TimerId last_timer_ = 0;
  std::vector<World::Program*> waiting_;
};

}  // namespace hflush::sim
