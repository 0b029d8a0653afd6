#include "hflush/hdfs/client.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "hflush/env/process.h"
#include "hflush/hdfs/block_locations.h"
#include "hflush/hdfs/datanode_connections.h"
#include "hflush/hdfs/hdfs_sink.h"
#include "hflush/hdfs/input_file.h"
#include "hflush/hdfs/lease_renewer.h"
#include "hflush/hdfs/name_node_requests.h"
#include "hflush/hdfs/pause.h"
#include "hflush/hdfs/read_context.h"
#include "hflush/hdfs/remote_exception.h"
#include "hflush/hdfs/stored_checksum.h"

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

}  // namespace

Client::Client(Settings settings) : settings_(std::move(settings)) {
  env::Process& process = env::Process::current();
  RpcClient::Target target;
  target.servers = settings_.name_nodes;
  target.name = settings_.service;
  rpc_ = RpcClient::make(process.loop(), process.resolver(), std::move(target), settings_.user,
                         settings_.rpc);
  leases_ = LeaseRenewer::make(process.loop(), rpc_, settings_.client_name,
                               settings_.rpc.rpc_timeout, settings_.lease_hard_limit);
  connections_ = DatanodeConnections::make(process.loop(), settings_.read.socket_cache_capacity,
                                           settings_.read.socket_cache_expiry);
}

Result<std::shared_ptr<Client>> Client::make(Settings settings) {
  if (settings.name_nodes.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "no NameNode is named for '" + settings.service + "'");
  }
  HFLUSH_RETURN_IF_ERROR(env::Process::current().loop().start());
  return std::shared_ptr<Client>(new Client(std::move(settings)));
}

Client::~Client() {
  leases_->close();
  rpc_->close();
}

Result<ServerDefaults> Client::server_defaults(env::Interrupt& interrupt) {
  const env::TimePoint now = env::steady_clock().now();
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
  env::Process& process = env::Process::current();
  std::string path = target.path;
  auto sink = std::make_unique<HdfsSink>(WriteContext{.owner = shared_from_this(),
                                                      .loop = process.loop(),
                                                      .resolver = process.resolver(),
                                                      .name_node = *rpc_,
                                                      .leases = *leases_,
                                                      .settings = settings_.write},
                                         std::move(target), std::move(name_space));
  return std::make_unique<stream::OutputStream>(std::move(path), std::move(sink), process.buffers(),
                                                env::steady_clock());
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
  HFLUSH_ASSIGN_OR_RETURN(FileStatus created, call_create(request, interrupt));

  if (const std::string_view why = unsupported_kind(created); !why.empty()) {
    // Nobody will write it, and it is open under this client's name.
    static_cast<void>(rpc_->call(Delete{path, false}, path, interrupt));
    return Status(StatusCode::kUnsupported, "create: " + std::string(why), path);
  }
  target.file_id = created.file_id;
  target.block_size = created.block_size;
  target.lazy_persist = created.storage_policy == FileStatus::kLazyPersistPolicy;
  return stream_of(std::move(target), std::move(created.name_space));
}

Result<FileStatus> Client::call_create(const Create& request, env::Interrupt& interrupt) {
  for (int attempt = 1;; ++attempt) {
    Result<FileStatus> created =
        rpc_->call(request, request.path, interrupt,
                   [this, self = shared_from_this(), path = request.path](const FileStatus& file) {
                     close_unclaimed(path, std::nullopt, file.file_id);
                   });
    const bool again = !created.ok() && attempt < kCreateAttempts &&
                       is_class(created.status().remote_class(), "RetryStartFileException");
    if (!again) return created;
  }
}

// A file that was opened for a caller who has gone: open under this client's name it would keep
// others from writing it. What is at its path stays as it is.
void Client::close_unclaimed(const std::string& path, const std::optional<ExtendedBlock>& last,
                             std::uint64_t file_id) {
  rpc_->start(Complete{path, settings_.client_name, last, file_id}, path,
              [](const Result<bool>& /*answer*/) {});
}

// --- append

Result<std::unique_ptr<stream::OutputStream>> Client::append(const std::string& path,
                                                             const AppendOptions& options,
                                                             env::Interrupt& interrupt) {
  Append request{path, settings_.client_name, kFlagAppend};
  if (options.new_block) request.flags |= kFlagNewBlock;
  HFLUSH_ASSIGN_OR_RETURN(Append::Response appended, call_append(request, interrupt));

  Result<Appendable> file = appendable(path, options, std::move(appended), interrupt);
  if (!file.ok()) return file.status();
  return stream_of(std::move(file->target), std::move(file->name_space));
}

Result<Append::Response> Client::call_append(const Append& request, env::Interrupt& interrupt) {
  const env::TimePoint give_up = env::steady_clock().now() + kAppendPatience;
  while (true) {
    Result<Append::Response> appended = rpc_->call(
        request, request.path, interrupt,
        [this, self = shared_from_this(), path = request.path](const Append::Response& file) {
          std::optional<ExtendedBlock> last;
          if (file.block) last = file.block->block;
          close_unclaimed(path, last, file.status ? file.status->file_id : 0);
        });
    const bool again = !appended.ok() && env::steady_clock().now() < give_up &&
                       is_class(appended.status().remote_class(), "RetriableException");
    if (!again) return appended;
    HFLUSH_RETURN_IF_ERROR(pause(kAppendPause, interrupt));
  }
}

// What the answer says about the file, which is open from here on: it is closed again if it cannot
// be written.
Result<Client::Appendable> Client::appendable(const std::string& path, const AppendOptions& options,
                                              Append::Response appended,
                                              env::Interrupt& interrupt) {
  Appendable file;
  WriteTarget& target = file.target;
  target.path = path;
  target.client_name = settings_.client_name;
  target.sync_every_block = options.sync_block;
  target.update_length = options.update_length;
  std::optional<ExtendedBlock> last;
  if (appended.block) last = appended.block->block;
  const Status usable = describe(std::move(appended), options, file, interrupt);
  if (usable.ok()) return file;
  static_cast<void>(
      rpc_->call(Complete{path, settings_.client_name, last, target.file_id}, path, interrupt));
  return usable;
}

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
    return Status(StatusCode::kUnsupported, "append: " + std::string(why), path);
  }
  target.file_id = status.file_id;
  target.block_size = status.block_size;
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
    HFLUSH_ASSIGN_OR_RETURN(checksum, stored_checksum(ReadContext::of(shared_from_this()), path,
                                                      *target.partial_block, interrupt));
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
    HFLUSH_ASSIGN_OR_RETURN(checksum, stored_checksum(ReadContext::of(shared_from_this()),
                                                      target.path, *last, interrupt));
    return {};
  };
  const Status asked = ask();
  return asked.code() == StatusCode::kInterrupted ? asked : Status();
}

// --- open

Result<std::unique_ptr<InputFile>> Client::open(const std::string& path, bool verify_checksum,
                                                env::Interrupt& interrupt) {
  return InputFile::open(shared_from_this(), path, verify_checksum, interrupt);
}

}  // namespace hflush::hdfs
