// hflush._core's checksum functions: convert, sum, convert.
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "buffers.h"
#include "gil.h"
#include "hflush/base/bytes.h"
#include "hflush/crc/checksum.h"
#include "hflush/crc/kernel.h"
#include "register.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

// From this many bytes on, summing takes longer than releasing the GIL and taking it again.
constexpr std::size_t kReleaseGilFrom = 64U << 10U;

// Hadoop keeps bytes per checksum in an int.
constexpr long long kMaxBytesPerChecksum = std::numeric_limits<std::int32_t>::max();

template <typename Work>
auto without_gil_if_long(std::size_t size, Work work) {
  std::optional<ReleasedGil> released;
  if (size >= kReleaseGilFrom) released.emplace();
  return work();
}

// An int, or an object with __index__, within bounds; else ValueError, which names the value.
long long integer(py::handle value, const char* name, long long least, long long most) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) throw py::error_already_set();
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0 || number < least || number > most) {
    throw py::value_error(std::string(name) + " must be from " + std::to_string(least) + " to " +
                          std::to_string(most) + ", not " + py::str(index).cast<std::string>());
  }
  return number;
}

std::uint32_t sum_value(py::handle value, const char* name) {
  return static_cast<std::uint32_t>(
      integer(value, name, 0, std::numeric_limits<std::uint32_t>::max()));
}

std::size_t chunk_size(py::handle value) {
  return static_cast<std::size_t>(integer(value, "bytes_per_checksum", 1, kMaxBytesPerChecksum));
}

crc::Kind kind_named(std::string_view name) {
  if (name == "CRC32C") return crc::Kind::kCrc32c;
  if (name == "CRC32") return crc::Kind::kCrc32;
  throw py::value_error("kind must be 'CRC32C' or 'CRC32', not '" + std::string(name) + "'");
}

template <crc::Kind kKind>
std::uint32_t extend(py::handle data, py::handle value) {
  const std::uint32_t begin = sum_value(value, "value");
  const BufferView buffer(data);
  return without_gil_if_long(buffer.bytes().size(),
                             [&] { return crc::extend(kKind, begin, buffer.bytes()); });
}

py::bytes chunked_sums(py::handle data, py::handle bytes_per_checksum, std::string_view kind) {
  const crc::Kind which = kind_named(kind);
  const std::size_t chunk = chunk_size(bytes_per_checksum);
  const BufferView buffer(data);
  const std::size_t size = crc::checksum_count(buffer.bytes().size(), chunk) * crc::kSumSize;
  py::bytes sums(static_cast<const char*>(nullptr), size);
  auto* const at = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(sums.ptr()));
  without_gil_if_long(buffer.bytes().size(),
                      [&] { crc::chunk_sums(which, buffer.bytes(), chunk, at); });
  return sums;
}

std::size_t chunked_sums_into(py::handle data, py::handle out, py::handle bytes_per_checksum,
                              std::string_view kind) {
  const crc::Kind which = kind_named(kind);
  const std::size_t chunk = chunk_size(bytes_per_checksum);
  const BufferView buffer(data);
  const BufferView sums(out, Access::kWrite);
  const std::size_t count = crc::checksum_count(buffer.bytes().size(), chunk);
  if (sums.bytes().size() < count * crc::kSumSize) {
    throw py::value_error("out has " + std::to_string(sums.bytes().size()) + " bytes, but " +
                          std::to_string(count) + " sums take " +
                          std::to_string(count * crc::kSumSize));
  }
  without_gil_if_long(buffer.bytes().size(), [&] {
    crc::chunk_sums(which, buffer.bytes(), chunk, sums.writable_bytes().data());
  });
  return count;
}

std::uint32_t combine(py::handle a, py::handle b, py::handle length_b, std::string_view kind) {
  const long long length = integer(length_b, "length_b", 0, std::numeric_limits<long long>::max());
  return crc::combine(kind_named(kind), sum_value(a, "a"), sum_value(b, "b"),
                      static_cast<std::uint64_t>(length));
}

py::list usable_kernels() {
  py::list names;
  for (const crc::Kernel* kernel : crc::all_kernels()) {
    if (kernel->usable()) names.append(kernel->name);
  }
  return names;
}

std::uint32_t crc_with_kernel(std::string_view name, std::string_view kind, py::handle data,
                              py::handle value) {
  const crc::Kernel* const kernel = crc::find_kernel(name);
  if (kernel == nullptr) {
    throw py::value_error("kernel must be one of kernels(), not '" + std::string(name) + "'");
  }
  const crc::Kind which = kind_named(kind);
  const std::uint32_t begin = sum_value(value, "value");
  const BufferView buffer(data);
  return without_gil_if_long(buffer.bytes().size(),
                             [&] { return kernel->extend(which, begin, buffer.bytes()); });
}

}  // namespace

void register_crc(py::module_& module) {
  module.def("crc32c", extend<crc::Kind::kCrc32c>, py::arg("data"), py::arg("value") = 0);
  module.def("crc32", extend<crc::Kind::kCrc32>, py::arg("data"), py::arg("value") = 0);
  module.def("chunked_sums", chunked_sums, py::arg("data"), py::arg("bytes_per_checksum") = 512,
             py::arg("kind") = "CRC32C");
  module.def("chunked_sums_into", chunked_sums_into, py::arg("data"), py::arg("out"),
             py::arg("bytes_per_checksum") = 512, py::arg("kind") = "CRC32C");
  module.def("combine", combine, py::arg("a"), py::arg("b"), py::arg("length_b"),
             py::arg("kind") = "CRC32C");
  module.def("kernel", crc::kernel_name);
  module.def("kernels", usable_kernels);
  module.def("crc_with_kernel", crc_with_kernel, py::arg("kernel"), py::arg("kind"),
             py::arg("data"), py::arg("value") = 0);
}

}  // namespace hflush::bindings
