// SaslLayer: what goes over a connection that its mechanism protects: frames in wrapped messages,
// both ways. Without I/O. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/hdfs/rpc/rpc_failure.h"
#include "hflush/hdfs/rpc/rpc_frames.h"
#include "hflush/hdfs/sasl/mechanism.h"

namespace hflush::hdfs {

class SaslLayer {
 public:
  SaslLayer(std::unique_ptr<sasl::Mechanism> mechanism, std::uint32_t max_response_bytes);

  std::string wrap(std::string_view bytes);
  // Appends the bytes of frames that came. A failure is final: the connection is to be closed.
  std::optional<RpcFailure> unwrap(ByteView bytes, std::string& frames);

 private:
  std::unique_ptr<sasl::Mechanism> mechanism_;
  RpcFrames frames_;
};

}  // namespace hflush::hdfs
