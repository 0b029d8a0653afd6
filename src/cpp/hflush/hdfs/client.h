// Client: one user's connection to one HDFS, shared by the streams and calls of a FileSystem.
//
// Owns the RPC client, the lease renewal and idle connections; open_for_write.h makes streams of
// it, read/hdfs_source.h readers. Calls of the name space are `client.rpc().call(Request, path,
// interrupt)`. Thread-safe. Streams keep the client alive. Everything that waits can be
// interrupted.
#pragma once

#include <memory>
#include <optional>

#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/env/clock.h"
#include "hflush/env/host.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/process.h"
#include "hflush/hdfs/rpc/ask_visible_length.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {

class DatanodeConnections;  // read/datanode_connections.h
struct ReadContext;         // read/read_context.h
class LeaseRenewer;         // rpc/lease_renewer.h

class Client : public std::enable_shared_from_this<Client> {
 public:
  static Result<std::shared_ptr<Client>> make(
      Settings settings, const env::Host& host = env::Process::current().host());
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Settings& settings() const noexcept { return settings_; }
  const env::Host& host() const noexcept { return host_; }
  RpcClient& rpc() noexcept { return *rpc_; }
  LeaseRenewer& leases() noexcept { return *leases_; }
  DatanodeConnections& connections() noexcept { return *connections_; }
  const AskVisibleLength& ask_visible_length() const noexcept { return ask_visible_length_; }

  ReadContext read_context();                                         // keeps this client alive
  Result<ServerDefaults> server_defaults(env::Interrupt& interrupt);  // cached

 private:
  Client(Settings settings, const env::Host& host);

  const Settings settings_;
  const env::Host host_;
  const AskVisibleLength ask_visible_length_;
  std::shared_ptr<RpcClient> rpc_;
  std::shared_ptr<LeaseRenewer> leases_;
  std::shared_ptr<DatanodeConnections> connections_;

  // Never held across a call to the NameNode.
  Mutex mutex_;
  std::optional<ServerDefaults> defaults_ HFLUSH_GUARDED_BY(mutex_);
  env::TimePoint defaults_until_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::hdfs
