#include "hflush/base/slab.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <utility>

#include "hflush/base/check.h"

namespace hflush {
namespace {

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t distance(const std::byte* pointer, std::size_t multiple) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % multiple;
}

std::size_t mapped_bytes(const Slab& slab) noexcept {
  const std::size_t page = page_bytes();
  return (slab.count() * slab.buffer_bytes() + page - 1) / page * page;
}

void unmap(std::byte* begin, std::size_t bytes) noexcept {
  if (bytes != 0) munmap(begin, bytes);
}

}  // namespace

std::byte* Slab::begin_of(std::byte* buffer) noexcept { return buffer - distance(buffer, kBytes); }

void Slab::empty(std::byte* buffer, std::size_t bytes) noexcept {
#ifdef __linux__  // elsewhere the same advice may keep the memory
  const std::size_t page = page_bytes();
  const std::size_t before = (page - distance(buffer, page)) % page;
  const std::size_t behind = distance(buffer + bytes, page);
  madvise(buffer + before, bytes - before - behind, MADV_DONTNEED);
#else
  static_cast<void>(buffer);
  static_cast<void>(bytes);
#endif
}

Slab::Slab(std::size_t buffer_bytes) : buffer_bytes_(buffer_bytes) {
  HFLUSH_DCHECK(suits(buffer_bytes));
  const std::size_t bytes = mapped_bytes(*this);
  void* const mapped =
      mmap(nullptr, bytes + kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const memory = static_cast<std::byte*>(mapped);
  const std::size_t before = (kBytes - distance(memory, kBytes)) % kBytes;
  begin_ = memory + before;
  unmap(memory, before);
  unmap(begin_ + bytes, kBytes - before);
#ifdef MADV_HUGEPAGE
  madvise(begin_, kBytes, MADV_HUGEPAGE);
#endif
}

Slab::Slab(Slab&& other) noexcept
    : in_use(other.in_use),
      emptied(other.emptied),
      begin_(std::exchange(other.begin_, nullptr)),
      buffer_bytes_(other.buffer_bytes_) {}

Slab& Slab::operator=(Slab&& other) noexcept {
  std::swap(in_use, other.in_use);
  std::swap(emptied, other.emptied);
  std::swap(begin_, other.begin_);
  std::swap(buffer_bytes_, other.buffer_bytes_);
  return *this;
}

Slab::~Slab() {
  if (begin_ != nullptr) unmap(begin_, mapped_bytes(*this));
}

}  // namespace hflush
