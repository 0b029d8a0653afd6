#include "hflush/env/http_exchange.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/env/http_framing.h"
#include "hflush/env/http_limits.h"

namespace hflush::env {
namespace {

// By number: they are part of libcurl's ABI, and the headers may be older than the library.
constexpr auto kProxyAuthorities = static_cast<CURLoption>(CURLOPTTYPE_OBJECTPOINT + 246);  // 7.52
constexpr auto kProxyAuthoritiesDirectory =
    static_cast<CURLoption>(CURLOPTTYPE_OBJECTPOINT + 247);                            // 7.52
constexpr auto kMaxAgeOfConnection = static_cast<CURLoption>(CURLOPTTYPE_LONG + 288);  // 7.65
constexpr auto kPreRequestFunction =
    static_cast<CURLoption>(CURLOPTTYPE_FUNCTIONPOINT + 312);  // 7.80
constexpr auto kPreRequestData = static_cast<CURLoption>(CURLOPTTYPE_OBJECTPOINT + 313);
constexpr auto kQuickExit = static_cast<CURLoption>(CURLOPTTYPE_LONG + 322);  // 7.87
constexpr int kUnknownProxyError = 97;                                        // CURLE_PROXY, 7.73

using std::chrono::milliseconds;

constexpr int kLooks = 4;
// There it writes the header itself, and leaves it out for a server that answers 417 to it.
constexpr std::uint64_t kLibcurlAsksFirstAbove = std::uint64_t{1} << 20U;
constexpr long kSmallReceiveBuffer = 16L << 10U;
constexpr long kLargeReceiveBuffer = 512L << 10U;                       // libcurl takes no more
constexpr std::uint64_t kLeastUploadBuffer = std::uint64_t{16} << 10U;  // nor less
constexpr std::uint64_t kMostUploadBuffer = std::uint64_t{2} << 20U;    // nor more

// What libcurl says of names and addresses, and of a file of authorities, then.
bool may_lack_descriptors(CURLcode code) noexcept {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_COULDNT_CONNECT || code == CURLE_SSL_CACERT_BADFILE;
}

// EMFILE or ENFILE; 0 if a descriptor is to be had.
int error_of_opening() noexcept {
  const int made = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (made < 0) return errno == EMFILE || errno == ENFILE ? errno : 0;
  ::close(made);
  return 0;
}

long to_milliseconds(Duration duration) noexcept {
  static constexpr Duration kLongest = milliseconds(INT_MAX);
  const auto rounded = std::chrono::ceil<milliseconds>(std::clamp(duration, Duration(1), kLongest));
  return static_cast<long>(rounded.count());
}

long to_seconds(Duration duration) noexcept {
  return to_milliseconds(duration) / 1000 + (to_milliseconds(duration) % 1000 != 0 ? 1 : 0);
}

std::string environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

bool is_https(std::string_view url) noexcept {
  return equals_ignoring_case(url.substr(0, 5), "https");
}

// Of a message: a proxy without what may be secret. It may have no scheme, or another than http's,
// and a password with any letter.
std::string through(std::string_view proxy) {
  if (proxy.empty()) return {};
  if (const std::size_t scheme = proxy.find("://"); scheme != std::string_view::npos) {
    proxy.remove_prefix(scheme + 3);
  }
  if (const std::size_t at = proxy.rfind('@'); at != std::string_view::npos) {
    proxy.remove_prefix(at + 1);
  }
  return " (proxy " + std::string(proxy.substr(0, authority_size(proxy))) + ")";
}

}  // namespace

HttpProxies HttpProxies::choose(const HttpSettings& settings) {
  if (settings.no_proxy == "*") return {};
  if (!settings.proxy.empty()) return {settings.proxy, settings.proxy, settings.no_proxy};
  HttpProxies proxies;
  // Not HTTP_PROXY: in a CGI program it is whatever a client has sent.
  proxies.of_http = environment({"http_proxy", "all_proxy", "ALL_PROXY"});
  proxies.of_https = environment({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"});
  proxies.exceptions =
      settings.no_proxy.empty() ? environment({"no_proxy", "NO_PROXY"}) : settings.no_proxy;
  return proxies;
}

std::string_view HttpProxies::of(std::string_view url) const {
  const std::string& proxy = is_https(url) ? of_https : of_http;
  if (proxy.empty()) return {};
  const std::string authority = http_authority(url);
  std::string_view host = std::string_view(authority).substr(0, authority.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (exceptions == "*") return {};  // in a list it is a name like others
  std::string_view rest = exceptions;
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of(", ");
    std::string_view name = rest.substr(0, end);
    if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
    if (equals_ignoring_case(name, host)) return {};
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return proxy;
}

bool goes_through_proxy(const HttpSettings& settings, std::string_view scheme,
                        std::string_view host) {
  const std::string url = std::string(scheme) + "://" + std::string(host);
  return !HttpProxies::choose(settings).of(url).empty();
}

// Options of a handle, one after the other; the first that fails is remembered.
class HttpExchange::Options {
 public:
  Options(const CurlLibrary& curl, CURL* easy) : curl_(curl), easy_(easy) {}

  template <typename Value>
  void set(CURLoption option, Value value) {
    if (code_ == CURLE_OK) code_ = curl_.easy_setopt(easy_, option, value);
  }
  // What an older libcurl does without. Whether it is there.
  template <typename Value>
  bool prefer(CURLoption option, Value value) {
    return curl_.easy_setopt(easy_, option, value) == CURLE_OK;
  }
  Status status() const {
    if (code_ == CURLE_OK) return {};
    return {code_ == CURLE_URL_MALFORMAT ? StatusCode::kInvalidArgument : StatusCode::kIo,
            std::string("set up of an http request: ") + curl_.easy_strerror(code_),
            {},
            code_ == CURLE_OUT_OF_MEMORY ? ENOMEM : EINVAL};
  }

 private:
  const CurlLibrary& curl_;
  CURL* easy_;
  CURLcode code_ = CURLE_OK;
};

HttpExchange::HttpExchange(HttpClient::ExchangeId id, HttpRequest request,
                           std::shared_ptr<HttpEvents> events, bool was_sent)
    : id_(id),
      request_(std::move(request)),
      events_(std::move(events)),
      authority_(http_authority(request_.url)),
      requests_begun_(was_sent ? 2 : 0) {}

HttpExchange::~HttpExchange() {
  if (headers_ != nullptr) curl_->slist_free_all(headers_);
}

Status HttpExchange::set_up(const CurlLibrary& curl, CURL* easy, const HttpSettings& settings,
                            const HttpProxies& proxies, TimePoint now) {
  state_ = State::kActive;
  curl_ = &curl;
  easy_ = easy;
  begun_ = last_active_ = now;
  if (easy == nullptr) return Status::from_errno(ENOMEM, "start of an http request", {});
  HFLUSH_RETURN_IF_ERROR(check_http_request(request_));

  Options options(curl, easy);
  options.set(CURLOPT_PRIVATE, static_cast<void*>(this));
  options.set(CURLOPT_ERRORBUFFER, said_.data());
  options.set(CURLOPT_NOSIGNAL, 1L);
  options.set(CURLOPT_URL, request_.url.c_str());
  options.set(CURLOPT_PATH_AS_IS, 1L);
  options.set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  options.set(CURLOPT_CONNECTTIMEOUT_MS, to_milliseconds(request_.connect_timeout));
  options.set(CURLOPT_TCP_NODELAY, 1L);
  options.set(CURLOPT_TCP_KEEPALIVE, 1L);
  if (request_.fresh_connection) options.set(CURLOPT_FRESH_CONNECT, 1L);
  options.prefer(kMaxAgeOfConnection, to_seconds(settings.idle_timeout));
  // Else a request that is given up waits for its name lookup, and everything else with it.
  options.prefer(kQuickExit, 1L);
  if (options.prefer(kPreRequestFunction, &HttpExchange::on_request)) {
    options.set(kPreRequestData, static_cast<void*>(this));
  } else if (requests_begun_ == 0) {
    requests_begun_ = -1;
  }

  if (!settings.verify_peer) {
    options.set(CURLOPT_SSL_VERIFYPEER, 0L);
    options.set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!settings.ca_file.empty()) {
    options.set(CURLOPT_CAINFO, settings.ca_file.c_str());
    options.prefer(kProxyAuthorities, settings.ca_file.c_str());
    // Else those of the system's directory count, too.
    options.prefer(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
    options.prefer(kProxyAuthoritiesDirectory, static_cast<const char*>(nullptr));
  }
  const std::string& proxy = is_https(request_.url) ? proxies.of_https : proxies.of_http;
  options.set(CURLOPT_PROXY, proxy.c_str());  // also the empty one, or it looks for another
  options.set(CURLOPT_NOPROXY, proxies.exceptions.c_str());
  options.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  if (!proxy.empty() && !settings.proxy_user.empty()) {
    options.set(CURLOPT_PROXYUSERNAME, settings.proxy_user.c_str());
    options.set(CURLOPT_PROXYPASSWORD, settings.proxy_password.c_str());
  }
  through_ = through(proxies.of(request_.url));

  options.set(CURLOPT_USERAGENT, settings.user_agent.c_str());
  HFLUSH_RETURN_IF_ERROR(make_header_list());
  options.set(CURLOPT_HTTPHEADER, headers_);
  set_method(options);
  HFLUSH_RETURN_IF_ERROR(set_body(options, settings));
  options.set(CURLOPT_EXPECT_100_TIMEOUT_MS, to_milliseconds(kConsentIsDueAfter));
  // libcurl allocates it for every request: a large one where much may come.
  options.set(CURLOPT_BUFFERSIZE,
              request_.method == "GET" ? kLargeReceiveBuffer : kSmallReceiveBuffer);
  options.set(CURLOPT_HEADERFUNCTION, &HttpExchange::on_header);
  options.set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  options.set(CURLOPT_WRITEFUNCTION, &HttpExchange::on_write);
  options.set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  return options.status();
}

bool HttpExchange::add_header(const std::string& line) {
  curl_slist* longer = curl_->slist_append(headers_, line.c_str());
  if (longer == nullptr) return false;
  headers_ = longer;
  return true;
}

Status HttpExchange::make_header_list() {
  bool complete = true;
  for (const HttpHeader& header : request_.headers) {
    // To libcurl, "Name:" is the wish to have no such header.
    complete =
        complete && add_header(header.name + (header.value.empty() ? ";" : ": " + header.value));
  }
  for (const char* unwanted : {"Accept", "Content-Type"}) {
    if (has_header(request_, unwanted)) continue;
    complete = complete && add_header(std::string(unwanted) + ":");
  }
  if (!asks_first(request_)) {
    complete = complete && add_header("Expect:");
  } else if (request_.body->size() <= kLibcurlAsksFirstAbove) {
    complete = complete && add_header("Expect: 100-continue");
  }
  if (complete) return {};
  return Status::from_errno(ENOMEM, "set up of an http request", {});
}

void HttpExchange::set_method(Options& options) const {
  if (request_.method == "HEAD") {
    options.set(CURLOPT_NOBODY, 1L);
  } else {
    options.set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

Status HttpExchange::set_body(Options& options, const HttpSettings& settings) {
  const std::uint64_t size = body_size(request_);
  const bool has_length = request_.body || request_.method == "PUT" || request_.method == "POST";
  if (!has_length || request_.method == "HEAD") return {};
  if (size > static_cast<std::uint64_t>(std::numeric_limits<curl_off_t>::max())) {
    return Status(StatusCode::kInvalidArgument, "http request with a body that is too long", {},
                  EFBIG);
  }
  if (size <= kSmallBodyBytes && !asks_first(request_)) {
    HFLUSH_RETURN_IF_ERROR(read_small_body());
    options.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(size));
    options.set(CURLOPT_POSTFIELDS, sending_.small.c_str());
    return {};
  }
  options.set(CURLOPT_UPLOAD, 1L);
  options.set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(size));
  options.set(CURLOPT_READFUNCTION, &HttpExchange::on_read);
  options.set(CURLOPT_READDATA, static_cast<void*>(this));
  options.set(CURLOPT_SEEKFUNCTION, &HttpExchange::on_seek);
  options.set(CURLOPT_SEEKDATA, static_cast<void*>(this));
  const std::uint64_t buffer =
      std::clamp(std::min<std::uint64_t>(size, settings.upload_buffer_bytes), kLeastUploadBuffer,
                 kMostUploadBuffer);
  options.prefer(CURLOPT_UPLOAD_BUFFERSIZE, static_cast<long>(buffer));
  return {};
}

Status HttpExchange::read_small_body() {
  if (!request_.body) return {};
  sending_.small.resize(static_cast<std::size_t>(request_.body->size()));
  while (sending_.offset < sending_.small.size()) {
    const auto rest = std::as_writable_bytes(std::span(sending_.small)).subspan(sending_.offset);
    if (read_body(rest) == CURL_READFUNC_ABORT) return failure_;
  }
  return {};
}

// Some of the body from where it stands; CURL_READFUNC_ABORT and a failure.
std::size_t HttpExchange::read_body(MutableByteView out) {
  const std::uint64_t left = request_.body->size() - sending_.offset;
  out = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, out.size())));
  if (out.empty()) return 0;
  const std::ptrdiff_t got = request_.body->read_at(sending_.offset, out);
  if (got <= 0) {
    sending_.is_unreadable = true;
    fail(Status::from_errno(got == 0 ? EIO : static_cast<int>(-got),
                            "read of what is sent to " + authority_, {}));
    return CURL_READFUNC_ABORT;
  }
  sending_.offset += static_cast<std::uint64_t>(got);
  return static_cast<std::size_t>(got);
}

bool HttpExchange::seek_body(curl_off_t offset) {
  if (offset < 0 || static_cast<std::uint64_t>(offset) > request_.body->size()) return false;
  sending_.offset = static_cast<std::uint64_t>(offset);
  return true;
}

void HttpExchange::fail(Status failure) {
  if (failure_.ok()) failure_ = std::move(failure);
}

bool HttpExchange::take_line(std::string_view line) {
  if (head_.add_line(line)) return true;
  fail(head_too_long(authority_));
  return false;
}

void HttpExchange::deliver_head() {
  if (!head_.is_complete() || is_cancelled()) return;
  HttpHead head = head_.take();
  max_response_bytes_ = max_body_bytes(request_, head.status);
  events_->on_head(std::move(head));
}

std::size_t HttpExchange::take_body(ByteView bytes) {
  deliver_head();
  if (is_cancelled()) return 0;
  if (bytes.size() > max_response_bytes_ - response_bytes_) {
    fail(body_too_long(authority_, max_response_bytes_));
    return 0;
  }
  if (!bytes.empty() && !events_->on_body(bytes)) {
    paused_ = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  response_bytes_ += bytes.size();
  return bytes.size();
}

std::size_t HttpExchange::on_read(char* out, std::size_t size, std::size_t count,
                                  void* self) noexcept {
  return static_cast<HttpExchange*>(self)->read_body(
      std::as_writable_bytes(std::span(out, size * count)));
}

int HttpExchange::on_seek(void* self, curl_off_t offset, int origin) noexcept {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_FAIL;
  return static_cast<HttpExchange*>(self)->seek_body(offset) ? CURL_SEEKFUNC_OK
                                                             : CURL_SEEKFUNC_FAIL;
}

std::size_t HttpExchange::on_header(char* line, std::size_t size, std::size_t count,
                                    void* self) noexcept {
  const std::string_view text(line, size * count);
  return static_cast<HttpExchange*>(self)->take_line(text) ? text.size() : 0;
}

std::size_t HttpExchange::on_write(char* bytes, std::size_t size, std::size_t count,
                                   void* self) noexcept {
  return static_cast<HttpExchange*>(self)->take_body(as_bytes({bytes, size * count}));
}

int HttpExchange::on_request(void* self, char* /*peer*/, char* /*own*/, int /*peer_port*/,
                             int /*own_port*/) noexcept {
  ++static_cast<HttpExchange*>(self)->requests_begun_;
  return 0;  // CURL_PREREQFUNC_OK
}

CURL* HttpExchange::let_go() noexcept {
  state_ = State::kEnded;
  if (headers_ != nullptr) curl_->slist_free_all(std::exchange(headers_, nullptr));
  request_.body.reset();
  sending_.small = {};
  return std::exchange(easy_, nullptr);
}

void HttpExchange::report(HttpEnd end) {
  deliver_head();
  const auto events = std::move(events_);
  if (!is_cancelled()) events->on_end(std::move(end));
}

void HttpExchange::uses(curl_socket_t descriptor, bool does) noexcept {
  if (does) {
    socket_ = descriptor;
  } else if (socket_ == descriptor) {
    socket_ = CURL_SOCKET_BAD;
  }
}

void HttpExchange::resumed(TimePoint now) noexcept {
  paused_ = false;
  last_active_ = now;
}

template <typename Number>
Number HttpExchange::info(CURLINFO what) const noexcept {
  Number value{};
  return curl_->easy_getinfo(easy_, what, &value) == CURLE_OK ? value : Number{};
}

HttpExchange::Activity HttpExchange::activity() const {
  Activity activity;
  activity.sent = info<curl_off_t>(CURLINFO_SIZE_UPLOAD_T);
  activity.received = info<curl_off_t>(CURLINFO_SIZE_DOWNLOAD_T);
  activity.request_bytes = info<long>(CURLINFO_REQUEST_SIZE);
  activity.head_bytes = info<long>(CURLINFO_HEADER_SIZE);
  // The last megabytes of a body take their time on a slow line after libcurl has sent them.
  if (socket_ != CURL_SOCKET_BAD) {
    static_cast<void>(::ioctl(socket_, SIOCOUTQ, &activity.unacknowledged));
  }
  return activity;
}

TimePoint HttpExchange::look(TimePoint now) {
  if (state_ != State::kActive || paused_) return TimePoint::max();
  const TimePoint end = deadline_after(begun_, request_.total_timeout);
  if (request_.stall_timeout == kNoTimeout) return end;
  const Activity seen = activity();
  if (!(seen == last_activity_)) {
    last_activity_ = seen;
    last_active_ = now;
  }
  // Now and then, because a sign of life is dated by the look that finds it.
  const Duration step = std::max<Duration>(request_.stall_timeout / kLooks, milliseconds(1));
  return std::min({deadline_after(last_active_, request_.stall_timeout), now + step, end});
}

bool HttpExchange::has_stalled(TimePoint now) const noexcept {
  return state_ == State::kActive && !paused_ &&
         (now >= deadline_after(last_active_, request_.stall_timeout) || is_out_of_time(now));
}

bool HttpExchange::is_out_of_time(TimePoint now) const noexcept {
  return now >= deadline_after(begun_, request_.total_timeout);
}

Status HttpExchange::stalled(TimePoint now) const {
  return exchange_timed_out(authority_, request_, is_out_of_time(now));
}

HttpEnd HttpExchange::outcome(CURLcode code) const {
  if (failure_.ok() && code == CURLE_OK && head_.has_head() && !is_too_early()) return {};
  if (easy_ == nullptr) return {failure_, requests_begun_ > 1, sending_.is_unreadable};
  return {failure_.ok() ? failure_of(code) : failure_, may_be_executed(), sending_.is_unreadable};
}

std::optional<Endpoint> HttpExchange::plain_peer() const {
  if (is_https(request_.url) || !through_.empty()) return std::nullopt;
  const char* const address = info<const char*>(CURLINFO_PRIMARY_IP);
  if (address == nullptr || *address == '\0') return std::nullopt;
  return Endpoint{address, static_cast<std::uint16_t>(info<long>(CURLINFO_PRIMARY_PORT))};
}

bool HttpExchange::may_be_executed() const {
  if (requests_begun_ == 0) return false;  // no connection that was good for it
  if (requests_begun_ > 1) return true;    // the connection before may have delivered it
  if (info<long>(CURLINFO_REQUEST_SIZE) == 0) return false;
  if (!request_.body || requests_begun_ < 0) return true;
  return has_sent_body();
}

bool HttpExchange::has_sent_body() const {
  return static_cast<std::uint64_t>(info<curl_off_t>(CURLINFO_SIZE_UPLOAD_T)) >=
         body_size(request_);
}

// libcurl stops sending where the connection is to be closed behind the response, and finds nothing
// wrong with that. What a server has not got it cannot have taken.
bool HttpExchange::is_too_early() const {
  return info<long>(CURLINFO_RESPONSE_CODE) / 100 == 2 && !has_sent_body();
}

Status HttpExchange::failure_of(CURLcode code) const {
  const auto error_number = static_cast<int>(info<long>(CURLINFO_OS_ERRNO));
  // Of a connection that was there; a refusal is that of an address before it.
  const int of_connection =
      error_number != 0 && error_number != ECONNREFUSED ? error_number : ECONNRESET;
  const std::string connect = "connect to " + authority_ + through_;
  const std::string receive = "receive response from " + authority_ + through_;
  const std::string handshake = "tls handshake with " + authority_ + through_;
  const auto because = [&](const std::string& operation, const std::string& why, int number) {
    return Status(StatusCode::kIo, operation + ": " + why, {}, number);
  };
  const long proxy_status = info<long>(CURLINFO_HTTP_CONNECTCODE);
  if (requests_begun_ <= 0 && proxy_status >= 300) {
    return because(connect, "the proxy answers " + std::to_string(proxy_status), ECONNREFUSED);
  }
  if (const int lacking = may_lack_descriptors(code) ? error_of_opening() : 0; lacking != 0) {
    return because(connect, "this process can open no more descriptors (ulimit -n)", lacking);
  }
  switch (static_cast<int>(code)) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return because("resolve host of " + authority_, "the name is not known", EHOSTUNREACH);
    case CURLE_COULDNT_RESOLVE_PROXY:
      return because(connect, "the proxy's name is not known", EHOSTUNREACH);
    case CURLE_COULDNT_CONNECT:
      return error_number != 0 ? Status::from_errno(error_number, connect, {})
                               : because(connect, curl_->easy_strerror(code), ECONNREFUSED);
    case kUnknownProxyError:
      return because(connect, "the proxy refuses", ECONNREFUSED);
    case CURLE_OPERATION_TIMEDOUT:
      return {StatusCode::kTimedOut,
              connect + ": timed out after " +
                  std::to_string(to_milliseconds(request_.connect_timeout)) + " ms",
              {},
              ETIMEDOUT};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return because(handshake, said_.data(), EKEYREJECTED);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
      return because(handshake, said_.data(), EPROTO);
    case CURLE_SEND_ERROR:
      return Status::from_errno(of_connection, "send request to " + authority_ + through_, {});
    case CURLE_RECV_ERROR:
      // After a reset libcurl still tries to say goodbye over TLS: nothing is received with EPIPE.
      return Status::from_errno(of_connection == EPIPE ? ECONNRESET : of_connection, receive, {});
    case CURLE_OK:
      if (head_.has_head()) {
        return because(receive, "it came before all of the request was sent", EPROTO);
      }
      [[fallthrough]];
    case CURLE_GOT_NOTHING:
      return because(receive, "the connection was closed instead", ECONNRESET);
    case CURLE_PARTIAL_FILE:
      return because(receive,
                     "the connection was closed after " + std::to_string(response_bytes_) +
                         " bytes of the body, before its end",
                     ECONNRESET);
    case CURLE_URL_MALFORMAT:
      return {StatusCode::kInvalidArgument,
              "http request to " + authority_ + ": invalid url",
              {},
              EINVAL};
    case CURLE_OUT_OF_MEMORY:
      return Status::from_errno(ENOMEM, "exchange with " + authority_, {});
    default:
      return because("exchange with " + authority_ + through_, curl_->easy_strerror(code), EPROTO);
  }
}

}  // namespace hflush::env
