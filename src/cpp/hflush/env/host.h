// Host: what a client has of the world that it runs in. The parts outlive the client.
#pragma once

#include <string>

#include "hflush/env/blocking_socket.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/executor.h"
#include "hflush/env/local_addresses.h"
#include "hflush/env/randomness.h"

namespace hflush::env {

struct Host {
  EventLoop& loop;  // and its clock, and its connections
  Executor& resolver;
  Randomness& randomness = system_randomness();
  BlockingConnector& connector = machine_connector();  // for the threads of readers
  bool (*is_local)(const std::string& ip) = &is_local_address;
};

}  // namespace hflush::env
