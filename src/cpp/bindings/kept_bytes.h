// KeptBytes: bytes objects of Python that streams refer to instead of copying them.
//
// Any thread may let one go, also one that must not wait for the GIL (the loop's): it is only noted
// then, without a lock or an allocation, and released by the next call that writes, waits or ends a
// stream. What is noted after the last one, at the end of the interpreter, stays.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>

namespace hflush::bindings {

// Keeps `bytes`, which are exactly of that type. With the GIL. Throws std::bad_alloc.
std::shared_ptr<const void> keep_bytes(PyObject* bytes);

struct Kept;
extern std::atomic<Kept*> let_go;  // the newest that was noted
void release_noted_bytes() noexcept;

// Releases what was let go. With the GIL; bytes run no code when they end.
inline void release_kept_bytes() noexcept {
  if (let_go.load(std::memory_order_relaxed) != nullptr) release_noted_bytes();
}

}  // namespace hflush::bindings
