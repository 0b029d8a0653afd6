// HDFS: one client, its name space and its files. Every function converts, gives the GIL up, makes
// one call of the core and converts back; while it waits, Python's signal handlers run.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attributes.h"
#include "errors.h"
#include "gil.h"
#include "hflush/env/own_process.h"
#include "hflush/hdfs/client.h"
#include "hflush/hdfs/open_for_write.h"
#include "hflush/hdfs/read/block_checksums.h"
#include "hflush/hdfs/read/hdfs_source.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/rpc/lease_renewer.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "opened_stream.h"
#include "register.h"
#include "signals.h"
#include "statistics.h"
#include "text.h"
#include "tokens.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using hdfs::Client;
using hdfs::FileStatus;
using hdfs::LocatedBlock;

// A native client, made when it is needed first, and again in a forked child: the parent's
// connections, locks and leases are not the child's. Used with the GIL.
class HdfsClient {
 public:
  explicit HdfsClient(hdfs::Settings settings) : settings_(std::move(settings)) {}
  ~HdfsClient() { close(); }
  HdfsClient(const HdfsClient&) = delete;
  HdfsClient& operator=(const HdfsClient&) = delete;

  std::shared_ptr<Client> client() {
    if (client_.here() == nullptr) {
      hdfs::Settings settings = settings_;
      settings.client_name = hdfs::make_client_name(settings.task_attempt);
      client_ = env::OwnProcess(value(Client::make(std::move(settings))));
    }
    return client_.shared();
  }

  // The client that exists in this process, if one does.
  std::shared_ptr<Client> existing() const { return client_.shared(); }

  // Releases the client; open files keep it, and the next call makes another one.
  void close() {
    env::OwnProcess<Client> closing = std::move(client_);
    const ReleasedGil released;
    closing = {};
  }

 private:
  const hdfs::Settings settings_;
  env::OwnProcess<Client> client_;
};

template <hdfs::Request T>
// clang 14 wants it.
// NOLINTNEXTLINE(readability-redundant-typename)
typename T::Response ask(HdfsClient& self, const T& request, const std::string& path) {
  const std::shared_ptr<Client> client = self.client();
  return value(
      waiting([&](SignalCheck& signals) { return client->rpc().call(request, path, signals); }));
}

// --- what the name space says

std::string_view kind_of(const FileStatus& status) noexcept {
  switch (status.kind) {
    case hdfs::FileKind::kDirectory:
      return "directory";
    case hdfs::FileKind::kSymlink:
      return "symlink";
    case hdfs::FileKind::kFile:
      break;
  }
  return "file";
}

std::string_view name_of(hdfs::StorageType type) noexcept {
  switch (type) {
    case hdfs::StorageType::kSsd:
      return "SSD";
    case hdfs::StorageType::kArchive:
      return "ARCHIVE";
    case hdfs::StorageType::kRamDisk:
      return "RAM_DISK";
    case hdfs::StorageType::kProvided:
      return "PROVIDED";
    case hdfs::StorageType::kNvdimm:
      return "NVDIMM";
    case hdfs::StorageType::kDisk:
      break;
  }
  return "DISK";
}

// (offset, length, hosts, names, topology paths, cached hosts, storage types, is corrupt)
py::tuple location_of(const LocatedBlock& block) {
  py::list hosts;
  py::list names;
  py::list topology_paths;
  py::list cached_hosts;
  py::list storage_types;
  for (std::size_t i = 0; i < block.replicas.size(); ++i) {
    const hdfs::Replica& replica = block.replicas[i];
    const std::string address = replica.node.transfer_address();
    hosts.append(from_utf8(replica.node.host));
    names.append(from_utf8(address));
    topology_paths.append(from_utf8(replica.node.location + "/" + address));
    storage_types.append(name_of(replica.storage_type));
    if (i < block.cached.size() && block.cached[i])
      cached_hosts.append(from_utf8(replica.node.host));
  }
  return py::make_tuple(block.offset, block.block.length, py::tuple(hosts), py::tuple(names),
                        py::tuple(topology_paths), py::tuple(cached_hosts),
                        py::tuple(storage_types), block.corrupt);
}

py::list locations_of(const hdfs::LocatedBlocks& located) {
  py::list locations;
  for (const LocatedBlock& block : located.blocks) locations.append(location_of(block));
  return locations;
}

void register_status(py::module_& module) {
  constexpr std::uint32_t kHasAcl = 1;
  py::class_<FileStatus>(module, "HdfsFileStatus", py::is_final())
      .def_property_readonly("name", [](const FileStatus& self) { return from_utf8(self.name); })
      .def_property_readonly("kind", &kind_of)
      .def_readonly("length", &FileStatus::length)
      .def_readonly("permission", &FileStatus::permission)
      .def_property_readonly("owner", [](const FileStatus& self) { return from_utf8(self.owner); })
      .def_property_readonly("group", [](const FileStatus& self) { return from_utf8(self.group); })
      .def_readonly("modification_time", &FileStatus::modification_time)
      .def_readonly("access_time", &FileStatus::access_time)
      .def_readonly("replication", &FileStatus::replication)
      .def_readonly("block_size", &FileStatus::block_size)
      .def_readonly("file_id", &FileStatus::file_id)
      .def_readonly("is_encrypted", &FileStatus::encrypted)
      .def_readonly("is_erasure_coded", &FileStatus::erasure_coded)
      .def_property_readonly("has_acl",
                             [](const FileStatus& self) { return (self.flags & kHasAcl) != 0; })
      .def_property_readonly("locations", [](const FileStatus& self) -> py::object {
        if (!self.locations) return py::none();
        return locations_of(*self.locations);
      });
}

// --- the name space

std::optional<FileStatus> status(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  return ask(self, hdfs::GetFileInfo{at}, at);
}

// (entries, how many remain), or None if there is nothing.
py::object list_page(HdfsClient& self, const py::str& path, const py::str& start_after,
                     bool located) {
  const std::string at = to_utf8(path);
  auto page = ask(self, hdfs::GetListing{at, to_utf8(start_after), located}, at);
  if (!page) return py::none();
  py::list entries;
  for (FileStatus& entry : page->entries) entries.append(py::cast(std::move(entry)));
  return py::make_tuple(entries, page->remaining);
}

bool mkdirs(HdfsClient& self, const py::str& path, std::uint32_t masked, std::uint32_t unmasked,
            bool create_parent) {
  const std::string at = to_utf8(path);
  return ask(self, hdfs::Mkdirs{at, masked, unmasked, create_parent}, at);
}

bool remove(HdfsClient& self, const py::str& path, bool recursive) {
  const std::string at = to_utf8(path);
  return ask(self, hdfs::Delete{at, recursive}, at);
}

bool rename(HdfsClient& self, const py::str& source, const py::str& destination) {
  const std::string from = to_utf8(source);
  return ask(self, hdfs::Rename{from, to_utf8(destination)}, from);
}

void rename_exact(HdfsClient& self, const py::str& source, const py::str& destination,
                  bool overwrite, bool to_trash) {
  const std::string from = to_utf8(source);
  ask(self, hdfs::Rename2{from, to_utf8(destination), overwrite, to_trash}, from);
}

// Who holds a file that is recovered. Under this client's own name it would be renewed with its
// other files, for ever if recovery fails.
std::string recovery_holder(HdfsClient& self) {
  return hdfs::recovery_name(self.client()->settings().client_name);
}

bool truncate(HdfsClient& self, const py::str& path, std::uint64_t length) {
  const std::string at = to_utf8(path);
  return ask(self, hdfs::Truncate{at, length, recovery_holder(self)}, at);
}

void concat(HdfsClient& self, const py::str& path, const std::vector<py::str>& sources) {
  hdfs::Concat request{to_utf8(path), {}};
  for (const py::str& source : sources) request.sources.push_back(to_utf8(source));
  ask(self, request, request.target);
}

void set_permission(HdfsClient& self, const py::str& path, std::uint32_t permission) {
  const std::string at = to_utf8(path);
  ask(self, hdfs::SetPermission{at, permission}, at);
}

void set_owner(HdfsClient& self, const py::str& path, const std::optional<py::str>& owner,
               const std::optional<py::str>& group) {
  hdfs::SetOwner request{to_utf8(path), {}, {}};
  if (owner) request.owner = to_utf8(*owner);
  if (group) request.group = to_utf8(*group);
  ask(self, request, request.path);
}

void set_times(HdfsClient& self, const py::str& path, std::int64_t modification_time,
               std::int64_t access_time) {
  const std::string at = to_utf8(path);
  ask(self, hdfs::SetTimes{at, modification_time, access_time}, at);
}

bool set_replication(HdfsClient& self, const py::str& path, std::uint32_t replication) {
  const std::string at = to_utf8(path);
  return ask(self, hdfs::SetReplication{at, replication}, at);
}

void set_storage_policy(HdfsClient& self, const py::str& path, const py::str& policy) {
  const std::string at = to_utf8(path);
  ask(self, hdfs::SetStoragePolicy{at, to_utf8(policy)}, at);
}

void set_quota(HdfsClient& self, const py::str& path, std::optional<std::int64_t> names,
               std::optional<std::int64_t> space) {
  hdfs::SetQuota request;
  request.path = to_utf8(path);
  if (names) request.name_quota = *names;
  if (space) request.space_quota = *space;
  ask(self, request, request.path);
}

// (length, files, directories, space consumed, quota, space quota)
py::tuple content_summary(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  const hdfs::ContentSummary summary = ask(self, hdfs::GetContentSummary{at}, at);
  return py::make_tuple(summary.length, summary.file_count, summary.directory_count,
                        summary.space_consumed, summary.quota, summary.space_quota);
}

py::list block_locations(HdfsClient& self, const py::str& path, std::uint64_t start,
                         std::uint64_t length) {
  const std::string at = to_utf8(path);
  const auto located = ask(self, hdfs::GetBlockLocations{at, start, length}, at);
  return located ? locations_of(*located) : py::list();
}

// (name, addresses of its replicas, whether it is complete), or None: the file has no block.
py::object last_block(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  const auto located = ask(self, hdfs::GetBlockLocations{at, 0, 1}, at);
  if (!located || !located->last_block) return py::none();
  std::vector<std::string> nodes;
  for (const hdfs::Replica& replica : located->last_block->replicas) {
    nodes.push_back(replica.node.transfer_address());
  }
  return py::make_tuple(located->last_block->block.to_string(), nodes,
                        located->last_block_complete);
}

// Of the last block; empty: the file has no block.
std::string block_pool(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  const auto located = ask(self, hdfs::GetBlockLocations{at, 0, 1}, at);
  return located && located->last_block ? located->last_block->block.pool : std::string();
}

// (files, cookie of the next page)
py::tuple corrupt_files(HdfsClient& self, const py::str& path, const std::string& cookie) {
  const std::string at = to_utf8(path);
  const auto page = ask(self, hdfs::ListCorruptFileBlocks{at, cookie}, at);
  py::list files;
  for (const std::string& file : page.files) files.append(from_utf8(file));
  return py::make_tuple(files, page.cookie);
}

// None: the path is in no encryption zone.
py::object encryption_zone(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  const std::optional<std::string> root = ask(self, hdfs::GetEZForPath{at}, at);
  if (!root) return py::none();
  return from_utf8(*root);
}

py::str enclosing_root(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  return from_utf8(ask(self, hdfs::GetEnclosingRoot{at}, at));
}

// --- the file system

// (capacity, used, remaining)
py::tuple fs_status(HdfsClient& self) {
  const hdfs::FsStats stats = ask(self, hdfs::GetFsStats{}, "");
  return py::make_tuple(stats.capacity, stats.used, stats.remaining);
}

constexpr Named<crc::Kind> kChecksums[] = {
    {"CRC32", crc::Kind::kCrc32},
    {"CRC32C", crc::Kind::kCrc32c},
    {"NULL", crc::Kind::kNone},
};

constexpr Named<hdfs::ReplacementPolicy> kReplacementPolicies[] = {
    {"NEVER", hdfs::ReplacementPolicy::kNever},
    {"DEFAULT", hdfs::ReplacementPolicy::kDefault},
    {"ALWAYS", hdfs::ReplacementPolicy::kAlways},
};

std::string_view name_of(crc::Kind kind) noexcept {
  return std::ranges::find(kChecksums, kind, &Named<crc::Kind>::value)->name;
}

crc::Kind kind_named(std::string_view name) {
  const auto found = std::ranges::find(kChecksums, name, &Named<crc::Kind>::name);
  if (found == std::end(kChecksums)) {
    throw py::value_error("no such checksum type: '" + std::string(name) + "'");
  }
  return found->value;
}

py::dict server_defaults(HdfsClient& self) {
  const std::shared_ptr<Client> client = self.client();
  const hdfs::ServerDefaults defaults =
      value(waiting([&](SignalCheck& signals) { return client->server_defaults(signals); }));
  py::dict values;
  values["block_size"] = defaults.block_size;
  values["bytes_per_checksum"] = defaults.bytes_per_checksum;
  values["write_packet_size"] = defaults.write_packet_size;
  values["file_buffer_size"] = defaults.file_buffer_size;
  values["replication"] = defaults.replication;
  values["checksum_type"] = name_of(defaults.checksum);
  values["encrypt_data_transfer"] = defaults.encrypt_data_transfer;
  values["trash_interval"] = defaults.trash_interval_minutes;
  return values;
}

// Of the active NameNode, whichever is asked first.
bool set_safe_mode(HdfsClient& self, int action) {
  return ask(self, hdfs::SetSafeMode{static_cast<hdfs::SafeModeAction>(action), true}, "");
}

void msync(HdfsClient& self) { ask(self, hdfs::Msync{}, ""); }

py::dict statistics(HdfsClient& self) {
  Statistics counted;
  if (const std::shared_ptr<Client> client = self.existing()) {
    client->rpc().add_statistics(counted);
    counted["lease_renewals"] = client->leases().renewals();
  }
  return to_dict(counted);
}

// --- leases

bool recover_lease(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  return ask(self, hdfs::RecoverLease{at, recovery_holder(self)}, at);
}

bool is_file_closed(HdfsClient& self, const py::str& path) {
  const std::string at = to_utf8(path);
  return ask(self, hdfs::IsFileClosed{at}, at);
}

// --- delegation tokens

// Without a service: who asks knows by which name it reaches the NameNode. None: there is none.
py::object delegation_token(HdfsClient& self, const std::string& renewer) {
  const std::optional<hdfs::Token> given = ask(self, hdfs::GetDelegationToken{renewer}, "");
  if (!given) return py::none();
  return to_tuple(value(hdfs::sasl::from_wire(*given)));
}

std::int64_t renew_delegation_token(HdfsClient& self, const py::tuple& token) {
  return ask(self, hdfs::RenewDelegationToken{hdfs::sasl::to_wire(to_token(token))}, "");
}

void cancel_delegation_token(HdfsClient& self, const py::tuple& token) {
  ask(self, hdfs::CancelDelegationToken{hdfs::sasl::to_wire(to_token(token))}, "");
}

// --- files

// A stream that was opened when a signal had come already has no owner: its file is closed, as it
// is, and the handler's exception is raised.
py::object made_stream(const py::type& stream_type, hdfs::StreamResult&& opened) {
  if (opened.ok() && PyErr_CheckSignals() != 0) {
    py::error_already_set interrupted;
    static_cast<void>(waiting([&](SignalCheck& signals) { return (*opened)->close(signals); }));
    PyErr_Clear();
    interrupted.restore();
    throw py::error_already_set();
  }
  return make_stream(stream_type, std::move(opened));
}

py::object create(HdfsClient& self, const py::type& stream_type, const py::str& path,
                  const hdfs::CreateOptions& options) {
  const std::shared_ptr<Client> client = self.client();
  return made_stream(stream_type, waiting([&, at = to_utf8(path)](SignalCheck& signals) {
                       return hdfs::create(*client, at, options, signals);
                     }));
}

py::object append(HdfsClient& self, const py::type& stream_type, const py::str& path,
                  const hdfs::AppendOptions& options) {
  const std::shared_ptr<Client> client = self.client();
  return made_stream(stream_type, waiting([&, at = to_utf8(path)](SignalCheck& signals) {
                       return hdfs::append(*client, at, options, signals);
                     }));
}

std::unique_ptr<stream::Source> open(HdfsClient& self, const py::str& path, bool verify) {
  const std::shared_ptr<Client> client = self.client();
  return value(waiting([&, at = to_utf8(path)](SignalCheck& signals) {
    return hdfs::HdfsSource::open(client->read_context(), at, verify, signals);
  }));
}

// By block: (bytes, bytes per sum, sums per block, MD5 or CRC, checksum type).
py::list block_checksums(HdfsClient& self, const py::str& path, std::uint64_t length,
                         bool composite) {
  using hdfs::BlockChecksumType;
  const auto type = composite ? BlockChecksumType::kCompositeCrc : BlockChecksumType::kMd5Crc;
  const std::shared_ptr<Client> client = self.client();
  const auto sums = value(waiting([&, at = to_utf8(path)](SignalCheck& signals) {
    return hdfs::block_checksums(client->read_context(), at, length, type, signals);
  }));
  py::list blocks;
  for (const hdfs::BlockChecksum& sum : sums) {
    blocks.append(py::make_tuple(sum.size, sum.bytes_per_crc, sum.crcs_per_block,
                                 py::bytes(sum.checksum), name_of(sum.kind)));
  }
  return blocks;
}

// --- settings and options

using Pauses = std::vector<std::pair<double, int>>;

Pauses retry_policy_of(const hdfs::RpcSettings& self) {
  Pauses pauses;
  pauses.reserve(self.retry_policy.size());
  for (const auto& [pause, attempts] : self.retry_policy) {
    pauses.emplace_back(seconds_of(pause), attempts);
  }
  return pauses;
}

void set_retry_policy(hdfs::RpcSettings& self, const Pauses& pauses) {
  self.retry_policy.clear();
  for (const auto& [pause, attempts] : pauses) {
    self.retry_policy.emplace_back(duration_of(pause), attempts);
  }
}

using Address = std::pair<std::string, std::uint16_t>;

std::vector<Address> name_nodes_of(const hdfs::Settings& self) {
  std::vector<Address> addresses;
  addresses.reserve(self.name_nodes.size());
  for (const env::Endpoint& node : self.name_nodes) addresses.emplace_back(node.host, node.port);
  return addresses;
}

void set_name_nodes(hdfs::Settings& self, const std::vector<Address>& addresses) {
  self.name_nodes.clear();
  for (const auto& [host, port] : addresses) self.name_nodes.push_back({host, port});
}

py::list tokens_of(const hdfs::Settings& self) {
  py::list tokens;
  for (const hdfs::sasl::Token& token : self.tokens) tokens.append(to_tuple(token));
  return tokens;
}

void set_tokens(hdfs::Settings& self, const std::vector<py::tuple>& tokens) {
  self.tokens.clear();
  for (const py::tuple& token : tokens) self.tokens.push_back(to_token(token));
}

constexpr hdfs::sasl::Protection kProtections[] = {hdfs::sasl::Protection::kAuth,
                                                   hdfs::sasl::Protection::kAuthInt,
                                                   hdfs::sasl::Protection::kAuthConf};

std::vector<std::string> protections_of(const hdfs::RpcSettings& self) {
  std::vector<std::string> words;
  words.reserve(self.protections.size());
  for (const auto protection : self.protections) words.emplace_back(hadoop_name(protection));
  return words;
}

void set_protections(hdfs::RpcSettings& self, const std::vector<std::string>& words) {
  std::vector<hdfs::sasl::Protection> wanted;
  for (const std::string& word : words) {
    const auto found = std::ranges::find_if(
        kProtections, [&](auto protection) { return hadoop_name(protection) == word; });
    if (found == std::end(kProtections)) throw py::value_error("no such protection: " + word);
    wanted.push_back(*found);
  }
  if (wanted.empty()) throw py::value_error("at least one protection is needed");
  self.protections = std::move(wanted);
}

void register_rpc_settings(py::module_& module) {
  using hdfs::RpcSettings;
  py::class_<RpcSettings> type(module, "HdfsRpcSettings", py::is_final());
  const auto add = [&type](const char* name, auto of) { attribute(type, name, of); };
  add("connect_timeout", &RpcSettings::connect_timeout);
  add("connect_retries", &RpcSettings::connect_retries);
  add("connect_retries_on_timeouts", &RpcSettings::connect_retries_on_timeouts);
  add("connect_retry_interval", &RpcSettings::connect_retry_interval);
  add("rpc_timeout", &RpcSettings::rpc_timeout);
  add("ping", &RpcSettings::ping);
  add("ping_interval", &RpcSettings::ping_interval);
  add("idle_time", &RpcSettings::idle_time);
  add("max_response_bytes", &RpcSettings::max_response_bytes);
  add("max_request_bytes", &RpcSettings::max_request_bytes);
  add("tcp_no_delay", &RpcSettings::tcp_no_delay);
  add("requires_authentication", &RpcSettings::requires_authentication);
  add("fallback_to_simple", &RpcSettings::fallback_to_simple);
  type.def_property("protections", &protections_of, &set_protections);
  add("max_failovers", &RpcSettings::max_failovers);
  add("max_retries", &RpcSettings::max_retries);
  add("failover_base", &RpcSettings::failover_base);
  add("failover_cap", &RpcSettings::failover_cap);
  add("failover_connect_retries", &RpcSettings::failover_connect_retries);
  add("failover_connect_retries_on_timeouts", &RpcSettings::failover_connect_retries_on_timeouts);
  add("random_order", &RpcSettings::random_order);
  add("retry_policy_enabled", &RpcSettings::retry_policy_enabled);
  type.def_property("retry_policy", &retry_policy_of, &set_retry_policy);
}

void register_write_settings(py::module_& module) {
  using hdfs::WriteSettings;
  py::class_<WriteSettings> type(module, "HdfsWriteSettings", py::is_final());
  const auto add = [&type](const char* name, auto of) { attribute(type, name, of); };
  add("block_size", &WriteSettings::block_size);
  add("replication", &WriteSettings::replication);
  choice(type, "checksum", &WriteSettings::checksum, kChecksums);
  add("bytes_per_checksum", &WriteSettings::bytes_per_checksum);
  add("packet_size", &WriteSettings::packet_size);
  add("max_packet_size", &WriteSettings::max_packet_size);
  add("max_packets_in_flight", &WriteSettings::max_packets_in_flight);
  add("socket_timeout", &WriteSettings::socket_timeout);
  add("socket_write_timeout", &WriteSettings::socket_write_timeout);
  add("send_buffer_bytes", &WriteSettings::send_buffer_bytes);
  add("tcp_no_delay", &WriteSettings::tcp_no_delay);
  add("use_datanode_hostname", &WriteSettings::use_datanode_hostname);
  add("block_write_retries", &WriteSettings::block_write_retries);
  add("locate_following_block_retries", &WriteSettings::locate_following_block_retries);
  add("locate_initial_delay", &WriteSettings::locate_initial_delay);
  add("locate_max_delay", &WriteSettings::locate_max_delay);
  add("complete_first_delay", &WriteSettings::complete_first_delay);
  add("name_node_patience", &WriteSettings::name_node_patience);
  add("silence_probe", &WriteSettings::silence_probe);
  add("excluded_nodes_expiry", &WriteSettings::excluded_nodes_expiry);
  add("congestion_backoff_mean", &WriteSettings::congestion_backoff_mean);
  add("congestion_backoff_max", &WriteSettings::congestion_backoff_max);
  add("pipeline_recovery_retries", &WriteSettings::pipeline_recovery_retries);
  add("datanode_restart_timeout", &WriteSettings::datanode_restart_timeout);
  add("slow_node_threshold", &WriteSettings::slow_node_threshold);
  add("replace_datanode", &WriteSettings::replace_datanode);
  choice(type, "replacement_policy", &WriteSettings::replacement_policy, kReplacementPolicies);
  add("replacement_best_effort", &WriteSettings::replacement_best_effort);
  add("replacement_min_replication", &WriteSettings::replacement_min_replication);
  add("drop_behind", &WriteSettings::drop_behind);
  add("recover_lease_on_close_failure", &WriteSettings::recover_lease_on_close_failure);
}

void register_read_settings(py::module_& module) {
  using hdfs::ReadSettings;
  py::class_<ReadSettings> type(module, "HdfsReadSettings", py::is_final());
  const auto add = [&type](const char* name, auto of) { attribute(type, name, of); };
  add("prefetch_bytes", &ReadSettings::prefetch_bytes);
  add("max_block_acquire_failures", &ReadSettings::max_block_acquire_failures);
  add("retry_window", &ReadSettings::retry_window);
  add("last_block_length_retries", &ReadSettings::last_block_length_retries);
  add("last_block_length_interval", &ReadSettings::last_block_length_interval);
  add("max_packet_size", &ReadSettings::max_packet_size);
  add("socket_cache_capacity", &ReadSettings::socket_cache_capacity);
  add("socket_cache_expiry", &ReadSettings::socket_cache_expiry);
  add("cached_connection_retries", &ReadSettings::cached_connection_retries);
  add("drop_behind", &ReadSettings::drop_behind);
  add("readahead_bytes", &ReadSettings::readahead_bytes);
  add("socket_timeout", &ReadSettings::socket_timeout);
  add("use_datanode_hostname", &ReadSettings::use_datanode_hostname);
}

void register_settings(py::module_& module) {
  using hdfs::Settings;
  register_rpc_settings(module);
  register_write_settings(module);
  register_read_settings(module);
  py::class_<Settings> type(module, "HdfsSettings", py::is_final());
  type.def(py::init<>());
  const auto add = [&type](const char* name, auto of) { attribute(type, name, of); };
  add("user", &Settings::user);
  add("real_user", &Settings::real_user);
  type.def_property("tokens", &tokens_of, &set_tokens);
  add("token_file", &Settings::token_file);
  add("task_attempt", &Settings::task_attempt);
  add("service", &Settings::service);
  type.def_property("name_nodes", &name_nodes_of, &set_name_nodes);
  add("unknown_host_hint", &Settings::unknown_host_hint);
  add("lease_hard_limit", &Settings::lease_hard_limit);
  add("server_defaults_validity", &Settings::server_defaults_validity);
  type.def_readonly("rpc", &Settings::rpc)
      .def_readonly("write", &Settings::write)
      .def_readonly("read", &Settings::read);
}

void register_write_options(py::module_& module) {
  using hdfs::AppendOptions;
  using hdfs::CreateOptions;
  using hdfs::WriteOptions;
  py::class_<WriteOptions>(module, "HdfsWriteOptions")
      .def_readwrite("sync_block", &WriteOptions::sync_block)
      .def_readwrite("update_length", &WriteOptions::update_length)
      .def_readwrite("no_local_write", &WriteOptions::no_local_write)
      .def_readwrite("ignore_client_locality", &WriteOptions::ignore_client_locality)
      .def_readwrite("favored_nodes", &WriteOptions::favored_nodes);
  py::class_<AppendOptions, WriteOptions>(module, "HdfsAppendOptions", py::is_final())
      .def(py::init<>())
      .def_readwrite("new_block", &AppendOptions::new_block);
  py::class_<CreateOptions, WriteOptions>(module, "HdfsCreateOptions", py::is_final())
      .def(py::init<>())
      .def_readwrite("overwrite", &CreateOptions::overwrite)
      .def_readwrite("create_parent", &CreateOptions::create_parent)
      .def_readwrite("masked", &CreateOptions::masked)
      .def_readwrite("unmasked", &CreateOptions::unmasked)
      .def_readwrite("replication", &CreateOptions::replication)
      .def_readwrite("block_size", &CreateOptions::block_size)
      .def_property(
          "checksum",
          [](const CreateOptions& self) -> std::optional<std::string_view> {
            if (!self.checksum) return std::nullopt;
            return name_of(*self.checksum);
          },
          [](CreateOptions& self, std::optional<std::string> name) {
            self.checksum.reset();
            if (name) self.checksum = kind_named(*name);
          })
      .def_readwrite("bytes_per_checksum", &CreateOptions::bytes_per_checksum)
      .def_readwrite("lazy_persist", &CreateOptions::lazy_persist)
      .def_readwrite("should_replicate", &CreateOptions::should_replicate)
      .def_readwrite("storage_policy", &CreateOptions::storage_policy)
      .def_readwrite("ec_policy", &CreateOptions::ec_policy);
}

void add_name_space(py::class_<HdfsClient>& type) {
  type.def("status", &status, py::arg("path"))
      .def("list_page", &list_page, py::arg("path"), py::arg("start_after"), py::arg("located"))
      .def("mkdirs", &mkdirs, py::arg("path"), py::arg("masked"), py::arg("unmasked"),
           py::arg("create_parent"))
      .def("delete", &remove, py::arg("path"), py::arg("recursive"))
      .def("rename", &rename, py::arg("source"), py::arg("destination"))
      .def("rename_exact", &rename_exact, py::arg("source"), py::arg("destination"),
           py::arg("overwrite"), py::arg("to_trash") = false)
      .def("truncate", &truncate, py::arg("path"), py::arg("length"))
      .def("concat", &concat, py::arg("path"), py::arg("sources"))
      .def("set_permission", &set_permission, py::arg("path"), py::arg("permission"))
      .def("set_owner", &set_owner, py::arg("path"), py::arg("owner"), py::arg("group"))
      .def("set_times", &set_times, py::arg("path"), py::arg("modification_time"),
           py::arg("access_time"))
      .def("set_replication", &set_replication, py::arg("path"), py::arg("replication"))
      .def("set_storage_policy", &set_storage_policy, py::arg("path"), py::arg("policy"))
      .def("set_quota", &set_quota, py::arg("path"), py::arg("names"), py::arg("space"))
      .def("content_summary", &content_summary, py::arg("path"))
      .def("block_locations", &block_locations, py::arg("path"), py::arg("start"),
           py::arg("length"))
      .def("last_block", &last_block, py::arg("path"))
      .def("block_pool", &block_pool, py::arg("path"))
      .def("corrupt_files", &corrupt_files, py::arg("path"), py::arg("cookie"))
      .def("encryption_zone", &encryption_zone, py::arg("path"))
      .def("enclosing_root", &enclosing_root, py::arg("path"))
      .def("recover_lease", &recover_lease, py::arg("path"))
      .def("is_file_closed", &is_file_closed, py::arg("path"));
}

}  // namespace

void register_hdfs(py::module_& module) {
  register_status(module);
  register_settings(module);
  register_write_options(module);

  py::class_<HdfsClient> type(module, "HdfsClient", py::is_final());
  type.def(py::init<hdfs::Settings>(), py::arg("settings"));
  add_name_space(type);
  type.def("fs_status", &fs_status)
      .def("server_defaults", &server_defaults)
      .def("set_safe_mode", &set_safe_mode, py::arg("action"))
      .def("msync", &msync)
      .def("statistics", &statistics)
      .def("delegation_token", &delegation_token, py::arg("renewer"))
      .def("renew_delegation_token", &renew_delegation_token, py::arg("token"))
      .def("cancel_delegation_token", &cancel_delegation_token, py::arg("token"))
      .def("create", &create, py::arg("stream_type"), py::arg("path"), py::arg("options"))
      .def("append", &append, py::arg("stream_type"), py::arg("path"), py::arg("options"))
      .def("open", &open, py::arg("path"), py::arg("verify"))
      .def("block_checksums", &block_checksums, py::arg("path"), py::arg("length"),
           py::arg("composite"))
      .def("close", &HdfsClient::close);
}

}  // namespace hflush::bindings
