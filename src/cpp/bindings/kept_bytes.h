// KeptBytes: bytes objects of Python that streams refer to instead of copying them.
//
// Any thread may let one go, also one that must not wait for the GIL (the loop's): it is only noted
// then, without a lock or an allocation, and released by the next call of a stream that has the
// GIL. What is noted after the last one, at the end of the interpreter, stays.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace hflush::bindings {

// Keeps `bytes`, which are exactly of that type. With the GIL. Throws std::bad_alloc.
std::shared_ptr<const void> keep_bytes(PyObject* bytes);

// Releases what was let go. With the GIL; bytes run no code when they end.
void release_kept_bytes() noexcept;

}  // namespace hflush::bindings
