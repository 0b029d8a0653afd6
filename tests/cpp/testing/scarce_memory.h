// Allocations that fail when a test says so: the test program's operator new comes before the
// library's.
#pragma once

namespace hflush::testing {

// For the length of a scope, allocation number `number` of this thread, from 0 on, throws
// std::bad_alloc; all others do not.
class ScarceMemory {
 public:
  explicit ScarceMemory(int number) noexcept;
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  // Whether it has been asked for.
  bool has_failed() const noexcept;
};

}  // namespace hflush::testing
