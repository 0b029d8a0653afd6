// The Python object that owns a stream which a file system has opened.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <typeinfo>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "hflush/base/result.h"
#include "hflush/stream/output_stream.h"
#include "kept_bytes.h"

namespace hflush::bindings {

// In a forked child a stream of the parent is leaked: its locks and threads belong to the parent.
// A stream that has ended is destroyed with the GIL held: nothing is waited for, and a thread that
// releases the GIL gets it back behind all others. Called with the GIL.
struct StreamDeleter {
  void operator()(stream::OutputStream* stream) const noexcept {
    if (stream->is_foreign()) return;
    std::optional<ReleasedGil> released;
    if (!stream::is_final(stream->state())) released.emplace();
    delete stream;
    released.reset();
    release_kept_bytes();
  }
};
using StreamPointer = std::unique_ptr<stream::OutputStream, StreamDeleter>;
using StreamClass = pybind11::class_<stream::OutputStream, StreamPointer>;

// Makes an instance of `stream_type`, a subclass of the native OutputStream, without its __init__:
// as pybind11's factories do, but without that call.
inline pybind11::object make_stream(const pybind11::type& stream_type,
                                    Result<std::unique_ptr<stream::OutputStream>>&& opened) {
  auto* const type = reinterpret_cast<PyTypeObject*>(stream_type.ptr());
  const auto* const native = pybind11::detail::get_type_info(typeid(stream::OutputStream));
  if (PyType_IsSubtype(type, native->type) == 0) {
    throw pybind11::type_error("stream_type must be a subclass of OutputStream");
  }
  StreamPointer stream(value(std::move(opened)).release());
  auto made =
      pybind11::reinterpret_steal<pybind11::object>(pybind11::detail::make_new_instance(type));
  auto* const instance = reinterpret_cast<pybind11::detail::instance*>(made.ptr());
  pybind11::detail::value_and_holder place = instance->get_value_and_holder(native);
  pybind11::detail::initimpl::construct<StreamClass>(place, std::move(stream), false);
  return made;
}

}  // namespace hflush::bindings
