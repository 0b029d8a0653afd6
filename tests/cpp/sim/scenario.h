// One run: a cluster, clients that write files to it through the production code, faults, and what
// must hold at each point. Everything follows from the seed.
//
// Nothing that a stream has acknowledged is lost, nothing is published that differs, and none fails
// without a reason: while a good DataNode and a NameNode are there and the policy allows it, it
// goes on.
#pragma once

#include <cstdint>
#include <string>

#include "sim/world.h"

namespace hflush::sim {

struct Outcome {
  std::uint64_t seed = 0;
  std::string breach;  // empty: none
  std::uint64_t digest = 0;
  std::string trace;  // of a run that keeps it
  // What happened, to see that a run of many seeds sees everything.
  std::uint64_t steps = 0;
  std::uint64_t streams = 0;
  std::uint64_t published = 0;
  std::uint64_t failed = 0;
  std::uint64_t abandoned = 0;
  std::uint64_t blocks = 0;
  std::uint64_t acknowledged_bytes = 0;
  std::uint64_t faults = 0;
};

Outcome run_seed(std::uint64_t seed, World::Trace trace);

}  // namespace hflush::sim
