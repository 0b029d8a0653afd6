// Runs of the simulator (sim/main.cc has the program for many of them).
#include <doctest/doctest.h>

#include "sim/scenario.h"

namespace hflush::sim {
namespace {

TEST_CASE("simulation: what the first seeds promise is kept") {
  std::uint64_t published = 0;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const Outcome outcome = run_seed(seed, World::Trace::kDigest);
    CHECK(outcome.breach.empty());
    CAPTURE(outcome.breach);
    published += outcome.published;
    failed += outcome.failed;
  }
  CHECK(published > 50);
  CHECK(failed > 0);
}

TEST_CASE("simulation: the same seed gives the same trace, another one another") {
  const Outcome once = run_seed(7, World::Trace::kText);
  const Outcome again = run_seed(7, World::Trace::kText);
  CHECK_FALSE(once.trace.empty());
  CHECK(once.trace == again.trace);
  CHECK(once.digest == again.digest);
  CHECK(run_seed(8, World::Trace::kDigest).digest != once.digest);
}

}  // namespace
}  // namespace hflush::sim
