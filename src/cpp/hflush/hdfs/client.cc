#include "hflush/hdfs/client.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/ascii.h"
#include "hflush/env/answer.h"
#include "hflush/env/process.h"
#include "hflush/hdfs/read/block_locations.h"
#include "hflush/hdfs/read/datanode_connections.h"
#include "hflush/hdfs/read/hdfs_source.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/read/stored_checksum.h"
#include "hflush/hdfs/read/visible_length.h"
#include "hflush/hdfs/rpc/lease_renewer.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/remote_exception.h"
#include "hflush/hdfs/write/hdfs_sink.h"

namespace hflush::hdfs {
namespace {

// RetryStartFileException: the encryption zone changed meanwhile.
constexpr int kCreateAttempts = 11;
// RetriableException: the last block is not reported yet.
constexpr env::Duration kAppendPause = std::chrono::milliseconds(500);
constexpr env::Duration kAppendPatience = std::chrono::seconds(5);

Status check_sizes(std::string_view operation, const WriteTarget& target,
                   const WriteSettings& settings) {
  const std::string block = "block size " + std::to_string(target.block_size);
  const std::string chunk = "bytes per checksum " + std::to_string(target.bytes_per_checksum);
  const auto refuse = [&](const std::string& message) {
    return Status(StatusCode::kInvalidArgument, std::string(operation) + ": " + message,
                  target.path);
  };
  if (target.bytes_per_checksum == 0) return refuse(chunk);
  if (target.bytes_per_checksum + crc::kSumSize + PacketHeader::kMaxSize >
      settings.max_packet_size) {
    return refuse(chunk + " do not fit into a packet of " +
                  std::to_string(settings.max_packet_size));
  }
  if (target.block_size < target.bytes_per_checksum) {
    return refuse(block + " is less than " + chunk);
  }
  if (target.block_size % target.bytes_per_checksum != 0) {
    return refuse(block + " is not a multiple of " + chunk);
  }
  return {};
}

// What this client cannot write; empty if it can.
std::string_view unsupported_kind(const FileStatus& status) noexcept {
  if (status.erasure_coded) return "erasure-coded files cannot be written";
  if (status.encrypted) return "encrypted files cannot be written";
  return {};
}

Status unsupported(std::string_view operation, std::string_view why, const std::string& path) {
  return Status(StatusCode::kUnsupported, std::string(operation) + ": " + std::string(why), path);
}

// A file is there: create without OVERWRITE leaves it alone.
bool is_taken(const Status& refusal) noexcept {
  return refusal.code() == StatusCode::kAlreadyExists ||
         refusal.code() == StatusCode::kLeaseHeldExists;
}

// The policy that is none: replicas.
bool is_replication(std::string_view ec_policy) noexcept {
  return equals_ignoring_case(ec_policy, "replication");
}

bool is_closed(const Result<bool>& complete) noexcept { return complete.ok() && *complete; }

// Why an append failed whose file could not be written, and what became of the file.
Status not_appended(const Status& usable, const Result<bool>& closed, const std::string& path) {
  if (!closed.ok()) return usable.with_other(closed.status());
  const std::string_view what =
      *closed ? "; the file is as it was, but for its modification time"
              : "; the file is as it was, but open still: its last block has not enough replicas "
                "yet, recover_lease closes it";
  const Status reported(usable.code(), usable.message() + std::string(what), path,
                        usable.error_number());
  return usable.cause() == nullptr ? reported : reported.with_cause(*usable.cause());
}

// The failure of a call that opens a file, with what it may leave behind: without an answer that
// is not known.
Status maybe_open(const Status& failure) {
  const bool is_unanswered =
      failure.remote_class().empty() &&
      (failure.error_number() == ETIMEDOUT || failure.error_number() == ECONNRESET ||
       failure.error_number() == EPIPE);
  if (!is_unanswered) return failure;
  Status reported(
      failure.code(),
      failure.message() + "; the file may be open under this client's name: recover_lease frees it",
      failure.path(), failure.error_number());
  if (failure.cause() != nullptr) reported = reported.with_cause(*failure.cause());
  for (const Status& other : failure.others()) reported = reported.with_other(other);
  return reported;
}

constexpr std::string_view kInodes = "/.reserved/.inodes/";

std::string parent_of(const std::string& path) {
  if (path.starts_with(kInodes) && path.find('/', kInodes.size()) == std::string::npos) {
    return path + "/..";
  }
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

// Renews the lease of a file that is open and has no stream yet, or will have none.
class OpenFile final : public LeaseHolder {
 public:
  static std::shared_ptr<OpenFile> hold(std::shared_ptr<LeaseRenewer> leases, std::uint64_t file_id,
                                        const std::string& name_space) {
    std::shared_ptr<OpenFile> file(new OpenFile(std::move(leases), file_id));
    file->leases_->begin(file_id, name_space, file);
    return file;
  }
  // Open still: given up, unless a stream has it by now.
  ~OpenFile() override {
    leases_->give_up(file_id_, this, LeaseRenewer::GiveBack::kAfterSoftLimit);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void lease_lost(const Status& failure) override {
    const MutexLock lock(mutex_);
    loss_ = failure;
  }
  // Ends the lease of a file that the NameNode has closed, or that no longer exists.
  void end() noexcept { leases_->end(file_id_, this); }
  // Fine while it is held.
  Status loss() const {
    const MutexLock lock(mutex_);
    return loss_;
  }

 private:
  OpenFile(std::shared_ptr<LeaseRenewer> leases, std::uint64_t file_id)
      : leases_(std::move(leases)), file_id_(file_id) {}

  const std::shared_ptr<LeaseRenewer> leases_;
  const std::uint64_t file_id_;
  // Innermost.
  mutable Mutex mutex_;
  Status loss_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace

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

std::unique_ptr<stream::OutputStream> Client::stream_of(WriteTarget target,
                                                        std::string name_space) {
  target.is_local = host_.is_local;
  std::string path = target.path;
  auto sink = std::make_unique<HdfsSink>(WriteContext{.owner = shared_from_this(),
                                                      .loop = host_.loop,
                                                      .resolver = host_.resolver,
                                                      .name_node = *rpc_,
                                                      .leases = *leases_,
                                                      .settings = settings_.write,
                                                      .ask_visible_length = ask_visible_length_},
                                         std::move(target), std::move(name_space));
  return std::make_unique<stream::OutputStream>(
      std::move(path), std::move(sink), env::Process::current().buffers(), host_.loop.clock());
}

// --- create

Result<std::unique_ptr<stream::OutputStream>> Client::create(const std::string& path,
                                                             const CreateOptions& options,
                                                             env::Interrupt& interrupt) {
  WriteTarget target;
  target.path = path;
  target.client_name = settings_.client_name;
  target.block_size = options.block_size.value_or(settings_.write.block_size);
  target.checksum = options.checksum.value_or(settings_.write.checksum);
  target.bytes_per_checksum =
      options.bytes_per_checksum.value_or(settings_.write.bytes_per_checksum);
  target.sync_every_block = options.sync_block;
  target.update_length = options.update_length;
  target.no_local_write = options.no_local_write;
  target.ignore_client_locality = options.ignore_client_locality;
  target.favored_nodes = options.favored_nodes;
  HFLUSH_RETURN_IF_ERROR(check_sizes("create", target, settings_.write));
  if (!options.ec_policy.empty() && !is_replication(options.ec_policy)) {
    return unsupported("create",
                       "erasure-coded files cannot be written, and the policy '" +
                           options.ec_policy + "' asks for one",
                       path);
  }

  Create request;
  request.path = path;
  request.masked = options.masked;
  request.unmasked = options.unmasked;
  request.client_name = settings_.client_name;
  if (options.overwrite) request.flags |= kFlagOverwrite;
  if (options.lazy_persist) request.flags |= kFlagLazyPersist;
  if (options.should_replicate) request.flags |= kFlagShouldReplicate;
  request.create_parent = options.create_parent;
  request.replication = options.replication.value_or(settings_.write.replication);
  request.block_size = target.block_size;
  request.storage_policy = options.storage_policy;
  request.ec_policy = options.ec_policy;
  HFLUSH_ASSIGN_OR_RETURN(FileStatus created, create_file(request, interrupt));

  if (const std::string_view why = unsupported_kind(created); !why.empty()) {
    // Nothing was there before: no stream will write it, and it is open under this client's name.
    Status refusal = unsupported("create", why, path);
    const auto open_file = OpenFile::hold(leases_, created.file_id, created.name_space);
    // Routers know no ids.
    const std::string name = created.name_space.empty() ? inode_path(created.file_id) : path;
    const auto deleted = rpc_->call_through(Delete{name, false}, path, interrupt);
    if (deleted.ok()) open_file->end();
    return deleted.ok() ? refusal : refusal.with_other(deleted.status());
  }
  target.file_id = created.file_id;
  target.block_size = created.block_size;
  target.replication = created.replication;
  target.lazy_persist = created.storage_policy == FileStatus::kLazyPersistPolicy;
  return stream_of(std::move(target), std::move(created.name_space));
}

// The NameNode drops the old file before it says that the new one is erasure-coded. So a file that
// may be is created without OVERWRITE; where that finds one, its directory is looked at, and then
// the new file has replicas whatever becomes of the directory meanwhile.
Result<FileStatus> Client::create_file(Create request, env::Interrupt& interrupt) {
  const bool overwrite = (request.flags & kFlagOverwrite) != 0;
  const bool has_replicas =
      (request.flags & kFlagShouldReplicate) != 0 || !request.ec_policy.empty();
  if (overwrite && (!has_replicas || !request.storage_policy.empty())) {
    request.flags &= ~kFlagOverwrite;
    Result<FileStatus> created = call_create(request, interrupt);
    if (created.ok() || !is_taken(created.status())) return created;
    HFLUSH_RETURN_IF_ERROR(check_replacement(request, interrupt));
    HFLUSH_RETURN_IF_ERROR(check_storage_policy(request, interrupt));
    request.flags |= kFlagOverwrite;
    if (request.ec_policy.empty()) request.flags |= kFlagShouldReplicate;
  }
  return call_create(request, interrupt);
}

// Whether a file that takes another one's place could be written.
Status Client::check_replacement(const Create& request, env::Interrupt& interrupt) {
  const bool has_replicas =
      (request.flags & kFlagShouldReplicate) != 0 || !request.ec_policy.empty();
  if (has_replicas) return {};
  HFLUSH_ASSIGN_OR_RETURN(
      const std::optional<FileStatus> directory,
      rpc_->call(GetFileInfo{parent_of(request.path)}, request.path, interrupt));
  if (!directory) return {};
  const std::string_view why = unsupported_kind(*directory);
  return why.empty() ? Status() : unsupported("create", why, request.path);
}

// The NameNode looks for it when the old file is gone.
Status Client::check_storage_policy(const Create& request, env::Interrupt& interrupt) {
  if (request.storage_policy.empty()) return {};
  HFLUSH_ASSIGN_OR_RETURN(const std::vector<std::string> known,
                          rpc_->call(GetStoragePolicies{}, request.path, interrupt));
  const bool is_known = std::ranges::any_of(known, [&](const std::string& name) {
    return equals_ignoring_case(name, request.storage_policy);
  });
  if (is_known) return {};
  return Status(StatusCode::kInvalidArgument,
                "create: there is no storage policy '" + request.storage_policy + "'",
                request.path);
}

Result<FileStatus> Client::call_create(const Create& request, env::Interrupt& interrupt) {
  Create question = request;
  question.flags = 0;  // neither creates nor replaces
  for (int attempt = 1;; ++attempt) {
    Result<FileStatus> created = rpc_->call<Create>(
        request, request.path, interrupt, question,
        [this, self = shared_from_this(), path = request.path](const FileStatus& file) {
          close_unclaimed(path, std::nullopt, file.file_id, file.name_space);
        });
    if (created.ok()) return created;
    const std::string& refusal = created.status().remote_class();
    if (is_class(refusal, "UnknownCryptoProtocolVersionException")) {  // before it did anything
      return unsupported("create", "encrypted files cannot be written: this is an encryption zone",
                         request.path)
          .with_remote_class(refusal);
    }
    if (attempt >= kCreateAttempts || !is_class(refusal, "RetryStartFileException")) {
      return maybe_open(created.status());
    }
  }
}

// A file that was opened for a caller who has gone: open under this client's name it would keep
// others from writing it. What is at its path stays as it is.
void Client::close_unclaimed(const std::string& path, const std::optional<ExtendedBlock>& last,
                             std::uint64_t file_id, const std::string& name_space) {
  rpc_->start(Complete{path, settings_.client_name, last, file_id}, path,
              [file = OpenFile::hold(leases_, file_id, name_space)](const Result<bool>& closed) {
                if (is_closed(closed)) file->end();
              });
}

// --- append

Result<std::unique_ptr<stream::OutputStream>> Client::append(const std::string& path,
                                                             const AppendOptions& options,
                                                             env::Interrupt& interrupt) {
  Append request{path, settings_.client_name, kFlagAppend};
  if (options.new_block) request.flags |= kFlagNewBlock;
  HFLUSH_ASSIGN_OR_RETURN(Append::Response appended, call_append(request, interrupt));
  const auto open_file =
      OpenFile::hold(leases_, appended.status ? appended.status->file_id : 0,
                     appended.status ? appended.status->name_space : std::string());

  std::optional<ExtendedBlock> last;
  if (appended.block) last = appended.block->block;
  Appendable file;
  file.target.path = path;
  if (appended.status) file.target.file_id = appended.status->file_id;
  file.target.client_name = settings_.client_name;
  file.target.sync_every_block = options.sync_block;
  file.target.update_length = options.update_length;
  const Status usable = describe(std::move(appended), options, file, interrupt);
  if (!usable.ok()) {
    const auto closed = rpc_->call_through(
        Complete{path, settings_.client_name, last, file.target.file_id}, path, interrupt);
    if (is_closed(closed)) open_file->end();
    return not_appended(usable, closed, path);
  }
  if (const Status loss = open_file->loss(); !loss.ok()) {
    return Status(StatusCode::kLeaseLost, "append: the lease is lost", path).with_cause(loss);
  }
  return stream_of(std::move(file.target), std::move(file.name_space));
}

Result<Append::Response> Client::call_append(const Append& request, env::Interrupt& interrupt) {
  const env::TimePoint give_up = host_.loop.clock().now() + kAppendPatience;
  Append question = request;
  question.path = inode_path(0);  // not the path of any file
  while (true) {
    Result<Append::Response> appended = rpc_->call<Append>(
        request, request.path, interrupt, question,
        [this, self = shared_from_this(), path = request.path](const Append::Response& file) {
          std::optional<ExtendedBlock> last;
          if (file.block) last = file.block->block;
          close_unclaimed(path, last, file.status ? file.status->file_id : 0,
                          file.status ? file.status->name_space : std::string());
        });
    if (appended.ok()) return appended;
    const Status& refusal = appended.status();
    // The replicas of a block that is complete are reported one by one after a restart.
    const bool is_not_yet =
        is_class(refusal.remote_class(), "RetriableException") ||
        refusal.message().find("is not sufficiently replicated yet") != std::string::npos;
    if (!is_not_yet || host_.loop.clock().now() >= give_up) return maybe_open(refusal);
    HFLUSH_RETURN_IF_ERROR(env::pause(kAppendPause, interrupt));
  }
}

// What the answer says about the file.
Status Client::describe(Append::Response appended, const AppendOptions& options, Appendable& file,
                        env::Interrupt& interrupt) {
  WriteTarget& target = file.target;
  const std::string& path = target.path;
  if (!appended.status) {
    HFLUSH_ASSIGN_OR_RETURN(appended.status, rpc_->call(GetFileInfo{path}, path, interrupt));
    if (!appended.status) return Status(StatusCode::kLeaseLost, "append: the file is gone", path);
  }
  const FileStatus& status = *appended.status;
  if (const std::string_view why = unsupported_kind(status); !why.empty()) {
    return unsupported("append", why, path);
  }
  target.file_id = status.file_id;
  target.block_size = status.block_size;
  target.replication = status.replication;
  target.start = status.length;
  target.lazy_persist = status.storage_policy == FileStatus::kLazyPersistPolicy;
  file.name_space = status.name_space;

  ChecksumParameters checksum{settings_.write.checksum, settings_.write.bytes_per_checksum};
  if (options.new_block) {
    if (appended.block) target.previous_block = appended.block->block;
  } else if (appended.block) {
    if (appended.block->end() != target.start) {
      return Status(StatusCode::kIo,
                    "append: the last block, " + appended.block->block.to_string() + ", ends at " +
                        std::to_string(appended.block->end()) + " of " +
                        std::to_string(target.start) + " bytes",
                    path);
    }
    target.partial_block = std::move(appended.block);
  }
  // A block goes on as it began, and a file too, whatever the configuration says by now.
  if (target.partial_block && target.partial_block->block.length > 0) {
    HFLUSH_ASSIGN_OR_RETURN(
        checksum, stored_checksum(read_context(), path, *target.partial_block, interrupt));
  } else if (target.start > 0) {
    HFLUSH_RETURN_IF_ERROR(describe_last_block(target, checksum, interrupt));
  }
  target.checksum = checksum.kind;
  target.bytes_per_checksum = checksum.bytes_per_checksum;
  return check_sizes("append", target, settings_.write);
}

// What a file that has been written goes on with in a new block: the NameNode and a replica of the
// last one say. A new block does without both: where there is no answer, sums are as configured.
// Only an interrupt is a failure.
Status Client::describe_last_block(WriteTarget& target, ChecksumParameters& checksum,
                                   env::Interrupt& interrupt) {
  const std::uint64_t length = target.start;
  const auto ask = [&]() -> Status {
    HFLUSH_ASSIGN_OR_RETURN(const LocatedBlocks located,
                            locate(*rpc_, target.path, length - 1, 1, interrupt));
    const auto last = std::ranges::find_if(located.blocks, [length](const LocatedBlock& block) {
      return block.offset < length && block.end() == length;
    });
    if (last == located.blocks.end()) {
      return Status(StatusCode::kIo, "append: no block ends at " + std::to_string(length),
                    target.path);
    }
    // The NameNode names it itself only if it is partial, or with NEW_BLOCK.
    if (!target.previous_block) target.previous_block = last->block;
    HFLUSH_ASSIGN_OR_RETURN(checksum,
                            stored_checksum(read_context(), target.path, *last, interrupt));
    return {};
  };
  const Status asked = ask();
  return asked.code() == StatusCode::kInterrupted ? asked : Status();
}

// --- open

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

Result<std::unique_ptr<stream::Source>> Client::open(const std::string& path, bool verify_checksum,
                                                     env::Interrupt& interrupt) {
  HFLUSH_ASSIGN_OR_RETURN(auto file,
                          HdfsSource::open(read_context(), path, verify_checksum, interrupt));
  return std::unique_ptr<stream::Source>(std::move(file));
}

}  // namespace hflush::hdfs
