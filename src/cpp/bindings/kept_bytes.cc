#include "kept_bytes.h"

#include <atomic>
#include <utility>

namespace hflush::bindings {

struct Kept {
  PyObject* bytes = nullptr;
  Kept* next = nullptr;  // of those that were let go
};

std::atomic<Kept*> let_go{nullptr};

namespace {

void note(Kept* kept) noexcept {
  kept->next = let_go.load(std::memory_order_relaxed);
  while (!let_go.compare_exchange_weak(kept->next, kept, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

}  // namespace

std::shared_ptr<const void> keep_bytes(PyObject* bytes) {
  auto kept = std::make_unique<Kept>();
  Py_INCREF(bytes);
  kept->bytes = bytes;
  return {kept.release(), note};  // where it throws, it is noted
}

void release_noted_bytes() noexcept {
  Kept* next = let_go.exchange(nullptr, std::memory_order_acquire);
  while (next != nullptr) {
    const std::unique_ptr<Kept> kept(next);
    next = kept->next;
    Py_DECREF(kept->bytes);
  }
}

}  // namespace hflush::bindings
