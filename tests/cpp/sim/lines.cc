#include "sim/lines.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "testing/patience.h"

namespace hflush::sim {
namespace {

constexpr const char* kHost = "10.0.2.1";
constexpr Duration kDealtWith = std::chrono::milliseconds(100);

class SimulatedLine final : public Line {
 public:
  SimulatedLine(World& world, std::shared_ptr<End> end) : world_(world), end_(std::move(end)) {}
  ~SimulatedLine() override { end_->close(); }
  void send(const std::string& bytes) override { end_->send_all(bytes); }
  std::optional<std::string> receive() override {
    world_.run([&] { return !end_->inbox().empty() || end_->is_at_end() || end_->error() != 0; });
    if (end_->inbox().empty()) return std::nullopt;
    std::string bytes = end_->inbox();
    end_->taken(bytes.size());
    return bytes;
  }

 private:
  World& world_;
  const std::shared_ptr<End> end_;
};

class SimulatedLines final : public Lines {
 public:
  SimulatedLines(World& world, Network& network) : world_(world), network_(network) {}
  std::unique_ptr<Line> connect(const env::Endpoint& to) override {
    pass(world_, kDealtWith);
    std::shared_ptr<End> made;
    bool is_answered = false;
    network_.connect(kHost, to, [&](std::shared_ptr<End> end, int /*error*/) {
      made = std::move(end);
      is_answered = true;
    });
    world_.run([&] { return is_answered; });
    return made ? std::make_unique<SimulatedLine>(world_, made) : nullptr;
  }

 private:
  World& world_;
  Network& network_;
};

class RealLine final : public Line {
 public:
  explicit RealLine(int socket) : socket_(socket) {}
  RealLine(const RealLine&) = delete;
  RealLine& operator=(const RealLine&) = delete;
  ~RealLine() override { ::close(socket_); }
  void send(const std::string& bytes) override {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto more = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return;  // receive() tells
      sent += static_cast<std::size_t>(more);
    }
  }
  std::optional<std::string> receive() override {
    std::array<char, 4096> bytes;
    const auto more = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (more <= 0) return std::nullopt;
    return std::string(bytes.data(), static_cast<std::size_t>(more));
  }

 private:
  const int socket_;
};

class RealLines final : public Lines {
 public:
  std::unique_ptr<Line> connect(const env::Endpoint& to) override {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return nullptr;
    auto line = std::make_unique<RealLine>(socket);
    const timeval patience{testing::kPatience.count(), 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(to.port);
    if (::inet_pton(AF_INET, to.host.c_str(), &address.sin_addr) != 1) return nullptr;
    const auto* const at = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(socket, at, sizeof address) != 0) return nullptr;
    return line;
  }
};

}  // namespace

std::unique_ptr<Lines> simulated_lines(World& world, Network& network) {
  return std::make_unique<SimulatedLines>(world, network);
}

std::unique_ptr<Lines> real_lines() { return std::make_unique<RealLines>(); }

void pass(World& world, Duration time, const std::function<bool()>& over) {
  bool is_over = false;
  const World::EventId end = world.after(time, [&] { is_over = true; });
  world.run([&] { return is_over || over(); });
  world.cancel(end);
}

}  // namespace hflush::sim
