// Host: what a client has of the world that it runs in. The parts outlive the client.
#pragma once

#include "hflush/env/event_loop.h"
#include "hflush/env/executor.h"
#include "hflush/env/randomness.h"

namespace hflush::env {

struct Host {
  EventLoop& loop;  // and its clock, and its connections
  Executor& resolver;
  Randomness& randomness = system_randomness();
};

}  // namespace hflush::env
