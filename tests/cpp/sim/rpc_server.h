// RpcConnection: the server's side of Hadoop's RPC over one simulated connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "sim/network.h"
#include "sim/rpc_call.h"
#include "sim/world.h"

namespace hflush::sim {

class RpcConnection : public std::enable_shared_from_this<RpcConnection> {
 public:
  using Serve = std::function<void(const std::shared_ptr<RpcConnection>&, RpcCall)>;

  // Serves each call that comes; `server` is its name in breaches.
  static void accept(World& world, std::shared_ptr<End> end, std::string server, Serve serve);

  void answer(const RpcCall& call, const RpcAnswer& answer, Duration later = {});
  void reset() { end_->reset(); }
  std::string peer_host() const { return end_->peer_host(); }

 private:
  RpcConnection(World& world, std::shared_ptr<End> end, std::string server, Serve serve)
      : world_(world), end_(std::move(end)), server_(std::move(server)), serve_(std::move(serve)) {}

  void arrived();
  void take(std::string_view frame);

  World& world_;
  const std::shared_ptr<End> end_;
  const std::string server_;
  const Serve serve_;
  bool has_preamble_ = false;
  bool has_context_ = false;
};

}  // namespace hflush::sim
