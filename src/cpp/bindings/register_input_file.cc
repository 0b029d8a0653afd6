// InputFile: the Source of any store as Python reads it. Arguments are checked, bytes are handed
// over uncopied, and a read that waits may be interrupted.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "buffers.h"
#include "errors.h"
#include "gil.h"
#include "hflush/base/bytes.h"
#include "hflush/base/status.h"
#include "hflush/stream/source.h"
#include "register.h"
#include "signals.h"
#include "statistics.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using stream::Source;

std::uint64_t position_of(std::int64_t position) {
  if (position < 0) {
    check(Status(StatusCode::kBadSeek, "read at negative position " + std::to_string(position)));
  }
  return static_cast<std::uint64_t>(position);
}

std::uint64_t length_of(std::int64_t length) {
  if (length < 0) {
    check(Status(StatusCode::kOutOfRange, "read of " + std::to_string(length) + " bytes"));
  }
  return static_cast<std::uint64_t>(length);
}

std::size_t read_at(Source& file, std::uint64_t position, MutableByteView out) {
  return value(waiting([&](SignalCheck& signals) { return file.read_at(position, out, signals); }));
}

std::size_t read_into(Source& file, std::int64_t position, const py::object& out) {
  const std::uint64_t at = position_of(position);
  const BufferView buffer(out, Access::kWrite);
  return read_at(file, at, buffer.writable_bytes());
}

// The length of a local file is asked of its disk, or of the server that it is mounted from.
std::uint64_t length_in_bytes(const Source& file) {
  return value([&file] {
    const GilUntilSleep held;
    return file.length();
  }());
}

// Of a file of length 0: those in /proc hold more than they say.
py::bytes read_to_end(Source& file, std::uint64_t at, std::uint64_t asked) {
  constexpr std::uint64_t kPiece = 64U << 10U;
  std::string bytes;
  for (std::size_t got = 1; got > 0 && bytes.size() < asked;) {
    const std::size_t done = bytes.size();
    bytes.resize(done + static_cast<std::size_t>(std::min(kPiece, asked - done)));
    const auto piece = std::as_writable_bytes(std::span(bytes).subspan(done));
    got = read_at(file, at + done, piece);
    bytes.resize(done + got);
  }
  return py::bytes(bytes);
}

// Allocates what the file can give, not what the caller asks for.
py::bytes read(Source& file, std::int64_t position, std::int64_t length) {
  const std::uint64_t at = position_of(position);
  const std::uint64_t asked = length_of(length);
  const std::uint64_t size = length_in_bytes(file);
  if (size == 0) return read_to_end(file, at, asked);
  const auto wanted = static_cast<std::size_t>(std::min(asked, size - std::min(size, at)));
  auto bytes = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(wanted)));
  if (!bytes) throw py::error_already_set();
  auto* const memory = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr()));
  const std::size_t got = read_at(file, at, {memory, wanted});
  if (got == wanted) return bytes;
  return bytes[py::slice(0, static_cast<py::ssize_t>(got), 1)];
}

py::dict statistics(const Source& file) {
  Statistics counted;
  file.add_statistics(counted);
  return to_dict(counted);
}

void close(Source& file) {
  const ReleasedGil released;
  file.close();
}

void unbuffer(Source& file) {
  const ReleasedGil released;
  file.unbuffer();
}

void set_drop_behind(Source& file, std::optional<bool> drop) {
  const ReleasedGil released;
  file.advise(Source::DropBehind{drop});
}

void set_readahead(Source& file, std::optional<std::int64_t> bytes) {
  const ReleasedGil released;
  file.advise(Source::Readahead{bytes});
}

}  // namespace

void register_input_file(py::module_& module) {
  py::class_<Source>(module, "InputFile", py::is_final(), py::release_gil_before_calling_cpp_dtor())
      .def("read_into", &read_into, py::arg("position"), py::arg("out"))
      .def("read", &read, py::arg("position"), py::arg("length"))
      .def("length", &length_in_bytes)
      .def("close", &close)
      .def("unbuffer", &unbuffer)
      .def("set_drop_behind", &set_drop_behind, py::arg("value"))
      .def("set_readahead", &set_readahead, py::arg("bytes"))
      .def("fileno", [](const Source& file) { return value(file.fileno()); })
      .def("statistics", &statistics)
      .def_property_readonly("verified", &Source::verified);
}

}  // namespace hflush::bindings
