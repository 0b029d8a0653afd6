#include "hflush/hdfs/read/byte_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "hflush/hdfs/read/receive_pieces.h"
#include "testing/bytes.h"

namespace hflush::hdfs {
namespace {

using hflush::testing::pattern;

std::vector<std::byte> copy(ByteView bytes) { return {bytes.begin(), bytes.end()}; }

void pass_through(unsigned seed) {
  const auto all = pattern(20'000);
  std::mt19937 random(seed);
  ByteQueue queue;
  std::size_t in = 0;
  std::vector<std::byte> out;
  while (out.size() < all.size()) {
    const std::size_t size = std::min<std::size_t>(random() % 300, all.size() - in);
    const ByteView next = ByteView(all).subspan(in, size);
    if (random() % 2 == 0) {
      queue.append(next);
    } else {  // of room, not all is filled
      std::ranges::copy(next, queue.room(size + random() % 50).begin());
      queue.filled(size);
    }
    in += size;
    CHECK(queue.size() == in - out.size());
    CHECK(queue.empty() == (in == out.size()));
    CHECK(copy(queue.bytes()) == copy(ByteView(all).subspan(out.size(), queue.size())));
    std::vector<std::byte> target(random() % 300);
    target.resize(queue.take(target));
    out.insert(out.end(), target.begin(), target.end());
    const std::size_t dropped = queue.size() / 3;
    const auto front = copy(queue.bytes().first(dropped));
    queue.drop(dropped);
    out.insert(out.end(), front.begin(), front.end());
  }
  CHECK(out == all);
  queue.append(all);
  queue.clear();
  CHECK(queue.empty());
}

TEST_CASE("byte queue: what goes in comes out, in any portions") {
  for (unsigned seed = 0; seed < 5; ++seed) pass_through(seed);
}

TEST_CASE("receive pieces: what has come ahead is taken piece by piece") {
  std::vector<std::byte> data(30);
  ReceivePieces pieces;
  pieces.add(MutableByteView(data).first(5));
  pieces.add_packets(2, MutableByteView(data).subspan(5), 10, 3);
  REQUIRE(pieces.all().size() == 5);
  CHECK(pieces.room() == ReceivePieces::kMax - 5);
  CHECK(pieces.all()[1].data() == data.data() + 5);
  CHECK(pieces.all()[2].size() == 3);
  CHECK(pieces.all()[3].data() == data.data() + 15);
  CHECK_FALSE(pieces.has_ahead());
  pieces.came_ahead(1, 10 + 3 + 4);
  std::vector<std::size_t> sizes;
  while (pieces.has_ahead()) sizes.push_back(pieces.take_ahead().size());
  CHECK(sizes == std::vector<std::size_t>{10, 3, 4});
  pieces.clear();
  CHECK(pieces.all().empty());
}

}  // namespace
}  // namespace hflush::hdfs
