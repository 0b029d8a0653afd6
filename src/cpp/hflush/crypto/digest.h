// Digests: SHA-256, MD5 and their HMACs from the system's libcrypto.
//
// libcrypto is loaded on first use, as libcurl is; load_digests() says whether that worked, and
// nothing else here is called unless it did. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hflush/base/bytes.h"
#include "hflush/base/status.h"

namespace hflush::crypto {

using Sha256 = std::array<std::byte, 32>;
using Md5 = std::array<std::byte, 16>;

// kUnsupported if there is no libcrypto. Idempotent.
Status load_digests();
// The same, and MD5: kUnsupported where libcrypto has none. Nothing of MD5 is called unless it had.
Status load_md5();

Sha256 sha256(ByteView data);
Sha256 hmac_sha256(ByteView key, ByteView data);
Md5 md5(ByteView data);
Md5 hmac_md5(ByteView key, ByteView data);

// A digest of bytes that come in pieces.
class RunningDigest {
 public:
  enum class Kind : std::uint8_t { kSha256, kMd5 };
  explicit RunningDigest(Kind kind);
  ~RunningDigest();
  RunningDigest(RunningDigest&&) noexcept;
  RunningDigest& operator=(RunningDigest&&) noexcept;

  void update(ByteView data);
  // 32 or 16 bytes. Nothing may be added afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hflush::crypto
