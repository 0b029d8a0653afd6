#include "hflush/base/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace hflush {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line

constexpr std::size_t kLarge = std::size_t{256} << 10U;

std::byte* allocate(std::size_t size_bytes) {
  if (size_bytes < kLarge) {
    return static_cast<std::byte*>(::operator new(size_bytes, kAlignment));
  }
  void* pages =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(pages);
}

void deallocate(std::byte* data, std::size_t size_bytes) noexcept {
  if (size_bytes < kLarge) {
    ::operator delete(data, kAlignment);
  } else {
    munmap(data, size_bytes);
  }
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) pool_->give_back(data_, size_);
}

BufferPool::Reservation::Reservation(BufferPool& pool, std::size_t bytes)
    : pool_(pool), bytes_(bytes) {
  pool_.reserve(bytes_);
}

BufferPool::Reservation::~Reservation() { pool_.unreserve(bytes_); }

BufferPool::~BufferPool() {
  for (Shelf& shelf : shelves_) {
    for (std::byte* data : shelf.free) deallocate(data, shelf.size_bytes);
  }
}

BufferPool::Shelf* BufferPool::find_shelf_locked(std::size_t size_bytes) {
  const auto shelf = std::ranges::find(shelves_, size_bytes, &Shelf::size_bytes);
  return shelf == shelves_.end() ? nullptr : &*shelf;
}

Buffer BufferPool::take(std::size_t size_bytes) {
  {
    MutexLock lock(mutex_);
    // The shelves stand in the order in which their sizes were last asked for.
    if (const auto shelf = std::ranges::find(shelves_, size_bytes, &Shelf::size_bytes);
        shelf != shelves_.end()) {
      if (shelf + 1 != shelves_.end()) std::rotate(shelf, shelf + 1, shelves_.end());
      std::vector<std::byte*>& free = shelves_.back().free;
      if (!free.empty()) {
        std::byte* data = free.back();
        free.pop_back();
        cached_bytes_ -= size_bytes;
        return Buffer(this, data, size_bytes);
      }
    }
  }
  return Buffer(this, allocate(size_bytes), size_bytes);
}

void BufferPool::give_back(std::byte* data, std::size_t size_bytes) noexcept {
  if (!keep(data, size_bytes)) deallocate(data, size_bytes);
}

// A full pool makes room by freeing buffers of sizes that were last asked for before this size was:
// sizes that are no longer used are released.
bool BufferPool::keep(std::byte* data, std::size_t size_bytes) noexcept try {
  MutexLock lock(mutex_);
  if (size_bytes > max_cached_bytes_) return false;
  if (find_shelf_locked(size_bytes) == nullptr) shelves_.emplace_back(Shelf{size_bytes, {}});
  Shelf* const shelf = find_shelf_locked(size_bytes);
  for (Shelf& older : shelves_) {
    if (&older == shelf) break;
    while (cached_bytes_ + size_bytes > max_cached_bytes_ && !older.free.empty()) {
      deallocate(older.free.back(), older.size_bytes);
      older.free.pop_back();
      cached_bytes_ -= older.size_bytes;
    }
  }
  if (cached_bytes_ + size_bytes > max_cached_bytes_) return false;
  shelf->free.push_back(data);
  cached_bytes_ += size_bytes;
  return true;
} catch (const std::bad_alloc&) {
  return false;  // no room even to remember it
}

void BufferPool::reserve(std::size_t bytes) {
  MutexLock lock(mutex_);
  max_cached_bytes_ += bytes;
}

void BufferPool::unreserve(std::size_t bytes) noexcept {
  MutexLock lock(mutex_);
  max_cached_bytes_ -= bytes;
  for (Shelf& shelf : shelves_) {
    while (cached_bytes_ > max_cached_bytes_ && !shelf.free.empty()) {
      deallocate(shelf.free.back(), shelf.size_bytes);
      shelf.free.pop_back();
      cached_bytes_ -= shelf.size_bytes;
    }
  }
}

std::size_t BufferPool::cached_bytes() const {
  MutexLock lock(mutex_);
  return cached_bytes_;
}

}  // namespace hflush
