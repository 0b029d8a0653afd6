#include "testing/scarce_memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace hflush::testing {
namespace {

// Allocations until the one that fails; below 0: none is to, or it has.
thread_local int left = -1;

void* allocate(std::size_t size) {
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

ScarceMemory::ScarceMemory(int number) noexcept { left = number; }
ScarceMemory::~ScarceMemory() { left = -1; }
bool ScarceMemory::has_failed() const noexcept { return left < 0; }

}  // namespace hflush::testing

void* operator new(std::size_t size) { return hflush::testing::allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
