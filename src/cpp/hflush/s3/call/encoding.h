// How a key and a query become a URL: byte by byte, once, and exactly as they are signed.
//
// Unreserved characters (A-Z a-z 0-9 - . _ ~) stand for themselves, every other byte is %XX in
// upper case; '/' separates the segments of a key and is encoded in a query. Nothing is normalised:
// "a/../b" and "a//b" are keys like others. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/status.h"

namespace hflush::s3 {

// name, value; a parameter without a value has an empty one.
using Query = std::vector<std::pair<std::string, std::string>>;

std::string encode_key(std::string_view key);
// One name or value of a query.
std::string encode_component(std::string_view text);
// Encoded, sorted by encoded name, then value; always with '='. Empty without parameters.
std::string canonical_query(const Query& query);

// Whether it is a token of HTTP, as the names of headers are.
bool is_header_name(std::string_view text) noexcept;
// Whether it is sent as one line: no control characters but tabs.
bool is_header_value(std::string_view text) noexcept;
// kInvalidArgument unless it is both. The value is not in the message: it may be a key.
Status check_header(std::string_view name, std::string_view value);

// A CRC as x-amz-checksum-crc32c and its kin have it: four bytes, big-endian, base64.
std::string crc_header(std::uint32_t crc);

}  // namespace hflush::s3
