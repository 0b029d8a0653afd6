// Text of HDFS: UTF-8, whatever the locale. Bytes that are not UTF-8 reach Python by
// surrogateescape; Python sends none back, because a server would change them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace hflush::bindings {

inline pybind11::str from_utf8(std::string_view bytes) {
  auto text = pybind11::reinterpret_steal<pybind11::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
  if (!text) throw pybind11::error_already_set();
  return text;
}

inline std::string to_utf8(const pybind11::str& text) {
  if (PyUnicode_IS_COMPACT_ASCII(text.ptr())) {
    return {static_cast<const char*>(PyUnicode_DATA(text.ptr())),
            static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr()))};
  }
  auto bytes = pybind11::reinterpret_steal<pybind11::bytes>(
      PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
  if (!bytes) throw pybind11::error_already_set();
  return bytes;
}

}  // namespace hflush::bindings
