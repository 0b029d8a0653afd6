#include "hflush/hdfs/client.h"

#include <utility>

#include "hflush/hdfs/read/datanode_connections.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/rpc/lease_renewer.h"

namespace hflush::hdfs {

Client::Client(Settings settings, const env::Host& host)
    : settings_(std::move(settings)),
      host_(host),
      ask_visible_length_(ask_datanode(settings_, host_)) {
  RpcTarget target;
  target.servers = settings_.name_nodes;
  target.name = settings_.service;
  target.real_user = settings_.real_user;
  target.tokens = std::make_shared<sasl::TokenFile>(settings_.tokens, settings_.token_file);
  target.unknown_host_hint = settings_.unknown_host_hint;
  rpc_ = RpcClient::make(host_, target, settings_.user, settings_.rpc);
  leases_ = LeaseRenewer::make(host_.loop, rpc_, settings_.client_name, settings_.rpc.rpc_timeout,
                               settings_.lease_hard_limit);
  connections_ = DatanodeConnections::make(host_.loop, settings_.read.socket_cache_capacity,
                                           settings_.read.socket_cache_expiry);
}

Result<std::shared_ptr<Client>> Client::make(Settings settings, const env::Host& host) {
  if (settings.name_nodes.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "no NameNode is named for '" + settings.service + "'");
  }
  HFLUSH_RETURN_IF_ERROR(host.loop.start());
  return std::shared_ptr<Client>(new Client(std::move(settings), host));
}

Client::~Client() {
  leases_->close();
  rpc_->close();
}

Result<ServerDefaults> Client::server_defaults(env::Interrupt& interrupt) {
  const env::TimePoint now = host_.loop.clock().now();
  {
    MutexLock lock(mutex_);
    if (defaults_ && now < defaults_until_) return *defaults_;
  }
  HFLUSH_ASSIGN_OR_RETURN(const ServerDefaults defaults,
                          rpc_->call(GetServerDefaults{}, {}, interrupt));
  MutexLock lock(mutex_);
  defaults_ = defaults;
  defaults_until_ = env::deadline_after(now, settings_.server_defaults_validity);
  return defaults;
}

ReadContext Client::read_context() {
  return {.owner = shared_from_this(),
          .name_node = *rpc_,
          .connections = *connections_,
          .settings = settings_,
          .ask_visible_length = ask_visible_length_,
          .connector = host_.connector,
          .clock = host_.loop.clock(),
          .randomness = host_.randomness};
}

}  // namespace hflush::hdfs
