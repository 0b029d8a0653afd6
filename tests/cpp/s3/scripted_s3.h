// A store on the loopback interface that answers each request as a test says, and fails as servers,
// and what lies between, fail.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "env/http_server.h"
#include "env/loopback.h"
#include "hflush/base/status.h"
#include "hflush/env/interrupt.h"
#include "hflush/s3/call/settings.h"

namespace hflush::s3::testing {

using Headers = std::map<std::string, std::string>;

// What a client has asked for.
struct Request {
  std::string method;
  std::string target;                        // as it came: path and query, encoded
  std::string path;                          // decoded
  std::map<std::string, std::string> query;  // decoded
  Headers headers;                           // names in lower case
  std::string body;
  std::size_t connection = 0;  // their number

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
  bool asks(const std::string& parameter) const { return query.contains(parameter); }
};

struct Answer {
  int status = 200;
  Headers headers = {};  // beside Content-Length, which comes by itself unless it is here
  std::string body = {};
  // After so many bytes of the body the connection ends.
  std::optional<std::size_t> cut_after = {};
  enum class Connection : std::uint8_t {
    kStays,
    kCloses,  // after the answer
    kResets,  // instead of it; or, with cut_after, instead of the rest
    kHangs,   // the same, but nothing comes until the client gives up
  };
  Connection connection = Connection::kStays;

  static Answer reset() { return {.connection = Connection::kResets}; }
  static Answer silence() { return {.connection = Connection::kHangs}; }
  static Answer error(int status, const std::string& code, Headers headers = {}) {
    return {.status = status,
            .headers = std::move(headers),
            .body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code +
                    "</Code><Message>as the test says</Message><RequestId>R1</RequestId></Error>"};
  }
};

// How a client speaks to such a store, and hardly waits before it tries again.
inline Settings loopback_settings(std::uint16_t port) {
  Settings settings;
  settings.scheme = "http";
  settings.host = "127.0.0.1";
  settings.port = port;
  settings.path_style = true;
  settings.retry.interval = std::chrono::milliseconds(1);
  settings.retry.throttle_interval = std::chrono::milliseconds(1);
  settings.http.no_proxy = "*";
  return settings;
}

class ScriptedS3 {
 public:
  // Called for each request, by one thread for each connection, at once for several.
  using Handler = std::function<Answer(const Request&)>;
  // Called before the body is read; an answer is sent instead of "100 Continue", and ends it.
  using BeforeBody = std::function<std::optional<Answer>(const Request&)>;

  explicit ScriptedS3(Handler handler, BeforeBody before_body = {})
      : handler_(std::move(handler)),
        before_body_(std::move(before_body)),
        server_([this](HttpServer::Exchange& exchange) { serve(exchange); }) {}

  std::uint16_t port() const { return server_.endpoint().port; }
  // Every request so far, whole ones only.
  std::vector<Request> requests() { return seen_.get().requests; }
  std::size_t request_count() { return seen_.get().requests.size(); }
  std::size_t connection_count() { return server_.connections(); }
  [[nodiscard]] bool wait_for_requests(std::size_t count) {
    return seen_.wait_until([&](const Seen& seen) { return seen.requests.size() >= count; });
  }
  // Clients that gave up what hung.
  [[nodiscard]] bool wait_for_gone(int count) {
    return seen_.wait_until([&](const Seen& seen) { return seen.gone >= count; });
  }

 private:
  using HttpServer = env::testing::HttpServer;

  struct Seen {
    std::vector<Request> requests;
    int gone = 0;
  };

  void serve(HttpServer::Exchange& exchange) {
    Request request = parse(exchange.request());
    if (before_body_) {
      if (const std::optional<Answer> answer = before_body_(request)) {
        remember(request);
        send(exchange, *answer);
        exchange.close();
        return;
      }
    }
    if (request.header("expect") == "100-continue") exchange.respond_continue();
    if (!exchange.read_body()) return;
    request.body = exchange.request().body;
    remember(request);
    send(exchange, handler_(request));
  }

  void remember(const Request& request) {
    seen_.update([&](Seen& seen) { seen.requests.push_back(request); });
  }

  void send(HttpServer::Exchange& exchange, const Answer& answer) {
    const bool stays = answer.connection == Answer::Connection::kStays;
    if (stays || answer.connection == Answer::Connection::kCloses || answer.cut_after) {
      std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " Said\r\n";
      for (const auto& [name, value] : answer.headers) text += name + ": " + value + "\r\n";
      const bool has_length = answer.headers.contains("Content-Length") || answer.status == 204 ||
                              answer.headers.contains("Transfer-Encoding");
      if (!has_length) text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
      text += "\r\n";
      if (exchange.request().method != "HEAD") {
        text.append(answer.body, 0, answer.cut_after.value_or(answer.body.size()));
      }
      exchange.send(text);
    }
    if (answer.connection == Answer::Connection::kResets) exchange.reset();
    if (answer.connection == Answer::Connection::kHangs && exchange.wait_until_gone()) {
      seen_.update([](Seen& seen) { ++seen.gone; });
    }
    if (!stays || answer.cut_after) exchange.close();
  }

  static std::string decode(std::string_view text) {
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size()) {
        decoded += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
        i += 2;
      } else {
        decoded += text[i];
      }
    }
    return decoded;
  }

  static Request parse(const HttpServer::Request& received) {
    Request request;
    request.method = received.method;
    request.target = received.target;
    request.connection = received.connection;
    for (const env::HttpHeader& header : received.headers) {
      request.headers[header.name] = header.value;
    }
    const std::size_t mark = request.target.find('?');
    request.path = decode(std::string_view(request.target).substr(0, mark));
    if (mark == std::string::npos) return request;
    std::string_view query = std::string_view(request.target).substr(mark + 1);
    while (!query.empty()) {
      const std::size_t end = std::min(query.find('&'), query.size());
      const std::string_view parameter = query.substr(0, end);
      const std::size_t equals = std::min(parameter.find('='), parameter.size());
      request.query[decode(parameter.substr(0, equals))] =
          equals == parameter.size() ? std::string() : decode(parameter.substr(equals + 1));
      query.remove_prefix(std::min(end + 1, query.size()));
    }
    return request;
  }

  const Handler handler_;
  const BeforeBody before_body_;
  env::testing::Shared<Seen> seen_;
  HttpServer server_;  // ends first
};

// Holds handlers back until it is opened.
class Gate {
 public:
  ~Gate() { open(); }
  void open() {
    state_.update([](State& state) { state.is_open = true; });
  }
  void pass() {
    state_.update([](State& state) { ++state.waiting; });
    static_cast<void>(state_.wait_until([](const State& state) { return state.is_open; }));
  }
  [[nodiscard]] bool wait_for_waiting(int count) {
    return state_.wait_until([&](const State& state) { return state.waiting >= count; });
  }

 private:
  struct State {
    bool is_open = false;
    int waiting = 0;
  };
  env::testing::Shared<State> state_;
};

// Interrupts as soon as the server has got so many requests.
class AfterRequests final : public env::Interrupt {
 public:
  AfterRequests(ScriptedS3& server, std::size_t count) : server_(server), count_(count) {}

 private:
  Status check() override {
    return server_.request_count() >= count_ ? Status(StatusCode::kInterrupted, "by the test")
                                             : Status();
  }

  ScriptedS3& server_;
  const std::size_t count_;
};

}  // namespace hflush::s3::testing
