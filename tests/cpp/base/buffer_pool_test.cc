// Recycled memory: last in first out, by size, bounded while idle.
#include "hflush/base/buffer_pool.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace hflush {
namespace {

TEST_CASE("what comes back is handed out again, the latest first") {
  BufferPool pool(1000);
  Buffer first = pool.take(100);
  Buffer second = pool.take(100);
  std::byte* const latest = second.data();
  {
    const Buffer dropped = std::move(first);
  }
  {
    const Buffer dropped = std::move(second);
  }
  CHECK(pool.cached_bytes() == 200);
  CHECK(pool.take(100).data() == latest);
  CHECK(pool.take(50).size() == 50);
}

TEST_CASE("idle memory is bounded; buffers are aligned") {
  BufferPool pool(150);
  {
    const Buffer a = pool.take(100);
    const Buffer b = pool.take(100);
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
  }
  CHECK(pool.cached_bytes() == 100);
}

TEST_CASE("a reservation lets more stay, and its end frees that") {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20U;
  BufferPool pool(150);
  const auto use_two = [&pool] {
    const Buffer a = pool.take(kMegabyte);
    const Buffer b = pool.take(kMegabyte);
    a.data()[kMegabyte - 1] = std::byte{1};
  };
  use_two();
  CHECK(pool.cached_bytes() == 0);
  {
    const BufferPool::Reservation reservation(pool, 2 * kMegabyte);
    use_two();
    CHECK(pool.cached_bytes() == 2 * kMegabyte);
    {
      const BufferPool::Reservation another(pool, kMegabyte);
    }
    CHECK(pool.cached_bytes() == 2 * kMegabyte);
  }
  CHECK(pool.cached_bytes() == 0);
}

TEST_CASE("a full pool lets go of a size that nobody asks for any more") {
  BufferPool pool(1000);
  const auto use = [&pool](std::size_t size, std::size_t count) {
    std::vector<Buffer> used;
    for (std::size_t i = 0; i < count; ++i) used.push_back(pool.take(size));
    return used.front().data();
  };
  use(100, 10);
  CHECK(pool.cached_bytes() == 1000);
  use(90, 10);  // all of the others make room, one after the other
  CHECK(pool.cached_bytes() == 900 + 100);
  const Buffer still_there = pool.take(90);
  use(90, 9);
  CHECK(pool.cached_bytes() == 9 * 90 + 100);
  use(50, 4);  // the one of 100 first, then one of 90
  CHECK(pool.cached_bytes() == 8 * 90 + 4 * 50);
}

TEST_CASE("what comes back late does not drive out what is used") {
  BufferPool pool(1000);
  {
    std::vector<Buffer> of_a_writer;
    for (int i = 0; i < 5; ++i) of_a_writer.push_back(pool.take(200));
  }
  Buffer late = pool.take(200);
  for (int round = 0; round < 3; ++round) {
    std::vector<Buffer> of_a_reader;
    for (int i = 0; i < 10; ++i) of_a_reader.push_back(pool.take(100));
  }
  CHECK(pool.cached_bytes() == 1000);
  late = Buffer();
  CHECK(pool.cached_bytes() == 1000);
  const Buffer reused = pool.take(200);  // of what was kept there is none left
  CHECK(pool.cached_bytes() == 1000);
  CHECK(reused.size() == 200);
}

constexpr std::size_t kCut = (std::size_t{256} << 10U) + 128;

std::vector<Buffer> filled_buffers(BufferPool& pool, std::size_t count) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    buffers.push_back(pool.take(kCut, Filling::kWhole));
    std::memset(buffers.back().data(), static_cast<int>(i), kCut);
  }
  return buffers;
}

std::set<std::byte*> slabs_of(const std::vector<Buffer>& buffers) {
  std::set<std::byte*> slabs;
  for (const Buffer& buffer : buffers) slabs.insert(Slab::begin_of(buffer.data()));
  return slabs;
}

// Whether there is memory behind an address; false also where nothing is mapped.
bool is_resident(std::byte* address) {
  unsigned char resident = 0;
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const page = address - reinterpret_cast<std::uintptr_t>(address) % size;
  return ::mincore(page, size, &resident) == 0 && (resident & 1U) != 0;
}

TEST_CASE("large buffers that will be filled are cut from slabs, and are apart from each other") {
  BufferPool pool(0);
  const std::vector<Buffer> buffers = filled_buffers(pool, 17);
  CHECK(slabs_of(buffers).size() == 3);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const ByteView bytes{buffers[i].data(), kCut};
    CHECK(std::ranges::all_of(bytes, [i](std::byte byte) { return byte == std::byte(i); }));
    CHECK(reinterpret_cast<std::uintptr_t>(buffers[i].data()) % 64 == 0);
  }
  // Who may need but a few bytes has pages of its own.
  const Buffer other = pool.take(kCut);
  CHECK_FALSE(slabs_of(buffers).contains(Slab::begin_of(other.data())));
}

TEST_CASE("slabs whose buffers are back are released, but for what the pool keeps") {
  BufferPool pool(8 * kCut);
  std::vector<std::byte*> addresses;
  {
    const BufferPool::Reservation reservation(pool, 24 * kCut);
    std::vector<Buffer> buffers = filled_buffers(pool, 32);
    for (const Buffer& buffer : buffers) addresses.push_back(buffer.data() + kCut / 2);
    buffers.clear();
    CHECK(pool.cached_bytes() == 32 * kCut);
    CHECK(std::ranges::all_of(addresses, is_resident));
    CHECK(slabs_of(filled_buffers(pool, 32)).size() == 4);  // the same ones again
  }
  CHECK(pool.cached_bytes() == 8 * kCut);
  CHECK(std::ranges::count_if(addresses, is_resident) == 8);
}

TEST_CASE("a buffer that is used keeps its slab, and not the memory of the others there") {
  BufferPool pool(0);
  std::vector<Buffer> buffers = filled_buffers(pool, 8);
  std::vector<std::byte*> addresses;
  for (const Buffer& buffer : buffers) addresses.push_back(buffer.data() + kCut / 2);
  buffers.resize(1);
  CHECK(pool.cached_bytes() == 0);
  CHECK(buffers.front().data()[kCut - 1] == std::byte{0});
  CHECK(std::ranges::count_if(addresses, is_resident) == 1);
  const std::vector<Buffer> again = filled_buffers(pool, 7);
  CHECK(slabs_of(again) == slabs_of(buffers));
  buffers.clear();
}

TEST_CASE("one that can never fit drives out nothing") {
  BufferPool pool(1000);
  {
    const Buffer small = pool.take(100);
  }
  {
    const Buffer large = pool.take(1001);
  }
  CHECK(pool.cached_bytes() == 100);
}

}  // namespace
}  // namespace hflush
