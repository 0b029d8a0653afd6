#include "hflush/env/http_limits.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "hflush/env/http_head.h"

namespace hflush::env {
namespace {

Status too_long(const std::string& authority, const char* what, std::uint64_t max_bytes) {
  return {StatusCode::kIo,
          "receive response from " + authority + ": " + what + " is longer than " +
              std::to_string(max_bytes) + " bytes",
          {},
          EMSGSIZE};
}

}  // namespace

std::uint64_t max_body_bytes(const HttpRequest& request, int status) noexcept {
  return status / 100 == 2 ? request.max_response_bytes
                           : std::min(request.max_response_bytes, request.max_error_bytes);
}

Status head_too_long(const std::string& authority) {
  return too_long(authority, "its head", HttpHeadParser::kMaxBytes);
}

Status body_too_long(const std::string& authority, std::uint64_t max_bytes) {
  return too_long(authority, "it", max_bytes);
}

Status exchange_timed_out(const std::string& authority, const HttpRequest& request, bool in_all) {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(
      in_all ? request.total_timeout : request.stall_timeout);
  return {StatusCode::kTimedOut,
          "exchange with " + authority + ": timed out after " + std::to_string(limit.count()) +
              (in_all ? " ms in all" : " ms without a byte"),
          {},
          ETIMEDOUT};
}

}  // namespace hflush::env
