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

}  // namespace
}  // namespace hflush
