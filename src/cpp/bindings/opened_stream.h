// What a file system has opened, as the Python object that owns it.
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

namespace hflush::bindings {

// A stream of a parent process is leaked in a forked child: its locks and threads are not ours.
// One that has ended goes with the GIL held: there is nothing to wait for, and the thread that
// gives the GIL up gets it back behind all others. Called with the GIL.
struct StreamDeleter {
  void operator()(stream::OutputStream* stream) const noexcept {
    if (stream->is_foreign()) return;
    std::optional<ReleasedGil> released;
    if (!stream::is_final(stream->state())) released.emplace();
    delete stream;
  }
};
using StreamPointer = std::unique_ptr<stream::OutputStream, StreamDeleter>;
using StreamClass = pybind11::class_<stream::OutputStream, StreamPointer>;

// Makes an instance of `stream_type`, a subclass of the native OutputStream, without its __init__:
// what pybind11's factories do, but for the call that goes there.
inline pybind11::object make_stream(const pybind11::type& stream_type,
                                    Result<std::unique_ptr<stream::OutputStream>>&& opened) {
  auto* const type = reinterpret_cast<PyTypeObject*>(stream_type.ptr());
  const auto* const native = pybind11::detail::get_type_info(typeid(stream::OutputStream));
  if (PyType_IsSubtype(type, native->type) == 0) {
    throw pybind11::type_error("no type of output streams");
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
