#include "sim/network.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hflush::sim {

// --- one end -------------------------------------------------------------------------------------

std::ptrdiff_t End::send(std::string_view bytes) {
  if (closed_) return -ENOTCONN;
  if (error_ != 0) return -EPIPE;
  std::size_t room = Network::kWindow - std::min(Network::kWindow, unread_);
  // A kernel that takes less than there is room for, or nothing now.
  if (network_.chance_.one_in(6)) room = network_.chance_.below(std::min(room, bytes.size()) + 1);
  if (room == 0) {
    network_.world_.after(network_.latency(), [self = shared_from_this()] {
      if (self->on_room) self->on_room();
    });
  }
  const std::size_t taken = std::min(room, bytes.size());
  if (taken > 0) send_all(bytes.substr(0, taken));
  return static_cast<std::ptrdiff_t>(taken);
}

// A failure is room: the next send reports it.
bool End::has_room() const noexcept { return error_ != 0 || unread_ < Network::kWindow; }

void End::send_all(std::string_view bytes) {
  if (closed_ || error_ != 0) return;
  unread_ += bytes.size();
  put({std::string(bytes)});
}

void End::taken(std::size_t bytes) {
  inbox_.erase(0, bytes);
  const std::shared_ptr<End> sender = peer_.lock();
  if (!sender) return;
  const bool was_full = sender->unread_ >= Network::kWindow;
  sender->unread_ -= std::min(sender->unread_, bytes);
  if (was_full && sender->unread_ < Network::kWindow && sender->on_room) sender->on_room();
}

void End::close() {
  if (closed_) return;
  closed_ = true;
  on_arrival = nullptr;
  on_room = nullptr;
  put({{}, true});
}

void End::reset() {
  if (closed_) return;
  closed_ = true;
  on_arrival = nullptr;
  on_room = nullptr;
  put({{}, true, ECONNRESET});
}

void End::break_off() {
  if (closed_ || error_ != 0) return;
  put({{}, true, ECONNRESET});
  error_ = ECONNRESET;
  if (const auto arrival = on_arrival) arrival();
}

void End::put(Segment segment) {
  under_way_.push_back(std::move(segment));
  schedule();
}

void End::schedule() {
  if (is_scheduled_ || under_way_.empty()) return;
  is_scheduled_ = true;
  arrives_ = std::max(arrives_, network_.world_.now() + network_.latency());
  network_.world_.at(arrives_, [self = shared_from_this()] {
    self->is_scheduled_ = false;
    self->deliver();
  });
}

void End::deliver() {
  const std::shared_ptr<End> peer = peer_.lock();
  if (!peer || peer->closed_) {
    under_way_.clear();
    // The peer's kernel answers what comes too late.
    if (peer && !closed_ && error_ == 0 && !at_end_) {
      error_ = ECONNRESET;
      if (const auto arrival = on_arrival) arrival();
    }
    return;
  }
  const TimePoint silent = network_.silent_until(host_, peer->host_);
  if (silent > network_.world_.now()) {
    if (silent == TimePoint::max()) return;  // never
    arrives_ = silent;
    return schedule();
  }
  Segment& first = under_way_.front();
  if (first.is_end) {
    peer->at_end_ = true;
    peer->error_ = first.error;
    under_way_.pop_front();
  } else if (first.bytes.size() > 1 && network_.chance_.one_in(8)) {
    const std::size_t part = network_.chance_.between(1, first.bytes.size() - 1);
    peer->inbox_.append(first.bytes, 0, part);
    first.bytes.erase(0, part);
  } else {
    peer->inbox_ += first.bytes;
    under_way_.pop_front();
  }
  schedule();
  if (peer->on_arrival) {
    const auto arrival = peer->on_arrival;  // may end the peer
    arrival();
  }
}

// --- all of them ---------------------------------------------------------------------------------

Network::~Network() {
  for (const std::weak_ptr<End>& weak : ends_) {
    const std::shared_ptr<End> end = weak.lock();
    if (!end) continue;
    const auto arrival = std::exchange(end->on_arrival, nullptr);
    const auto room = std::exchange(end->on_room, nullptr);
  }
}

void Network::listen(const env::Endpoint& at, Accept accept) {
  listeners_.insert_or_assign(std::pair(at.host, at.port), std::move(accept));
}

void Network::stop_listening(const std::string& host) {
  std::erase_if(listeners_, [&](const auto& one) { return one.first.first == host; });
}

void Network::crash(const std::string& host) {
  stop_listening(host);
  for (const std::shared_ptr<End>& end : ends_of(host)) end->reset();
}

void Network::reset_connections(const std::string& host) {
  for (const std::shared_ptr<End>& end : ends_of(host)) end->break_off();
}

std::vector<std::shared_ptr<End>> Network::ends_of(const std::string& host) const {
  std::vector<std::shared_ptr<End>> found;
  for (const std::weak_ptr<End>& weak : ends_) {
    std::shared_ptr<End> end = weak.lock();
    if (end && end->host_ == host) found.push_back(std::move(end));
  }
  return found;
}

void Network::cut_off(const std::string& host, TimePoint until) {
  TimePoint& silent = silent_[host];
  silent = std::max(silent, until);
}

TimePoint Network::silent_until(const std::string& host) const {
  const auto found = silent_.find(host);
  return found == silent_.end() ? TimePoint{} : found->second;
}

void Network::cut_link(const std::string& one, const std::string& other, TimePoint until) {
  for (const auto& way : {std::pair(one, other), std::pair(other, one)}) {
    TimePoint& silent = silent_links_[way];
    silent = std::max(silent, until);
  }
}

TimePoint Network::silent_until(const std::string& one, const std::string& other) const {
  const auto found = silent_links_.find(std::pair(one, other));
  const TimePoint link = found == silent_links_.end() ? TimePoint{} : found->second;
  return std::max({link, silent_until(one), silent_until(other)});
}

void Network::connect(const std::string& from, const env::Endpoint& to, Connected connected) {
  const TimePoint silent = silent_until(from, to.host);
  if (silent == TimePoint::max()) return;
  world_.at(std::max(silent, world_.now() + latency()), [this, from, to, connected] {
    if (silent_until(from, to.host) > world_.now()) {
      return connect(from, to, connected);
    }
    const auto listener = listeners_.find(std::pair(to.host, to.port));
    if (listener == listeners_.end()) {
      world_.after(latency(), [connected] { connected(nullptr, ECONNREFUSED); });
      return;
    }
    std::erase_if(ends_, [](const std::weak_ptr<End>& end) { return end.expired(); });
    const auto near = std::make_shared<End>(*this, from);
    const auto far = std::make_shared<End>(*this, to.host);
    near->peer_ = far;
    far->peer_ = near;
    ends_.push_back(near);
    ends_.push_back(far);
    const Accept accept = listener->second;
    accept(far);
    world_.after(latency(), [connected, near] { connected(near, 0); });
  });
}

std::size_t Network::open_ends(const std::string& host) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ends_of(host), [](const auto& end) { return !end->is_closed(); }));
}

}  // namespace hflush::sim
