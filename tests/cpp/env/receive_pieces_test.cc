// BlockingSocket as a reader of much uses it: into several pieces at once, and waiting for more
// than a byte.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/env/blocking_socket.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using testing::Listener;
using testing::pattern;
using testing::Peer;

constexpr std::size_t kLowWater = std::size_t{100} << 10U;

struct Connection {
  Connection() : socket(connect()), peer(listener.accept()) {}
  BlockingSocket connect() {
    auto made = BlockingSocket::connect(listener.endpoint(), testing::kPatience, uninterrupted);
    REQUIRE(made.ok());
    return *std::move(made);
  }
  Result<std::size_t> receive(MutableByteView out, Duration timeout = testing::kPatience) {
    return socket.receive_some(out, timeout, uninterrupted);
  }

  Uninterrupted uninterrupted;
  Listener listener;
  BlockingSocket socket;
  Peer peer;
};

// Sends a little whenever the one who waits is asked whether to go on.
class SendsMeanwhile final : public Interrupt {
 public:
  explicit SendsMeanwhile(const Peer& peer) : peer_(peer) {}

 private:
  Status check() override {
    peer_.send("abc");
    return {};
  }

  const Peer& peer_;
};

std::string_view text_of(const std::vector<std::byte>& bytes, std::size_t size) {
  return as_text(ByteView(bytes).first(size));
}

TEST_CASE("blocking socket: pieces are filled one after the other, as far as the bytes reach") {
  Connection connection;
  connection.peer.send(pattern(0, 1000));
  std::vector<std::byte> bytes(2000);
  const MutableByteView room(bytes);
  const std::array<MutableByteView, 4> pieces = {room.subspan(0, 10), room.subspan(10, 1),
                                                 room.subspan(11, 0), room.subspan(11, 1500)};
  const auto got =
      connection.socket.receive_some(pieces, testing::kPatience, connection.uninterrupted);
  REQUIRE(got.ok());
  CHECK(*got == 1000);  // one packet of the loopback interface
  CHECK(text_of(bytes, 1000) == pattern(0, 1000));
}

TEST_CASE("blocking socket: more than one byte is waited for, and less is not kept for long") {
  Connection connection;
  std::vector<std::byte> bytes(4 * kLowWater);
  connection.socket.set_low_water(kLowWater);
  SUBCASE("what is there is returned at once") {
    connection.peer.send("abc");
    const auto got = connection.receive(bytes);
    REQUIRE(got.ok());
    CHECK(*got >= 1);
  }
  SUBCASE("what comes while it waits, too, each time") {
    SendsMeanwhile sends(connection.peer);
    for (int i = 0; i < 5; ++i) {
      const auto got = connection.socket.receive_some(bytes, testing::kPatience, sends);
      REQUIRE(got.ok());
      CHECK(text_of(bytes, *got) == "abc");
    }
  }
  SUBCASE("the end of the stream ends the wait") {
    connection.peer.send("abc");
    connection.peer.end_of_stream();
    std::string all;
    while (true) {
      const auto got = connection.receive(bytes);
      REQUIRE(got.ok());
      if (*got == 0) break;
      all += text_of(bytes, *got);
    }
    CHECK(all == "abc");
  }
  SUBCASE("nothing at all is a timeout") {
    CHECK(connection.receive(bytes, milliseconds(50)).status().code() == StatusCode::kTimedOut);
    connection.peer.send("abc");
    CHECK(connection.receive(bytes).ok());
  }
  SUBCASE("all of a long stream comes, whatever is left at its end") {
    const std::size_t size = 10 * kLowWater + 77;
    std::thread sender([&] { connection.peer.send(pattern(0, size)); });
    std::string all;
    while (all.size() < size) {
      const auto got = connection.receive(bytes);
      REQUIRE(got.ok());
      REQUIRE(*got > 0);
      all += text_of(bytes, *got);
    }
    sender.join();
    CHECK(all == pattern(0, size));
  }
}

}  // namespace
}  // namespace hflush::env
