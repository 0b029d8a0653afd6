#include "hflush/s3/call/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <unordered_map>

#include "hflush/base/ascii.h"
#include "hflush/base/mutex.h"
#include "hflush/env/answer.h"
#include "hflush/env/process.h"
#include "hflush/s3/call/digest.h"
#include "hflush/s3/call/signer.h"
#include "hflush/s3/call/upload_turns.h"

namespace hflush::s3 {
namespace {

// A smaller body is sent as fast as the question whether it is wanted.
constexpr std::uint64_t kExpectContinueAbove = std::uint64_t{1} << 20U;
// Of an error document that answers a download.
constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10U;
// Of a call that is to end now: it has been sent, and its answer may be on its way.
constexpr env::Duration kLeastTimeout = std::chrono::milliseconds(100);

// What Hadoop calls the counters of a store; of calls, not of attempts.
struct OperationCounter {
  std::string_view operation;
  std::string_view name;
};
constexpr std::array kOperationCounters = {
    OperationCounter{"GetObject", "action_http_get_request"},
    OperationCounter{"HeadObject", "object_metadata_request"},
    OperationCounter{"PutObject", "object_put_request"},
    OperationCounter{"CopyObject", "object_copy_requests"},
    OperationCounter{"DeleteObject", "object_delete_request"},
    OperationCounter{"DeleteObjects", "object_bulk_delete_request"},
    OperationCounter{"ListObjectsV2", "object_list_request"},
    OperationCounter{"CreateMultipartUpload", "object_multipart_initiated"},
    OperationCounter{"UploadPart", "multipart_upload_part_put"},
    OperationCounter{"CompleteMultipartUpload", "multipart_upload_completed"},
    OperationCounter{"AbortMultipartUpload", "object_multipart_aborted"},
    OperationCounter{"ListMultipartUploads", "multipart_upload_list"},
};

bool is_address(const std::string& host) noexcept {
  in_addr parsed{};
  return host.find(':') != std::string::npos || ::inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

bool is_loopback(const std::string& host) noexcept {
  in_addr parsed{};
  if (::inet_pton(AF_INET, host.c_str(), &parsed) == 1) {
    return ntohl(parsed.s_addr) >> 24U == 127U;
  }
  return host == "localhost" || host == "::1" || host == "[::1]";
}

// Whether a bucket's name can begin a host's name.
bool is_host_label(std::string_view bucket) noexcept {
  return std::ranges::all_of(bucket, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// "host:port", without the port that the scheme has anyway.
std::string host_and_port(const Settings& settings, std::string_view host) {
  std::string text;
  if (host.find(':') != std::string_view::npos && !host.starts_with('[')) {
    text.append(1, '[').append(host).append(1, ']');
  } else {
    text = host;
  }
  const std::uint16_t usual = settings.scheme == "https" ? 443 : 80;
  if (settings.port != 0 && settings.port != usual) text += ":" + std::to_string(settings.port);
  return text;
}

// A region becomes part of a host's name and of the signature.
bool is_region(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 64 && is_host_label(text) &&
         text.find('.') == std::string_view::npos;
}

constexpr std::string_view kAwsDomains[] = {".amazonaws.com", ".amazonaws.com.cn"};

// "s3", "s3-fips", "s3.eu-west-1", "s3-eu-west-1", "s3.dualstack.eu-west-1": what stands before
// AWS's domain in the name of a server of S3. Hosts of its customers are below that domain, too.
bool names_s3(std::string_view text) noexcept {
  const std::size_t first = text.find('.');
  const std::string_view service = text.substr(0, first);
  if (service != "s3" && !service.starts_with("s3-")) return false;
  if (first == std::string_view::npos) return true;
  std::string_view rest = text.substr(first + 1);
  if (constexpr std::string_view kDual = "dualstack."; rest.starts_with(kDual)) {
    rest.remove_prefix(kDual.size());
  }
  return is_region(rest);
}

// Whether one of the labels of a host's name is that of a server with certified cryptography:
// "s3-fips", and "s3-fips-us-gov-west-1" as of old.
bool names_fips(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('.'), text.size());
    const std::string_view label = text.substr(0, end);
    if (label == "s3-fips" || label.starts_with("s3-fips-")) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

// Where a redirect leads to: what TLS protects stays protected.
std::string authority_of(std::string_view location, std::string_view scheme) {
  if (!location.starts_with(scheme)) return {};
  location.remove_prefix(scheme.size());
  if (!location.starts_with("://")) return {};
  location.remove_prefix(3);
  const std::string_view authority = location.substr(0, location.find_first_of("/?#"));
  const bool is_plain = std::ranges::all_of(authority, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-:[]").find(c) != std::string_view::npos;
  });
  return is_plain ? std::string(authority) : std::string();
}

std::string encoded_path(const Call& call, bool names_bucket) {
  std::string path = "/";
  if (names_bucket && !call.bucket.empty()) {
    path += encode_component(call.bucket);
    if (call.key.empty()) return path;
    path += '/';
  }
  return path += encode_key(call.key);
}

std::string path_of(const Call& call) {
  std::string path = "s3://" + call.bucket;
  if (!call.key.empty()) path.append(1, '/').append(call.key);
  return path;
}

// In hex; or why the body cannot be read.
Result<std::string> sha256_of(const env::HttpBody& body) {
  std::vector<std::byte> piece(std::min<std::uint64_t>(body.size(), Call::kSmallBody));
  RunningDigest digest(RunningDigest::Kind::kSha256);
  for (std::uint64_t offset = 0; offset < body.size();) {
    const std::ptrdiff_t count = body.read_at(offset, piece);
    if (count < 0) return Status::from_errno(static_cast<int>(-count), "read of a body", {});
    if (count == 0) return Status::from_errno(EIO, "read of a body that has been cut", {});
    digest.update(ByteView(piece).first(static_cast<std::size_t>(count)));
    offset += static_cast<std::uint64_t>(count);
  }
  return to_hex(as_bytes(digest.finish()));
}

class TextBody final : public env::HttpBody {
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

 private:
  const std::string text_;
};

// Ends a call that cannot be begun.
Client::CallId refuse(const Call& call, const Status& why, const Client::Done& done,
                      Download* download) {
  CallResult result;
  result.failure.emplace();
  result.failure->message = why.message();
  result.failure->transport = why;
  result.status = why.with_path(path_of(call));
  if (download != nullptr) {
    download->on_end(std::move(result));
  } else {
    done(std::move(result));
  }
  return 0;
}

}  // namespace

// --- settings ------------------------------------------------------------------------------------

bool Settings::names_in_path(std::string_view bucket) const noexcept {
  if (path_style || bucket.empty() || is_address(host) || !is_host_label(bucket)) return true;
  // A certificate for *.host does not cover more than one label.
  return scheme == "https" && bucket.find('.') != std::string_view::npos;
}

std::string Settings::authority(const std::string& bucket) const {
  return host_and_port(*this, names_in_path(bucket) ? host : bucket + "." + host);
}

std::string Settings::authority(const std::string& bucket, const std::string& its_region) const {
  Settings there = *this;
  const std::string part = "." + region + ".";
  const std::size_t found = host.find(part);
  if (host == "s3.amazonaws.com") {
    there.host = "s3." + its_region + ".amazonaws.com";
  } else if (found != std::string::npos &&
             (host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn"))) {
    there.host.replace(found, part.size(), "." + its_region + ".");
  }
  return there.authority(bucket);
}

std::string Settings::redirect_authority(std::string_view bucket, std::string_view location) const {
  std::string authority = authority_of(location, scheme);
  if (authority.empty()) return {};
  const std::size_t bracket = authority.find(']');
  const std::string name = to_lower(std::string_view(authority).substr(
      0, bracket == std::string::npos ? authority.find(':') : bracket + 1));
  const std::string own = to_lower(
      host.find(':') != std::string::npos && !host.starts_with('[') ? "[" + host + "]" : host);
  const std::string of_bucket = std::string(bucket) + ".";
  if (name == own || name == of_bucket + own) return authority;
  const auto* const domain = std::ranges::find_if(
      kAwsDomains, [&](std::string_view aws) { return ("." + own).ends_with(aws); });
  if (domain == std::end(kAwsDomains)) {
    return !is_address(own) && name.ends_with("." + own) ? authority : std::string();
  }
  // Below AWS's domain are hosts of its customers, too.
  if (!name.ends_with(*domain)) return {};
  std::string_view text = std::string_view(name).substr(0, name.size() - domain->size());
  if (text.starts_with(of_bucket)) text.remove_prefix(of_bucket.size());
  if (!names_s3(text) || (names_fips(own) && !names_fips(text))) return {};
  return authority;
}

bool Settings::signs_payload() const noexcept {
  if (payload_signing != PayloadSigning::kAuto) return payload_signing == PayloadSigning::kAlways;
  return scheme != "https" && !is_loopback(host);
}

// --- the calls -----------------------------------------------------------------------------------

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
  std::uint64_t new_stream() noexcept HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return ++last_stream_;
  }

 private:
  enum class Stage : std::uint8_t {
    kWaitingForTurn,  // an upload
    kStarting,        // its exchange has no id yet
    kUnderWay,
    kPausing,                // until its timer fires
    kInLine,                 // for tokens of the budget, or until its timer fires
    kWaitingForCredentials,  // or until its timer fires
    kStopping,               // cancelled while it was starting: who starts it ends it
    kOver,
  };

  // What answers have said about a bucket; empty: nothing.
  struct Learnt {
    std::string region;
    std::string authority;
  };

  // A call. What is not constant belongs to the thread that moves it from one stage to the next,
  // under the lock; `download` and what it is fed from to the loop thread.
  class Running final : public env::HttpEvents, public std::enable_shared_from_this<Running> {
   public:
    Running(std::weak_ptr<Calls> owner, Call its_call, Done its_done, std::shared_ptr<Download> to)
        : call(std::move(its_call)),
          done(std::move(its_done)),
          download(std::move(to)),
          owner_(std::move(owner)) {}

    // Of a download.
    void on_head(env::HttpHead head) override;
    bool on_body(ByteView bytes) override;
    void on_end(env::HttpEnd end) override;

    void begin_attempt() {
      received = {};
      is_streaming = false;
    }
    UploadTurns::Upload upload() const { return {id, call.stream, call.urgent}; }

    CallId id = 0;
    Call call;
    Done done;
    const std::shared_ptr<Download> download;
    Stage stage = Stage::kStarting;
    std::uint64_t attempt = 0;  // their number
    std::optional<CallAttempts> attempts;
    env::HttpClient::ExchangeId exchange = 0;  // kUnderWay
    bool resume = false;                       // kStarting: as soon as it is under way
    std::function<void()> gone;                // kStopping
    env::EventLoop::TimerId timer = 0;         // kPausing, kInLine, kWaitingForCredentials
    int cost = 0;                              // kPausing: of the retry
    CredentialStore::WantId want = 0;          // kWaitingForCredentials
    std::optional<CallResult> if_given_up;     // kPausing, kInLine, kWaitingForCredentials
    Learnt redirected;                         // what counts for this call alone
    std::uint64_t credentials = 0;             // generation of those it was signed with
    Signing signing;
    bool is_streaming = false;  // 2xx: the body goes to `download`
    bool has_streamed = false;  // at least a byte of it
    env::HttpResult received;

   private:
    const std::weak_ptr<Calls> owner_;
  };
  using RunningPtr = std::shared_ptr<Running>;

  // Whom an attempt asks.
  struct Target {
    std::string authority;
    std::string region;
    bool names_bucket = true;  // in the path
  };
  // What is to be done when the lock is free again.
  struct Outbox {
    std::vector<RunningPtr> sends;
    CredentialStore::WantId want = 0;  // not wanted any more
  };
  // What ends a call that was taken out.
  struct Ending {
    RunningPtr call;
    env::HttpClient::ExchangeId exchange = 0;
    CredentialStore::WantId want = 0;
    std::function<void()> gone;
  };

  // Ready for an attempt: starts it, or lines it up.
  void ready_locked(const RunningPtr& call, Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void start_locked(const RunningPtr& call, Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void start_uploads_locked(Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void carry_out(const Outbox& outbox) HFLUSH_EXCLUDES(mutex_);
  void send(const RunningPtr& call) noexcept HFLUSH_EXCLUDES(mutex_);
  env::HttpClient::ExchangeId begin_exchange(const RunningPtr& call) HFLUSH_EXCLUDES(mutex_);
  void not_begun(const RunningPtr& call, std::uint64_t attempt) HFLUSH_EXCLUDES(mutex_);
  env::HttpRequest prepare(Running& running) HFLUSH_EXCLUDES(mutex_);
  Target target_locked(const Running& running) const HFLUSH_REQUIRES(mutex_);

  void attempt_over(const RunningPtr& call, env::HttpResult result) HFLUSH_EXCLUDES(mutex_);
  void check_redirect(const Running& call, Failure& failure) const;
  void learn_locked(Running& call, const Failure& failure, env::TimePoint now)
      HFLUSH_REQUIRES(mutex_);
  void retry_locked(const RunningPtr& call, const Decision& decision, env::TimePoint now,
                    Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void wait_for_credentials(const RunningPtr& call) HFLUSH_EXCLUDES(mutex_);
  void pause_over(const RunningPtr& call) HFLUSH_EXCLUDES(mutex_);
  void credentials_are_newer(const RunningPtr& call, std::uint64_t attempt) HFLUSH_EXCLUDES(mutex_);
  void waited_in_vain(const RunningPtr& call) HFLUSH_EXCLUDES(mutex_);
  void due_locked(const RunningPtr& call, env::TimePoint now, Outbox& outbox)
      HFLUSH_REQUIRES(mutex_);
  void start_retries_locked(env::TimePoint now, Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void tokens_came() HFLUSH_EXCLUDES(mutex_);
  CallResult result_of(const Running& call, env::HttpResult result,
                       std::optional<Failure> failure) const;
  static void answer(Running& call, CallResult result);

  // Takes a call out of whatever it is in; it is in calls_ no more.
  Ending take_out_locked(RunningPtr call, std::function<void()> gone) HFLUSH_REQUIRES(mutex_);
  void finish(Ending ending) HFLUSH_EXCLUDES(mutex_);

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

  // Before the loop's.
  mutable Mutex mutex_;
  std::unordered_map<CallId, RunningPtr> calls_ HFLUSH_GUARDED_BY(mutex_);
  CallId last_id_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_stream_ HFLUSH_GUARDED_BY(mutex_) = 0;
  UploadTurns turns_ HFLUSH_GUARDED_BY(mutex_);
  std::size_t uploads_under_way_ HFLUSH_GUARDED_BY(mutex_) = 0;
  SendingRate rate_ HFLUSH_GUARDED_BY(mutex_);
  RetryBudget budget_ HFLUSH_GUARDED_BY(mutex_);
  bool expects_tokens_ HFLUSH_GUARDED_BY(mutex_) = false;  // a timer looks at the line
  Random random_ HFLUSH_GUARDED_BY(mutex_);
  std::chrono::system_clock::duration clock_offset_ HFLUSH_GUARDED_BY(mutex_){};
  std::map<std::string, Learnt, std::less<>> learnt_ HFLUSH_GUARDED_BY(mutex_);  // by bucket
  std::int64_t attempt_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::int64_t retry_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::int64_t throttled_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::array<std::int64_t, kOperationCounters.size()> operations_ HFLUSH_GUARDED_BY(mutex_){};
};

Client::Calls::Calls(Settings settings, std::shared_ptr<CredentialStore> credentials,
                     env::EventLoop& loop, std::shared_ptr<env::HttpClient> http)
    : settings_(std::move(settings)),
      credentials_(std::move(credentials)),
      loop_(loop),
      http_(std::move(http)),
      endpoint_(settings_.scheme + "://" + host_and_port(settings_, settings_.host)),
      rate_(std::max<std::size_t>(settings_.max_uploads, 1)),
      random_(std::random_device()()) {}

// --- from any thread

Client::CallId Client::Calls::start(Call call, Done done, std::shared_ptr<Download> download) {
  Status refusal = loop_.start();
  const bool is_small = call.body == nullptr || call.body->size() <= Call::kSmallBody;
  if (refusal.ok() && call.body != nullptr && call.body_sha256.empty() &&
      settings_.payload_signing != PayloadSigning::kNever &&
      (is_small || !call.is_upload || settings_.signs_payload())) {
    Result<std::string> sha256 = sha256_of(*call.body);
    if (sha256.ok()) {
      call.body_sha256 = *std::move(sha256);
    } else {
      refusal = sha256.status();
    }
  }
  if (!refusal.ok()) return refuse(call, refusal, done, download.get());

  const auto running = std::make_shared<Running>(weak_from_this(), std::move(call), std::move(done),
                                                 std::move(download));
  const auto* const counter =
      std::ranges::find(kOperationCounters, running->call.operation, &OperationCounter::operation);
  Outbox outbox;
  CallId id = 0;
  {
    const MutexLock lock(mutex_);
    if (counter != kOperationCounters.end()) {
      ++operations_[static_cast<std::size_t>(counter - kOperationCounters.begin())];
    }
    id = running->id = ++last_id_;
    calls_.emplace(id, running);
    try {
      ready_locked(running, outbox);
    } catch (const std::bad_alloc&) {
      turns_.remove(running->upload());
      calls_.erase(id);
      throw;
    }
  }
  carry_out(outbox);
  return id;
}

void Client::Calls::resume(CallId id) {
  env::HttpClient::ExchangeId exchange = 0;
  {
    const MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    Running& call = *found->second;
    if (call.stage == Stage::kStarting) call.resume = true;
    if (call.stage == Stage::kUnderWay) exchange = call.exchange;
  }
  if (exchange != 0) http_->resume(exchange);
}

void Client::Calls::cancel(CallId id, std::function<void()> gone) {
  Ending ending;
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) {
      ending.gone = std::move(gone);
    } else {
      RunningPtr call = std::move(found->second);
      calls_.erase(found);
      ending = take_out_locked(std::move(call), std::move(gone));
      start_uploads_locked(outbox);
    }
  }
  finish(std::move(ending));
  carry_out(outbox);
}

void Client::Calls::close() {
  std::vector<Ending> endings;
  {
    const MutexLock lock(mutex_);
    endings.reserve(calls_.size());
    for (auto& [id, call] : calls_) endings.push_back(take_out_locked(std::move(call), {}));
    calls_.clear();
  }
  for (Ending& ending : endings) finish(std::move(ending));
}

Client::Calls::Ending Client::Calls::take_out_locked(RunningPtr call, std::function<void()> gone) {
  Ending ending;
  const bool has_slot = call->stage == Stage::kStarting || call->stage == Stage::kUnderWay;
  if (call->call.is_upload && has_slot) --uploads_under_way_;
  switch (call->stage) {
    case Stage::kStarting:
      call->stage = Stage::kStopping;
      call->gone = std::move(gone);
      return ending;
    case Stage::kWaitingForTurn:
      turns_.remove(call->upload());
      break;
    case Stage::kUnderWay:
      ending.exchange = call->exchange;
      break;
    case Stage::kWaitingForCredentials:
      ending.want = call->want;
      loop_.cancel(call->timer);
      break;
    case Stage::kPausing:
      loop_.cancel(call->timer);
      break;
    case Stage::kInLine:
      budget_.leave(call->id);
      loop_.cancel(call->timer);
      break;
    case Stage::kStopping:
    case Stage::kOver:
      break;
  }
  call->stage = Stage::kOver;
  ending.gone = std::move(gone);
  ending.call = std::move(call);
  return ending;
}

void Client::Calls::finish(Ending ending) {
  // "Gone" means that the body is not read any more.
  if (ending.call != nullptr) ending.call->call.body = nullptr;
  if (ending.want != 0) credentials_->stop_waiting(ending.want);
  if (ending.exchange != 0) {
    http_->cancel(ending.exchange, std::move(ending.gone));
  } else if (ending.gone) {
    loop_.post(std::move(ending.gone));
  }
}

void Client::Calls::add_statistics(Statistics& statistics) const {
  const MutexLock lock(mutex_);
  statistics["store_io_request"] += attempt_count_;
  statistics["store_io_retry"] += retry_count_;
  statistics["store_io_throttled"] += throttled_count_;
  for (std::size_t i = 0; i < kOperationCounters.size(); ++i) {
    statistics[kOperationCounters[i].name] += operations_[i];
  }
}

// --- an attempt begins

void Client::Calls::ready_locked(const RunningPtr& call, Outbox& outbox) {
  if (!call->call.is_upload) return start_locked(call, outbox);
  call->stage = Stage::kWaitingForTurn;
  turns_.add(call->upload(), call->attempt > 0);
  start_uploads_locked(outbox);
}

void Client::Calls::start_uploads_locked(Outbox& outbox) {
  if (turns_.empty() || uploads_under_way_ >= rate_.allowed()) return;
  // What has its turn is sent: nothing fails between the two.
  outbox.sends.reserve(outbox.sends.size() +
                       std::min(rate_.allowed() - uploads_under_way_, calls_.size()));
  while (uploads_under_way_ < rate_.allowed()) {
    const std::optional<CallId> next = turns_.next();
    if (!next) return;
    ++uploads_under_way_;
    start_locked(calls_.at(*next), outbox);
  }
}

void Client::Calls::start_locked(const RunningPtr& call, Outbox& outbox) {
  if (!call->attempts) {
    RetrySettings retry = settings_.retry;
    if (call->call.retry_limit) {
      retry.limit = std::min(retry.limit, *call->call.retry_limit);
      retry.throttle_limit = std::min(retry.throttle_limit, *call->call.retry_limit);
    }
    call->attempts.emplace(retry, call->call.repeat);
  }
  call->stage = Stage::kStarting;
  ++call->attempt;
  call->resume = false;
  call->begin_attempt();
  ++attempt_count_;
  outbox.sends.push_back(call);
}

void Client::Calls::carry_out(const Outbox& outbox) {
  if (outbox.want != 0) credentials_->stop_waiting(outbox.want);
  for (const RunningPtr& call : outbox.sends) send(call);
}

// The thread that lets it begin may be that of another call, which is not to fail for it: an
// attempt for which there is no memory fails by itself. Without memory for that either the process
// ends.
void Client::Calls::send(const RunningPtr& call) noexcept {
  const std::uint64_t attempt = call->attempt;
  env::HttpClient::ExchangeId exchange = 0;
  try {
    exchange = begin_exchange(call);
  } catch (const std::bad_alloc&) {
    loop_.post([self = shared_from_this(), call, attempt] { self->not_begun(call, attempt); });
    return;
  }
  bool resumes = false;
  Ending ending;
  {
    const MutexLock lock(mutex_);
    if (call->attempt != attempt) return;  // this one is over already
    if (call->stage == Stage::kStarting) {
      call->stage = Stage::kUnderWay;
      call->exchange = exchange;
      resumes = call->resume;
    } else if (call->stage == Stage::kStopping) {
      call->stage = Stage::kOver;
      ending.call = call;
      ending.exchange = exchange;
      ending.gone = std::move(call->gone);
    }
  }
  if (resumes) http_->resume(exchange);
  if (ending.exchange != 0) finish(std::move(ending));
}

// Nothing has happened where it throws.
env::HttpClient::ExchangeId Client::Calls::begin_exchange(const RunningPtr& call) {
  env::HttpRequest request = prepare(*call);
  if (call->download != nullptr) {
    // It ends by itself, but an error that goes on and on is nothing to wait for.
    request.max_error_bytes = call->call.max_response_bytes;
    return http_->start(std::move(request), call);
  }
  return http_->fetch(std::move(request), call->call.max_response_bytes,
                      [weak = weak_from_this(), call](env::HttpResult result) {
                        const auto self = weak.lock();
                        if (self != nullptr) self->attempt_over(call, std::move(result));
                      });
}

// On the loop thread.
void Client::Calls::not_begun(const RunningPtr& call, std::uint64_t attempt) {
  Ending ending;
  {
    const MutexLock lock(mutex_);
    if (call->attempt != attempt) return;
    if (call->stage == Stage::kStopping) {
      call->stage = Stage::kOver;
      ending.call = call;
      ending.gone = std::move(call->gone);
    } else {
      call->stage = Stage::kUnderWay;  // without an exchange: a cancel() finds nothing to stop
      call->exchange = 0;
    }
  }
  if (ending.call != nullptr) return finish(std::move(ending));
  env::HttpResult result;
  result.end.failure = Status::from_errno(
      ENOMEM, "start of a request to " + settings_.authority(call->call.bucket), {});
  attempt_over(call, std::move(result));
}

env::HttpRequest Client::Calls::prepare(Running& running) {
  const Call& call = running.call;
  const CredentialStore::Current current = credentials_->current();
  Target target;
  SystemTime now = std::chrono::system_clock::now();
  {
    const MutexLock lock(mutex_);
    target = target_locked(running);
    now += clock_offset_;
  }
  running.credentials = current.generation;
  running.signing.may_have_expired =
      call.guesses_expiry && !current.credentials.session_token.empty();
  running.signing.region = target.region;
  running.signing.time =
      current.credentials.anonymous() ? std::nullopt : std::optional<SystemTime>(now);

  const std::string path = encoded_path(call, target.names_bucket);
  env::HttpRequest request;
  request.method = call.method;
  request.url = settings_.scheme + "://" + target.authority + path;
  if (const std::string query = canonical_query(call.query); !query.empty()) {
    request.url.append(1, '?').append(query);
  }
  std::string_view sha256 = kEmptySha256;
  if (call.body != nullptr) {
    sha256 = call.body_sha256.empty() ? kUnsignedPayload : std::string_view(call.body_sha256);
  }
  request.headers = sign({.method = call.method,
                          .host = target.authority,
                          .encoded_path = path,
                          .query = call.query,
                          .headers = call.headers,
                          .payload_sha256 = sha256},
                         current.credentials, target.region, now);
  // What is signed, however libcurl would spell it ("127.1", ":443").
  request.headers.push_back({"Host", target.authority});
  request.headers.insert(request.headers.end(), call.headers.begin(), call.headers.end());
  request.body = call.body;
  request.fresh_connection = call.fresh_connection;
  request.expect_continue =
      settings_.expect_continue && call.body != nullptr && call.body->size() > kExpectContinueAbove;
  request.connect_timeout = settings_.connect_timeout;
  request.stall_timeout = call.stall_timeout.value_or(settings_.stall_timeout);
  if (call.ends) {
    const env::Duration left =
        std::max<env::Duration>(*call.ends - loop_.clock().now(), kLeastTimeout);
    request.connect_timeout = std::min(request.connect_timeout, left);
    request.stall_timeout = std::min(request.stall_timeout, left);
  }
  if (running.download == nullptr) {
    request.total_timeout = call.is_upload ? settings_.upload_timeout : settings_.request_timeout;
  }
  return request;
}

Client::Calls::Target Client::Calls::target_locked(const Running& running) const {
  const Call& call = running.call;
  Target target{settings_.authority(call.bucket), settings_.region,
                settings_.names_in_path(call.bucket)};
  const auto found = learnt_.find(call.bucket);
  const Learnt none;
  for (const Learnt* learnt :
       {found == learnt_.end() ? &none : &found->second, &running.redirected}) {
    if (!learnt->region.empty()) {
      target.region = learnt->region;
      target.authority = settings_.authority(call.bucket, learnt->region);
      target.names_bucket = settings_.names_in_path(call.bucket);
    }
    if (!learnt->authority.empty()) {
      target.authority = learnt->authority;
      target.names_bucket = !learnt->authority.starts_with(call.bucket + ".");
    }
  }
  return target;
}

// --- an attempt is over: on the loop thread

void Client::Calls::Running::on_head(env::HttpHead head) {
  received.head = std::move(head);
  is_streaming = received.head.status / 100 == 2;
  if (is_streaming) download->on_head(received.head);
}

bool Client::Calls::Running::on_body(ByteView bytes) {
  if (is_streaming) {
    if (!download->on_body(bytes)) return false;
    has_streamed = true;
    return true;
  }
  // What does not fit of an error document is not needed.
  const std::size_t room = kMaxErrorBytes - received.body.size();
  received.body += as_text(bytes.first(std::min(bytes.size(), room)));
  return true;
}

void Client::Calls::Running::on_end(env::HttpEnd end) {
  received.end = std::move(end);
  const auto owner = owner_.lock();
  if (owner != nullptr) owner->attempt_over(shared_from_this(), std::move(received));
}

void Client::Calls::attempt_over(const RunningPtr& call, env::HttpResult result) {
  std::optional<Failure> failure = judge(result, call->call.expect, call->call.root, call->signing);
  if (failure && failure->kind == FailureKind::kAddress) check_redirect(*call, *failure);
  Outbox outbox;
  bool is_answer = false;
  bool waits_for_credentials = false;
  {
    const MutexLock lock(mutex_);
    if (call->stage != Stage::kStarting && call->stage != Stage::kUnderWay) return;
    const env::TimePoint now = loop_.clock().now();
    if (call->call.is_upload) --uploads_under_way_;
    Decision decision;
    if (!failure) {
      budget_.succeeded(call->attempts->spent(), now);
      if (call->call.is_upload) rate_.succeeded();
      start_retries_locked(now, outbox);
    } else {
      learn_locked(*call, *failure, now);
      if (!call->has_streamed) decision = call->attempts->failed(*failure, random_, now);
    }
    if (const auto ends = call->call.ends) {
      if (decision.what == Decision::What::kRetry && decision.when >= *ends) decision = {};
      decision.when = std::min(decision.when, *ends);
    }
    switch (decision.what) {
      case Decision::What::kGiveUp:
        is_answer = true;
        call->stage = Stage::kOver;
        calls_.erase(call->id);
        break;
      case Decision::What::kRetry:
        call->if_given_up = result_of(*call, result, failure);
        retry_locked(call, decision, now, outbox);
        break;
      case Decision::What::kRetryWithNewer:
        waits_for_credentials = true;
        call->stage = Stage::kWaitingForCredentials;
        call->if_given_up = result_of(*call, result, failure);
        call->timer =
            loop_.run_at(decision.when, later([call](Calls& self) { self.waited_in_vain(call); }));
        break;
    }
    start_uploads_locked(outbox);
  }
  carry_out(outbox);
  if (waits_for_credentials) wait_for_credentials(call);
  if (is_answer) answer(*call, result_of(*call, std::move(result), std::move(failure)));
}

// Nothing of a request goes to another domain, whatever asks for that.
void Client::Calls::check_redirect(const Running& call, Failure& failure) const {
  if (!settings_.follows_regions && failure.http_status != 307) {
    failure.kind = FailureKind::kFinal;
    failure.message += ": not followed, as fs.s3a.cross.region.access.enabled says";
    return;
  }
  if (failure.location.empty()) return;
  if (!settings_.redirect_authority(call.call.bucket, failure.location).empty()) return;
  if (!failure.is_temporary && is_region(failure.region) && failure.region != call.signing.region) {
    failure.location.clear();  // the region says where
    return;
  }
  failure.kind = FailureKind::kFinal;
  failure.message = "redirected to another domain than " + settings_.host +
                    ", or another scheme than " + settings_.scheme + ": not followed" +
                    (failure.message.empty() ? "" : ": " + failure.message);
}

void Client::Calls::learn_locked(Running& call, const Failure& failure, env::TimePoint now) {
  switch (failure.kind) {
    case FailureKind::kThrottled:
      ++throttled_count_;
      if (call.call.is_upload) rate_.throttled(now);
      break;
    case FailureKind::kClock:
      if (failure.server_time_s) {
        const std::chrono::system_clock::time_point theirs{
            std::chrono::seconds(*failure.server_time_s)};
        clock_offset_ = theirs - std::chrono::system_clock::now();
      }
      break;
    case FailureKind::kAddress: {
      Learnt& learnt = failure.is_temporary ? call.redirected : learnt_[call.call.bucket];
      if (is_region(failure.region)) learnt.region = failure.region;
      learnt.authority = settings_.redirect_authority(call.call.bucket, failure.location);
      break;
    }
    case FailureKind::kNotSent:
      // The host that a redirect led to may be gone.
      call.redirected = {};
      if (const auto found = learnt_.find(call.call.bucket); found != learnt_.end()) {
        found->second.authority.clear();
      }
      break;
    default:
      break;
  }
}

void Client::Calls::retry_locked(const RunningPtr& call, const Decision& decision,
                                 env::TimePoint now, Outbox& outbox) {
  ++retry_count_;
  call->cost = decision.cost;
  if (decision.when <= now) return due_locked(call, now, outbox);
  call->stage = Stage::kPausing;
  call->timer = loop_.run_at(decision.when, later([call](Calls& self) { self.pause_over(call); }));
}

void Client::Calls::pause_over(const RunningPtr& call) {
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    if (call->stage != Stage::kPausing) return;
    due_locked(call, loop_.clock().now(), outbox);
  }
  carry_out(outbox);
}

// Starts a retry, or lines it up until there are tokens for it.
void Client::Calls::due_locked(const RunningPtr& call, env::TimePoint now, Outbox& outbox) {
  if (budget_.start(call->id, call->cost, now)) {
    call->if_given_up.reset();
    return ready_locked(call, outbox);
  }
  call->stage = Stage::kInLine;
  call->timer = loop_.run_at(
      std::min(call->attempts->deadline(), call->call.ends.value_or(env::TimePoint::max())),
      later([call](Calls& self) { self.waited_in_vain(call); }));
  start_retries_locked(now, outbox);
}

void Client::Calls::start_retries_locked(env::TimePoint now, Outbox& outbox) {
  while (const std::optional<CallId> next = budget_.next(now)) {
    const RunningPtr call = calls_.at(*next);
    loop_.cancel(call->timer);
    call->if_given_up.reset();
    ready_locked(call, outbox);
  }
  const std::optional<env::TimePoint> next_at = budget_.next_at();
  if (!next_at || std::exchange(expects_tokens_, true)) return;
  loop_.run_at(*next_at, later([](Calls& self) { self.tokens_came(); }));
}

void Client::Calls::tokens_came() {
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    expects_tokens_ = false;
    start_retries_locked(loop_.clock().now(), outbox);
  }
  carry_out(outbox);
}

// Without the lock: if there are newer ones by now, the store says so at once.
void Client::Calls::wait_for_credentials(const RunningPtr& call) {
  const std::uint64_t attempt = call->attempt;
  const CredentialStore::WantId want = credentials_->want_newer_than(
      call->credentials,
      later([call, attempt](Calls& self) { self.credentials_are_newer(call, attempt); }));
  {
    const MutexLock lock(mutex_);
    if (call->attempt == attempt && call->stage == Stage::kWaitingForCredentials) {
      call->want = want;
      return;
    }
  }
  if (want != 0) credentials_->stop_waiting(want);
}

void Client::Calls::credentials_are_newer(const RunningPtr& call, std::uint64_t attempt) {
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    if (call->stage != Stage::kWaitingForCredentials || call->attempt != attempt) return;
    loop_.cancel(call->timer);
    call->want = 0;
    call->if_given_up.reset();
    ++retry_count_;
    ready_locked(call, outbox);
  }
  carry_out(outbox);
}

// For newer credentials, or in line for a retry.
void Client::Calls::waited_in_vain(const RunningPtr& call) {
  Outbox outbox;
  CallResult result;
  {
    const MutexLock lock(mutex_);
    if (call->stage != Stage::kWaitingForCredentials && call->stage != Stage::kInLine) return;
    budget_.leave(call->id);
    call->stage = Stage::kOver;
    calls_.erase(call->id);
    outbox.want = std::exchange(call->want, 0);
    result = *std::move(call->if_given_up);
  }
  carry_out(outbox);
  answer(*call, std::move(result));
}

CallResult Client::Calls::result_of(const Running& call, env::HttpResult result,
                                    std::optional<Failure> failure) const {
  CallResult answer;
  answer.head = std::move(result.head);
  answer.body = std::move(result.body);
  answer.attempts = static_cast<int>(call.attempt);
  answer.ambiguous = call.attempts->ambiguous();
  if (call.attempts->made() > 0) answer.deadline = call.attempts->deadline();
  if (failure) {
    answer.status =
        to_status(*failure, call.call.operation, endpoint_, path_of(call.call), answer.attempts);
    answer.failure = std::move(failure);
  }
  return answer;
}

// What was sent is released first: the caller may fill as much memory again.
void Client::Calls::answer(Running& call, CallResult result) {
  call.call.body.reset();
  if (call.download != nullptr) return call.download->on_end(std::move(result));
  call.done(std::move(result));
}

// --- the client ----------------------------------------------------------------------------------

namespace {

// Of a call that may have been executed.
CallResult interrupted_result(const Status& interrupted, const std::string& path) {
  CallResult result;
  result.failure.emplace();
  result.failure->message = interrupted.message();
  result.failure->transport = interrupted;
  result.ambiguous = true;
  result.status = interrupted.with_path(path);
  return result;
}

}  // namespace

Result<std::shared_ptr<Client>> Client::make(Settings settings,
                                             std::shared_ptr<CredentialStore> credentials) {
  HFLUSH_RETURN_IF_ERROR(load_digests());
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
                                       : interrupted_result(interrupted, paths[i]));
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
std::uint64_t Client::new_stream() noexcept {
  Calls* const calls = calls_.here();
  return calls != nullptr ? calls->new_stream() : 0;
}
bool Client::is_foreign() const noexcept { return calls_.here() == nullptr; }

void Client::add_statistics(Statistics& statistics) const {
  if (Calls* const calls = calls_.here()) calls->add_statistics(statistics);
}

std::shared_ptr<const env::HttpBody> text_body(std::string text) {
  return std::make_shared<TextBody>(std::move(text));
}

}  // namespace hflush::s3
