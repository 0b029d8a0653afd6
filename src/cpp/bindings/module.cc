#include <pybind11/pybind11.h>

#include "register.h"

PYBIND11_MODULE(_core, module) {
  hflush::bindings::register_crc(module);
  hflush::bindings::register_stream(module);
  hflush::bindings::register_input_file(module);
  hflush::bindings::register_local(module);
  hflush::bindings::register_hdfs(module);
  hflush::bindings::register_credentials(module);
  hflush::bindings::register_s3(module);
  hflush::bindings::register_threads(module);
#ifdef HFLUSH_MEM_STORE
  hflush::bindings::register_mem(module);
#endif
}
