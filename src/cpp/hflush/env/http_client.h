// HttpClient: HTTP/1.1 exchanges over libcurl, on the process's event loop; without libcurl those
// that are small and that a guest of the loop waits for, on its own thread, and those that send
// much memory (direct_exchanges.h).
//
// One client holds one pool of connections, kept alive and reused, whatever the number of streams.
// start(), resume() and cancel() may be called from any thread; every event comes on the loop
// thread, or on that of the guest within its wait, in order, and must not block. What is sent is
// read on that thread, too (HttpBody): one that lies on a disk should lie in its cache. Redirects
// are never followed, and no header is added but what the request says, Host, Content-Length and
// User-Agent: what goes out is what was signed. Nothing is sent twice, with two exceptions: over a
// reused connection that turns out to be dead, before a byte of a response (see fresh_connection),
// and to a server that answers 417 to expect_continue. libcurl is loaded when the first client is
// made, so that a process that uses no object store does not pay for it.
//
// Failures are Status that name host and port and what was tried, with errno where there is one;
// nothing of headers or credentials is in them. A client may be destroyed by any thread at any
// time: no event starts after that, and what it held is released on the loop thread, or a guest's.
// In a forked child a client of the parent does nothing: no events, no callbacks; the connections
// are the parent's. Where start(), resume() or cancel() throws std::bad_alloc, it has done nothing.
// On the loop thread, in a guest's wait, and in the end of a client, nothing can be done without
// memory: there it ends the process. A name lookup that is given up ends on the loop thread with
// libcurl before 7.87.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"

namespace hflush::env {

struct HttpHeader {
  std::string name;
  std::string value;
};

// What a request sends. Read on the loop thread, perhaps more than once; never changes. While
// read_at() waits, so does everything else that the loop does. May be released there, too.
class HttpBody {
 public:
  virtual ~HttpBody() = default;
  virtual std::uint64_t size() const noexcept = 0;
  // Copies bytes from `offset` on into `out`; how many (0 only at the end), or a negated errno.
  virtual std::ptrdiff_t read_at(std::uint64_t offset, MutableByteView out) const noexcept = 0;
  // Where the bytes from `offset` on lie in memory, for as long as it lives: how many pieces, as
  // far as `out` has room for them. 0: they do not, whatever the offset, or there are none.
  virtual std::size_t views_at(std::uint64_t /*offset*/,
                               std::span<ByteView> /*out*/) const noexcept {
    return 0;
  }
};

// A small one, in memory.
std::shared_ptr<const HttpBody> text_body(std::string text);
// Fills `out` with the bytes from `offset` on, however many come at a time: a system call moves no
// more than 2 GiB. 0, or an errno; EIO where the body ends before.
int read_fully(const HttpBody& body, std::uint64_t offset, MutableByteView out) noexcept;

struct HttpRequest {
  std::string method;
  std::string url;  // sent as it is: nothing in it is normalised
  std::vector<HttpHeader> headers;
  std::shared_ptr<const HttpBody> body;  // none: no body, and Content-Length 0 for PUT and POST
  // A connection of its own, so that it is not repeated because a dead connection may have
  // delivered it.
  bool fresh_connection = false;
  // Ask before sending a body; a server that says nothing gets it after 200 ms.
  bool expect_continue = false;
  // The thread that starts it waits for its response, all of which is taken as it comes: it may do
  // the whole exchange itself (HttpSettings::direct).
  bool is_awaited = false;
  Duration connect_timeout = std::chrono::seconds(10);
  // Without a byte in either direction for so long, the exchange fails with ETIMEDOUT. The time in
  // which on_body() took nothing does not count.
  Duration stall_timeout = std::chrono::seconds(60);
  // Longer than that in all, it fails so whatever comes. The time before it has a place among the
  // connections does not count.
  Duration total_timeout = kNoTimeout;
  // A longer body of the response is a failure (EMSGSIZE).
  std::uint64_t max_response_bytes = std::numeric_limits<std::uint64_t>::max();
  // So is a longer one whose status is not 2xx.
  std::uint64_t max_error_bytes = std::numeric_limits<std::uint64_t>::max();
};

struct HttpHead {
  int status = 0;
  std::vector<HttpHeader> headers;  // names in lower case

  // The first header of that name, in lower case; empty without one.
  std::string_view header(std::string_view name) const noexcept;
};

struct HttpEnd {
  // Fine: the whole response has arrived, whatever its status.
  Status failure;
  // With a failure: may the server have received the whole request, and so have executed it?
  bool may_be_executed = false;
  // With a failure: what was to be sent could not be read, which no repetition changes.
  bool is_unreadable = false;
};

class HttpEvents {
 public:
  virtual ~HttpEvents() = default;
  // The head of the final response (not 1xx).
  virtual void on_head(HttpHead head) = 0;
  // Takes all of `bytes`, or none of it and false: then they come again after resume().
  virtual bool on_body(ByteView bytes) = 0;
  // The last event.
  virtual void on_end(HttpEnd end) = 0;
};

// A response as a whole.
struct HttpResult {
  HttpEnd end;
  HttpHead head;
  std::string body;
};

struct HttpSettings {
  bool verify_peer = true;
  std::string ca_file;  // empty: the system's
  // "http://host:port"; empty: what the environment says when the client is made (http_proxy,
  // https_proxy, HTTPS_PROXY, all_proxy, ALL_PROXY, no_proxy, NO_PROXY).
  std::string proxy;
  std::string proxy_user;  // with a proxy
  std::string proxy_password;
  std::string no_proxy;  // hosts, separated by commas; "*": no proxy at all
  std::string user_agent;
  // Exchanges at once but paused ones; those that start wait for room, those that resume do not.
  std::size_t max_connections = 64;
  Duration idle_timeout = std::chrono::seconds(60);  // an older idle connection is closed
  std::size_t upload_buffer_bytes = std::size_t{512} << 10U;
  // Over plain HTTP without a proxy, small requests by a guest of the loop that waits for them, and
  // bodies that lie in memory, go over connections of our own, without libcurl.
  bool direct = true;
};

// Whether requests to a host may go through a proxy: there is one, and its exceptions do not name
// the host as it is written here.
bool goes_through_proxy(const HttpSettings& settings, std::string_view scheme,
                        std::string_view host);

class HttpClient {
 public:
  // 0 is not an exchange.
  using ExchangeId = std::uint64_t;

  // kUnsupported without a suitable libcurl. `loop` outlives the client.
  static Result<std::shared_ptr<HttpClient>> make(EventLoop& loop, HttpSettings settings);
  virtual ~HttpClient() = default;

  // Events follow, unless cancelled; also if nothing can be sent at all. None comes before this
  // returns on the loop thread; from another thread one may.
  virtual ExchangeId start(HttpRequest request, std::shared_ptr<HttpEvents> events) = 0;
  // Continues an exchange whose on_body() took nothing.
  virtual void resume(ExchangeId exchange) = 0;
  // No event starts after it on the loop thread; from another thread one may be under way. The
  // request may still have been executed. `done`, if any, runs on the loop thread when the exchange
  // is out of the network for good and its body is released; also of one that has ended by itself.
  virtual void cancel(ExchangeId exchange, std::function<void()> done = {}) = 0;
  // Connections that are open now, idle ones included. For tests and statistics.
  virtual std::size_t open_connections() const = 0;
};

}  // namespace hflush::env
