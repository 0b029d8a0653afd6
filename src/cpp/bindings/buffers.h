// BufferView: a Python object's contiguous bytes, held for the length of a call.
//
// While it is held the exporting object cannot be resized (BufferError there). Owned by one thread;
// made and destroyed with the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"

namespace hflush::bindings {

enum class Access { kRead, kWrite };

class BufferView {
 public:
  // Throws TypeError if `object` has no buffer, BufferError if it is not C-contiguous, or is
  // read-only and to be written.
  explicit BufferView(pybind11::handle object, Access access = Access::kRead) {
    const int writable = access == Access::kWrite ? PyBUF_WRITABLE : 0;
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDES | writable) != 0) {
      throw pybind11::error_already_set();
    }
    if (PyBuffer_IsContiguous(&view_, 'C') == 0) {
      PyBuffer_Release(&view_);
      throw pybind11::buffer_error("the buffer must be C-contiguous");
    }
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;

  ByteView bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }
  // Requires: Access::kWrite.
  MutableByteView writable_bytes() const noexcept {
    HFLUSH_DCHECK(view_.readonly == 0);
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace hflush::bindings
