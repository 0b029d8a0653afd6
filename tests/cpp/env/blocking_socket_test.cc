// BlockingSocket against real sockets: bytes, timeouts, interrupts, and what is stale.
#include "hflush/env/blocking_socket.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "env/loopback.h"
#include "hflush/env/process.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using testing::Listener;
using testing::pattern;
using testing::Peer;
using testing::Shared;

// Ends the wait at the first question.
class Impatient final : public Interrupt {
 public:
  std::atomic<int> asked = 0;

 private:
  Status check() override {
    ++asked;
    return Status(StatusCode::kInterrupted, "enough");
  }
};

struct Connected {
  Connected() : socket(connect()), peer(listener.accept()) {}
  BlockingSocket connect() {
    Result<BlockingSocket> made =
        BlockingSocket::connect(listener.endpoint(), testing::kPatience, uninterrupted);
    REQUIRE(made.ok());
    return *std::move(made);
  }
  Status send(std::string_view text, Duration timeout = testing::kPatience) {
    const ByteView piece = as_bytes(text);
    return socket.send_all({&piece, 1}, timeout, uninterrupted);
  }

  Uninterrupted uninterrupted;
  Listener listener;
  BlockingSocket socket;
  Peer peer;
};

Result<std::string> receive(BlockingSocket& socket, std::size_t size, Duration timeout,
                            Interrupt& interrupt) {
  std::vector<std::byte> buffer(size);
  HFLUSH_ASSIGN_OR_RETURN(const std::size_t received,
                          socket.receive_some(buffer, timeout, interrupt));
  return std::string(as_text(ByteView(buffer).first(received)));
}

TEST_CASE("bytes there and back, and the end of the stream") {
  Connected it;
  CHECK(it.socket.endpoint() == it.listener.endpoint());
  CHECK(it.send("hello").ok());
  CHECK(it.peer.receive(5) == "hello");
  it.peer.send("back");
  CHECK(*receive(it.socket, 3, testing::kPatience, it.uninterrupted) == "bac");
  CHECK(*receive(it.socket, 3, Duration::zero(), it.uninterrupted) == "k");
  it.peer.end_of_stream();
  CHECK(receive(it.socket, 3, kNoTimeout, it.uninterrupted)->empty());
}

TEST_CASE("connects by name; a name without address, a refusal, a host that never answers") {
  Uninterrupted uninterrupted;
  const Listener listener;
  CHECK(BlockingSocket::connect({"localhost", listener.endpoint().port}, testing::kPatience,
                                uninterrupted)
            .ok());

  const Endpoint nowhere{std::string(64, 'a') + ".invalid", 9866};
  const Status unknown =
      BlockingSocket::connect(nowhere, testing::kPatience, uninterrupted).status();
  CHECK(unknown.error_number() == EHOSTUNREACH);
  CHECK(unknown.message().starts_with("resolve host of " + nowhere.to_string() + ": "));

  const testing::DeafPort deaf;
  const Status refused =
      BlockingSocket::connect(deaf.endpoint(), testing::kPatience, uninterrupted).status();
  CHECK(refused.error_number() == ECONNREFUSED);
  CHECK(refused.message() == "connect to " + deaf.endpoint().to_string() + ": Connection refused");

  const testing::FullListener full;
  const TimePoint start = steady_clock().now();
  const Status late =
      BlockingSocket::connect(full.endpoint(), milliseconds(60), uninterrupted).status();
  CHECK(steady_clock().now() - start >= milliseconds(60));
  CHECK(late.code() == StatusCode::kTimedOut);
  CHECK(late.message() == "connect to " + full.endpoint().to_string() + ": timed out after 60 ms");
}

TEST_CASE("many and large pieces arrive whole") {
  Connected it;
  const std::string text = pattern(0, std::size_t{8} << 20U);
  std::vector<ByteView> pieces;
  ByteView left = as_bytes(text);
  for (std::size_t size = 0; !left.empty(); size = (size * 5 + 1) % 70'001) {
    pieces.push_back(left.first(std::min(size, left.size())));
    left = left.subspan(pieces.back().size());
  }
  CHECK(pieces.size() > 2 * Socket::kMaxPieces);
  std::string received;
  std::thread reader([&] { received = it.peer.receive(text.size()); });
  CHECK(it.socket.send_all(pieces, testing::kPatience, it.uninterrupted).ok());
  reader.join();
  CHECK(received == text);
  CHECK(it.socket.send_all({}, Duration::zero(), it.uninterrupted).ok());
}

TEST_CASE("nothing comes: kTimedOut with host, port and time; the connection stays good") {
  Connected it;
  const TimePoint start = steady_clock().now();
  const Status late = receive(it.socket, 1, milliseconds(70), it.uninterrupted).status();
  CHECK(steady_clock().now() - start >= milliseconds(70));
  CHECK(late.code() == StatusCode::kTimedOut);
  CHECK(late.error_number() == ETIMEDOUT);
  CHECK(late.message() ==
        "receive from " + it.listener.endpoint().to_string() + ": timed out after 70 ms");
  it.peer.send("x");
  CHECK(*receive(it.socket, 1, testing::kPatience, it.uninterrupted) == "x");
}

TEST_CASE("nobody receives: kTimedOut says how much was sent") {
  Connected it;
  const std::string text(std::size_t{64} << 20U, 'x');
  const Status late = it.send(text, milliseconds(50));
  CHECK(late.code() == StatusCode::kTimedOut);
  CHECK(late.message().starts_with("send of 67108864 bytes to " +
                                   it.listener.endpoint().to_string() + " ("));
  CHECK(late.message().ends_with(" sent): timed out after 50 ms"));
}

TEST_CASE("a peer that has gone: an error with errno, and no signal") {
  Connected it;
  it.peer.reset();
  const Status gone = receive(it.socket, 1, testing::kPatience, it.uninterrupted).status();
  CHECK(gone.error_number() == ECONNRESET);
  CHECK(gone.message() ==
        "receive from " + it.listener.endpoint().to_string() + ": Connection reset by peer");
  const Status broken = it.send("abc");
  CHECK(broken.error_number() == EPIPE);
  CHECK(broken.message() ==
        "send of 3 bytes to " + it.listener.endpoint().to_string() + " (0 sent): Broken pipe");
}

TEST_CASE("an interrupt ends every wait") {
  Connected it;
  {
    Impatient interrupt;
    const Status ended = receive(it.socket, 1, kNoTimeout, interrupt).status();
    CHECK(ended.code() == StatusCode::kInterrupted);
    CHECK(interrupt.asked == 1);
  }
  {
    Impatient interrupt;
    const testing::FullListener full;
    const Status ended = BlockingSocket::connect(full.endpoint(), kNoTimeout, interrupt).status();
    CHECK(ended.code() == StatusCode::kInterrupted);
    CHECK(interrupt.asked == 1);
  }
  {
    Impatient interrupt;
    const std::string text(std::size_t{64} << 20U, 'x');
    const ByteView piece = as_bytes(text);
    const Status ended = it.socket.send_all({&piece, 1}, kNoTimeout, interrupt);
    CHECK(ended.code() == StatusCode::kInterrupted);
    CHECK(interrupt.asked == 1);
  }
  it.peer.send("x");
  Impatient interrupt;
  CHECK(*receive(it.socket, 1, kNoTimeout, interrupt) == "x");
  CHECK(interrupt.asked == 0);  // what need not wait is not interrupted
}

TEST_CASE("signals do not end a wait") {
  Connected it;
  struct sigaction action{};
  action.sa_handler = [](int) {};
  struct sigaction before{};
  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);  // without SA_RESTART
  std::atomic<bool> done = false;
  Shared<bool> started;
  std::string received;
  std::thread reader([&] {
    started.update([](bool& value) { value = true; });
    received = *receive(it.socket, 1, testing::kPatience, it.uninterrupted);
    done = true;
  });
  REQUIRE(started.wait_until([](bool value) { return value; }));
  for (int i = 0; i < 100; ++i) {
    CHECK(::pthread_kill(reader.native_handle(), SIGUSR1) == 0);
    std::this_thread::yield();
  }
  CHECK_FALSE(done);
  it.peer.send("x");
  reader.join();
  CHECK(received == "x");
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}

TEST_CASE("a signal lets the interrupt be asked at once, before its time") {
  Connected it;
  struct sigaction action{};
  action.sa_handler = [](int) {};
  struct sigaction before{};
  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
  bool at_once = false;
  for (int attempt = 0; attempt < 50 && !at_once; ++attempt) {  // a busy machine may be late
    std::atomic<bool> done = false;
    Status ended;
    std::thread reader([&] {
      Impatient interrupt;
      const TimePoint usual = interrupt.next_check();
      ended = receive(it.socket, 1, testing::kPatience, interrupt).status();
      at_once = steady_clock().now() < usual;
      done = true;
    });
    while (!done) {
      CHECK(::pthread_kill(reader.native_handle(), SIGUSR1) == 0);
      std::this_thread::yield();
    }
    reader.join();
    CHECK(ended.code() == StatusCode::kInterrupted);
  }
  CHECK(at_once);
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}

bool turns_stale(const BlockingSocket& socket) {
  const auto deadline = steady_clock().now() + testing::kPatience;
  while (!socket.is_stale() && steady_clock().now() < deadline) std::this_thread::yield();
  return socket.is_stale();
}

TEST_CASE("a connection is stale once the peer has closed, or said what nobody asked for") {
  {
    Connected it;
    CHECK_FALSE(it.socket.is_stale());
    it.peer.send("x");
    CHECK(turns_stale(it.socket));
    CHECK(*receive(it.socket, 1, testing::kPatience, it.uninterrupted) == "x");
    CHECK_FALSE(it.socket.is_stale());
    it.peer.close();
    CHECK(receive(it.socket, 1, testing::kPatience, it.uninterrupted)->empty());
    CHECK(it.socket.is_stale());
  }
  Connected it;
  it.peer.reset();
  CHECK(turns_stale(it.socket));
}

TEST_CASE("moved, the connection goes along; destroyed or replaced, it ends") {
  Connected it;
  {
    BlockingSocket moved = std::move(it.socket);
    it.socket = it.connect();
    const Peer second = it.listener.accept();
    CHECK(it.send("new").ok());
    CHECK(second.receive(3) == "new");
    const ByteView piece = as_bytes("old");
    CHECK(moved.send_all({&piece, 1}, testing::kPatience, it.uninterrupted).ok());
    CHECK(it.peer.receive(3) == "old");
    it.socket = std::move(moved);
    CHECK(it.send("old").ok());
    CHECK(it.peer.receive(3) == "old");
  }
  std::optional<BlockingSocket> last = std::move(it.socket);
  last.reset();
  CHECK(it.peer.ends());
}

TEST_CASE("a forked child ends its copy only; the parent's end tells the peer all the same") {
  static_cast<void>(Process::current());  // counts the forks
  Connected it;
  std::optional<BlockingSocket> socket = std::move(it.socket);
  std::array<int, 2> ready{};
  REQUIRE(::pipe2(ready.data(), O_CLOEXEC) == 0);
  std::cout << std::flush;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    socket.reset();
    static_cast<void>(::write(ready[1], "x", 1));
    ::pause();
  }
  CHECK(testing::wait_readable(ready[0]));
  const ByteView piece = as_bytes("still there");
  CHECK(socket->send_all({&piece, 1}, testing::kPatience, it.uninterrupted).ok());
  CHECK(it.peer.receive(11) == "still there");
  REQUIRE(::kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);

  const pid_t holder = ::fork();
  REQUIRE(holder >= 0);
  if (holder == 0) ::pause();  // has the descriptor until it is killed
  socket.reset();
  CHECK(it.peer.ends());
  REQUIRE(::kill(holder, SIGKILL) == 0);
  REQUIRE(::waitpid(holder, &status, 0) == holder);
  for (const int end : ready) ::close(end);
}

}  // namespace
}  // namespace hflush::env
