// Statistics of the core as Python sees them: flat, name -> value (hflush.statistics knows more).
#pragma once

#include <pybind11/pybind11.h>

#include "hflush/base/statistics.h"

namespace hflush::bindings {

inline pybind11::dict to_dict(const Statistics& statistics) {
  pybind11::dict values;
  for (const auto& [name, number] : statistics.sorted()) values[pybind11::str(name)] = number;
  return values;
}

}  // namespace hflush::bindings
