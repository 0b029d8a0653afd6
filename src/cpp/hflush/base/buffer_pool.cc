#include "hflush/base/buffer_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace hflush {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line

std::byte* allocate(std::size_t size_bytes) {
  return static_cast<std::byte*>(::operator new(size_bytes, kAlignment));
}

void deallocate(std::byte* data) noexcept { ::operator delete(data, kAlignment); }

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

BufferPool::~BufferPool() {
  for (Shelf& shelf : shelves_) {
    for (std::byte* data : shelf.free) deallocate(data);
  }
}

BufferPool::Shelf* BufferPool::find_shelf_locked(std::size_t size_bytes) {
  const auto shelf = std::ranges::find(shelves_, size_bytes, &Shelf::size_bytes);
  return shelf == shelves_.end() ? nullptr : &*shelf;
}

Buffer BufferPool::take(std::size_t size_bytes) {
  {
    MutexLock lock(mutex_);
    if (Shelf* shelf = find_shelf_locked(size_bytes); shelf != nullptr && !shelf->free.empty()) {
      std::byte* data = shelf->free.back();
      shelf->free.pop_back();
      cached_bytes_ -= size_bytes;
      return Buffer(this, data, size_bytes);
    }
  }
  return Buffer(this, allocate(size_bytes), size_bytes);
}

void BufferPool::give_back(std::byte* data, std::size_t size_bytes) noexcept {
  if (!keep(data, size_bytes)) deallocate(data);
}

bool BufferPool::keep(std::byte* data, std::size_t size_bytes) noexcept try {
  MutexLock lock(mutex_);
  if (cached_bytes_ + size_bytes > max_cached_bytes_) return false;
  Shelf* shelf = find_shelf_locked(size_bytes);
  if (shelf == nullptr) shelf = &shelves_.emplace_back(Shelf{size_bytes, {}});
  shelf->free.push_back(data);
  cached_bytes_ += size_bytes;
  return true;
} catch (const std::bad_alloc&) {
  return false;  // no room even to remember it
}

std::size_t BufferPool::cached_bytes() const {
  MutexLock lock(mutex_);
  return cached_bytes_;
}

}  // namespace hflush
