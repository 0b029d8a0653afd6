// Recycled memory: last in first out, by size, bounded while idle.
#include "hflush/base/buffer_pool.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

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

}  // namespace
}  // namespace hflush
