#include "sim/sim_connector.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace hflush::sim {
namespace {

class SimLine final : public env::BlockingSocket::Line {
 public:
  SimLine(World& world, std::shared_ptr<End> end) : world_(world), end_(std::move(end)) {}
  ~SimLine() override { end_->close(); }
  SimLine(const SimLine&) = delete;
  SimLine& operator=(const SimLine&) = delete;

  const env::Clock& clock() const noexcept override { return world_.clock(); }

  std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept override {
    std::string bytes;
    for (const ByteView piece : pieces) bytes += as_text(piece);
    const std::ptrdiff_t sent = end_->send(bytes);
    return sent == 0 ? -EAGAIN : sent;
  }

  std::ptrdiff_t receive_some(std::span<const MutableByteView> pieces) noexcept override {
    if (!has_come()) return -EAGAIN;
    if (end_->inbox().empty()) return -end_->error();
    std::size_t taken = 0;
    for (const MutableByteView piece : pieces) {
      const std::size_t size = std::min(piece.size(), end_->inbox().size() - taken);
      std::memcpy(piece.data(), end_->inbox().data() + taken, size);
      taken += size;
    }
    end_->taken(taken);
    return static_cast<std::ptrdiff_t>(taken);
  }

  Result<bool> wait(Ready ready, env::TimePoint deadline, env::Interrupt& interrupt) override {
    HFLUSH_RETURN_IF_ERROR(interrupt.check_if_due());
    if (ready == Ready::kToReceive && has_come()) return true;
    bool is_woken = false;
    const auto wake = [this, &is_woken, program = world_.running()] {
      is_woken = true;
      world_.wake(program);
    };
    (ready == Ready::kToReceive ? end_->on_arrival : end_->on_room) = wake;
    world_.wait_until(deadline);
    end_->on_arrival = nullptr;
    end_->on_room = nullptr;
    return is_woken;
  }

  void set_low_water(std::size_t /*bytes*/) noexcept override {}
  bool is_stale() const noexcept override { return has_come(); }

 private:
  bool has_come() const noexcept {
    return !end_->inbox().empty() || end_->is_at_end() || end_->error() != 0;
  }

  World& world_;
  const std::shared_ptr<End> end_;
};

// Outlives the wait for it.
struct Attempt {
  std::shared_ptr<End> end;
  int error = 0;
  World::Program* program = nullptr;  // null: nothing waits any more
};

}  // namespace

Result<env::BlockingSocket> SimConnector::connect(const env::Endpoint& endpoint,
                                                  env::Duration timeout,
                                                  env::Interrupt& interrupt) {
  HFLUSH_RETURN_IF_ERROR(interrupt.check_if_due());
  const auto attempt = std::make_shared<Attempt>();
  attempt->program = world_.running();
  network_.connect(host_, endpoint, [this, attempt](const std::shared_ptr<End>& end, int error) {
    World::Program* const program = std::exchange(attempt->program, nullptr);
    if (program == nullptr) {
      if (end) end->close();
      return;
    }
    attempt->end = end;
    attempt->error = error;
    world_.wake(program);
  });
  world_.wait_until(env::deadline_after(world_.now(), timeout));
  attempt->program = nullptr;
  if (attempt->end) {
    return env::BlockingSocket(std::make_unique<SimLine>(world_, attempt->end), endpoint);
  }
  if (attempt->error != 0) return env::connect_failure(endpoint, attempt->error);
  return env::timed_out(env::connect_operation(endpoint), timeout);
}

}  // namespace hflush::sim
