// The past of a stream as Python sees it: a list of hflush.status.StreamEvent.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>

#include "errors.h"
#include "hflush/env/clock.h"
#include "hflush/stream/sink.h"

namespace hflush::bindings {

// The wall clock's reading at that time, as far as it has not been set since.
inline double seconds_since_epoch(env::TimePoint when) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const env::Duration age = env::steady_clock().now() - when;
  return std::chrono::duration<double>(now - age).count();
}

inline pybind11::list to_list(const stream::PastEvents& events) {
  const pybind11::object made = pybind11::module_::import("hflush.status").attr("StreamEvent");
  pybind11::list list;
  for (const stream::PastEvent& event : events) {
    list.append(made(seconds_since_epoch(event.when), text_of(event.what), event.times));
  }
  return list;
}

}  // namespace hflush::bindings
