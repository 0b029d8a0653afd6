// The limits of an exchange, whichever way it goes (http_exchange.h, direct_exchange.h): of its
// body and of the wait for consent, and how long its response is and how long it takes, as its
// request says; and the failures that name the limit. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"

namespace hflush::env {

// A body up to here is read as a whole before it is sent.
constexpr std::uint64_t kSmallBodyBytes = (std::uint64_t{64} << 10U) - 1;
// A server that says nothing to a request that asks before its body consents after that time.
constexpr Duration kConsentIsDueAfter = std::chrono::milliseconds(200);

// Of the body of a response with that status.
std::uint64_t max_body_bytes(const HttpRequest& request, int status) noexcept;

// `authority`: "host:port".
Status head_too_long(const std::string& authority);
Status body_too_long(const std::string& authority, std::uint64_t max_bytes);
// `in_all`: its total time, else that without a byte.
Status exchange_timed_out(const std::string& authority, const HttpRequest& request, bool in_all);

}  // namespace hflush::env
