// SignalCheck: lets Python's signal handlers run while a call waits (PEP 475).
#pragma once

#include <pybind11/pybind11.h>

#include "hflush/stream/output_stream.h"

namespace hflush::bindings {

// Used without the GIL, which it takes for the check. An exception that a handler raises stays set
// and ends the wait; the stream is as before.
class SignalCheck final : public stream::Interrupt {
 private:
  Status check() override {
    const pybind11::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return {};
    return Status(StatusCode::kInterrupted, "interrupted by a signal");
  }
};

}  // namespace hflush::bindings
