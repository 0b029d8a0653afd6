// Lines: the connections of a conversation with servers: over a simulated network, or real ones.
// Whoever talks over them cannot tell.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hflush/env/socket.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {

// One connection; closed when it is destroyed.
class Line {
 public:
  virtual ~Line() = default;
  virtual void send(const std::string& bytes) = 0;
  // What comes next, some bytes of it; none: the connection has ended, or nothing comes.
  virtual std::optional<std::string> receive() = 0;
};

class Lines {
 public:
  virtual ~Lines() = default;
  // Null if nobody answers there.
  virtual std::unique_ptr<Line> connect(const env::Endpoint& to) = 0;
};

// Both outlive the lines. Before a connection is made, servers deal with what they were sent.
std::unique_ptr<Lines> simulated_lines(World& world, Network& network);
// Addresses are numbers (IPv4).
std::unique_ptr<Lines> real_lines();

// Lets the servers of a world act for so long, or until `over`.
void pass(World& world, Duration time, const std::function<bool()>& over = [] { return false; });

}  // namespace hflush::sim
