// SimConnector: connections of readers, whose threads wait for the bytes themselves: a program
// gives way to events until some have come.
#pragma once

#include <string>

#include "hflush/env/blocking_socket.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {

class SimConnector final : public env::BlockingConnector {
 public:
  SimConnector(World& world, Network& network, std::string host)
      : world_(world), network_(network), host_(std::move(host)) {}

  Result<env::BlockingSocket> connect(const env::Endpoint& endpoint, env::Duration timeout,
                                      env::Interrupt& interrupt) override;

 private:
  World& world_;
  Network& network_;
  const std::string host_;
};

}  // namespace hflush::sim
