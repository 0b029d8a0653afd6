// The one place where a Status becomes a Python exception (contract.md §1, exception mapping).
//
// Everything here is called with the GIL held. The classes live in hflush.errors and are looked up
// by name when there is an error, so that success costs nothing.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string_view>
#include <utility>

#include "hflush/base/result.h"
#include "hflush/base/status.h"

namespace hflush::bindings {

// A path, or text that may hold one: bytes that are not UTF-8 survive (surrogateescape).
pybind11::str text_of(std::string_view bytes);

// A new exception object for a failure, with its cause chained and its companions as notes.
// Requires: !status.ok().
pybind11::object make_exception(const Status& status);

// Sets the Python error indicator. Requires: !status.ok(). A kInterrupted status stands for an
// exception that is set already.
void set_exception(const Status& status);

// Throws into Python unless fine.
void check(const Status& status);

// Takes an exception that was set before the call. C and C++ libraries call methods with one
// pending, as HDF5 does after a failed callback; a method that then returns a result causes a
// SystemError, which hides the first failure. Make it first in a call that a library may make.
class PendingError {
 public:
  PendingError() {
    if (PyErr_Occurred() != nullptr) error_.emplace();
  }
  // Ends a call that has succeeded otherwise.
  void raise() const {
    if (error_) throw pybind11::error_already_set(*error_);
  }
  pybind11::object value() const { return error_ ? error_->value() : pybind11::none(); }

 private:
  std::optional<pybind11::error_already_set> error_;
};

template <typename T>
T value(Result<T>&& result) {
  check(result.status());
  return *std::move(result);
}

}  // namespace hflush::bindings
