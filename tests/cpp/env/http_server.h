// An HTTP/1.1 server on the loopback interface that does what a script says, byte for byte: a
// thread per connection, one request after the other on each.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "env/loopback.h"
#include "hflush/env/http_client.h"

namespace hflush::env::testing {

class HttpServer {
  // Only the connection's own thread closes it; the server may shut it down.
  struct Connection {
    Mutex mutex;
    int descriptor;
    std::thread thread;

    void close() {
      const MutexLock lock(mutex);
      if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
    }
    void shut_down() {
      const MutexLock lock(mutex);
      if (descriptor >= 0) ::shutdown(descriptor, SHUT_RDWR);
    }
  };

 public:
  struct Request {
    std::string method;
    std::string target;
    std::vector<HttpHeader> headers;  // names in lower case
    std::string body;                 // as far as the script has read it
    std::size_t connection = 0;       // which one, in the order of their arrival

    // The first of that name, in lower case; empty without one.
    std::string_view header(std::string_view name) const {
      for (const HttpHeader& header : headers) {
        if (header.name == name) return header.value;
      }
      return {};
    }
    std::size_t content_length() const {
      const std::string_view text = header("content-length");
      std::size_t length = 0;
      std::from_chars(text.data(), text.data() + text.size(), length);
      return length;
    }
  };

  // One request, for the script, which runs on the connection's thread. What is sent to a client
  // that has gone is lost. A script that leaves some of the body unread, or has not answered, ends
  // the connection; else the next request may come.
  class Exchange {
   public:
    const Request& request() const { return request_; }
    int descriptor() const { return connection_.descriptor; }
    // The rest of the body. False: the client has gone before its end.
    bool read_body() { return read_body(request_.content_length()); }
    // Until so many bytes of it are there.
    bool read_body(std::size_t size) {
      size = std::min(size, request_.content_length());
      while (request_.body.size() < size) {
        if (input_.empty() && !receive()) return false;
        const std::size_t taken = std::min(size - request_.body.size(), input_.size());
        request_.body.append(input_, 0, taken);
        input_.erase(0, taken);
      }
      return true;
    }
    // The client was told not to send it, and the connection goes on.
    void expect_no_body() { has_body_ = false; }
    // As it is: heads, pieces, nonsense.
    void send(std::string_view text) {
      answered_ = true;
      while (!text.empty() && connection_.descriptor >= 0) {
        const ssize_t sent = ::send(connection_.descriptor, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
    // A whole response; without a body for HEAD, but with its length.
    void respond(int status, std::string_view body = {},
                 const std::vector<HttpHeader>& headers = {}) {
      std::string text = "HTTP/1.1 " + std::to_string(status) + " Status\r\n";
      for (const HttpHeader& header : headers) text += header.name + ": " + header.value + "\r\n";
      text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
      if (request_.method != "HEAD") text += body;
      send(text);
    }
    void respond_continue() { send("HTTP/1.1 100 Continue\r\n\r\n"); }
    // Ends the connection: properly, or with RST.
    void close() { connection_.close(); }
    void reset() {
      const linger at_once{1, 0};
      ::setsockopt(connection_.descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      close();
    }
    // Waits until the client has gone, reading nothing. False: it has not, within patience.
    bool wait_until_gone() const {
      pollfd polled{connection_.descriptor, POLLRDHUP, 0};
      return ::poll(&polled, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) ==
             1;
    }

   private:
    friend class HttpServer;
    explicit Exchange(Connection& connection) : connection_(connection) {}

    bool receive() {
      if (connection_.descriptor < 0) return false;
      char piece[65536];
      const ssize_t received = ::recv(connection_.descriptor, piece, sizeof piece, 0);
      if (received <= 0) return false;
      input_.append(piece, static_cast<std::size_t>(received));
      return true;
    }
    bool receive_head(std::size_t connection) {
      std::size_t end = 0;
      while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
        if (!receive()) return false;
      }
      request_ = parse(std::string_view(input_).substr(0, end + 2));
      request_.connection = connection;
      input_.erase(0, end + 4);
      answered_ = false;
      has_body_ = true;
      return true;
    }
    static Request parse(std::string_view head) {
      Request request;
      const auto next_line = [&head] {
        const std::size_t end = head.find("\r\n");
        const std::string_view line = head.substr(0, end);
        head.remove_prefix(end + 2);
        return line;
      };
      const std::string_view first = next_line();
      const std::size_t blank = first.find(' ');
      request.method = first.substr(0, blank);
      request.target = first.substr(blank + 1, first.rfind(' ') - blank - 1);
      while (!head.empty()) {
        const std::string_view line = next_line();
        const std::size_t colon = line.find(':');
        std::string name(line.substr(0, colon));
        for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
        std::string_view value = line.substr(colon + 1);
        if (value.starts_with(' ')) value.remove_prefix(1);
        request.headers.push_back({std::move(name), std::string(value)});
      }
      return request;
    }
    bool wants_another() const {
      return connection_.descriptor >= 0 && answered_ &&
             (!has_body_ || request_.body.size() == request_.content_length());
    }

    Connection& connection_;
    std::string input_;
    Request request_;
    bool answered_ = false;
    bool has_body_ = true;
  };
  using Script = std::function<void(Exchange&)>;

  explicit HttpServer(Script script, const char* address = "127.0.0.1", std::uint16_t port = 0)
      : script_(std::move(script)),
        listener_(128, address, port),
        acceptor_([this] { accept_all(); }) {}
  // Ends all connections. Scripts have to come to an end by themselves then.
  ~HttpServer() {
    stop_.close();
    acceptor_.join();
    const auto state = state_.get();
    for (const auto& connection : state.connections) connection->shut_down();
    for (const auto& connection : state.connections) connection->thread.join();
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  Endpoint endpoint() const { return listener_.endpoint(); }
  std::string url(const std::string& target) const {
    return "http://" + endpoint().to_string() + target;
  }
  // In the order in which scripts have ended with them.
  std::vector<Request> requests() { return state_.get().requests; }
  std::size_t connections() { return state_.get().connections.size(); }
  bool wait_for_requests(std::size_t count) {
    return state_.wait_until([&](const State& state) { return state.requests.size() >= count; });
  }

 private:
  struct State {
    std::vector<std::shared_ptr<Connection>> connections;
    std::vector<Request> requests;
  };

  void accept_all() {
    for (;;) {
      pollfd polled[] = {{listener_.descriptor(), POLLIN, 0}, {stop_.ends[0], POLLIN, 0}};
      if (::poll(polled, 2, -1) < 0) continue;
      if (polled[1].revents != 0) return;
      const int accepted = ::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted < 0) continue;
      auto connection = std::make_shared<Connection>();
      connection->descriptor = accepted;
      state_.update([&](State& state) {
        const std::size_t number = state.connections.size();
        connection->thread =
            std::thread([this, number, one = connection.get()] { serve(*one, number); });
        state.connections.push_back(connection);
      });
    }
  }

  void serve(Connection& connection, std::size_t number) {
    Exchange exchange(connection);
    while (exchange.receive_head(number)) {
      script_(exchange);
      state_.update([&](State& state) { state.requests.push_back(exchange.request_); });
      if (!exchange.wants_another()) break;
      exchange.request_ = {};
    }
    exchange.close();
  }

  // A pipe whose end tells the acceptor to stop.
  struct Stop {
    Stop() { REQUIRE(::pipe2(ends, O_CLOEXEC) == 0); }
    ~Stop() {
      close();
      ::close(ends[0]);
    }
    void close() {
      if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
    }
    int ends[2] = {-1, -1};
  };

  const Script script_;
  Listener listener_;
  Shared<State> state_;
  Stop stop_;
  std::thread acceptor_;
};

}  // namespace hflush::env::testing
