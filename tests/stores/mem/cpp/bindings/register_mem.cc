// A memory store as Python calls it. Every function converts, gives the GIL up, makes one call and
// converts back.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "mem/memory_files.h"
#include "mem/memory_source.h"
#include "mem/open_for_write.h"
#include "opened_stream.h"
#include "register.h"
#include "text.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using mem::MemoryFiles;
using mem::MemoryStatus;

// The store of a name, of the process that asks.
struct MemoryNames {
  std::string name;

  std::shared_ptr<MemoryFiles> files() const { return MemoryFiles::named(name); }
};

template <typename Call>
auto without_gil(const Call& call) {
  const ReleasedGil released;
  return call();
}

// --- names

void register_names(py::class_<MemoryNames>& names) {
  using Time = std::optional<std::int64_t>;
  names
      .def(
          "status",
          [](const MemoryNames& self, const py::str& path) {
            return value(without_gil([&, at = to_utf8(path)] { return self.files()->status(at); }));
          })
      .def("list",
           [](const MemoryNames& self, const py::str& path) {
             return value(without_gil([&, at = to_utf8(path)] { return self.files()->list(at); }));
           })
      .def("mkdirs",
           [](const MemoryNames& self, const py::str& path, mode_t mode, bool create_parent) {
             check(without_gil([&, at = to_utf8(path)] {
               return self.files()->mkdirs(at, mode, create_parent);
             }));
           })
      .def("delete",
           [](const MemoryNames& self, const py::str& path, bool recursive) {
             return value(without_gil(
                 [&, at = to_utf8(path)] { return self.files()->remove(at, recursive); }));
           })
      .def("rename",
           [](const MemoryNames& self, const py::str& source, const py::str& destination) {
             check(without_gil([&, from = to_utf8(source), to = to_utf8(destination)] {
               return self.files()->rename(from, to);
             }));
             return true;  // every refusal is an error
           })
      .def("rename_exact",
           [](const MemoryNames& self, const py::str& source, const py::str& destination,
              bool overwrite) {
             check(without_gil([&, from = to_utf8(source), to = to_utf8(destination)] {
               return self.files()->rename_exact(from, to, overwrite);
             }));
           })
      .def("set_permission",
           [](const MemoryNames& self, const py::str& path, mode_t mode) {
             check(without_gil(
                 [&, at = to_utf8(path)] { return self.files()->set_permission(at, mode); }));
           })
      .def("set_times", [](const MemoryNames& self, const py::str& path, Time mtime, Time atime) {
        check(without_gil(
            [&, at = to_utf8(path)] { return self.files()->set_times(at, mtime, atime); }));
      });
}

// --- streams

void register_streams(py::class_<MemoryNames>& names) {
  names
      .def("create",
           [](const MemoryNames& self, const py::type& stream_type, const py::str& path,
              bool overwrite, bool create_parent, mode_t mode) {
             return make_stream(stream_type, without_gil([&, at = to_utf8(path)] {
                                  return mem::create(self.files(), at, overwrite, create_parent,
                                                     mode);
                                }));
           })
      .def("append",
           [](const MemoryNames& self, const py::type& stream_type, const py::str& path) {
             return make_stream(stream_type, without_gil([&, at = to_utf8(path)] {
                                  return mem::append(self.files(), at);
                                }));
           })
      .def("open", [](const MemoryNames& self, const py::str& path) {
        return value(without_gil(
            [&, at = to_utf8(path)] { return mem::MemorySource::open(self.files(), at); }));
      });
}

}  // namespace

void register_mem(py::module_& module) {
  py::class_<MemoryStatus>(module, "_MemoryStatus", py::is_final())
      .def_property_readonly("path",
                             [](const MemoryStatus& status) { return from_utf8(status.path); })
      .def_readonly("is_directory", &MemoryStatus::is_directory)
      .def_readonly("length", &MemoryStatus::length)
      .def_readonly("mode", &MemoryStatus::mode)
      .def_readonly("mtime_ns", &MemoryStatus::mtime_ns)
      .def_readonly("atime_ns", &MemoryStatus::atime_ns)
      .def_readonly("id", &MemoryStatus::id);

  py::class_<MemoryNames> names(module, "_MemoryNames", py::is_final());
  names.def(py::init([](std::string name) { return MemoryNames{std::move(name)}; }))
      .def("set_largest_file", [](const MemoryNames& self, std::uint64_t bytes) {
        without_gil([&] { self.files()->set_largest_file(bytes); });
      });
  register_names(names);
  register_streams(names);
}

}  // namespace hflush::bindings
