// Positioned reads as Python calls them: arguments checked, bytes handed over uncopied.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "buffers.h"
#include "errors.h"
#include "gil.h"
#include "hflush/base/bytes.h"
#include "hflush/base/statistics.h"
#include "hflush/base/status.h"
#include "signals.h"
#include "statistics.h"

namespace hflush::bindings {

inline std::uint64_t position_of(std::int64_t position) {
  if (position < 0) {
    check(Status(StatusCode::kBadSeek, "read at negative position " + std::to_string(position)));
  }
  return static_cast<std::uint64_t>(position);
}

inline std::uint64_t length_of(std::int64_t length) {
  if (length < 0) {
    check(Status(StatusCode::kOutOfRange, "read of " + std::to_string(length) + " bytes"));
  }
  return static_cast<std::uint64_t>(length);
}

// What `read`, which takes a MutableByteView and returns how much of it is filled, gives of
// `wanted` bytes.
template <typename Read>
pybind11::bytes read_bytes(std::uint64_t wanted, const Read& read) {
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(wanted));
  if (bytes == nullptr) throw pybind11::error_already_set();
  auto owner = pybind11::reinterpret_steal<pybind11::bytes>(bytes);
  const MutableByteView out(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes)),
                            static_cast<std::size_t>(wanted));
  const std::size_t got = read(out);
  if (got == wanted) return owner;
  return owner[pybind11::slice(0, static_cast<pybind11::ssize_t>(got), 1)];
}

// --- files of a store that is asked for them: reads wait, and may be interrupted

template <typename File>
std::size_t read_at(File& file, std::uint64_t position, MutableByteView out) {
  return value(waiting([&](SignalCheck& signals) { return file.read_at(position, out, signals); }));
}

template <typename File>
std::size_t read_into(File& file, std::int64_t position, const pybind11::object& out) {
  const std::uint64_t at = position_of(position);
  const BufferView buffer(out, Access::kWrite);
  return read_at(file, at, buffer.writable_bytes());
}

// Allocates what the file can give, not what is asked for.
template <typename File>
pybind11::bytes read(File& file, std::int64_t position, std::int64_t length) {
  const std::uint64_t at = position_of(position);
  const std::uint64_t size = value(Result<std::uint64_t>(file.length()));
  const std::uint64_t wanted = std::min(length_of(length), size - std::min(size, at));
  return read_bytes(wanted, [&](MutableByteView out) { return read_at(file, at, out); });
}

// What InputFile of _core.pyi promises.
template <typename File>
void add_reading(pybind11::class_<File>& type) {
  type.def("read_into", &read_into<File>, pybind11::arg("position"), pybind11::arg("out"))
      .def("read", &read<File>, pybind11::arg("position"), pybind11::arg("length"))
      .def("length", [](File& file) { return value(Result<std::uint64_t>(file.length())); })
      .def("close",
           [](File& file) {
             const ReleasedGil released;
             file.close();
           })
      .def("unbuffer",
           [](File& file) {
             const ReleasedGil released;
             file.unbuffer();
           })
      .def("statistics",
           [](const File& file) {
             Statistics counted;
             file.add_statistics(counted);
             return to_dict(counted);
           })
      .def_property_readonly("closed", &File::closed);
}

}  // namespace hflush::bindings
