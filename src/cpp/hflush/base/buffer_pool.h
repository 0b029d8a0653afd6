// BufferPool: recycled memory for packets, so that a steady stream allocates nothing.
//
// Thread-safe. take() never blocks: when no buffer fits it allocates. Returned buffers are kept for
// the next caller, up to `max_cached_bytes` and what open streams have reserved, and freed beyond
// that. So idle memory is bounded; memory in use is bounded by the windows of the streams that hold
// it. Last in, first out: take() returns the buffer that is most likely in the processor's cache.
// Large buffers are pages of their own, or cut from slabs of huge pages (slab.h) where they will be
// filled: freed ones go back to the system, and leave no holes in the heap. Buffers and
// reservations must not outlive their pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/slab.h"

namespace hflush {

class BufferPool;

// A run of writable memory, 64-byte aligned, given back to its pool when destroyed. Move-only.
class Buffer {
 public:
  Buffer() noexcept = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  friend class BufferPool;
  Buffer(BufferPool* pool, std::byte* data, std::size_t size) noexcept
      : pool_(pool), data_(data), size_(size) {}

  BufferPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// How much of a buffer will be used. It decides where a large one comes from, if it is new.
enum class Filling : std::uint8_t {
  kUnknown,  // perhaps only its first bytes: what is not written takes no memory
  kWhole,
};

class BufferPool {
 public:
  // Lets the pool keep this many more bytes while the reservation exists: a stream with a large
  // window soon takes again what it returned.
  class Reservation {
   public:
    Reservation(BufferPool& pool, std::size_t bytes);
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation();

   private:
    BufferPool& pool_;
    const std::size_t bytes_;
  };

  explicit BufferPool(std::size_t max_cached_bytes) : max_cached_bytes_(max_cached_bytes) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of exactly `size_bytes`, content undefined. Throws std::bad_alloc.
  Buffer take(std::size_t size_bytes, Filling filling = Filling::kUnknown);

  std::size_t cached_bytes() const;

 private:
  friend class Buffer;
  struct Shelf {  // free buffers of one size
    std::size_t size_bytes;
    std::vector<std::byte*> free;
    std::vector<std::byte*> emptied;  // of slabs; has room for all of them
  };

  void give_back(std::byte* data, std::size_t size_bytes) noexcept;
  bool keep_locked(std::byte* data, std::size_t size_bytes) noexcept HFLUSH_REQUIRES(mutex_);
  void reserve(std::size_t bytes) HFLUSH_EXCLUDES(mutex_);
  void unreserve(std::size_t bytes) noexcept HFLUSH_EXCLUDES(mutex_);
  Shelf& shelf_locked(std::size_t size_bytes) HFLUSH_REQUIRES(mutex_);
  std::byte* take_known_locked(std::size_t size_bytes, Filling filling) HFLUSH_REQUIRES(mutex_);
  std::byte* cut_first_locked(Slab slab) HFLUSH_REQUIRES(mutex_);
  // Null where a buffer is pages of its own.
  Slab* find_slab_locked(std::byte* data) noexcept HFLUSH_REQUIRES(mutex_);
  void release_slab_locked(Slab& slab) noexcept HFLUSH_REQUIRES(mutex_);
  void drop_locked(std::byte* data, std::size_t size_bytes) noexcept HFLUSH_REQUIRES(mutex_);
  void drop_free_locked(Shelf& shelf, std::size_t room) noexcept HFLUSH_REQUIRES(mutex_);

  // Innermost. Never held while a buffer or a slab is allocated.
  mutable Mutex mutex_;
  std::size_t max_cached_bytes_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<Shelf> shelves_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<Slab> slabs_ HFLUSH_GUARDED_BY(mutex_);  // by their addresses
  std::size_t cached_bytes_ HFLUSH_GUARDED_BY(mutex_) = 0;
};

}  // namespace hflush
