#include "hflush/s3/call/encoding.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "hflush/base/binary_text.h"

namespace hflush::s3 {
namespace {

constexpr std::string_view kUpperHex = "0123456789ABCDEF";

constexpr std::string_view kTokenMarks = "!#$%&'*+^`|";  // beside what is unreserved

constexpr bool is_unreserved(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string encode(std::string_view text, bool keep_slash) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kUpperHex[byte >> 4U];
      encoded += kUpperHex[byte & 0xFU];
    }
  }
  return encoded;
}

}  // namespace

std::string encode_key(std::string_view key) { return encode(key, true); }

std::string encode_component(std::string_view text) { return encode(text, false); }

std::string canonical_query(const Query& query) {
  Query encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query) {
    encoded.emplace_back(encode_component(name), encode_component(value));
  }
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& [name, value] : encoded) {
    if (!text.empty()) text += '&';
    text += name;
    text += '=';
    text += value;
  }
  return text;
}

bool is_header_name(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_unreserved(c) || kTokenMarks.find(c) != std::string_view::npos;
  });
}

bool is_header_value(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) {
    const auto value = static_cast<unsigned char>(c);
    return (value >= 0x20 && value != 0x7F) || value == '\t';
  });
}

Status check_header(std::string_view name, std::string_view value) {
  std::string message;
  if (!is_header_name(name)) {
    message = "not a header name: " + std::string(name);
  } else if (!is_header_value(value)) {
    message = "control characters in the value of header " + std::string(name);
  } else {
    return {};
  }
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

std::string crc_header(std::uint32_t crc) {
  const std::array<std::byte, 4> bytes = {
      static_cast<std::byte>(crc >> 24U), static_cast<std::byte>(crc >> 16U & 0xFFU),
      static_cast<std::byte>(crc >> 8U & 0xFFU), static_cast<std::byte>(crc & 0xFFU)};
  return to_base64(bytes);
}

}  // namespace hflush::s3
