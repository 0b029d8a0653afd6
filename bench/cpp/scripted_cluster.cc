// A NameNode and a DataNode that answer at wire speed and keep nothing, for measuring what a client
// costs without the servers' share; and a raw sink, to measure it against.
//
// Listens on the loopback interface, prints {"name_node": PORT, "data_node": PORT, "sink": PORT} on
// one line, and ends when its standard input does. A thread per connection. Replicas beyond the
// first are acknowledged without being there.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <thread>

#include "scripted_data_node.h"
#include "scripted_name_node.h"
#include "scripted_stream.h"

namespace scripted {
namespace {

constexpr int kBacklog = 1024;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

struct Listener {
  int descriptor;
  std::uint16_t port;
};

Listener listen_on_loopback() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  auto* const address = reinterpret_cast<sockaddr*>(&name);
  if (descriptor < 0 || ::bind(descriptor, address, size) != 0 ||
      ::listen(descriptor, kBacklog) != 0 || ::getsockname(descriptor, address, &size) != 0) {
    give_up("listen");
  }
  return {descriptor, ntohs(name.sin_port)};
}

// Threads are left alone: the process ends with all of them.
void serve_all(int listener, std::function<void(const Stream&)> serve) {
  std::thread([listener, serve = std::move(serve)] {
    while (true) {
      const int accepted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        give_up("accept");
      }
      std::thread([accepted, serve] {
        const Stream stream(accepted);
        serve(stream);
      }).detach();
    }
  }).detach();
}

void wait_for_end_of_input() {
  std::array<char, 256> ignored;
  ssize_t got = 0;
  do {
    got = ::read(STDIN_FILENO, ignored.data(), ignored.size());
  } while (got > 0 || (got < 0 && errno == EINTR));
}

int run() {
  const Listener name_node_port = listen_on_loopback();
  const Listener data_node_port = listen_on_loopback();
  const Listener sink_port = listen_on_loopback();
  static NameNode name_node(data_node_port.port);
  serve_all(name_node_port.descriptor, [](const Stream& stream) { name_node.serve(stream); });
  serve_all(data_node_port.descriptor, serve_data_transfer);
  serve_all(sink_port.descriptor, serve_sink);
  std::cout << R"({"name_node": )" << name_node_port.port << R"(, "data_node": )"
            << data_node_port.port << R"(, "sink": )" << sink_port.port << "}\n"
            << std::flush;
  wait_for_end_of_input();
  std::_Exit(0);
}

}  // namespace
}  // namespace scripted

int main() { return scripted::run(); }
