// The one place where a Status becomes a Python exception (contract.md §1, exception mapping).
//
// Everything here is called with the GIL held. The classes live in hflush.errors and are looked up
// by name when there is an error, so that success costs nothing.
#pragma once

#include <pybind11/pybind11.h>

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

template <typename T>
T value(Result<T>&& result) {
  check(result.status());
  return *std::move(result);
}

}  // namespace hflush::bindings
