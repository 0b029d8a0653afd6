// Slab: 2 MiB of memory and a little more, cut into large buffers of one size.
//
// In a huge page where the system has them: of pages of 4 KiB each is a fault of its own, which
// takes longer than filling the buffer does. So all of a slab is resident when a byte of it is:
// only buffers that will be filled belong here.
//
// Owned by a BufferPool, whose mutex guards it.
#pragma once

#include <cstddef>

namespace hflush {

class Slab {
 public:
  static constexpr std::size_t kBytes = std::size_t{2} << 20U;

  // Whether buffers of that size can be cut from slabs.
  static constexpr bool suits(std::size_t buffer_bytes) noexcept {
    return buffer_bytes >= kBytes / 8 && buffer_bytes <= kBytes / 2;
  }
  // Where the slab begins that a buffer was cut from. Requires: it was.
  static std::byte* begin_of(std::byte* buffer) noexcept;
  // Lets the system have the memory of a buffer that is not used; its address stays.
  static void empty(std::byte* buffer, std::size_t bytes) noexcept;

  // Requires: suits(buffer_bytes). Throws std::bad_alloc.
  explicit Slab(std::size_t buffer_bytes);
  Slab(Slab&& other) noexcept;
  Slab& operator=(Slab&& other) noexcept;
  ~Slab();

  std::byte* begin() const noexcept { return begin_; }
  std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }
  // The last one may end beyond the huge page.
  std::size_t count() const noexcept { return (kBytes + buffer_bytes_ - 1) / buffer_bytes_; }
  std::byte* buffer(std::size_t index) const noexcept { return begin_ + index * buffer_bytes_; }

  std::size_t in_use = 0;   // buffers that are not with the pool
  std::size_t emptied = 0;  // buffers without memory

 private:
  std::byte* begin_ = nullptr;
  std::size_t buffer_bytes_ = 0;
};

}  // namespace hflush
