#include "hflush/hdfs/rpc/rpc_client.h"

#include <algorithm>
#include <unordered_map>

#include "hflush/base/mutex.h"
#include "hflush/env/own_process.h"
#include "hflush/env/timer.h"
#include "hflush/hdfs/rpc/call_table.h"
#include "hflush/hdfs/rpc/name_node_link.h"

namespace hflush::hdfs {
namespace {

using LinkId = CallTable::LinkId;

ClientId make_client_id(env::Randomness& randomness) {
  ClientId id;
  std::ranges::generate(id, [&] { return static_cast<char>(randomness.next()); });
  return id;
}

// Feeds the table, and carries out what it asks for when the lock is free again.
class CallShell final : public RpcClient, public NameNodeLink::Owner {
 public:
  CallShell(const env::Host& host, const RpcTarget& target, std::string user,
            const RpcSettings& settings)
      : loop_(host.loop),
        resolver_(host.resolver),
        tokens_(target.tokens),
        table_(target, std::move(user), settings, make_client_id(host.randomness),
               host.randomness.next()),
        links_(target.servers.size()),
        timer_(host.loop) {
    connecting_.no_delay = settings.tcp_no_delay;
    connecting_.connect_timeout = settings.connect_timeout;
  }
  ~CallShell() override {
    if (!origin_.is_parent()) CallShell::close();
  }
  CallShell(const CallShell&) = delete;
  CallShell& operator=(const CallShell&) = delete;

  using RpcClient::start;
  CallId start(std::string_view method, Repetition repetition, std::string body, std::string path,
               Done done) override;
  void cancel(CallId call) override;
  void disown(CallId call, std::string question) override;
  void close() override;
  env::EventLoop* loop() const noexcept override { return &loop_; }
  void add_statistics(Statistics& statistics) const override;

  void connected(LinkId link, const std::string& peer_address) override;
  void connect_failed(LinkId link, const Status& why) override;
  void received(LinkId link, ByteView bytes) override;
  void lost(LinkId link, int error_number) override;

 private:
  using Link = std::shared_ptr<NameNodeLink>;

  // What is to be done without the lock.
  struct Outbox {
    std::vector<Link> closes;
    std::vector<std::pair<Link, env::Endpoint>> connects;
    std::vector<Link> flushes;
    std::vector<std::pair<Done, Result<std::string>>> answers;
  };

  // One event of the table: `event(table, now, actions)`.
  template <typename Event>
  void feed(const Event& event) HFLUSH_EXCLUDES(mutex_);
  void take_over_locked(CallTable::Actions actions, Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void carry_out(Outbox outbox) HFLUSH_EXCLUDES(mutex_);
  Done take_done_locked(CallTable::CallId call) HFLUSH_REQUIRES(mutex_);
  void on_timer(env::Timer::Arming arming) HFLUSH_EXCLUDES(mutex_);

  std::shared_ptr<CallShell> self() {
    return std::static_pointer_cast<CallShell>(weak_from_this().lock());
  }

  env::EventLoop& loop_;
  env::Executor& resolver_;
  const std::shared_ptr<sasl::TokenFile> tokens_;
  env::TcpConnection::Options connecting_;
  const env::Origin origin_;

  // Before those of links and of the loop. Held while a call is encoded and queued; never across
  // sending, receiving, connecting, or the function that takes an answer.
  mutable Mutex mutex_;
  CallTable table_ HFLUSH_GUARDED_BY(mutex_);
  std::unordered_map<CallTable::CallId, Done> dones_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<Link> links_ HFLUSH_GUARDED_BY(mutex_);  // by server; null: there is none
  env::Timer timer_ HFLUSH_GUARDED_BY(mutex_);         // for the whole table
};

// --- calls, from any thread ----------------------------------------------------------------------

RpcClient::CallId CallShell::start(std::string_view method, Repetition repetition, std::string body,
                                   std::string path, Done done) {
  const auto refuse = [&](StatusCode code, const std::string& why) {
    done(Status(code, std::string(method) + ": " + why, path));
    return kNoCall;
  };
  if (origin_.is_parent()) {
    return refuse(StatusCode::kForked, "the client was made before this process was forked");
  }
  if (const Status started = loop_.start(); !started.ok()) {
    return refuse(started.code(), started.message());
  }
  Outbox outbox;
  CallId id = kNoCall;
  {
    const MutexLock lock(mutex_);
    CallTable::Actions actions;
    const CallTable::CallId call = table_.start(method, repetition, std::move(body),
                                                std::move(path), loop_.clock().now(), actions);
    dones_.emplace(call, std::move(done));
    take_over_locked(std::move(actions), outbox);
    if (dones_.contains(call)) id = static_cast<CallId>(call) + 1;
  }
  carry_out(std::move(outbox));
  return id;
}

void CallShell::cancel(CallId call) {
  if (origin_.is_parent() || call == kNoCall) return;
  Done cancelled;  // destroyed without the lock
  const MutexLock lock(mutex_);
  const auto id = static_cast<CallTable::CallId>(call - 1);
  if (table_.cancel(id, loop_.clock().now())) cancelled = take_done_locked(id);
}

void CallShell::disown(CallId call, std::string question) {
  if (origin_.is_parent() || call == kNoCall) return;
  Done cancelled;
  const MutexLock lock(mutex_);
  const auto id = static_cast<CallTable::CallId>(call - 1);
  const bool goes_on = table_.disown(id, std::move(question), loop_.clock().now());
  if (!goes_on) cancelled = take_done_locked(id);
}

void CallShell::close() {
  if (origin_.is_parent()) return;
  feed([](CallTable& table, env::TimePoint /*now*/, CallTable::Actions& actions) {
    table.close(actions);
  });
}

void CallShell::add_statistics(Statistics& statistics) const {
  if (origin_.is_parent()) return;
  const MutexLock lock(mutex_);
  const CallTable::Counts& counts = table_.counts();
  statistics["rpc_calls"] += counts.calls;
  statistics["rpc_retries"] += counts.retries;
  statistics["rpc_failovers"] += counts.failovers;
  statistics["rpc_connections"] += counts.connections;
  statistics["rpc_failures"] += counts.failures;
}

// --- what the table asks for ---------------------------------------------------------------------

template <typename Event>
void CallShell::feed(const Event& event) {
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    CallTable::Actions actions;
    event(table_, loop_.clock().now(), actions);
    take_over_locked(std::move(actions), outbox);
  }
  carry_out(std::move(outbox));
}

void CallShell::take_over_locked(CallTable::Actions actions, Outbox& outbox) {
  for (CallTable::Action& action : actions) {
    if (auto* connect = std::get_if<CallTable::Connect>(&action)) {
      Link& link = links_[connect->link.server];
      link = std::make_shared<NameNodeLink>(loop_, self(), connect->link);
      outbox.connects.emplace_back(link, std::move(connect->endpoint));
    } else if (auto* send = std::get_if<CallTable::Send>(&action)) {
      const Link& link = links_[send->link.server];
      link->queue(std::move(send->bytes));  // here, for the order
      if (outbox.flushes.empty() || outbox.flushes.back() != link) outbox.flushes.push_back(link);
    } else if (const auto* ended = std::get_if<CallTable::Disconnect>(&action)) {
      outbox.closes.push_back(std::move(links_[ended->link.server]));
    } else if (auto* answer = std::get_if<CallTable::Answer>(&action)) {
      outbox.answers.emplace_back(take_done_locked(answer->call), std::move(answer->body));
    }
  }
  timer_.arm_by(table_.due(), *this, &CallShell::on_timer);
}

void CallShell::carry_out(Outbox outbox) {
  for (const Link& link : outbox.closes) link->close();
  for (auto& [link, endpoint] : outbox.connects) {
    link->connect(resolver_, std::move(endpoint), connecting_);
  }
  for (const Link& link : outbox.flushes) link->flush();
  for (auto& [done, body] : outbox.answers) done(std::move(body));
}

RpcClient::Done CallShell::take_done_locked(CallTable::CallId call) {
  auto taken = dones_.extract(call);
  return taken.empty() ? Done([](const Result<std::string>&) {}) : std::move(taken.mapped());
}

// --- on the loop thread --------------------------------------------------------------------------

// After the process was stopped for a while there may be answers that have not been received yet:
// they come before the conclusion that there is no answer.
void CallShell::on_timer(env::Timer::Arming arming) {
  std::vector<Link> links;
  {
    const MutexLock lock(mutex_);
    if (!timer_.fired(arming)) return;
    links = links_;
  }
  for (const Link& link : links) {
    if (link) link->receive();
  }
  feed([](CallTable& table, env::TimePoint now, CallTable::Actions& actions) {
    table.time_passed(now, actions);
  });
}

void CallShell::connected(LinkId link, const std::string& peer_address) {
  const sasl::HeldTokens tokens = tokens_ ? tokens_->now() : sasl::HeldTokens{};
  feed([&](CallTable& table, env::TimePoint now, CallTable::Actions& actions) {
    table.connected(link, peer_address, tokens, now, actions);
  });
}

void CallShell::connect_failed(LinkId link, const Status& why) {
  feed([&](CallTable& table, env::TimePoint now, CallTable::Actions& actions) {
    table.connect_failed(link, why, now, actions);
  });
}

void CallShell::received(LinkId link, ByteView bytes) {
  feed([&](CallTable& table, env::TimePoint now, CallTable::Actions& actions) {
    table.received(link, bytes, now, actions);
  });
}

void CallShell::lost(LinkId link, int error_number) {
  feed([&](CallTable& table, env::TimePoint now, CallTable::Actions& actions) {
    table.lost(link, error_number, now, actions);
  });
}

}  // namespace

std::shared_ptr<RpcClient> RpcClient::make(const env::Host& host, const RpcTarget& target,
                                           std::string user, const RpcSettings& settings) {
  return std::make_shared<CallShell>(host, target, std::move(user), settings);
}

Result<std::string> RpcClient::call(std::string_view method, Repetition repetition,
                                    std::string body, const std::string& path,
                                    env::Interrupt& interrupt, const Leave& leave) {
  const env::EventLoop::Guest guest(loop());
  const auto answer = std::make_shared<BodyAnswer>();
  const CallId id = start(method, repetition, std::move(body), path,
                          [answer](Result<std::string> found) { answer->set(std::move(found)); });
  const Status interrupted = answer->wait(interrupt, loop());
  if (interrupted.ok()) return answer->take();
  leave(id, *answer);
  return interrupted.with_path(path);
}

}  // namespace hflush::hdfs
