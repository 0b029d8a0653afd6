// TripleDes: CBC with the 3DES of the system's libcrypto, for DIGEST-MD5's confidentiality, which
// knows nothing better. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "hflush/base/result.h"

namespace hflush::crypto {

class TripleDes {
 public:
  static constexpr std::size_t kBlock = 8;
  using Key = std::array<std::byte, 24>;  // three keys of DES, parity bits included
  using Iv = std::array<std::byte, kBlock>;
  enum class Direction : std::uint8_t { kDecrypt, kEncrypt };

  // kUnsupported where libcrypto has no 3DES (FIPS mode).
  static Result<std::unique_ptr<TripleDes>> make(Direction direction, const Key& key, const Iv& iv);
  virtual ~TripleDes() = default;

  // The next bytes of the message, which goes on from call to call. Requires: whole blocks.
  virtual std::string apply(std::string_view bytes) = 0;
};

}  // namespace hflush::crypto
