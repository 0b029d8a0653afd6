#include "hflush/env/http_client.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <new>
#include <unordered_map>
#include <utility>

#include "hflush/base/mutex.h"
#include "hflush/env/curl_library.h"
#include "hflush/env/direct_exchanges.h"
#include "hflush/env/http_exchange.h"
#include "hflush/env/own_process.h"
#include "hflush/env/standard_streams.h"
#include "hflush/env/timer.h"

namespace hflush::env {
namespace {

using ExchangeId = HttpClient::ExchangeId;

constexpr int kCallsInTurn = 16;

// 0 for an invalid descriptor.
ino_t inode_of(int descriptor) noexcept {
  struct stat found{};
  return ::fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

// The pool of connections and what runs on it. Kept alive by the client, and by what the loop still
// has to do for it.
class Transfers final : public DirectExchanges::OtherWay,
                        public std::enable_shared_from_this<Transfers> {
 public:
  Transfers(EventLoop& loop, const CurlLibrary& curl, HttpSettings settings)
      : loop_(loop),
        curl_(curl),
        settings_(std::move(settings)),
        proxies_(HttpProxies::choose(settings_)) {}
  // The loop has nothing to do for it any more, or has ended.
  ~Transfers() { release(); }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  Status open();

  // Any thread.
  ExchangeId start(HttpRequest request, std::shared_ptr<HttpEvents> events);
  void resume(ExchangeId exchange);
  void cancel(ExchangeId exchange, std::function<void()> done);
  void end();
  std::size_t open_connections();

  std::size_t count() override;
  void start_again(ExchangeId id, HttpRequest request, std::shared_ptr<HttpEvents> events,
                   bool was_sent) override;
  void room_came() override;

 private:
  using ExchangeRef = std::shared_ptr<HttpExchange>;
  struct Command {
    enum class What : std::uint8_t { kStart, kResume, kCancel };
    What what;
    ExchangeRef exchange;  // none: it has ended
    std::function<void()> done;
  };
  // A descriptor that libcurl waits for.
  class Watched final : public EventLoop::Handler {
   public:
    Watched(std::shared_ptr<Transfers> transfers, curl_socket_t descriptor)
        : transfers_(std::move(transfers)), descriptor_(descriptor) {}
    void on_ready(bool readable, bool writable) override {
      transfers_->act(descriptor_,
                      (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0));
    }
    bool is_patient() const noexcept override { return false; }

   private:
    const std::shared_ptr<Transfers> transfers_;
    const curl_socket_t descriptor_;
  };

  void begin_later(ExchangeRef exchange);
  void command(ExchangeId id, Command::What what, std::function<void()> done);
  void give(Command command);

  // The loop thread.
  void obey();
  void begin(const ExchangeRef& exchange);
  bool has_room() const;
  void begin_waiting();
  void resume_now(const ExchangeRef& exchange);
  void cancel_now(const ExchangeRef& exchange);
  void act(curl_socket_t descriptor, int events);
  void settle();
  void call_until_settled();
  void take_results();
  void end_broken();
  void finish(HttpExchange& exchange, CURLcode code);
  ExchangeRef take_out(HttpExchange& exchange, CURLcode code);
  void look_for_stalls(Timer::Arming arming);
  void look_at(TimePoint when);
  CURLM* make_multi();
  void close_idle(TimePoint now);
  void wake_after(std::chrono::milliseconds delay);
  void wake(Timer::Arming arming);
  void release() noexcept;

  void watch(HttpExchange* exchange, curl_socket_t descriptor, EventLoop::Interest interest);
  Status watch_new(curl_socket_t descriptor, EventLoop::Interest interest);
  bool was_closed(curl_socket_t descriptor);
  curl_socket_t open_socket(const curl_sockaddr& address) noexcept;
  int close_socket(curl_socket_t descriptor) noexcept;

  static int on_socket(CURL* easy, curl_socket_t descriptor, int what, void* self,
                       void* of_socket) noexcept;
  static int on_timer(CURLM* multi, long milliseconds, void* self) noexcept;
  static curl_socket_t on_open(void* self, curlsocktype purpose, curl_sockaddr* address) noexcept;
  static int on_close(void* self, curl_socket_t descriptor) noexcept;

  EventLoop& loop_;
  const CurlLibrary& curl_;
  const HttpSettings settings_;
  const HttpProxies proxies_;
  std::shared_ptr<DirectExchanges> direct_;  // constant after open()

  // Before the loop's.
  Mutex mutex_;
  std::unordered_map<ExchangeId, ExchangeRef> exchanges_ HFLUSH_GUARDED_BY(mutex_);  // not ended
  std::vector<Command> commands_ HFLUSH_GUARDED_BY(mutex_);
  bool has_ended_ HFLUSH_GUARDED_BY(mutex_) = false;
  // By descriptor, the inode, because not all of them are closed by us (open_socket()).
  std::unordered_map<int, ino_t> sockets_ HFLUSH_GUARDED_BY(mutex_);

  // The loop thread's.
  CURLM* multi_ = nullptr;
  CURLSH* share_ = nullptr;
  std::deque<ExchangeRef> waiting_;
  std::vector<ExchangeRef> active_;
  std::vector<CURL*> idle_;
  std::unordered_map<int, EventLoop::Interest> watched_;  // for libcurl
  std::vector<ExchangeId> broken_;  // libcurl is called later: not from its own callback
  Timer timer_{loop_};              // libcurl's
  bool call_now_ = false;           // libcurl's timer has no time
  bool call_all_ = false;           // libcurl has to be called, and does not know it
  Timer stall_timer_{loop_};        // and for what is idle
  TimePoint last_end_;              // of an exchange
};

Status Transfers::open() {
  HFLUSH_RETURN_IF_ERROR(loop_.start());
  multi_ = make_multi();
  share_ = curl_.share_init();
  if (multi_ == nullptr || share_ == nullptr) {
    return Status::from_errno(ENOMEM, "start of an http client", {});
  }
  // Only one thread at a time uses it, so it needs no locks.
  curl_.share_setopt(share_, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  direct_ = std::make_shared<DirectExchanges>(loop_, settings_, settings_.direct, weak_from_this());
  direct_->watch_idle();
  return {};
}

// nullptr without memory.
CURLM* Transfers::make_multi() {
  CURLM* const multi = curl_.multi_init();
  if (multi == nullptr) return nullptr;
  void* const self = this;
  curl_.multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &Transfers::on_socket);
  curl_.multi_setopt(multi, CURLMOPT_SOCKETDATA, self);
  curl_.multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &Transfers::on_timer);
  curl_.multi_setopt(multi, CURLMOPT_TIMERDATA, self);
  curl_.multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  // Kept, idle ones and those in use together.
  curl_.multi_setopt(
      multi, CURLMOPT_MAXCONNECTS,
      static_cast<long>(std::clamp<std::size_t>(settings_.max_connections, 1, 4096)));
  return multi;
}

ExchangeId Transfers::start(HttpRequest request, std::shared_ptr<HttpEvents> events) {
  const ExchangeId id = direct_->new_id();
  if (proxies_.of(request.url).empty() && direct_->start(id, request, events)) return id;
  begin_later(std::make_shared<HttpExchange>(id, std::move(request), std::move(events)));
  return id;
}

void Transfers::start_again(ExchangeId id, HttpRequest request, std::shared_ptr<HttpEvents> events,
                            bool was_sent) {
  begin_later(std::make_shared<HttpExchange>(id, std::move(request), std::move(events), was_sent));
}

// Throws std::bad_alloc before anything has happened.
void Transfers::begin_later(ExchangeRef exchange) {
  const ExchangeId id = exchange->id();
  {
    const MutexLock lock(mutex_);
    exchanges_.emplace(id, exchange);
  }
  try {
    give({Command::What::kStart, std::move(exchange), {}});
  } catch (const std::bad_alloc&) {
    const MutexLock lock(mutex_);
    exchanges_.erase(id);
    throw;
  }
}

std::size_t Transfers::count() {
  const MutexLock lock(mutex_);
  return exchanges_.size();
}

void Transfers::room_came() {
  loop_.post([self = shared_from_this()] { self->obey(); });
}

void Transfers::resume(ExchangeId exchange) {
  if (!direct_->resume(exchange)) command(exchange, Command::What::kResume, {});
}

void Transfers::cancel(ExchangeId exchange, std::function<void()> done) {
  if (direct_->cancel(exchange, done)) return;
  command(exchange, Command::What::kCancel, std::move(done));
}

void Transfers::command(ExchangeId id, Command::What what, std::function<void()> done) {
  ExchangeRef exchange;
  {
    const MutexLock lock(mutex_);
    const auto found = exchanges_.find(id);
    if (found != exchanges_.end()) exchange = found->second;
  }
  if (!exchange && !done) return;
  give({what, exchange, std::move(done)});
  if (exchange && what == Command::What::kCancel) exchange->cancel();
}

void Transfers::give(Command command) {
  {
    const MutexLock lock(mutex_);
    if (has_ended_) return;
    // Before the first one is there: without memory for the task none waits for it in vain. The
    // task finds all that have come by then.
    if (commands_.empty()) loop_.post([self = shared_from_this()] { self->obey(); });
    commands_.push_back(std::move(command));
  }
}

void Transfers::end() {
  std::vector<Command> commands;  // released without the lock
  {
    const MutexLock lock(mutex_);
    has_ended_ = true;
    commands.swap(commands_);
    for (const auto& [id, exchange] : exchanges_) exchange->cancel();
  }
  direct_->end();
  loop_.post([self = shared_from_this()] { self->release(); });
}

void Transfers::obey() {
  std::vector<Command> commands;
  {
    const MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    switch (command.what) {
      case Command::What::kStart:
        waiting_.push_back(std::move(command.exchange));
        begin_waiting();
        break;
      case Command::What::kResume:
        resume_now(command.exchange);
        break;
      case Command::What::kCancel:
        if (command.exchange) {
          command.exchange->cancel();
          cancel_now(command.exchange);
        }
        command.exchange.reset();
        if (command.done) command.done();
        break;
    }
  }
  settle();
}

// Those that are paused wait for readers, which may wait for others in turn.
bool Transfers::has_room() const {
  const auto moving =
      std::ranges::count_if(active_, [](const ExchangeRef& one) { return !one->is_paused(); });
  return direct_->has_room(static_cast<std::size_t>(moving));
}

void Transfers::begin_waiting() {
  while (!waiting_.empty() && has_room()) {
    const ExchangeRef next = std::move(waiting_.front());
    waiting_.pop_front();
    begin(next);
  }
}

void Transfers::begin(const ExchangeRef& exchange) {
  CURL* easy = nullptr;
  if (!idle_.empty()) {
    easy = idle_.back();
    idle_.pop_back();
  } else {
    easy = curl_.easy_init();
    if (easy != nullptr) curl_.easy_setopt(easy, CURLOPT_SHARE, share_);
  }
  active_.push_back(exchange);
  const TimePoint now = loop_.clock().now();
  Status failure = exchange->set_up(curl_, easy, settings_, proxies_, now);
  if (failure.ok()) {
    void* const self = this;
    curl_.easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Transfers::on_open);
    curl_.easy_setopt(easy, CURLOPT_OPENSOCKETDATA, self);
    curl_.easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, &Transfers::on_close);
    curl_.easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, self);
    const CURLMcode code = curl_.multi_add_handle(multi_, easy);
    if (code != CURLM_OK) {
      failure = Status(StatusCode::kIo,
                       std::string("start of an http request: ") + curl_.multi_strerror(code), {},
                       code == CURLM_OUT_OF_MEMORY ? ENOMEM : EINVAL);
    }
  }
  if (!failure.ok()) {
    exchange->fail(std::move(failure));
    broken_.push_back(exchange->id());
    return;
  }
  look_at(exchange->look(now));
}

void Transfers::resume_now(const ExchangeRef& exchange) {
  if (exchange->state() != HttpExchange::State::kActive || !exchange->is_paused()) return;
  const TimePoint now = loop_.clock().now();
  exchange->resumed(now);
  look_at(exchange->look(now));
  // What it kept comes from within this call.
  const CURLcode code = curl_.easy_pause(exchange->easy(), CURLPAUSE_CONT);
  if (code != CURLE_OK) finish(*exchange, code);
}

void Transfers::cancel_now(const ExchangeRef& exchange) {
  switch (exchange->state()) {
    case HttpExchange::State::kWaiting: {
      std::erase(waiting_, exchange);
      exchange->let_go();
      const MutexLock lock(mutex_);
      exchanges_.erase(exchange->id());
      break;
    }
    case HttpExchange::State::kActive:
      finish(*exchange, CURLE_ABORTED_BY_CALLBACK);
      break;
    case HttpExchange::State::kEnded:
      break;
  }
}

void Transfers::act(curl_socket_t descriptor, int events) {
  if (multi_ == nullptr) return;
  int running = 0;
  static_cast<void>(curl_.multi_socket_action(multi_, descriptor, events, &running));
  settle();
}

// What follows from a call of libcurl: results, and calls that it wants at once. The thread may be
// the program's.
void Transfers::settle() {
  if (multi_ != nullptr) call_until_settled();
  if (curl_.clear_tls_errors != nullptr) curl_.clear_tls_errors();
}

void Transfers::call_until_settled() {
  for (int calls = 0;; ++calls) {
    do {
      take_results();
      end_broken();
      begin_waiting();
    } while (!broken_.empty());
    if (!call_now_ && !call_all_) return;
    if (calls == kCallsInTurn) {
      wake_after(std::chrono::milliseconds(1));  // others have a turn
      return;
    }
    call_now_ = false;
    int running = 0;
    if (std::exchange(call_all_, false)) {
      static_cast<void>(curl_.multi_socket_all(multi_, &running));
    } else {
      static_cast<void>(curl_.multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running));
    }
  }
}

void Transfers::take_results() {
  int left = 0;
  while (const CURLMsg* message = curl_.multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    void* exchange = nullptr;
    curl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
    finish(*static_cast<HttpExchange*>(exchange), message->data.result);
  }
}

void Transfers::end_broken() {
  for (const ExchangeId id : std::exchange(broken_, {})) {
    const auto found =
        std::ranges::find_if(active_, [id](const ExchangeRef& one) { return one->id() == id; });
    if (found != active_.end()) finish(**found, CURLE_ABORTED_BY_CALLBACK);
  }
}

// Ends an active exchange: out of libcurl first, and then reported to its owner.
void Transfers::finish(HttpExchange& exchange, CURLcode code) {
  HttpEnd end = exchange.outcome(code);
  if (code == CURLE_OK && direct_->wants_address(exchange.authority())) {
    if (const auto peer = exchange.plain_peer()) direct_->learn(exchange.authority(), *peer);
  }
  const ExchangeRef ended = take_out(exchange, code);
  ended->report(std::move(end));
}

Transfers::ExchangeRef Transfers::take_out(HttpExchange& exchange, CURLcode code) {
  const auto found =
      std::ranges::find_if(active_, [&](const ExchangeRef& one) { return one.get() == &exchange; });
  ExchangeRef ended = std::move(*found);
  active_.erase(found);
  CURL* const easy = ended->easy();
  if (easy != nullptr) {
    curl_.multi_remove_handle(multi_, easy);
    // One that failed may remember of it more than options.
    if (code == CURLE_OK) {
      curl_.easy_reset(easy);
      idle_.push_back(easy);
    } else {
      curl_.easy_cleanup(easy);
    }
  }
  ended->let_go();
  last_end_ = loop_.clock().now();
  look_at(deadline_after(last_end_, settings_.idle_timeout));
  const MutexLock lock(mutex_);
  exchanges_.erase(ended->id());
  return ended;
}

// libcurl closes what is too old when it looks for a connection, and has no call for it. So where
// it had nothing to do for that long, another one takes its place: the connections are its own.
void Transfers::close_idle(TimePoint now) {
  const TimePoint due = deadline_after(last_end_, settings_.idle_timeout);
  if (now < due) return look_at(due);
  CURLM* const another = make_multi();
  if (another == nullptr) return;
  CURLM* const multi = std::exchange(multi_, nullptr);  // its callbacks have nothing to do
  curl_.multi_cleanup(multi);
  timer_.cancel();
  call_now_ = call_all_ = false;
  multi_ = another;
}

void Transfers::look_at(TimePoint when) {
  stall_timer_.arm_by(when, *this, &Transfers::look_for_stalls);
}

void Transfers::look_for_stalls(Timer::Arming arming) {
  if (!stall_timer_.fired(arming) || multi_ == nullptr) return;
  const TimePoint now = loop_.clock().now();
  for (const ExchangeRef& exchange : std::vector<ExchangeRef>(active_)) {
    const TimePoint next = exchange->look(now);
    if (exchange->has_stalled(now)) {
      exchange->fail(exchange->stalled(now));
      finish(*exchange, CURLE_OPERATION_TIMEDOUT);
    } else {
      look_at(next);
    }
  }
  if (active_.empty() && waiting_.empty()) close_idle(now);
  settle();
}

void Transfers::wake_after(std::chrono::milliseconds delay) {
  timer_.arm(deadline_after(loop_.clock().now(), delay), *this, &Transfers::wake);
}

void Transfers::wake(Timer::Arming arming) {
  if (timer_.fired(arming)) act(CURL_SOCKET_TIMEOUT, 0);
}

// All of libcurl's; nothing is reported any more.
void Transfers::release() noexcept {
  CURLM* const multi = std::exchange(multi_, nullptr);
  std::vector<ExchangeRef> active;
  active.swap(active_);
  for (const ExchangeRef& exchange : active) {
    if (CURL* const easy = exchange->easy()) {
      curl_.multi_remove_handle(multi, easy);
      curl_.easy_cleanup(easy);
    }
    exchange->let_go();
  }
  for (CURL* easy : std::exchange(idle_, {})) curl_.easy_cleanup(easy);
  if (multi != nullptr) curl_.multi_cleanup(multi);
  if (share_ != nullptr) curl_.share_cleanup(std::exchange(share_, nullptr));
  timer_.cancel();
  stall_timer_.cancel();
  waiting_.clear();
  std::unordered_map<ExchangeId, ExchangeRef> exchanges;  // released without the lock
  const MutexLock lock(mutex_);
  exchanges.swap(exchanges_);
}

// `exchange`: whose socket it is; null if it has no owner any more.
void Transfers::watch(HttpExchange* exchange, curl_socket_t descriptor,
                      EventLoop::Interest interest) {
  const auto known = watched_.find(descriptor);
  if (known != watched_.end()) {
    known->second = interest;
    loop_.change(descriptor, interest);
    return;
  }
  Status failure = watch_new(descriptor, interest);
  if (failure.ok() || exchange == nullptr) return;
  exchange->fail(std::move(failure));
  broken_.push_back(exchange->id());
}

Status Transfers::watch_new(curl_socket_t descriptor, EventLoop::Interest interest) {
  HFLUSH_RETURN_IF_ERROR(
      loop_.watch(descriptor, interest, std::make_shared<Watched>(shared_from_this(), descriptor)));
  watched_[descriptor] = interest;
  return {};
}

// By libcurl itself: a socket that never was connected. 7.88 begins with the next address when it
// is called the next time, and asks for no such call.
bool Transfers::was_closed(curl_socket_t descriptor) {
  const MutexLock lock(mutex_);
  const auto known = sockets_.find(descriptor);
  if (known == sockets_.end() || inode_of(descriptor) == known->second) return false;
  sockets_.erase(known);
  return true;
}

std::size_t Transfers::open_connections() {
  const std::size_t direct = direct_->open_connections();
  const MutexLock lock(mutex_);
  std::erase_if(sockets_,
                [](const auto& socket) { return inode_of(socket.first) != socket.second; });
  return direct + sockets_.size();
}

// NOLINTNEXTLINE(bugprone-exception-escape): the header says what that means
curl_socket_t Transfers::open_socket(const curl_sockaddr& address) noexcept {
  const int made = beside_standard_streams(
      ::socket(address.family, address.socktype | SOCK_CLOEXEC, address.protocol));
  if (made < 0) return CURL_SOCKET_BAD;
  const auto stale = watched_.find(made);
  if (stale != watched_.end()) {
    // libcurl 7.88 does not tell of the end of a socket that never was connected. It takes this one
    // for that one: it will not ask for it to be watched.
    const EventLoop::Interest interest = stale->second;
    watched_.erase(stale);
    loop_.unwatch(made);
    if (!watch_new(made, interest).ok()) {
      ::close(made);
      return CURL_SOCKET_BAD;
    }
  }
  const MutexLock lock(mutex_);
  sockets_[made] = inode_of(made);
  return made;
}

int Transfers::close_socket(curl_socket_t descriptor) noexcept {
  // A forked child that has it, too, must neither keep it watched nor keep the peer waiting.
  watched_.erase(descriptor);
  loop_.unwatch(descriptor);
  static_cast<void>(::shutdown(descriptor, SHUT_RDWR));
  {
    const MutexLock lock(mutex_);
    sockets_.erase(descriptor);
  }
  return ::close(descriptor);
}

// NOLINTNEXTLINE(bugprone-exception-escape): the header says what that means
int Transfers::on_socket(CURL* easy, curl_socket_t descriptor, int what, void* self,
                         void* /*of_socket*/) noexcept {
  auto* const transfers = static_cast<Transfers*>(self);
  void* exchange = nullptr;
  transfers->curl_.easy_getinfo(easy, CURLINFO_PRIVATE, &exchange);
  if (exchange != nullptr) {
    static_cast<HttpExchange*>(exchange)->uses(descriptor, what != CURL_POLL_REMOVE);
  }
  if (what == CURL_POLL_REMOVE) {
    transfers->watched_.erase(descriptor);
    transfers->loop_.unwatch(descriptor);
    transfers->call_all_ = transfers->call_all_ || transfers->was_closed(descriptor);
    return 0;
  }
  if (transfers->multi_ == nullptr) return 0;  // ending
  auto interest = EventLoop::Interest::kNone;
  if (what == CURL_POLL_IN) interest = EventLoop::Interest::kRead;
  if (what == CURL_POLL_OUT) interest = EventLoop::Interest::kWrite;
  if (what == CURL_POLL_INOUT) interest = EventLoop::Interest::kReadAndWrite;
  transfers->watch(static_cast<HttpExchange*>(exchange), descriptor, interest);
  return 0;
}

// NOLINTNEXTLINE(bugprone-exception-escape): the header says what that means
int Transfers::on_timer(CURLM* /*multi*/, long milliseconds, void* self) noexcept {
  auto* const transfers = static_cast<Transfers*>(self);
  if (transfers->multi_ == nullptr) return 0;  // ending
  transfers->call_now_ = milliseconds == 0;
  if (milliseconds > 0) {
    transfers->wake_after(std::chrono::milliseconds(milliseconds));
  } else {
    transfers->timer_.cancel();
  }
  return 0;
}

curl_socket_t Transfers::on_open(void* self, curlsocktype /*purpose*/,
                                 curl_sockaddr* address) noexcept {
  return static_cast<Transfers*>(self)->open_socket(*address);
}

int Transfers::on_close(void* self, curl_socket_t descriptor) noexcept {
  return static_cast<Transfers*>(self)->close_socket(descriptor);
}

class CurlHttpClient final : public HttpClient {
 public:
  explicit CurlHttpClient(std::shared_ptr<Transfers> transfers)
      : transfers_(std::move(transfers)) {}
  // NOLINTNEXTLINE(bugprone-exception-escape): the header says what that means
  ~CurlHttpClient() override {
    if (Transfers* const transfers = transfers_.here()) transfers->end();
  }
  CurlHttpClient(const CurlHttpClient&) = delete;
  CurlHttpClient& operator=(const CurlHttpClient&) = delete;

  ExchangeId start(HttpRequest request, std::shared_ptr<HttpEvents> events) override {
    Transfers* const transfers = transfers_.here();
    return transfers == nullptr ? 0 : transfers->start(std::move(request), std::move(events));
  }
  void resume(ExchangeId exchange) override {
    if (Transfers* const transfers = transfers_.here()) transfers->resume(exchange);
  }
  void cancel(ExchangeId exchange, std::function<void()> done) override {
    if (Transfers* const transfers = transfers_.here()) {
      transfers->cancel(exchange, std::move(done));
    }
  }
  std::size_t open_connections() const override {
    Transfers* const transfers = transfers_.here();
    return transfers == nullptr ? 0 : transfers->open_connections();
  }

 private:
  const OwnProcess<Transfers> transfers_;
};

class TextBody final : public HttpBody {
 public:
  explicit TextBody(std::string text) : text_(std::move(text)) {}
  std::uint64_t size() const noexcept override { return text_.size(); }
  std::ptrdiff_t read_at(std::uint64_t offset, MutableByteView out) const noexcept override {
    if (offset >= text_.size()) return 0;
    const auto begin = static_cast<std::size_t>(offset);
    const std::size_t count = std::min(out.size(), text_.size() - begin);
    std::memcpy(out.data(), text_.data() + begin, count);
    return static_cast<std::ptrdiff_t>(count);
  }
  std::size_t views_at(std::uint64_t offset, std::span<ByteView> out) const noexcept override {
    if (offset >= text_.size() || out.empty()) return 0;
    out[0] = as_bytes(text_).subspan(static_cast<std::size_t>(offset));
    return 1;
  }

 private:
  const std::string text_;
};

}  // namespace

std::shared_ptr<const HttpBody> text_body(std::string text) {
  return std::make_shared<TextBody>(std::move(text));
}

int read_fully(const HttpBody& body, std::uint64_t offset, MutableByteView out) noexcept {
  while (!out.empty()) {
    const std::ptrdiff_t count = body.read_at(offset, out);
    if (count <= 0) return count == 0 ? EIO : static_cast<int>(-count);
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return 0;
}

Result<std::shared_ptr<HttpClient>> HttpClient::make(EventLoop& loop, HttpSettings settings) {
  HFLUSH_ASSIGN_OR_RETURN(const CurlLibrary* curl, CurlLibrary::load());
  const auto transfers = std::make_shared<Transfers>(loop, *curl, std::move(settings));
  HFLUSH_RETURN_IF_ERROR(transfers->open());
  return std::shared_ptr<HttpClient>(std::make_shared<CurlHttpClient>(transfers));
}

}  // namespace hflush::env
