// The deadline of a test.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdlib>

namespace hflush::testing {

// How long a test waits for what has to come: one that passes never takes it. HFLUSH_TEST_PATIENCE,
// a factor, is for slow machines.
inline const std::chrono::seconds kPatience = [] {
  const char* const factor = std::getenv("HFLUSH_TEST_PATIENCE");
  const bool is_set = factor != nullptr && *factor != '\0';
  return std::chrono::seconds(std::lround(60 * (is_set ? std::strtod(factor, nullptr) : 1)));
}();

}  // namespace hflush::testing
