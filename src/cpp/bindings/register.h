// What module.cc calls: one function for each part of the core.
#pragma once

#include <pybind11/pybind11.h>

namespace hflush::bindings {

void register_crc(pybind11::module_& module);
void register_stream(pybind11::module_& module);
void register_input_file(pybind11::module_& module);
void register_local(pybind11::module_& module);
void register_hdfs(pybind11::module_& module);
void register_credentials(pybind11::module_& module);
void register_s3(pybind11::module_& module);
void register_threads(pybind11::module_& module);
void register_mem(pybind11::module_& module);  // tests/stores/mem, in development builds

}  // namespace hflush::bindings
