// The DataNode of the scripted cluster: takes blocks, keeps nothing of them, and acknowledges every
// packet at once in the name of all nodes of the pipeline.
#pragma once

#include "scripted_stream.h"

namespace scripted {

// One connection, until it ends: one WRITE_BLOCK, as with a real DataNode. What is not that ends
// the connection without a reply.
void serve_data_transfer(const Stream& stream);

// One connection of the raw sink: everything is dropped until the peer ends the stream.
void serve_sink(const Stream& stream);

}  // namespace scripted
