#include "hflush/env/randomness.h"

#include <random>

namespace hflush::env {
namespace {

class SystemRandomness final : public Randomness {
 public:
  std::uint64_t next() override {
    std::random_device random;
    return std::uint64_t{random()} << 32U | random();
  }
};

}  // namespace

Randomness& system_randomness() noexcept {
  static SystemRandomness randomness;
  return randomness;
}

}  // namespace hflush::env
