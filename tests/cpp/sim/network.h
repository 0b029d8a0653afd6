// Network: simulated hosts and the TCP connections between them.
//
// What is sent arrives later, in order and in pieces of any size; a sender gets ahead of the
// receiver by a window at most. A host that is down refuses connections, one that is cut off is
// silent: what is sent to it or by it waits until it is back. A host that crashes resets its
// connections.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/env/socket.h"
#include "sim/world.h"

namespace hflush::sim {

class Network;

// One end of a connection. Owned by its user and by the network while something is under way.
class End : public std::enable_shared_from_this<End> {
 public:
  End(Network& network, std::string host) : network_(network), host_(std::move(host)) {}

  const std::string& host() const noexcept { return host_; }
  // Empty if nobody has the other end any more.
  std::string peer_host() const {
    const std::shared_ptr<End> peer = peer_.lock();
    return peer ? peer->host_ : std::string();
  }
  // How many of these bytes it takes, -errno after the peer's reset or one's own close().
  std::ptrdiff_t send(std::string_view bytes);
  // For servers, whose windows are not simulated.
  void send_all(std::string_view bytes);
  // What has arrived; the user takes it out.
  std::string& inbox() noexcept { return inbox_; }
  void taken(std::size_t bytes);
  bool is_at_end() const noexcept { return at_end_; }
  int error() const noexcept { return error_; }
  bool is_closed() const noexcept { return closed_; }
  bool has_room() const noexcept;
  // Ends both directions; what was sent before still arrives.
  void close();
  // The process is gone.
  void reset();
  // The connection breaks: both ends see it.
  void break_off();

  // Something has arrived, or the end, or there is room again.
  std::function<void()> on_arrival;
  std::function<void()> on_room;

 private:
  friend class Network;

  struct Segment {
    std::string bytes;
    bool is_end = false;
    int error = 0;
  };

  void put(Segment segment);
  void deliver();
  void schedule();

  Network& network_;
  const std::string host_;
  std::weak_ptr<End> peer_;
  std::string inbox_;
  bool at_end_ = false;
  bool closed_ = false;
  int error_ = 0;
  // On its way to the peer.
  std::deque<Segment> under_way_;
  std::size_t unread_ = 0;  // sent, and not taken by the peer
  TimePoint arrives_{};     // the first of it
  bool is_scheduled_ = false;
};

class Network {
 public:
  using Accept = std::function<void(std::shared_ptr<End>)>;
  // The end, or an errno.
  using Connected = std::function<void(std::shared_ptr<End>, int)>;

  explicit Network(World& world) : world_(world), chance_(world.seed(), "network") {}
  // Nothing arrives any more: an end and its user do not keep one another.
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  void listen(const env::Endpoint& at, Accept accept);
  // Nothing listens there any more; the connections go on.
  void stop_listening(const std::string& host);
  // The process there is gone: nothing listens, and its connections are reset.
  void crash(const std::string& host);
  void reset_connections(const std::string& host);
  void cut_off(const std::string& host, TimePoint until);
  // Two hosts that do not hear each other.
  void cut_link(const std::string& one, const std::string& other, TimePoint until);
  TimePoint silent_until(const std::string& host) const;
  TimePoint silent_until(const std::string& one, const std::string& other) const;
  bool is_silent(const std::string& host) const { return silent_until(host) > world_.now(); }
  // `connected` is called later, unless the target is cut off for ever.
  void connect(const std::string& from, const env::Endpoint& to, Connected connected);

  std::size_t open_ends(const std::string& host) const;

  static constexpr std::size_t kWindow = 16U << 10U;

 private:
  friend class End;

  Duration latency() { return std::chrono::microseconds(20) + chance_.up_to(longest_latency_); }
  std::vector<std::shared_ptr<End>> ends_of(const std::string& host) const;

  World& world_;
  Chance chance_;
  const Duration longest_latency_ =
      std::chrono::microseconds(std::int64_t{1} << chance_.between(4, 14));
  std::map<std::pair<std::string, std::uint16_t>, Accept> listeners_;
  std::map<std::string, TimePoint> silent_;
  std::map<std::pair<std::string, std::string>, TimePoint> silent_links_;  // both ways
  std::vector<std::weak_ptr<End>> ends_;
};

}  // namespace hflush::sim
