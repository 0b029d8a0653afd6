// Client: one user's connection to one HDFS, shared by the streams and calls of a FileSystem.
//
// Owns the RPC client, the lease renewal and the statistics; makes streams and readers. Calls of
// the name space are `client.rpc().call(Request, path, interrupt)`. Thread-safe. Streams keep the
// client alive. Everything that waits can be interrupted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/env/clock.h"
#include "hflush/env/host.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/process.h"
#include "hflush/hdfs/rpc/ask_visible_length.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/write_stream.h"
#include "hflush/stream/output_stream.h"
#include "hflush/stream/source.h"

namespace hflush::hdfs {

class DatanodeConnections;  // read/datanode_connections.h
struct ReadContext;         // read/read_context.h
class LeaseRenewer;         // rpc/lease_renewer.h

// What create() may say beside the path; what is missing comes from the settings.
struct CreateOptions {
  bool overwrite = true;
  bool create_parent = true;
  std::uint32_t masked = 0644;
  std::uint32_t unmasked = 0666;
  std::optional<std::uint32_t> replication;
  std::optional<std::uint64_t> block_size;
  std::optional<crc::Kind> checksum;
  std::optional<std::uint32_t> bytes_per_checksum;
  bool sync_block = false;     // CreateFlag SYNC_BLOCK
  bool update_length = false;  // hsync tells the NameNode the length (SyncFlag UPDATE_LENGTH)
  bool lazy_persist = false;
  bool no_local_write = false;
  bool ignore_client_locality = false;
  bool should_replicate = false;
  std::vector<std::string> favored_nodes;
  std::string storage_policy;
  std::string ec_policy;
};

// What append() may say beside the path.
struct AppendOptions {
  bool new_block = false;  // CreateFlag NEW_BLOCK
  bool sync_block = false;
  bool update_length = false;
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  static Result<std::shared_ptr<Client>> make(
      Settings settings, const env::Host& host = env::Process::current().host());
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Settings& settings() const noexcept { return settings_; }
  RpcClient& rpc() noexcept { return *rpc_; }
  LeaseRenewer& leases() noexcept { return *leases_; }
  DatanodeConnections& connections() noexcept { return *connections_; }

  ReadContext read_context();                                         // keeps this client alive
  Result<ServerDefaults> server_defaults(env::Interrupt& interrupt);  // cached

  Result<std::unique_ptr<stream::OutputStream>> create(const std::string& path,
                                                       const CreateOptions& options,
                                                       env::Interrupt& interrupt);
  Result<std::unique_ptr<stream::OutputStream>> append(const std::string& path,
                                                       const AppendOptions& options,
                                                       env::Interrupt& interrupt);
  Result<std::unique_ptr<stream::Source>> open(const std::string& path, bool verify_checksum,
                                               env::Interrupt& interrupt);

 private:
  struct Appendable {
    WriteTarget target;
    std::string name_space;
  };

  Client(Settings settings, const env::Host& host);

  std::unique_ptr<stream::OutputStream> stream_of(WriteTarget target, std::string name_space);
  void close_unclaimed(const std::string& path, const std::optional<ExtendedBlock>& last,
                       std::uint64_t file_id, const std::string& name_space);
  Result<FileStatus> create_file(Create request, env::Interrupt& interrupt);
  Status check_replacement(const Create& request, env::Interrupt& interrupt);
  Status check_storage_policy(const Create& request, env::Interrupt& interrupt);
  Result<FileStatus> call_create(const Create& request, env::Interrupt& interrupt);
  Result<Append::Response> call_append(const Append& request, env::Interrupt& interrupt);
  Status describe(Append::Response appended, const AppendOptions& options, Appendable& file,
                  env::Interrupt& interrupt);
  Status describe_last_block(WriteTarget& target, ChecksumParameters& checksum,
                             env::Interrupt& interrupt);

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
