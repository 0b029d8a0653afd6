// OpenedStream: a stream on its way from a file system's create() to the Python object that owns
// it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "hflush/base/result.h"
#include "hflush/stream/output_stream.h"

namespace hflush::bindings {

// A stream of a parent process is leaked in a forked child: its locks and threads are not ours.
// One that has ended goes with the GIL held: there is nothing to wait for, and whoever gives the
// GIL up gets it back behind all others. Called with the GIL.
struct StreamDeleter {
  void operator()(stream::OutputStream* stream) const noexcept {
    if (stream->is_foreign()) return;
    std::optional<ReleasedGil> released;
    if (!stream::is_final(stream->state())) released.emplace();
    delete stream;
  }
};
using StreamPointer = std::unique_ptr<stream::OutputStream, StreamDeleter>;

struct OpenedStream {
  StreamPointer stream;
};

// Calls `stream_type`, a subclass of the native OutputStream, with what was opened.
inline pybind11::object make_stream(pybind11::handle stream_type,
                                    Result<std::unique_ptr<stream::OutputStream>>&& opened) {
  return stream_type(OpenedStream{StreamPointer(value(std::move(opened)).release())});
}

}  // namespace hflush::bindings
