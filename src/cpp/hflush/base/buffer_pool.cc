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
    for (std::byte* data : shelf.free) {
      if (find_slab_locked(data) == nullptr) deallocate(data, shelf.size_bytes);
    }
  }
}

BufferPool::Shelf& BufferPool::shelf_locked(std::size_t size_bytes) {
  const auto shelf = std::ranges::find(shelves_, size_bytes, &Shelf::size_bytes);
  return shelf != shelves_.end() ? *shelf : shelves_.emplace_back(Shelf{size_bytes, {}, {}});
}

Slab* BufferPool::find_slab_locked(std::byte* data) noexcept {
  if (slabs_.empty()) return nullptr;
  const auto slab = std::ranges::lower_bound(slabs_, Slab::begin_of(data), {}, &Slab::begin);
  return slab != slabs_.end() && slab->begin() == Slab::begin_of(data) ? &*slab : nullptr;
}

Buffer BufferPool::take(std::size_t size_bytes, Filling filling) {
  const bool is_cut = filling == Filling::kWhole && Slab::suits(size_bytes);
  {
    MutexLock lock(mutex_);
    if (std::byte* const data = take_known_locked(size_bytes, filling)) {
      return Buffer(this, data, size_bytes);
    }
  }
  if (!is_cut) return Buffer(this, allocate(size_bytes), size_bytes);
  Slab slab(size_bytes);
  MutexLock lock(mutex_);
  return Buffer(this, cut_first_locked(std::move(slab)), size_bytes);
}

// Null if there is none.
std::byte* BufferPool::take_known_locked(std::size_t size_bytes, Filling filling) {
  // The shelves stand in the order in which their sizes were last asked for.
  const auto found = std::ranges::find(shelves_, size_bytes, &Shelf::size_bytes);
  if (found == shelves_.end()) return nullptr;
  if (found + 1 != shelves_.end()) std::rotate(found, found + 1, shelves_.end());
  Shelf& shelf = shelves_.back();
  const bool is_free = !shelf.free.empty();
  if (!is_free && (shelf.emptied.empty() || filling != Filling::kWhole)) return nullptr;
  std::vector<std::byte*>& from = is_free ? shelf.free : shelf.emptied;
  std::byte* const data = from.back();
  from.pop_back();
  if (is_free) cached_bytes_ -= size_bytes;
  if (Slab* const slab = find_slab_locked(data)) {
    ++slab->in_use;
    if (!is_free) --slab->emptied;
  }
  return data;
}

// Adds a slab, and takes its first buffer.
std::byte* BufferPool::cut_first_locked(Slab slab) {
  Shelf& shelf = shelf_locked(slab.buffer_bytes());
  std::size_t all = slab.count();
  for (const Slab& other : slabs_) {
    if (other.buffer_bytes() == slab.buffer_bytes()) all += other.count();
  }
  shelf.emptied.reserve(all);
  const auto place = std::ranges::lower_bound(slabs_, slab.begin(), {}, &Slab::begin);
  Slab& added = *slabs_.insert(place, std::move(slab));
  added.in_use = 1;
  added.emptied = added.count() - 1;
  for (std::size_t i = added.count() - 1; i > 0; --i) shelf.emptied.push_back(added.buffer(i));
  return added.buffer(0);
}

void BufferPool::give_back(std::byte* data, std::size_t size_bytes) noexcept {
  bool is_cut = false;
  {
    MutexLock lock(mutex_);
    if (Slab* const slab = find_slab_locked(data)) {
      is_cut = true;
      --slab->in_use;
    }
    if (keep_locked(data, size_bytes)) return;
    if (is_cut) return drop_locked(data, size_bytes);
  }
  deallocate(data, size_bytes);
}

// A full pool makes room by freeing buffers of sizes that were last asked for before this size was:
// sizes that are no longer used are released.
bool BufferPool::keep_locked(std::byte* data, std::size_t size_bytes) noexcept try {
  if (size_bytes > max_cached_bytes_) return false;
  const Shelf* const own = &shelf_locked(size_bytes);
  for (Shelf& older : shelves_) {
    if (&older == own) break;
    drop_free_locked(older, size_bytes);
  }
  if (cached_bytes_ + size_bytes > max_cached_bytes_) return false;
  shelf_locked(size_bytes).free.push_back(data);
  cached_bytes_ += size_bytes;
  return true;
} catch (const std::bad_alloc&) {
  return false;  // no room even to remember it
}

// Until there is so much room, or the shelf has none.
void BufferPool::drop_free_locked(Shelf& shelf, std::size_t room) noexcept {
  while (cached_bytes_ + room > max_cached_bytes_ && !shelf.free.empty()) {
    std::byte* const data = shelf.free.back();
    shelf.free.pop_back();
    cached_bytes_ -= shelf.size_bytes;
    drop_locked(data, shelf.size_bytes);
  }
}

// Frees a buffer that is on no shelf.
void BufferPool::drop_locked(std::byte* data, std::size_t size_bytes) noexcept {
  Slab* const slab = find_slab_locked(data);
  if (slab == nullptr) return deallocate(data, size_bytes);
  ++slab->emptied;
  shelf_locked(size_bytes).emptied.push_back(data);
  if (slab->emptied == slab->count()) {
    release_slab_locked(*slab);
  } else {
    Slab::empty(data, size_bytes);
  }
}

// Requires: none of its buffers is in use.
void BufferPool::release_slab_locked(Slab& slab) noexcept {
  Shelf& shelf = shelf_locked(slab.buffer_bytes());
  const auto is_of_it = [&slab](std::byte* data) { return Slab::begin_of(data) == slab.begin(); };
  cached_bytes_ -= std::erase_if(shelf.free, is_of_it) * shelf.size_bytes;
  std::erase_if(shelf.emptied, is_of_it);
  slabs_.erase(slabs_.begin() + (&slab - slabs_.data()));
}

void BufferPool::reserve(std::size_t bytes) {
  MutexLock lock(mutex_);
  max_cached_bytes_ += bytes;
}

// Whole slabs first: parts of a huge page are not free before the system has split it.
void BufferPool::unreserve(std::size_t bytes) noexcept {
  MutexLock lock(mutex_);
  max_cached_bytes_ -= bytes;
  for (std::size_t i = slabs_.size(); i > 0 && cached_bytes_ > max_cached_bytes_; --i) {
    if (slabs_[i - 1].in_use == 0) release_slab_locked(slabs_[i - 1]);
  }
  for (Shelf& shelf : shelves_) drop_free_locked(shelf, 0);
}

std::size_t BufferPool::cached_bytes() const {
  MutexLock lock(mutex_);
  return cached_bytes_;
}

}  // namespace hflush
