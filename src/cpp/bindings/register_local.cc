// The local name spaces, with and without checksums, and their files. Every function converts,
// releases the GIL, makes one call of the core and converts back. Path text is Python's file system
// encoding: names that are not UTF-8 survive (surrogateescape).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "hflush/local/checksum_namespace.h"
#include "hflush/local/namespace.h"
#include "hflush/local/open_for_write.h"
#include "hflush/local/paths.h"
#include "hflush/local/sidecar.h"
#include "opened_stream.h"
#include "register.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using local::ChecksumNamespace;
using local::LocalStatus;
using local::Namespace;

template <typename Call>
auto without_gil(const Call& call) {
  const ReleasedGil released;
  return call();
}

std::string path_of(const py::str& text) {
  const auto encoded = py::reinterpret_steal<py::bytes>(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!encoded) throw py::error_already_set();
  std::string path = encoded;
  if (path.find('\0') == std::string::npos) return path;
  throw py::value_error("a path cannot hold a null character");
}

// --- name spaces

void register_local_status(py::module_& module) {
  py::class_<LocalStatus>(module, "LocalStatus", py::is_final())
      .def_property_readonly("path", [](const LocalStatus& status) { return text_of(status.path); })
      .def_readonly("length", &LocalStatus::length)
      .def_property_readonly(
          "kind", [](const LocalStatus& status) { return local::to_string(status.kind); })
      .def_readonly("mode", &LocalStatus::mode)
      .def_readonly("mtime_ns", &LocalStatus::mtime_ns)
      .def_readonly("atime_ns", &LocalStatus::atime_ns)
      .def_property_readonly("owner",
                             [](const LocalStatus& status) { return text_of(status.owner); })
      .def_property_readonly("group",
                             [](const LocalStatus& status) { return text_of(status.group); })
      .def_readonly("device", &LocalStatus::device)
      .def_readonly("inode", &LocalStatus::inode);
}

void result_of(const Status& status) { check(status); }

template <typename T>
T result_of(Result<T>&& result) {
  return value(std::move(result));
}

// A function of a name space whose first argument is a path, as Python calls it.
template <typename Names, typename Outcome, typename... Args>
auto on_path(Outcome (Names::*function)(const std::string&, Args...) const) {
  return [function](const Names& names, const py::str& path, Args... args) {
    return result_of(
        without_gil([&, at = path_of(path)] { return (names.*function)(at, args...); }));
  };
}

template <typename Names>
bool rename(const Names& names, const py::str& source, const py::str& destination) {
  const auto moved = without_gil(
      [&, from = path_of(source), to = path_of(destination)] { return names.rename(from, to); });
  check(moved.status());
  return true;  // a local store reports every refusal as an error
}

template <typename Names>
void rename_exact(const Names& names, const py::str& source, const py::str& destination,
                  bool overwrite) {
  const auto existing = overwrite ? local::Existing::kReplace : local::Existing::kRefuse;
  check(without_gil([&, from = path_of(source), to = path_of(destination)] {
    return names.rename_exact(from, to, existing);
  }));
}

std::optional<local::Permission> permission_of(std::optional<mode_t> bits, bool is_asked) {
  if (!bits) return std::nullopt;
  return local::Permission(*bits, is_asked);
}

template <typename Names>
void mkdirs(const Names& names, const py::str& path, std::optional<mode_t> permission,
            bool is_asked, bool create_parent) {
  const auto wanted = permission_of(permission, is_asked);
  check(without_gil([&, at = path_of(path)] { return names.mkdirs(at, wanted, create_parent); }));
}

// What the two name spaces have in common: all but opening files.
template <typename Names>
py::class_<Names> add_namespace(py::module_& module, const char* name) {
  py::class_<Names> type(module, name, py::is_final());
  type.def(py::init<>())
      .def("status", on_path(&Names::status), py::arg("path"))
      .def("list", on_path(&Names::list), py::arg("path"))
      .def("mkdirs", &mkdirs<Names>, py::arg("path"), py::arg("permission"), py::kw_only(),
           py::arg("is_asked"), py::arg("create_parent"))
      .def(
          "sync_directory",
          [](const Names& /*names*/, const py::str& path) {
            return result_of(
                without_gil([&, at = path_of(path)] { return local::sync_directory(at); }));
          },
          py::arg("path"))
      .def("delete", on_path(&Names::remove), py::arg("path"), py::arg("recursive"))
      .def("rename", &rename<Names>, py::arg("source"), py::arg("destination"))
      .def("rename_exact", &rename_exact<Names>, py::arg("source"), py::arg("destination"),
           py::arg("overwrite"))
      .def("set_permission", on_path(&Names::set_permission), py::arg("path"),
           py::arg("permission"))
      .def("set_owner", on_path(&Names::set_owner), py::arg("path"), py::arg("owner"),
           py::arg("group"))
      .def("set_times", on_path(&Names::set_times), py::arg("path"), py::arg("mtime_ns"),
           py::arg("atime_ns"))
      .def(
          "fs_status",
          [](const Names& names, const py::str& path) {
            const local::Space space = on_path(&Names::fs_status)(names, path);
            return py::make_tuple(space.capacity, space.used, space.remaining);
          },
          py::arg("path"));
  return type;
}

// --- streams

local::CreateOptions create_options(bool overwrite, bool create_parent,
                                    std::optional<local::Permission> permission,
                                    bool sync_on_close) {
  local::CreateOptions options;
  options.overwrite = overwrite;
  options.parents = create_parent ? local::Parents::kCreate : local::Parents::kRequire;
  options.permission = permission;
  options.sync_on_close = sync_on_close;
  return options;
}

py::object create_raw(const Namespace& /*names*/, const py::type& stream_type, const py::str& path,
                      bool overwrite, bool create_parent, std::optional<mode_t> permission,
                      bool is_asked, bool sync_on_close, bool append) {
  auto options =
      create_options(overwrite, create_parent, permission_of(permission, is_asked), sync_on_close);
  options.append = append;
  return make_stream(
      stream_type, without_gil([&, at = path_of(path)] { return local::create_raw(at, options); }));
}

py::object append_raw(const Namespace& /*names*/, const py::type& stream_type, const py::str& path,
                      bool sync_on_close) {
  return make_stream(stream_type, without_gil([&, at = path_of(path)] {
                       return local::append_raw(at, sync_on_close);
                     }));
}

py::object create_checksummed(const ChecksumNamespace& /*names*/, const py::type& stream_type,
                              const py::str& path, bool overwrite, bool create_parent,
                              std::optional<mode_t> permission, bool is_asked,
                              std::int64_t bytes_per_checksum, bool sync_on_close,
                              bool write_checksum) {
  const auto options =
      create_options(overwrite, create_parent, permission_of(permission, is_asked), sync_on_close);
  // -1 stands for every invalid number.
  const auto chunk = static_cast<std::size_t>(std::max(bytes_per_checksum, std::int64_t{0}));
  return make_stream(stream_type, without_gil([&, at = path_of(path)] {
                       return write_checksum ? local::create_checksummed(at, options, chunk)
                                             : local::create_without_checksum(at, options);
                     }));
}

}  // namespace

void register_local(py::module_& module) {
  register_local_status(module);

  add_namespace<Namespace>(module, "RawNamespace")
      .def(
          "open",
          [](const Namespace& names, const py::str& path, bool /*verify*/) {
            return on_path(&Namespace::open)(names, path);
          },
          py::arg("path"), py::arg("verify"))
      .def("birth", on_path(&Namespace::birth), py::arg("path"))
      .def("truncate", on_path(&Namespace::truncate), py::arg("path"), py::arg("length"))
      .def("create", &create_raw, py::arg("stream_type"), py::arg("path"), py::kw_only(),
           py::arg("overwrite"), py::arg("create_parent"), py::arg("permission"),
           py::arg("is_asked"), py::arg("sync_on_close") = false, py::arg("append") = false)
      .def("append", &append_raw, py::arg("stream_type"), py::arg("path"), py::kw_only(),
           py::arg("sync_on_close") = false);

  add_namespace<ChecksumNamespace>(module, "ChecksumNamespace")
      .def("open", on_path(&ChecksumNamespace::open), py::arg("path"), py::arg("verify"))
      .def("create", &create_checksummed, py::arg("stream_type"), py::arg("path"), py::kw_only(),
           py::arg("overwrite"), py::arg("create_parent"), py::arg("permission"),
           py::arg("is_asked"), py::arg("bytes_per_checksum") = local::kDefaultBytesPerChecksum,
           py::arg("sync_on_close") = false, py::arg("write_checksum") = true);
}

}  // namespace hflush::bindings
