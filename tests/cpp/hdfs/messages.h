// Messages for tests of decoders: taken apart, put together, and damaged.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/status.h"

namespace hflush::testing {

inline std::string varint(std::uint64_t value) {
  std::string result;
  for (; value >= 0x80; value >>= 7U) result += static_cast<char>((value & 0x7FU) | 0x80U);
  return result + static_cast<char>(value);
}

// A field that is a message, a string or bytes.
inline std::string length_delimited(std::uint32_t field, std::string_view value) {
  return varint(std::uint64_t{field} << 3U | 2U) + varint(value.size()) + std::string(value);
}

inline std::string number(std::uint32_t field, std::uint64_t value) {
  return varint(std::uint64_t{field} << 3U) + varint(value);
}

struct Field {
  std::uint32_t number = 0;
  std::string bytes;  // key and value
};

// The fields of a sound message without fixed-width ones.
inline std::vector<Field> split(std::string_view message) {
  std::vector<Field> fields;
  std::size_t at = 0;
  const auto take = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::size_t begin = at;
    const std::uint64_t key = take();
    const std::uint64_t value = take();
    if ((key & 7U) == 2) at += value;
    fields.push_back(
        {static_cast<std::uint32_t>(key >> 3U), std::string(message.substr(begin, at - begin))});
  }
  return fields;
}

// `message` without the fields that have this number.
inline std::string without(std::string_view message, std::uint32_t number) {
  std::string result;
  for (const Field& field : split(message)) {
    if (field.number != number) result += field.bytes;
  }
  return result;
}

// A field of each wire type with numbers that no message of ours knows.
inline std::string unknown_fields() {
  return number(1000, 7) + length_delimited(1001, "later") + varint(1002U << 3U | 1U) + "12345678" +
         varint(1003U << 3U | 5U) + "1234";
}

// `message` cut off after every byte, the whole one left out.
template <typename Check>
void each_truncation(const std::string& message, Check check) {
  for (std::size_t size = 0; size < message.size(); ++size) {
    CAPTURE(size);
    check(std::string(message, 0, size));
  }
}

// `message` with each of its bits turned over, one at a time.
template <typename Check>
void each_bit_flip(const std::string& message, Check check) {
  for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
    CAPTURE(bit);
    std::string flipped = message;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    check(flipped);
  }
}

// How every decoder refuses: an I/O error that says what was malformed.
inline void check_refused(const Status& status, std::string_view part) {
  CAPTURE(status.to_string());
  CHECK(status.code() == StatusCode::kIo);
  CHECK(status.error_number() == EBADMSG);
  CHECK(status.message().find("malformed") != std::string::npos);
  CHECK(status.message().find(part) != std::string::npos);
}

}  // namespace hflush::testing
