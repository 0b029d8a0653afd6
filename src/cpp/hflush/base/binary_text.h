// Bytes as text: hexadecimal and base64. Pure.
#pragma once

#include <string>

#include "hflush/base/bytes.h"

namespace hflush {

std::string to_hex(ByteView bytes);     // lower case
std::string to_base64(ByteView bytes);  // RFC 4648, padded, one line

}  // namespace hflush
