#include "hflush/s3/call/client.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>
#include <optional>
#include <random>
#include <utility>
#include <variant>

#include "hflush/base/mutex.h"
#include "hflush/crypto/digest.h"
#include "hflush/env/answer.h"
#include "hflush/env/process.h"
#include "hflush/env/timer.h"
#include "hflush/s3/call/addresses.h"
#include "hflush/s3/call/call_table.h"
#include "hflush/s3/call/extras.h"
#include "hflush/s3/call/outcome.h"
#include "hflush/s3/call/request.h"

namespace hflush::s3 {
namespace {

using Actions = CallTable::Actions;

// Of an error document that answers a download.
constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10U;

// The operation that is asked for a bucket's region.
constexpr std::string_view kAsksForRegion = "HeadBucket";

// Another region or host is to be asked, and the store has not said which.
bool is_somewhere_else(const Failure& failure) noexcept {
  return failure.kind == FailureKind::kAddress && failure.region.empty() &&
         failure.location.empty();
}

// Of a call that ends for a reason of our own. `ambiguous`: it may have been executed.
CallResult failed_with(const Status& why, const std::string& path, bool ambiguous) {
  CallResult result;
  result.failure.emplace();
  result.failure->message = why.message();
  result.failure->transport = why;
  result.ambiguous = ambiguous;
  result.status = why.with_path(path);
  return result;
}

// Ends a call that cannot be begun.
Client::CallId refuse(const Call& call, const Status& why, const Client::Done& done,
                      Download* download) {
  CallResult result = failed_with(why, path_of(call), false);
  if (download != nullptr) {
    download->on_end(std::move(result));
  } else {
    done(std::move(result));
  }
  return 0;
}

}  // namespace

// Feeds the table, and carries out what it asks for when the lock is free again.
class Client::Calls final : public std::enable_shared_from_this<Calls> {
 public:
  Calls(Settings settings, std::shared_ptr<CredentialStore> credentials, env::EventLoop& loop,
        std::shared_ptr<env::HttpClient> http);

  // One of `done` and `download` is there.
  CallId start(Call call, Done done, std::shared_ptr<Download> download) HFLUSH_EXCLUDES(mutex_);
  void resume(CallId id) HFLUSH_EXCLUDES(mutex_);
  void cancel(CallId id, std::function<void()> gone) HFLUSH_EXCLUDES(mutex_);
  // Ends every call; none is reported.
  void close() HFLUSH_EXCLUDES(mutex_);
  void add_statistics(Statistics& statistics) const HFLUSH_EXCLUDES(mutex_);

  const Settings& settings() const noexcept { return settings_; }
  CredentialStore& credentials() const noexcept { return *credentials_; }
  env::EventLoop& loop() const noexcept { return loop_; }
  const std::string& endpoint() const noexcept { return endpoint_; }
  RefusedExtras& refused() const noexcept { return *refused_; }
  std::uint64_t new_stream() noexcept { return ++last_stream_; }

 private:
  // The thread of an attempt's events reads the body once more when it is over (weigh_extras()),
  // while another one may end the call: then the body goes when it has been read.
  enum class BodyIs : std::uint8_t { kKept, kWeighed, kUnwanted };

  // A call, and the response to its attempt. What is not constant belongs to the thread that has an
  // action of the table for it, and while its exchange is under way to that of its events.
  class Running final : public Call, public env::HttpEvents {
   public:
    Running(std::weak_ptr<Calls> owner, Call call, Done its_done, std::shared_ptr<Download> to)
        : Call(std::move(call)),
          done(std::move(its_done)),
          download(std::move(to)),
          owner_(std::move(owner)) {}

    void on_head(env::HttpHead head) override;
    bool on_body(ByteView bytes) override;
    void on_end(env::HttpEnd end) override;

    CallId id = 0;
    BodyIs body_is = BodyIs::kKept;  // with the lock
    const Done done;
    const std::shared_ptr<Download> download;
    std::function<void()> gone;     // of one that was cancelled
    std::uint64_t credentials = 0;  // generation of those it was signed with
    Signing signing;
    env::HttpResult response;
    std::optional<Failure> failure;
    Extras left_out = kNoExtras;  // since the store, and no page in its place, refused them
    bool is_streaming = false;    // 2xx: the body goes to `download`
    bool has_streamed = false;    // at least a byte of it

   private:
    const std::weak_ptr<Calls> owner_;
  };
  using RunningPtr = std::shared_ptr<Running>;

  static RunningPtr running_of(const CallTable::CallRef& call) {
    return std::static_pointer_cast<Running>(call);
  }

  // One event of the table: `event(table, now, actions)`.
  template <typename Event>
  void feed(const Event& event) HFLUSH_EXCLUDES(mutex_);
  void on_timer(env::Timer::Arming arming) HFLUSH_EXCLUDES(mutex_);

  void perform(const Actions& actions) HFLUSH_EXCLUDES(mutex_);
  // As std::visit(), which throws where a variant has no value: some callers may not.
  template <typename... What>
  void perform_one(const std::variant<What...>& action) HFLUSH_EXCLUDES(mutex_) {
    (perform_if<What>(action), ...);
  }
  template <typename What>
  void perform_if(const CallTable::Action& action) HFLUSH_EXCLUDES(mutex_) {
    if (const auto* what = std::get_if<What>(&action)) perform(*what);
  }
  void perform(const CallTable::Send& send) noexcept HFLUSH_EXCLUDES(mutex_) { begin(send, false); }
  void perform(const CallTable::Resume& resume) { http_->resume(resume.exchange); }
  void perform(const CallTable::WantCredentials& want) HFLUSH_EXCLUDES(mutex_);
  void perform(const CallTable::StopWanting& stop) { credentials_->stop_waiting(stop.want); }
  void perform(const CallTable::Answer& answer);
  void perform(const CallTable::End& end);

  // `by_caller`: by the thread that makes the call, within that.
  void begin(const CallTable::Send& send, bool by_caller) noexcept HFLUSH_EXCLUDES(mutex_);
  env::HttpClient::ExchangeId begin_exchange(const RunningPtr& call, bool by_caller)
      HFLUSH_EXCLUDES(mutex_);
  void sent(CallId id, std::uint64_t attempt, env::HttpClient::ExchangeId exchange)
      HFLUSH_EXCLUDES(mutex_);
  void attempt_over(Running& call) HFLUSH_EXCLUDES(mutex_);
  void ask_for_region(CallId id) HFLUSH_EXCLUDES(mutex_);
  void judged(Running& call) HFLUSH_EXCLUDES(mutex_);
  void weigh_extras(Running& call);

  // Runs `what`, if the client is still there.
  template <typename What>
  auto later(What what) {
    return [weak = weak_from_this(), what = std::move(what)] {
      if (const auto self = weak.lock(); self != nullptr) what(*self);
    };
  }

  const Settings settings_;
  const std::shared_ptr<CredentialStore> credentials_;
  env::EventLoop& loop_;
  const std::shared_ptr<env::HttpClient> http_;
  const std::string endpoint_;
  const std::shared_ptr<RefusedExtras> refused_;
  SigningKeys keys_;
  std::atomic<std::uint64_t> last_stream_ = 0;
  // The last large body was taken: the next one is sent without a question, which costs a round
  // trip.
  std::atomic<bool> takes_bodies_ = false;

  // Before the loop's. Never held across a request, a function of the credential store, or the
  // function that takes an answer.
  mutable Mutex mutex_;
  CallTable table_ HFLUSH_GUARDED_BY(mutex_);
  env::Timer timer_ HFLUSH_GUARDED_BY(mutex_);  // for the whole table
};

Client::Calls::Calls(Settings settings, std::shared_ptr<CredentialStore> credentials,
                     env::EventLoop& loop, std::shared_ptr<env::HttpClient> http)
    : settings_(std::move(settings)),
      credentials_(std::move(credentials)),
      loop_(loop),
      http_(std::move(http)),
      endpoint_(settings_.scheme + "://" + settings_.authority({}) + settings_.base_path),
      refused_(settings_.refused_extras != nullptr ? settings_.refused_extras
                                                   : std::make_shared<RefusedExtras>(kNoExtras)),
      table_(settings_, std::random_device()()),
      timer_(loop) {}

// --- from any thread -----------------------------------------------------------------------------

Client::CallId Client::Calls::start(Call call, Done done, std::shared_ptr<Download> download) {
  const Extras refused = refused_->load();
  if (refused != kNoExtras) leave_out(extras_of(call, settings_) & refused, call);
  Status refusal = loop_.start();
  if (refusal.ok()) refusal = hash_body(settings_, call, (refused & kUnsignedBody) != 0);
  if (!refusal.ok()) return refuse(call, refusal, done, download.get());
  const auto running = std::make_shared<Running>(weak_from_this(), std::move(call), std::move(done),
                                                 std::move(download));
  Actions actions;
  CallId id = 0;
  {
    const MutexLock lock(mutex_);
    id = running->id = table_.start(running, actions);
  }
  for (const CallTable::Action& action : actions) {
    const auto* const send = std::get_if<CallTable::Send>(&action);
    if (send != nullptr && send->call == running) {
      begin(*send, true);
    } else {
      perform_one(action);
    }
  }
  return id;
}

void Client::Calls::resume(CallId id) {
  env::HttpClient::ExchangeId exchange = 0;
  {
    const MutexLock lock(mutex_);
    exchange = table_.resume(id);
  }
  if (exchange != 0) http_->resume(exchange);
}

void Client::Calls::cancel(CallId id, std::function<void()> gone) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    const CallTable::CallRef call = table_.cancel(id, actions);
    if (call != nullptr) running_of(call)->gone = std::exchange(gone, {});
  }
  perform(actions);
  if (gone) loop_.post(std::move(gone));
}

void Client::Calls::close() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    table_.close(actions);
    timer_.cancel();
  }
  perform(actions);
}

void Client::Calls::add_statistics(Statistics& statistics) const {
  const MutexLock lock(mutex_);
  table_.add_statistics(statistics);
}

// --- what the table asks for ---------------------------------------------------------------------

template <typename Event>
void Client::Calls::feed(const Event& event) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    event(table_, loop_.clock().now(), actions);
    timer_.arm_by(table_.due(), *this, &Calls::on_timer);
  }
  perform(actions);
}

void Client::Calls::on_timer(env::Timer::Arming arming) {
  feed([&](CallTable& table, env::TimePoint now, Actions& actions) HFLUSH_REQUIRES(mutex_) {
    if (timer_.fired(arming)) table.time_passed(now, actions);
  });
}

void Client::Calls::perform(const Actions& actions) {
  for (const CallTable::Action& action : actions) perform_one(action);
}

// The thread that begins an attempt may be that of another call, which is not to fail for it: an
// attempt for which there is no memory fails by itself. Without memory for that either the process
// ends.
void Client::Calls::begin(const CallTable::Send& send, bool by_caller) noexcept {
  const RunningPtr call = running_of(send.call);
  env::HttpClient::ExchangeId exchange = 0;
  try {
    exchange = begin_exchange(call, by_caller);
  } catch (const std::bad_alloc&) {
    loop_.post([self = shared_from_this(), call, attempt = send.attempt] {
      self->sent(call->id, attempt, 0);
      call->response = {};
      call->response.end.failure = Status::from_errno(
          ENOMEM, "start of a request to " + self->settings_.authority(call->bucket), {});
      self->attempt_over(*call);
    });
    return;
  }
  sent(call->id, send.attempt, exchange);
}

void Client::Calls::sent(CallId id, std::uint64_t attempt, env::HttpClient::ExchangeId exchange) {
  feed([=](CallTable& table, env::TimePoint /*now*/, Actions& actions) {
    table.sent(id, attempt, exchange, actions);
  });
}

// Nothing has happened where it throws.
env::HttpClient::ExchangeId Client::Calls::begin_exchange(const RunningPtr& call, bool by_caller) {
  const CredentialStore::Current current = credentials_->current();
  Attempt attempt;
  {
    const MutexLock lock(mutex_);
    attempt.target = table_.target(call->id);
  }
  attempt.time = std::chrono::system_clock::now() + attempt.target.clock_ahead;
  attempt.begins = loop_.clock().now();
  attempt.is_download = call->download != nullptr;
  attempt.by_caller = by_caller;
  attempt.asks_first = !takes_bodies_.load(std::memory_order_relaxed);
  if (!current.credentials.anonymous()) {
    attempt.key =
        keys_.of(current.credentials, current.generation, attempt.target.region, attempt.time);
  }
  call->credentials = current.generation;
  call->signing = signing_of(*call, attempt, current.credentials);
  call->response = {};
  call->is_streaming = false;
  return http_->start(make_request(settings_, *call, attempt, current.credentials), call);
}

// If there are newer ones by now, the store says so at once.
void Client::Calls::perform(const CallTable::WantCredentials& want) {
  const RunningPtr call = running_of(want.call);
  const auto newer = [id = call->id, attempt = want.attempt](Calls& self) {
    self.feed([=](CallTable& table, env::TimePoint /*now*/, Actions& actions) {
      table.credentials_newer(id, attempt, actions);
    });
  };
  const CredentialStore::WantId known =
      credentials_->want_newer_than(call->credentials, later(newer));
  feed([&](CallTable& table, env::TimePoint /*now*/, Actions& actions) {
    table.wanted(call->id, want.attempt, known, actions);
  });
}

// What was sent is released first: the caller may fill as much memory again.
void Client::Calls::perform(const CallTable::Answer& answer) {
  const RunningPtr call = running_of(answer.call);
  call->body.reset();
  CallResult result;
  result.head = std::move(call->response.head);
  result.body = std::move(call->response.body);
  result.attempts = answer.attempts;
  result.ambiguous = answer.ambiguous;
  result.deadline = answer.deadline;
  result.sent = std::move(call->headers);
  if (call->failure) {
    result.status =
        to_status(*call->failure, call->operation, endpoint_, path_of(*call), answer.attempts);
    result.failure = std::move(call->failure);
  }
  if (call->download != nullptr) return call->download->on_end(std::move(result));
  call->done(std::move(result));
}

// "Gone" means that the body is not read any more.
void Client::Calls::perform(const CallTable::End& end) {
  const RunningPtr call = running_of(end.call);
  std::shared_ptr<const env::HttpBody> unwanted;
  {
    const MutexLock lock(mutex_);
    if (call->body_is == BodyIs::kWeighed) {
      call->body_is = BodyIs::kUnwanted;
    } else {
      unwanted = std::move(call->body);
    }
  }
  unwanted.reset();
  if (end.exchange != 0) {
    http_->cancel(end.exchange, std::move(call->gone));
  } else if (call->gone) {
    loop_.post(std::move(call->gone));
  }
}

// --- the response: on the loop thread, or a guest's ----------------------------------------------

void Client::Calls::Running::on_head(env::HttpHead head) {
  response.head = std::move(head);
  // A page in the place of an object is judged when it is there.
  const bool may_be_it = expect != Expect::kHead || is_of_store(response.head);
  is_streaming = download != nullptr && response.head.status / 100 == 2 && may_be_it;
  if (!is_streaming) return;
  // Its reader may have it all, and make the next call, before its end is known here.
  if (const auto calls = left_out != kNoExtras ? owner_.lock() : nullptr) {
    calls->refused_->fetch_or(left_out);
  }
  download->on_head(response.head);
}

bool Client::Calls::Running::on_body(ByteView bytes) {
  if (is_streaming) {
    if (!download->on_body(bytes)) return false;
    has_streamed = true;
    return true;
  }
  if (download != nullptr) {
    // What does not fit of an error document is not needed.
    bytes = bytes.first(std::min(bytes.size(), kMaxErrorBytes - response.body.size()));
  }
  response.body += as_text(bytes);
  return true;
}

void Client::Calls::Running::on_end(env::HttpEnd end) {
  response.end = std::move(end);
  if (const auto owner = owner_.lock()) owner->attempt_over(*this);
}

void Client::Calls::attempt_over(Running& call) {
  call.failure = judge(call.response, call.expect, call.root, call.signing);
  if (call.failure) check_redirect(settings_, call.bucket, call.signing.region, *call.failure);
  if (call.failure && is_somewhere_else(*call.failure) && call.operation != kAsksForRegion) {
    return ask_for_region(call.id);
  }
  judged(call);
}

// An answer to HEAD of the bucket says its region, whatever its status. The attempt is over, as far
// as the table knows, when there is one.
void Client::Calls::ask_for_region(CallId id) {
  RunningPtr call;
  {
    const MutexLock lock(mutex_);
    call = running_of(table_.find(id));
  }
  if (call == nullptr) return;  // cancelled meanwhile
  Call head;
  head.operation = kAsksForRegion;
  head.method = "HEAD";
  head.bucket = call->bucket;
  head.ends = call->ends;
  const auto answered = [weak = weak_from_this(), call](const CallResult& result) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    call->failure->region = result.head.header("x-amz-bucket-region");
    self->judged(*call);
  };
  start(std::move(head), answered, nullptr);
}

void Client::Calls::judged(Running& call) {
  {
    const MutexLock lock(mutex_);
    call.body_is = BodyIs::kWeighed;
  }
  weigh_extras(call);
  if (has_large_body(call)) takes_bodies_.store(!call.failure, std::memory_order_relaxed);
  std::shared_ptr<const env::HttpBody> unwanted;  // released without the lock
  {
    const MutexLock lock(mutex_);
    if (std::exchange(call.body_is, BodyIs::kKept) == BodyIs::kUnwanted) unwanted.swap(call.body);
  }
  unwanted.reset();
  feed([&call](CallTable& table, env::TimePoint now, Actions& actions) {
    if (!call.failure) return table.succeeded(call.id, now, actions);
    table.failed(call.id,
                 {.failure = *call.failure,
                  .may_repeat = !call.has_streamed,
                  .time = std::chrono::system_clock::now()},
                 now, actions);
  });
}

// What a store refuses is left out of the next attempt; where that helps, of every call.
void Client::Calls::weigh_extras(Running& call) {
  if (!call.failure) {
    if (call.left_out != kNoExtras) refused_->fetch_or(call.left_out);
    return;
  }
  const Extras refused = refused_extras(*call.failure, call, settings_);
  // Once for a server: later bodies are hashed by who sends them.
  const bool can_do = (refused & kUnsignedBody) == 0 || hash_body(settings_, call, true).ok();
  if (refused != kNoExtras && can_do) {
    leave_out(refused, call);
    const bool is_the_stores = !call.failure->code.empty() || call.failure->http_status == 501;
    if (is_the_stores) call.left_out |= refused;
    call.failure->kind = FailureKind::kExtra;
  } else if (const std::string keys = advice(*call.failure, call); !keys.empty()) {
    call.failure->message += " [" + keys + "]";
  }
}

// --- the client ----------------------------------------------------------------------------------

Result<std::shared_ptr<Client>> Client::make(Settings settings,
                                             std::shared_ptr<CredentialStore> credentials) {
  HFLUSH_RETURN_IF_ERROR(crypto::load_digests());
  // Loopback protects what does not leave it.
  if (settings.payload_signing == PayloadSigning::kAuto && settings.scheme == "http" &&
      env::goes_through_proxy(settings.http, settings.scheme, settings.host)) {
    settings.payload_signing = PayloadSigning::kAlways;
  }
  env::EventLoop& loop = env::Process::current().loop();
  HFLUSH_ASSIGN_OR_RETURN(std::shared_ptr<env::HttpClient> http,
                          env::HttpClient::make(loop, settings.http));
  return std::shared_ptr<Client>(new Client(
      std::make_shared<Calls>(std::move(settings), std::move(credentials), loop, std::move(http))));
}

Client::Client(std::shared_ptr<Calls> calls) : calls_(std::move(calls)) {}

Client::~Client() {
  if (Calls* const calls = calls_.here()) calls->close();
}

Client::CallId Client::call(Call call, Done done) {
  return start(std::move(call), std::move(done), nullptr);
}

CallResult Client::call_and_wait(Call call, env::Interrupt& interrupt) {
  std::vector<Call> calls;
  calls.push_back(std::move(call));
  return std::move(call_and_wait(std::move(calls), interrupt).front());
}

std::vector<CallResult> Client::call_and_wait(std::vector<Call> calls, env::Interrupt& interrupt) {
  std::vector<std::string> paths;
  paths.reserve(calls.size());
  for (const Call& call : calls) paths.push_back(path_of(call));
  std::vector<CallId> ids;
  ids.reserve(calls.size());
  const env::EventLoop::Guest guest(&loop());
  std::vector<std::shared_ptr<env::Answer<CallResult>>> answers;
  answers.reserve(calls.size());
  try {
    for (Call& one : calls) {
      const auto& answer = answers.emplace_back(std::make_shared<env::Answer<CallResult>>());
      ids.push_back(
          call(std::move(one), [answer](CallResult result) { answer->set(std::move(result)); }));
    }
  } catch (const std::bad_alloc&) {
    for (const CallId id : ids) cancel(id);
    throw;
  }
  Status interrupted;
  for (const auto& answer : answers) {
    if (interrupted.ok()) interrupted = answer->wait(interrupt, &loop());
  }
  if (!interrupted.ok()) {
    for (const CallId id : ids) cancel(id);
  }
  std::vector<CallResult> results;
  results.reserve(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    // An interruption may be reported already (a Python error is set): what has arrived meanwhile
    // is dropped.
    results.push_back(interrupted.ok() ? answers[i]->take()
                                       : failed_with(interrupted, paths[i], true));
  }
  return results;
}

Client::CallId Client::get(Call call, std::shared_ptr<Download> download) {
  return start(std::move(call), {}, std::move(download));
}

Client::CallId Client::start(Call call, Done done, std::shared_ptr<Download> download) {
  if (Calls* const calls = calls_.here()) {
    return calls->start(std::move(call), std::move(done), std::move(download));
  }
  const Status forked(StatusCode::kForked,
                      call.operation + ": the client was made before this process was forked");
  return refuse(call, forked, done, download.get());
}

void Client::resume(CallId call) {
  if (Calls* const calls = calls_.here()) calls->resume(call);
}

void Client::cancel(CallId call, std::function<void()> gone) {
  if (Calls* const calls = calls_.here()) calls->cancel(call, std::move(gone));
}

const Settings& Client::settings() const noexcept { return calls_.anywhere().settings(); }
CredentialStore& Client::credentials() noexcept { return calls_.anywhere().credentials(); }
env::EventLoop& Client::loop() noexcept { return calls_.anywhere().loop(); }
const std::string& Client::endpoint() const noexcept { return calls_.anywhere().endpoint(); }
bool Client::does_without(Extras extras) const noexcept {
  return (calls_.anywhere().refused().load() & extras) != 0;
}
void Client::do_without(Extras extras) noexcept { calls_.anywhere().refused().fetch_or(extras); }
std::uint64_t Client::new_stream() noexcept {
  Calls* const calls = calls_.here();
  return calls != nullptr ? calls->new_stream() : 0;
}
bool Client::is_foreign() const noexcept { return calls_.here() == nullptr; }

void Client::add_statistics(Statistics& statistics) const {
  if (Calls* const calls = calls_.here()) calls->add_statistics(statistics);
}

}  // namespace hflush::s3
