#include "hflush/hdfs/open_for_write.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/base/mutex.h"
#include "hflush/env/answer.h"
#include "hflush/env/clock.h"
#include "hflush/env/process.h"
#include "hflush/hdfs/read/ask_replicas.h"
#include "hflush/hdfs/read/block_locations.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/read/stored_checksum.h"
#include "hflush/hdfs/rpc/lease_renewer.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/remote_exception.h"
#include "hflush/hdfs/write/hdfs_sink.h"
#include "hflush/hdfs/write/write_stream.h"

namespace hflush::hdfs {
namespace {

// RetryStartFileException: the encryption zone changed meanwhile.
constexpr int kCreateAttempts = 11;
// RetriableException: the last block is not reported yet.
constexpr env::Duration kAppendPause = std::chrono::milliseconds(500);
constexpr env::Duration kAppendPatience = std::chrono::seconds(5);
// What an append that begins a block waits for the sums of the last one.
constexpr env::Duration kSumsPatience = std::chrono::seconds(5);
// DataNodes say max(length, 10 MiB) of a replica whose chunks are longer than that.
constexpr std::uint32_t kLongestCertainChunk = 10U << 20U;

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

WriteTarget target_of(const Client& client, const std::string& path, const WriteOptions& options) {
  WriteTarget target;
  target.path = path;
  target.client_name = client.settings().client_name;
  target.sync_every_block = options.sync_block;
  target.update_length = options.update_length;
  target.no_local_write = options.no_local_write;
  target.ignore_client_locality = options.ignore_client_locality;
  target.favored_nodes = options.favored_nodes;
  return target;
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
  static std::shared_ptr<OpenFile> hold(Client& client, std::uint64_t file_id,
                                        const std::string& name_space) {
    std::shared_ptr<OpenFile> file(new OpenFile(client.leases().shared_from_this(), file_id));
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

std::unique_ptr<stream::OutputStream> stream_of(Client& client, WriteTarget target,
                                                std::string name_space) {
  const env::Host& host = client.host();
  target.is_local = host.is_local;
  std::string path = target.path;
  auto sink =
      std::make_unique<HdfsSink>(WriteContext{.owner = client.shared_from_this(),
                                              .loop = host.loop,
                                              .resolver = host.resolver,
                                              .name_node = client.rpc(),
                                              .leases = client.leases(),
                                              .settings = client.settings().write,
                                              .ask_visible_length = client.ask_visible_length()},
                                 std::move(target), std::move(name_space));
  return std::make_unique<stream::OutputStream>(
      std::move(path), std::move(sink), env::Process::current().buffers(), host.loop.clock());
}

// A file that was opened for a caller who has gone: open under this client's name it would keep
// others from writing it. What is at its path stays as it is.
void close_unclaimed(Client& client, const std::string& path,
                     const std::optional<ExtendedBlock>& last, std::uint64_t file_id,
                     const std::string& name_space) {
  client.rpc().start(
      Complete{path, client.settings().client_name, last, file_id}, path,
      [file = OpenFile::hold(client, file_id, name_space)](const Result<bool>& closed) {
        if (is_closed(closed)) file->end();
      });
}

// --- create

// Whether a file that takes another one's place could be written.
Status check_replacement(Client& client, const Create& request, env::Interrupt& interrupt) {
  const bool has_replicas =
      (request.flags & kFlagShouldReplicate) != 0 || !request.ec_policy.empty();
  if (has_replicas) return {};
  HFLUSH_ASSIGN_OR_RETURN(
      const std::optional<FileStatus> directory,
      client.rpc().call(GetFileInfo{parent_of(request.path)}, request.path, interrupt));
  if (!directory) return {};
  const std::string_view why = unsupported_kind(*directory);
  return why.empty() ? Status() : unsupported("create", why, request.path);
}

// Whether DataNodes would take the file: they close connections that are not encrypted.
Status check_transfer(Client& client, const Create& request, env::Interrupt& interrupt) {
  const Result<ServerDefaults> defaults = client.server_defaults(interrupt);
  if (!defaults.ok()) return defaults.status().with_path(request.path);
  if (!defaults->encrypt_data_transfer) return {};
  return unsupported("create",
                     "files cannot be written to DataNodes that want encryption "
                     "(dfs.encrypt.data.transfer)",
                     request.path);
}

// The NameNode looks for it when the old file is gone.
Status check_storage_policy(Client& client, const Create& request, env::Interrupt& interrupt) {
  if (request.storage_policy.empty()) return {};
  HFLUSH_ASSIGN_OR_RETURN(const std::vector<std::string> known,
                          client.rpc().call(GetStoragePolicies{}, request.path, interrupt));
  const bool is_known = std::ranges::any_of(known, [&](const std::string& name) {
    return equals_ignoring_case(name, request.storage_policy);
  });
  if (is_known) return {};
  return Status(StatusCode::kInvalidArgument,
                "create: there is no storage policy '" + request.storage_policy + "'",
                request.path);
}

Result<FileStatus> call_create(Client& client, const Create& request, env::Interrupt& interrupt) {
  Create question = request;
  question.flags = 0;  // neither creates nor replaces
  for (int attempt = 1;; ++attempt) {
    Result<FileStatus> created = client.rpc().call<Create>(
        request, request.path, interrupt, question,
        [self = client.shared_from_this(), path = request.path](const FileStatus& file) {
          close_unclaimed(*self, path, std::nullopt, file.file_id, file.name_space);
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

// The NameNode drops the old file before it says that the new one is erasure-coded, and DataNodes
// refuse later. So a file that may be is created without OVERWRITE; where that finds one, its
// directory is looked at, and then the new file has replicas whatever becomes of the directory
// meanwhile.
Result<FileStatus> create_file(Client& client, Create request, env::Interrupt& interrupt) {
  if ((request.flags & kFlagOverwrite) == 0) return call_create(client, request, interrupt);
  const bool has_replicas =
      (request.flags & kFlagShouldReplicate) != 0 || !request.ec_policy.empty();
  if (!has_replicas || !request.storage_policy.empty()) {
    request.flags &= ~kFlagOverwrite;
    Result<FileStatus> created = call_create(client, request, interrupt);
    if (created.ok() || !is_taken(created.status())) return created;
    HFLUSH_RETURN_IF_ERROR(check_replacement(client, request, interrupt));
    HFLUSH_RETURN_IF_ERROR(check_storage_policy(client, request, interrupt));
    request.flags |= kFlagOverwrite;
    if (request.ec_policy.empty()) request.flags |= kFlagShouldReplicate;
  }
  HFLUSH_RETURN_IF_ERROR(check_transfer(client, request, interrupt));
  return call_create(client, request, interrupt);
}

// Removes the file that create() has opened, if it is at its path. Not by its id: a router, which
// need not say that it is one, may take that for another namespace's file.
Status remove_created(Client& client, const std::string& path, std::uint64_t file_id,
                      env::Interrupt& interrupt) {
  HFLUSH_ASSIGN_OR_RETURN(const std::optional<FileStatus> there,
                          client.rpc().call(GetFileInfo{path}, path, interrupt));
  if (!there || there->file_id != file_id) {
    return Status(StatusCode::kNotFound, "create: the new file is not there any more", path);
  }
  return client.rpc().call_through(Delete{path, false}, path, interrupt).status();
}

// --- append

struct Appendable {
  WriteTarget target;
  std::string name_space;
};

Result<Append::Response> call_append(Client& client, const Append& request,
                                     env::Interrupt& interrupt) {
  const env::Clock& clock = client.host().loop.clock();
  const env::TimePoint give_up = clock.now() + kAppendPatience;
  Append question = request;
  question.path = inode_path(0);  // not the path of any file
  while (true) {
    Result<Append::Response> appended = client.rpc().call<Append>(
        request, request.path, interrupt, question,
        [self = client.shared_from_this(), path = request.path](const Append::Response& file) {
          std::optional<ExtendedBlock> last;
          if (file.block) last = file.block->block;
          close_unclaimed(*self, path, last, file.status ? file.status->file_id : 0,
                          file.status ? file.status->name_space : std::string());
        });
    if (appended.ok()) return appended;
    const Status& refusal = appended.status();
    // The replicas of a block that is complete are reported one by one after a restart.
    const bool is_not_yet =
        is_class(refusal.remote_class(), "RetriableException") ||
        refusal.message().find("is not sufficiently replicated yet") != std::string::npos;
    if (!is_not_yet || clock.now() >= give_up) return maybe_open(refusal);
    HFLUSH_RETURN_IF_ERROR(env::pause(kAppendPause, interrupt));
  }
}

// The sums of a block of so many bytes, by what a DataNode has said. A chunk of 10 MiB or more that
// the block does not exceed may really be longer: then it is as configured, unless that is shorter
// and this one can be.
ChecksumParameters likely_sums(ChecksumParameters said, std::uint64_t length,
                               const WriteTarget& target, const ChecksumParameters& configured) {
  const std::uint32_t chunk = said.bytes_per_checksum;
  const bool is_certain = chunk < kLongestCertainChunk || chunk < length;
  const bool is_possible = chunk >= configured.bytes_per_checksum && target.block_size % chunk == 0;
  if (!is_certain && !is_possible) said.bytes_per_checksum = configured.bytes_per_checksum;
  return said;
}

// What a partial block goes on with: sums as it began with. A writer need not be allowed to read
// it: then they are as configured, and DataNodes refuse a chunk of another size.
Result<ChecksumParameters> sums_of(Client& client, const WriteTarget& target,
                                   const ChecksumParameters& configured,
                                   env::Interrupt& interrupt) {
  const ReadContext context = client.read_context();
  const std::string& path = target.path;
  LocatedBlock block = *target.partial_block;
  const auto ask = [&]() -> Result<ChecksumParameters> {
    if (block.token != Token()) {  // allows to write alone
      HFLUSH_ASSIGN_OR_RETURN(block, locate_anew({context, path, "append", interrupt}, block));
    }
    return stored_checksum(context, path, block, interrupt);
  };
  Result<ChecksumParameters> stored = ask();
  if (stored.status().code() == StatusCode::kPermissionDenied) return configured;
  if (!stored.ok()) return stored;
  return likely_sums(*stored, block.block.length, target, configured);
}

// What a file that has been written goes on with in a new block: the NameNode and a replica of the
// last one say. A new block does without both: where there is no answer soon, sums are as
// configured. Only an interrupt is a failure.
Status describe_last_block(Client& client, WriteTarget& target, ChecksumParameters& checksum,
                           env::Interrupt& interrupt) {
  const std::uint64_t length = target.start;
  const auto ask = [&]() -> Status {
    HFLUSH_ASSIGN_OR_RETURN(const LocatedBlocks located,
                            locate(client.rpc(), target.path, length - 1, 1, interrupt));
    const auto last = std::ranges::find_if(located.blocks, [length](const LocatedBlock& block) {
      return block.offset < length && block.end() == length;
    });
    if (last == located.blocks.end()) {
      return Status(StatusCode::kIo, "append: no block ends at " + std::to_string(length),
                    target.path);
    }
    // The NameNode names it itself only if it is partial, or with NEW_BLOCK.
    if (!target.previous_block) target.previous_block = last->block;
    HFLUSH_ASSIGN_OR_RETURN(const ChecksumParameters stored,
                            stored_checksum_within(kSumsPatience, client.read_context(),
                                                   target.path, *last, interrupt));
    checksum = likely_sums(stored, last->block.length, target, checksum);
    return {};
  };
  const Status asked = ask();
  return asked.code() == StatusCode::kInterrupted ? asked : Status();
}

// What the answer says about the file.
Status describe(Client& client, Append::Response appended, const AppendOptions& options,
                Appendable& file, env::Interrupt& interrupt) {
  WriteTarget& target = file.target;
  const std::string& path = target.path;
  if (!appended.status) {
    HFLUSH_ASSIGN_OR_RETURN(appended.status, client.rpc().call(GetFileInfo{path}, path, interrupt));
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

  const WriteSettings& settings = client.settings().write;
  ChecksumParameters checksum{settings.checksum, settings.bytes_per_checksum};
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
    HFLUSH_ASSIGN_OR_RETURN(checksum, sums_of(client, target, checksum, interrupt));
  } else if (target.start > 0) {
    HFLUSH_RETURN_IF_ERROR(describe_last_block(client, target, checksum, interrupt));
  }
  target.checksum = checksum.kind;
  target.bytes_per_checksum = checksum.bytes_per_checksum;
  return check_sizes("append", target, settings);
}

}  // namespace

StreamResult create(Client& client, const std::string& path, const CreateOptions& options,
                    env::Interrupt& interrupt) {
  const Settings& settings = client.settings();
  WriteTarget target = target_of(client, path, options);
  target.block_size = options.block_size.value_or(settings.write.block_size);
  target.checksum = options.checksum.value_or(settings.write.checksum);
  target.bytes_per_checksum =
      options.bytes_per_checksum.value_or(settings.write.bytes_per_checksum);
  HFLUSH_RETURN_IF_ERROR(check_sizes("create", target, settings.write));
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
  request.client_name = settings.client_name;
  if (options.overwrite) request.flags |= kFlagOverwrite;
  if (options.lazy_persist) request.flags |= kFlagLazyPersist;
  if (options.should_replicate) request.flags |= kFlagShouldReplicate;
  request.create_parent = options.create_parent;
  request.replication = options.replication.value_or(settings.write.replication);
  request.block_size = target.block_size;
  request.storage_policy = options.storage_policy;
  request.ec_policy = options.ec_policy;
  HFLUSH_ASSIGN_OR_RETURN(FileStatus created, create_file(client, request, interrupt));

  if (const std::string_view why = unsupported_kind(created); !why.empty()) {
    // Nothing was there before: no stream will write it, and it is open under this client's name.
    const auto open_file = OpenFile::hold(client, created.file_id, created.name_space);
    const Status removed = remove_created(client, path, created.file_id, interrupt);
    if (!removed.ok()) {
      const std::string left = std::string(why) + "; the new file, which is empty, may be left";
      return unsupported("create", left, path).with_other(removed);
    }
    open_file->end();
    return unsupported("create", why, path);
  }
  target.file_id = created.file_id;
  target.block_size = created.block_size;
  target.replication = created.replication;
  target.lazy_persist = created.storage_policy == FileStatus::kLazyPersistPolicy;
  return stream_of(client, std::move(target), std::move(created.name_space));
}

StreamResult append(Client& client, const std::string& path, const AppendOptions& options,
                    env::Interrupt& interrupt) {
  Append request{path, client.settings().client_name, kFlagAppend};
  if (options.new_block) request.flags |= kFlagNewBlock;
  HFLUSH_ASSIGN_OR_RETURN(Append::Response appended, call_append(client, request, interrupt));
  const auto open_file =
      OpenFile::hold(client, appended.status ? appended.status->file_id : 0,
                     appended.status ? appended.status->name_space : std::string());

  std::optional<ExtendedBlock> last;
  if (appended.block) last = appended.block->block;
  Appendable file{target_of(client, path, options), {}};
  if (appended.status) file.target.file_id = appended.status->file_id;
  const Status usable = describe(client, std::move(appended), options, file, interrupt);
  if (!usable.ok()) {
    const auto closed = client.rpc().call_through(
        Complete{path, client.settings().client_name, last, file.target.file_id}, path, interrupt);
    if (is_closed(closed)) open_file->end();
    return not_appended(usable, closed, path);
  }
  if (const Status loss = open_file->loss(); !loss.ok()) {
    return Status(StatusCode::kLeaseLost, "append: the lease is lost", path).with_cause(loss);
  }
  return stream_of(client, std::move(file.target), std::move(file.name_space));
}

}  // namespace hflush::hdfs
