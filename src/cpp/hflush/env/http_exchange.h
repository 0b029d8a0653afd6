// HttpExchange: one request and its response, as libcurl's callbacks and results see them.
//
// What is sent and how, what arrives, and what a failure is called; not when, nor on which
// connection: that is HttpClient's. Owned by the loop thread; only cancel() and
// is_cancelled() may be called by others.
#pragma once

#include <curl/curl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/curl_library.h"
#include "hflush/env/http_client.h"
#include "hflush/env/http_head.h"
#include "hflush/env/socket.h"

namespace hflush::env {

// Which proxy requests go through, decided once: libcurl would read the environment for each of
// them, on a thread beside others that may be changing it.
struct HttpProxies {
  std::string of_http;  // empty: none
  std::string of_https;
  std::string exceptions;

  static HttpProxies choose(const HttpSettings& settings);
  // That of a url; empty if there is none, or the exceptions name the host as it is written.
  // libcurl knows other ways to name one: more goes past a proxy than is said here.
  std::string_view of(std::string_view url) const;
};

class HttpExchange {
 public:
  enum class State : std::uint8_t { kWaiting, kActive, kEnded };

  // `was_sent`: once before, over a connection that died.
  HttpExchange(HttpClient::ExchangeId id, HttpRequest request, std::shared_ptr<HttpEvents> events,
               bool was_sent = false);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  HttpClient::ExchangeId id() const noexcept { return id_; }
  // No event starts from here on.
  void cancel() noexcept { cancelled_.store(true); }
  bool is_cancelled() const noexcept { return cancelled_.load(); }

  State state() const noexcept { return state_; }
  CURL* easy() const noexcept { return easy_; }
  const std::string& authority() const noexcept { return authority_; }
  // The server's address, as a number, where it was asked without TLS or a proxy. Requires: the
  // handle still knows.
  std::optional<Endpoint> plain_peer() const;

  // Makes `easy`, which has no options yet, or is null for want of memory, send the request;
  // kActive, also if it fails.
  Status set_up(const CurlLibrary& curl, CURL* easy, const HttpSettings& settings,
                const HttpProxies& proxies, TimePoint now);
  // The exchange cannot go on, whatever libcurl says.
  void fail(Status failure);
  // What libcurl's `code` means, while the handle still knows about it.
  HttpEnd outcome(CURLcode code) const;
  // Releases everything that is sent; kEnded.
  CURL* let_go() noexcept;
  // The last events, unless cancelled. Requires: kEnded.
  void report(HttpEnd end);

  // libcurl waits for `descriptor` on its behalf, or does no more.
  void uses(curl_socket_t descriptor, bool does) noexcept;

  bool is_paused() const noexcept { return paused_; }
  void resumed(TimePoint now) noexcept;
  // Notes signs of life. When to look again; the last of all times: not for now.
  TimePoint look(TimePoint now);
  bool has_stalled(TimePoint now) const noexcept;
  bool is_out_of_time(TimePoint now) const noexcept;
  Status stalled(TimePoint now) const;

 private:
  // What libcurl and the system have counted: a difference is a sign of life.
  struct Activity {
    curl_off_t sent = 0;
    curl_off_t received = 0;
    long request_bytes = 0;
    long head_bytes = 0;
    int unacknowledged = 0;  // bytes in the system's buffer that the peer has not taken
    bool operator==(const Activity&) const = default;
  };

  class Options;

  void set_method(Options& options) const;
  Status set_body(Options& options, const HttpSettings& settings);
  Status read_small_body();
  Status make_header_list();
  bool add_header(const std::string& line);
  void deliver_head();
  Activity activity() const;
  template <typename Number>
  Number info(CURLINFO what) const noexcept;
  Status failure_of(CURLcode code) const;
  bool may_be_executed() const;
  bool has_sent_body() const;
  bool is_too_early() const;

  std::size_t read_body(MutableByteView out);
  bool seek_body(curl_off_t offset);
  bool take_line(std::string_view line);
  std::size_t take_body(ByteView bytes);

  static std::size_t on_read(char* out, std::size_t size, std::size_t count, void* self) noexcept;
  static int on_seek(void* self, curl_off_t offset, int origin) noexcept;
  static std::size_t on_header(char* line, std::size_t size, std::size_t count,
                               void* self) noexcept;
  static std::size_t on_write(char* bytes, std::size_t size, std::size_t count,
                              void* self) noexcept;
  static int on_request(void* self, char* peer, char* own, int peer_port, int own_port) noexcept;

  const HttpClient::ExchangeId id_;
  std::atomic<bool> cancelled_ = false;
  HttpRequest request_;
  std::shared_ptr<HttpEvents> events_;
  const std::string authority_;  // "host:port", for messages
  std::string through_;          // " (proxy host:port)"; empty if there is none

  State state_ = State::kWaiting;
  const CurlLibrary* curl_ = nullptr;
  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
  struct Sending {
    std::string small;  // all of a small body
    std::uint64_t offset = 0;
    bool is_unreadable = false;
  } sending_;
  // How often it was begun to be sent, and perhaps once more; -1: libcurl does not say.
  int requests_begun_ = 0;
  HttpHeadParser head_;
  std::uint64_t max_response_bytes_ = 0;  // of this response, as its status has it
  std::uint64_t response_bytes_ = 0;
  bool paused_ = false;
  Status failure_;
  // The last one seen. libcurl itself names none before the end of a transfer.
  curl_socket_t socket_ = CURL_SOCKET_BAD;
  Activity last_activity_;
  TimePoint begun_;
  TimePoint last_active_;
  std::array<char, CURL_ERROR_SIZE> said_{};  // libcurl's own words
};

}  // namespace hflush::env
