// Randomness: where ids, orders and the lengths of random pauses come from, so that a simulation
// can repeat them. Thread-safe.
#pragma once

#include <cstdint>

namespace hflush::env {

class Randomness {
 public:
  virtual ~Randomness() = default;
  virtual std::uint64_t next() = 0;
};

// That of the machine.
Randomness& system_randomness() noexcept;

}  // namespace hflush::env
