#include "hflush/base/binary_text.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace hflush {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_hex(ByteView bytes) {
  std::string text(2 * bytes.size(), '\0');
  char* next = text.data();
  for (const std::byte byte : bytes) {
    *next++ = kHex[std::to_integer<unsigned>(byte) >> 4U];
    *next++ = kHex[std::to_integer<unsigned>(byte) & 0xFU];
  }
  return text;
}

std::string to_base64(ByteView bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8U | (i < count ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? kBase64[group >> (18U - 6U * i) & 0x3FU] : '=';
    }
  }
  return text;
}

}  // namespace hflush
