#include "hflush/env/blocking_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hflush/env/answer.h"
#include "hflush/env/own_process.h"
#include "hflush/env/process.h"

namespace hflush::env {
namespace {

// For how long poll(2) may wait at once; rounded up, so that no deadline is missed by a spin.
int poll_milliseconds(TimePoint now, TimePoint until) noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000));
}

// Waits for `events` or a failure of the connection: whether they came before the deadline.
Result<bool> wait_for(int descriptor, short events, TimePoint deadline, Interrupt& interrupt) {
  while (true) {
    const TimePoint now = steady_clock().now();
    HFLUSH_RETURN_IF_ERROR(interrupt.check_if_due());
    pollfd polled{descriptor, events, 0};
    const int ready =
        ::poll(&polled, 1, poll_milliseconds(now, std::min(deadline, interrupt.next_check())));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Status::from_errno(errno, "poll", {});
    // A signal that ended the wait may be the interrupt.
    if (ready < 0) HFLUSH_RETURN_IF_ERROR(interrupt.check_now());
    if (steady_clock().now() >= deadline) return false;
  }
}

// resolve(), on another thread so that the wait has an end.
Result<std::vector<SocketAddress>> find_addresses(const Endpoint& endpoint, Duration timeout,
                                                  TimePoint deadline, Interrupt& interrupt) {
  if (const auto address = numeric_address(endpoint)) return std::vector{*address};
  const auto answer = std::make_shared<Answer<Result<std::vector<SocketAddress>>>>();
  const bool taken = Process::current().resolver().run([asked = std::weak_ptr(answer), endpoint] {
    if (asked.expired()) return;
    auto found = resolve(endpoint);
    if (const auto waiting = asked.lock()) waiting->set(std::move(found));
  });
  if (!taken) return Status::from_errno(EAGAIN, resolve_operation(endpoint), {});
  const Status waited = answer->wait(interrupt, nullptr, deadline);
  if (waited.code() == StatusCode::kTimedOut) {
    return timed_out(resolve_operation(endpoint), timeout);
  }
  HFLUSH_RETURN_IF_ERROR(waited);
  return answer->take();
}

// The outcome for one address: a connected socket, or a failure.
struct Attempt {
  Socket socket;
  Status failure;
};

// A failure ends the whole attempt: it is the interrupt's.
Result<Attempt> try_address(const SocketAddress& address, const Endpoint& endpoint,
                            Duration timeout, TimePoint deadline, Interrupt& interrupt) {
  Result<Socket> started = Socket::start_connecting(address, {}, endpoint);
  if (!started.ok()) return Attempt{{}, started.status()};
  Socket socket = *std::move(started);
  while (true) {
    HFLUSH_ASSIGN_OR_RETURN(const bool ready,
                            wait_for(socket.descriptor(), POLLOUT, deadline, interrupt));
    if (!ready) return Attempt{{}, timed_out(connect_operation(endpoint), timeout)};
    const int outcome = socket.connect_outcome();
    if (outcome == 0) return Attempt{std::move(socket), {}};
    if (outcome != EINPROGRESS) return Attempt{{}, connect_failure(endpoint, outcome)};
  }
}

class SocketLine final : public BlockingSocket::Line {
 public:
  explicit SocketLine(Socket socket) noexcept : socket_(std::move(socket)) {}
  ~SocketLine() override {
    if (!origin_.is_parent()) socket_.shut_down();
  }
  SocketLine(const SocketLine&) = delete;
  SocketLine& operator=(const SocketLine&) = delete;

  const Clock& clock() const noexcept override { return steady_clock(); }
  std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept override {
    return socket_.send_some(pieces);
  }
  std::ptrdiff_t receive_some(std::span<const MutableByteView> pieces) noexcept override {
    return socket_.receive_some(pieces);
  }
  Result<bool> wait(Ready ready, TimePoint deadline, Interrupt& interrupt) override {
    return wait_for(socket_.descriptor(), ready == Ready::kToSend ? POLLOUT : POLLIN, deadline,
                    interrupt);
  }
  void set_low_water(std::size_t bytes) noexcept override { socket_.set_low_water(bytes); }
  bool is_stale() const noexcept override { return socket_.is_stale(); }

 private:
  Socket socket_;
  Origin origin_;
};

class MachineConnector final : public BlockingConnector {
 public:
  Result<BlockingSocket> connect(const Endpoint& endpoint, Duration timeout,
                                 Interrupt& interrupt) override {
    return BlockingSocket::connect(endpoint, timeout, interrupt);
  }
};

}  // namespace

BlockingConnector& machine_connector() noexcept {
  static MachineConnector connector;
  return connector;
}

BlockingSocket::BlockingSocket(std::unique_ptr<Line> line, Endpoint endpoint) noexcept
    : line_(std::move(line)), endpoint_(std::move(endpoint)) {}

Result<BlockingSocket> BlockingSocket::connect(const Endpoint& endpoint, Duration timeout,
                                               Interrupt& interrupt) {
  const TimePoint deadline = deadline_after(steady_clock().now(), timeout);
  HFLUSH_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                          find_addresses(endpoint, timeout, deadline, interrupt));
  Status failure;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const TimePoint until = attempt_deadline(steady_clock().now(), deadline, addresses.size() - i);
    HFLUSH_ASSIGN_OR_RETURN(Attempt attempt,
                            try_address(addresses[i], endpoint, timeout, until, interrupt));
    if (attempt.failure.ok()) {
      return BlockingSocket(std::make_unique<SocketLine>(std::move(attempt.socket)), endpoint);
    }
    failure = first_failure(failure, std::move(attempt.failure));
  }
  return failure;
}

Status BlockingSocket::send_all(std::span<const ByteView> pieces, Duration timeout,
                                Interrupt& interrupt) {
  std::vector<ByteView> wanted(pieces.begin(), pieces.end());
  std::span<ByteView> left = without_front(wanted, 0);
  std::size_t done = 0;
  const auto operation = [&] {
    std::size_t rest = 0;
    for (const ByteView piece : left) rest += piece.size();
    return "send of " + std::to_string(done + rest) + " bytes to " + endpoint_.to_string() + " (" +
           std::to_string(done) + " sent)";
  };
  while (!left.empty()) {
    const std::ptrdiff_t sent = line_->send_some(left);
    if (sent >= 0) {
      done += static_cast<std::size_t>(sent);
      left = without_front(left, static_cast<std::size_t>(sent));
      continue;
    }
    if (sent != -EAGAIN) return Status::from_errno(static_cast<int>(-sent), operation(), {});
    const TimePoint deadline = deadline_after(line_->clock().now(), timeout);
    HFLUSH_ASSIGN_OR_RETURN(const bool ready,
                            line_->wait(Line::Ready::kToSend, deadline, interrupt));
    if (!ready) return timed_out(operation(), timeout);
  }
  return {};
}

Result<std::size_t> BlockingSocket::receive_some(std::span<const MutableByteView> pieces,
                                                 Duration timeout, Interrupt& interrupt) {
  std::optional<TimePoint> deadline;
  while (true) {
    const std::ptrdiff_t received = line_->receive_some(pieces);
    if (received >= 0) return static_cast<std::size_t>(received);
    const auto operation = [&] { return "receive from " + endpoint_.to_string(); };
    if (received != -EAGAIN) {
      return Status::from_errno(static_cast<int>(-received), operation(), {});
    }
    const TimePoint now = line_->clock().now();
    if (!deadline) deadline = deadline_after(now, timeout);
    if (now >= *deadline) return timed_out(operation(), timeout);
    const TimePoint until = low_water_ > 1 ? now + kLowWaterPatience : *deadline;
    HFLUSH_RETURN_IF_ERROR(
        line_->wait(Line::Ready::kToReceive, std::min(*deadline, until), interrupt).status());
  }
}

void BlockingSocket::set_low_water(std::size_t bytes) noexcept {
  if (bytes == low_water_) return;
  low_water_ = bytes;
  line_->set_low_water(bytes);
}

}  // namespace hflush::env
