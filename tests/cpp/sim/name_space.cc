#include "sim/name_space.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/wire.h"
#include "sim/request_fields.h"

namespace hflush::sim {
namespace {

namespace wire = hdfs::wire;
using hdfs::ExtendedBlock;

constexpr const char* kPool = "BP-1";
// Who holds a file whose lease has run out.
constexpr const char* kOwnName = "HDFS_NameNode";
constexpr Duration kRecheck = std::chrono::seconds(2);

constexpr const char* kIoException = "java.io.IOException";
constexpr const char* kFileNotFound = "java.io.FileNotFoundException";
constexpr const char* kLeaseExpired =
    "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException";
constexpr const char* kNotReplicatedYet =
    "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException";
constexpr const char* kAlreadyExists = "org.apache.hadoop.fs.FileAlreadyExistsException";
constexpr const char* kAlreadyBeingCreated =
    "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException";
constexpr const char* kRecoveryInProgress =
    "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException";
constexpr const char* kRetriable = "org.apache.hadoop.ipc.RetriableException";
constexpr const char* kNullPointer = "java.lang.NullPointerException";
constexpr const char* kNoSuchMethod = "org.apache.hadoop.ipc.RpcNoSuchMethodException";

std::string truth(bool value) {
  std::string body;
  wire::Writer(body).add_bool(1, value);
  return body;
}

// Whether the caller means this block; or none, and there is none.
bool is_named(const std::optional<ExtendedBlock>& named, const NameSpace::Block* block) {
  if (!named || block == nullptr) return !named && block == nullptr;
  return named->id == block->id && named->generation_stamp == block->stamp;
}

}  // namespace

NameSpace::NameSpace(World& world, Network& network, std::vector<std::unique_ptr<DataNode>>& nodes,
                     Duration hard_limit)
    : world_(world),
      network_(network),
      nodes_(nodes),
      hard_limit_(hard_limit),
      chance_(world.seed(), "name space") {}

std::uint64_t NameSpace::File::length() const noexcept {
  std::uint64_t sum = 0;
  for (const Block& block : blocks) sum += block.length;
  return sum;
}

std::uint64_t NameSpace::File::start_of(std::uint64_t block) const noexcept {
  std::uint64_t start = 0;
  for (const Block& one : blocks) {
    if (one.id == block) break;
    start += one.length;
  }
  return start;
}

std::uint64_t NameSpace::File::left_of(std::uint64_t promised,
                                       std::uint64_t session) const noexcept {
  for (const Loss& loss : losses) {
    if (session <= loss.session) promised = std::min(promised, loss.from);
  }
  return promised;
}

std::vector<const DataNode*> NameSpace::Block::listed() const {
  std::vector<const DataNode*> nodes(pipeline.begin(), pipeline.end());
  for (const DataNode* const node : reported) {
    if (std::ranges::count(pipeline, node) == 0) nodes.push_back(node);
  }
  return nodes;
}

bool NameSpace::Block::is_gone(const DataNode* node) const {
  return deleting.contains(node) && node->replica(id) == nullptr;
}

// --- calls ---------------------------------------------------------------------------------------

bool NameSpace::changes(const std::string& method) {
  static const std::set<std::string> kReads{"getFileInfo", "getBlockLocations", "isFileClosed",
                                            "reportBadBlocks"};
  return !kReads.contains(method);
}

NameSpace::Answer NameSpace::carry_out(const Call& call) {
  static const std::set<std::string> kAtMostOnce{"create", "append", "updatePipeline"};
  const bool is_cached = kAtMostOnce.contains(call.method);
  if (is_cached) {
    if (const auto found = retry_cache_.find(call.key); found != retry_cache_.end()) {
      return found->second;
    }
  }
  Answer answer = carry_out_now(call);
  if (const auto* body = std::get_if<std::string>(&answer); body != nullptr && is_cached) {
    retry_cache_[call.key] = *body;
  }
  return answer;
}

NameSpace::Answer NameSpace::carry_out_now(const Call& call) {
  using Method = Answer (NameSpace::*)(const Call&);
  static const std::map<std::string, Method> kMethods{
      {"create", &NameSpace::create},
      {"append", &NameSpace::append},
      {"addBlock", &NameSpace::add_block},
      {"abandonBlock", &NameSpace::abandon_block},
      {"complete", &NameSpace::complete},
      {"fsync", &NameSpace::fsync},
      {"renewLease", &NameSpace::renew_lease},
      {"recoverLease", &NameSpace::recover_lease},
      {"isFileClosed", &NameSpace::is_file_closed},
      {"getFileInfo", &NameSpace::get_file_info},
      {"updateBlockForPipeline", &NameSpace::update_block_for_pipeline},
      {"updatePipeline", &NameSpace::update_pipeline},
      {"getAdditionalDatanode", &NameSpace::get_additional_datanode},
      {"getBlockLocations", &NameSpace::get_block_locations},
      {"reportBadBlocks", &NameSpace::report_bad_blocks},
  };
  const auto found = kMethods.find(call.method);
  if (found == kMethods.end()) {
    world_.breach("the model has no " + call.method);
    return Exception{kNoSuchMethod, call.method};
  }
  return (this->*found->second)(call);
}

NameSpace::Answer NameSpace::create(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "tmtnbnn");
  const std::string path = fields.text(1);
  File* const existing = file_at(path);
  constexpr std::uint64_t kOverwrite = 2;
  if (existing != nullptr && (fields.number(4) & kOverwrite) == 0) {
    if (!existing->holder.empty()) {
      if (auto refused = busy(*existing, fields.text(3))) return *refused;
    }
    return Exception{kAlreadyExists, path + " exists"};
  }
  File file;
  file.id = ++last_file_;
  file.path = path;
  file.replication = static_cast<std::uint32_t>(fields.number(6));
  file.block_size = fields.number(7);
  if (existing != nullptr && !existing->holder.empty()) close(*existing);
  File& made = files_.insert_or_assign(path, file).first->second;
  open(made, fields.text(3));
  std::string body;
  wire::Writer(body).add_message(1, status(made));
  return body;
}

NameSpace::Answer NameSpace::append(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "ttn");
  File* const file = file_at(fields.text(1));
  if (file == nullptr) return Exception{kFileNotFound, fields.text(1) + " does not exist"};
  if (!file->holder.empty()) {
    if (auto refused = busy(*file, fields.text(2))) return *refused;
  }
  Block* const last = file->blocks.empty() ? nullptr : &file->blocks.back();
  if (last != nullptr && last->state != Block::State::kComplete) {
    return Exception{kRetriable, "the last block is not reported yet"};
  }
  open(*file, fields.text(2));
  constexpr std::uint64_t kNewBlock = 32;
  std::string body;
  wire::Writer writer(body);
  if (last != nullptr && (fields.number(3) & kNewBlock) != 0) {
    wire::add_located_block(writer, 1, located(*last, 0, {}));
  } else if (last != nullptr && last->length < file->block_size) {
    last->state = Block::State::kBeingWritten;
    last->pipeline = last->reported;
    last->is_ended = false;
    last->leaving.clear();
    wire::add_located_block(writer, 1, located(*last, file->start_of(last->id), last->pipeline));
  }
  writer.add_message(2, status(*file));
  return body;
}

NameSpace::Answer NameSpace::get_file_info(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "t");
  std::string body;
  if (const File* const file = file_at(fields.text(1))) {
    wire::Writer(body).add_message(1, status(*file));
  }
  return body;
}

NameSpace::Answer NameSpace::report_bad_blocks(const Call& /*call*/) { return std::string(); }

NameSpace::File* NameSpace::file_at(const std::string& path) {
  for (auto& [name, file] : files_) {
    if (name == path || hdfs::inode_path(file.id) == path) return &file;
  }
  return nullptr;
}

NameSpace::File* NameSpace::file_of(std::uint64_t id, const std::string& path) {
  const auto found = std::ranges::find_if(
      files_, [&](const auto& one) { return id != 0 ? one.second.id == id : one.first == path; });
  return found == files_.end() ? nullptr : &found->second;
}

std::string NameSpace::status(const File& file) const {
  std::string status;
  wire::Writer writer(status);
  writer.add_enum(1, 2);  // a file
  writer.add_bytes(2, "");
  writer.add_uint64(3, file.length());
  wire::add_permission(writer, 4, 0644);
  writer.add_string(5, "alice");
  writer.add_string(6, "staff");
  writer.add_uint64(7, 0);
  writer.add_uint64(8, 0);
  writer.add_uint32(10, file.replication);
  writer.add_uint64(11, file.block_size);
  writer.add_uint64(13, file.id);
  return status;
}

std::variant<NameSpace::File*, NameSpace::Exception> NameSpace::open_file(
    std::uint64_t id, const std::string& path, const std::string& holder) {
  File* const found = file_of(id, path);
  if (found == nullptr) return Exception{kFileNotFound, path + " does not exist"};
  File& file = *found;
  if (file.holder.empty()) return Exception{kLeaseExpired, path + " is not open for writing"};
  if (file.holder != holder) return Exception{kLeaseExpired, holder + " is not the lease owner"};
  return &file;
}

std::variant<NameSpace::BlockAt, NameSpace::Exception> NameSpace::open_block(
    const ExtendedBlock& block, const std::string& holder) {
  const BlockAt at = block_at(block.id);
  if (at.block == nullptr) return Exception{kIoException, block.to_string() + " does not exist"};
  if (at.block->state != Block::State::kBeingWritten) {
    return Exception{kIoException, "Unexpected BlockUCState: " + block.to_string() +
                                       " is not UNDER_CONSTRUCTION"};
  }
  if (at.file->holder != holder) {
    return Exception{kLeaseExpired, "Lease mismatch on " + at.file->path};
  }
  return at;
}

NameSpace::BlockAt NameSpace::block_at(std::uint64_t id) {
  for (auto& [path, file] : files_) {
    for (Block& block : file.blocks) {
      if (block.id == id) return {&file, &block};
    }
  }
  return {nullptr, nullptr};
}

// The writer says how long its last block is, and that no more is to come.
std::optional<NameSpace::Exception> NameSpace::commit(File& file, const ExtendedBlock& last) {
  if (file.blocks.empty()) return std::nullopt;
  Block& block = file.blocks.back();
  const bool is_same = block.id == last.id && block.stamp == last.generation_stamp;
  if (block.state == Block::State::kUnderRecovery) {
    return Exception{kIoException, "Commit or complete block " + last.to_string() +
                                       ", whereas it is under recovery."};
  }
  if (block.state != Block::State::kBeingWritten) {
    world_.require(!is_same || block.length == last.length, "nn: ", last.to_string(), " of ",
                   block.length, " is committed again with ", last.length);
    return std::nullopt;
  }
  if (!is_same) {
    return Exception{kIoException, "Commit block with mismatching GS: " + last.to_string()};
  }
  world_.require(last.length > 0, "nn: the empty ", last.to_string(), " is committed");
  world_.require(last.length >= block.length, "nn: ", last.to_string(), " is cut from ",
                 block.length, " to ", last.length);
  for (const DataNode* const node : block.pipeline) {
    const StoredReplica* const replica = node->replica(block.id);
    if (!node->is_up() || node->has_lost_power() || block.is_gone(node)) continue;
    world_.require(
        replica != nullptr && replica->stamp == block.stamp && replica->bytes.size() == last.length,
        "nn: ", last.to_string(), " is committed with ", last.length, ", ", node->info().host,
        " has another length");
  }
  block.length = last.length;
  block.state = Block::State::kCommitted;
  settle(block);
  return std::nullopt;
}

void NameSpace::settle(Block& block) {
  if (block.state == Block::State::kCommitted && !block.reported.empty()) {
    block.state = Block::State::kComplete;
  }
}

void NameSpace::finalized(DataNode& node, std::uint64_t id, std::uint64_t stamp,
                          std::uint64_t length) {
  const BlockAt at = block_at(id);
  if (at.block == nullptr || stamp < at.block->stamp) return;
  Block& block = *at.block;
  if (stamp > block.stamp) {
    block.early.emplace_back(&node, stamp);
    return;
  }
  world_.require(block.state == Block::State::kBeingWritten ||
                     block.state == Block::State::kUnderRecovery || block.length == length,
                 "nn: ", node.info().host, " reports ", id, " with ", length, " bytes, not ",
                 block.length);
  if (!std::ranges::count(block.reported, &node)) block.reported.push_back(&node);
  settle(block);
}

NameSpace::Moved NameSpace::moved(std::uint64_t id, std::uint64_t stamp, DataNode& source,
                                  DataNode& target) {
  const BlockAt at = block_at(id);
  if (at.block == nullptr || at.block->stamp != stamp) return Moved::kLate;
  Block& block = *at.block;
  if (!std::ranges::count(block.reported, &target)) block.reported.push_back(&target);
  const StoredReplica* const copy = target.replica(id);
  block.deleting.erase(&target);  // of a replica that it had before
  block.moved[&target] = {world_.now(), copy == nullptr ? 0 : copy->synced_elsewhere};
  const bool is_listed = std::ranges::count(block.reported, &source) > 0;
  if (block.state != Block::State::kComplete || !is_listed || block.deleting.contains(&source) ||
      !block.leaving.insert(&source).second) {
    return Moved::kAdded;
  }
  std::erase(block.pipeline, &source);
  block.pipeline.push_back(&target);
  return Moved::kReplaced;
}

bool NameSpace::tell_to_delete(std::uint64_t id, const DataNode& node) {
  const BlockAt at = block_at(id);
  if (at.block == nullptr || at.block->leaving.erase(&node) == 0) return false;
  at.block->deleting.insert(&node);
  return true;
}

void NameSpace::deletes(std::uint64_t id, const DataNode& node) {
  const BlockAt at = block_at(id);
  const StoredReplica* const replica = node.replica(id);
  if (at.block == nullptr || replica == nullptr) return;
  at.block->deleted_synced = std::max(at.block->deleted_synced, replica->synced);
  at.block->last_deletion = world_.now();
}

// A pipeline that it came into before that is its writer's to mend.
void NameSpace::deleted(std::uint64_t id, const DataNode& node) {
  const BlockAt at = block_at(id);
  if (at.block == nullptr) return;
  Block& block = *at.block;
  if (!block.deleting.contains(&node)) return;  // it has told of another copy since
  std::erase(block.reported, &node);
  block.moved.erase(&node);
  const bool is_finished =
      block.state == Block::State::kComplete || block.state == Block::State::kCommitted;
  if (is_finished) std::erase(block.pipeline, &node);
  if (std::ranges::count(block.pipeline, &node) == 0) block.deleting.erase(&node);
}

std::vector<DataNode*> NameSpace::choose(std::size_t count,
                                         const std::set<std::string>& not_these) {
  std::vector<DataNode*> free;
  for (const auto& node : nodes_) {
    if (!not_these.contains(node->info().uuid)) free.push_back(node.get());
  }
  std::vector<DataNode*> chosen;
  while (chosen.size() < count && !free.empty()) {
    const auto at = free.begin() + static_cast<std::ptrdiff_t>(chance_.below(free.size()));
    chosen.push_back(*at);
    free.erase(at);
  }
  return chosen;
}

hdfs::LocatedBlock NameSpace::located(const Block& block, std::uint64_t start,
                                      const std::vector<DataNode*>& nodes) const {
  hdfs::LocatedBlock located;
  located.block = {kPool, block.id, block.stamp, block.length};
  located.offset = start;
  for (const DataNode* const node : nodes) {
    located.replicas.push_back({node->info(), hdfs::StorageType::kDisk, "DS-" + node->info().uuid});
  }
  return located;
}

NameSpace::Answer NameSpace::add_block(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "ttmmntn");
  const auto opened = open_file(fields.number(5), fields.text(1), fields.text(2));
  if (const auto* refused = std::get_if<Exception>(&opened)) return *refused;
  File& file = *std::get<File*>(opened);
  const std::optional<ExtendedBlock> previous = block_in(fields, 3);
  const auto answer = [&](const Block& block) {
    std::string body;
    wire::Writer writer(body);
    wire::add_located_block(writer, 1, located(block, file.start_of(block.id), block.pipeline));
    return body;
  };
  const std::size_t count = file.blocks.size();
  const Block* const last = count > 0 ? &file.blocks.back() : nullptr;
  if (!is_named(previous, last)) {
    const bool is_at_end = !previous && last->state == Block::State::kComplete &&
                           last->length >= file.block_size;  // as an append at a block's end is
    // The last block is the one that an earlier attempt of this call has made.
    if (!is_at_end && is_named(previous, count > 1 ? &file.blocks[count - 2] : nullptr)) {
      if (last->length > 0 || last->state == Block::State::kComplete) {
        return Exception{kIoException, "Request looked like a retry to allocate a block"};
      }
      return answer(*last);
    }
    if (!is_at_end) {
      return Exception{kIoException, "passed 'previous' block " +
                                         (previous ? previous->to_string() : "null") +
                                         " does not match actual last block"};
    }
  }
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (file.blocks[i].state != Block::State::kComplete) {
      return Exception{kNotReplicatedYet, "Not replicated yet: " + file.path};
    }
  }
  std::set<std::string> excluded;
  for (std::string& uuid : nodes_in(fields, 4)) excluded.insert(std::move(uuid));
  Block block;
  block.pipeline = choose(file.replication, excluded);
  if (block.pipeline.empty()) {
    return Exception{kIoException, "File " + file.path + " could only be written to 0 nodes"};
  }
  if (previous) {
    // It was meant for a file that its caller has closed and opened again since: a hazard of
    // Hadoop's, as is that of complete().
    if (call.is_late && file.sessions > 1) return Exception{kIoException, "of a file before"};
    if (auto refused = commit(file, *previous)) return *refused;
  }
  block.id = ++last_block_;
  block.stamp = ++last_stamp_;
  file.blocks.push_back(block);
  return answer(block);
}

NameSpace::Answer NameSpace::abandon_block(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "mttn");
  const auto opened = open_file(fields.number(4), fields.text(2), fields.text(3));
  if (const auto* refused = std::get_if<Exception>(&opened)) return *refused;
  File& file = *std::get<File*>(opened);
  const std::optional<ExtendedBlock> block = block_in(fields, 1);
  if (block && !file.blocks.empty() && file.blocks.back().id == block->id) {
    world_.require(file.blocks.back().state == Block::State::kBeingWritten,
                   "nn: a finished block is abandoned");
    file.blocks.pop_back();
  }
  return std::string();
}

NameSpace::Answer NameSpace::complete(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "ttmn");
  const std::optional<ExtendedBlock> last = block_in(fields, 3);
  const auto opened = open_file(fields.number(4), fields.text(1), fields.text(2));
  if (const auto* refused = std::get_if<Exception>(&opened)) {
    // Of a file that was closed with this block: the answer was lost (HDFS-3031).
    const File* const closed = file_of(fields.number(4), fields.text(1));
    const bool is_same = closed != nullptr && closed->holder.empty() &&
                         is_named(last, closed->blocks.empty() ? nullptr : &closed->blocks.back());
    if (is_same) return truth(true);
    return *refused;
  }
  File& file = *std::get<File*>(opened);
  // It was meant for a file that its caller has closed and opened again since.
  if (call.is_late && file.sessions > 1) return truth(false);
  for (std::size_t i = 0; i + 1 < file.blocks.size(); ++i) {
    if (file.blocks[i].state != Block::State::kComplete) return truth(false);
  }
  if (last) {
    if (auto refused = commit(file, *last)) return *refused;
  }
  return truth(close_if_complete(file));
}

NameSpace::Answer NameSpace::fsync(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "ttnn");
  const auto opened = open_file(fields.number(4), fields.text(1), fields.text(2));
  if (const auto* refused = std::get_if<Exception>(&opened)) return *refused;
  File& file = *std::get<File*>(opened);
  const std::uint64_t coded = fields.number(3);  // zigzag
  const bool is_negative = (coded & 1U) != 0;
  if (is_negative || coded == 0 || file.blocks.empty()) return std::string();
  Block& block = file.blocks.back();
  if (block.state != Block::State::kBeingWritten) return std::string();
  const std::uint64_t length = coded >> 1U;
  // It was meant for the block before this one.
  const auto is_short = [&](const DataNode* node) {
    const StoredReplica* const replica = node->replica(block.id);
    return replica == nullptr || replica->acknowledged < length;
  };
  if (call.is_late && std::ranges::any_of(block.pipeline, is_short)) return std::string();
  world_.require(call.is_late || block.is_recorded_late || length >= block.length,
                 "nn: fsync cuts ", block.id, " from ", block.length, " to ", length);
  for (const DataNode* const node : block.pipeline) {
    const StoredReplica* const replica = node->replica(block.id);
    if (!node->is_up() || node->has_lost_power() || replica == nullptr) continue;
    world_.require(replica->acknowledged >= length || replica->has_lost_chunk, "nn: fsync records ",
                   length, " of ", block.id, ", ", node->info().host, " has acknowledged ",
                   replica->acknowledged);
  }
  block.length = length;
  block.is_recorded_late = call.is_late;
  return std::string();
}

NameSpace::Answer NameSpace::update_block_for_pipeline(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "mt");
  const std::optional<ExtendedBlock> named = block_in(fields, 1);
  if (!named) return Exception{kIoException, "no block"};
  const auto found = open_block(*named, fields.text(2));
  if (const auto* refused = std::get_if<Exception>(&found)) return *refused;
  Block& block = *std::get<BlockAt>(found).block;
  // There is no connection any more that could break.
  world_.require(!block.is_ended || call.is_late, "nn: the pipeline of ", block.id,
                 " is to be set up again, and all its replicas are finalized");
  constexpr int kTries = 3;
  if (block.search.answers >= kTries) block.search = {};  // whether or not the last one succeeds
  Block reserved = block;
  reserved.stamp = ++last_stamp_;
  reserved.length = named->length;  // as its caller has it
  std::string body;
  wire::Writer writer(body);
  wire::add_located_block(writer, 1, located(reserved, 0, {}));
  return body;
}

NameSpace::Answer NameSpace::update_pipeline(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "tmmmt");
  const std::optional<ExtendedBlock> before = block_in(fields, 2);
  const std::optional<ExtendedBlock> after = block_in(fields, 3);
  if (!before || !after) return Exception{kIoException, "no block"};
  const auto found = open_block(*before, fields.text(1));
  if (const auto* refused = std::get_if<Exception>(&found)) return *refused;
  Block& block = *std::get<BlockAt>(found).block;
  if (after->generation_stamp <= block.stamp || after->length < block.length) {
    return Exception{kIoException,
                     "Update " + before->to_string() + " to an older " + after->to_string()};
  }
  std::vector<DataNode*> pipeline;
  for (const auto& [field, message] : fields.messages) {
    if (field != 4) continue;
    const std::string uuid = uuid_of_id(message);
    for (const auto& node : nodes_) {
      if (node->info().uuid == uuid) pipeline.push_back(node.get());
    }
  }
  for (const DataNode* const node : pipeline) {
    const StoredReplica* const replica = node->replica(block.id);
    if (!node->is_up() || node->has_lost_power()) continue;
    world_.require(replica != nullptr && replica->stamp >= after->generation_stamp &&
                       (replica->acknowledged >= after->length || replica->has_lost_chunk),
                   "nn: the pipeline is updated before ", node->info().host, " has the new stamp");
  }
  block.stamp = after->generation_stamp;
  block.length = after->length;
  block.pipeline = pipeline;
  block.is_ended = std::ranges::all_of(pipeline, [&](const DataNode* node) {
    const StoredReplica* const replica = node->replica(block.id);
    return replica != nullptr && replica->stamp == block.stamp &&
           replica->state == StoredReplica::State::kFinalized;
  });
  block.search = {};
  block.reported.clear();
  block.moved.clear();
  block.deleting.clear();
  block.deleted_synced = 0;
  for (const auto& [node, stamp] : std::exchange(block.early, {})) {
    if (stamp == block.stamp) block.reported.push_back(node);
  }
  return std::string();
}

NameSpace::Answer NameSpace::get_additional_datanode(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "tmmmnttn");
  const auto opened = open_file(fields.number(8), fields.text(1), fields.text(6));
  if (const auto* refused = std::get_if<Exception>(&opened)) return *refused;
  const std::optional<ExtendedBlock> named = block_in(fields, 2);
  if (!named) return Exception{kIoException, "no block"};
  std::set<std::string> taken;
  std::vector<DataNode*> nodes;
  for (const std::string& uuid : nodes_in(fields, 3)) {
    taken.insert(uuid);
    for (const auto& node : nodes_) {
      if (node->info().uuid == uuid) nodes.push_back(node.get());
    }
  }
  if (nodes.empty()) return Exception{kNullPointer, "of the nodes that are left"};
  const std::set<std::string> left = taken;
  for (std::string& uuid : nodes_in(fields, 4)) taken.insert(std::move(uuid));
  for (Block& block : std::get<File*>(opened)->blocks) {
    const bool is_repeated = call.is_late || call.key == block.search.asked_by;
    if (block.id != named->id || is_repeated) continue;
    if (block.search.left != left) block.search = {left, 0, {}, {}, false};
    block.search.asked_by = call.key;
    const auto expect_taken = [&](const DataNode* node, std::string_view what) {
      world_.require(node->may_return() || taken.contains(node->info().uuid),
                     "nn: ", node->info().host, what, block.id, ", and is not excluded");
    };
    if (!block.search.found_none) {
      for (const DataNode* const node : block.pipeline) {
        expect_taken(node, " has left the pipeline of ");
      }
    }
    for (const DataNode* const node : block.search.copied_to) {
      expect_taken(node, " was to get a copy of ");
    }
    ++block.search.answers;
  }
  const std::vector<DataNode*> chosen = choose(1, taken);
  Block* const searched = block_at(named->id).block;
  if (chosen.empty() && searched != nullptr) searched->search = {left, 0, {}, {}, true};
  for (DataNode* const node : chosen) {
    world_.note("nn: ", node->info().host, " may come in for ", named->id);
    nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(chance_.below(nodes.size() + 1)),
                 node);
  }
  Block block;
  block.id = named->id;
  block.stamp = named->generation_stamp;
  block.length = named->length;
  std::string body;
  wire::Writer writer(body);
  hdfs::LocatedBlock extended = located(block, 0, nodes);
  extended.token.encoded = DataNode::kCopyToken;
  wire::add_located_block(writer, 1, extended);
  return body;
}

NameSpace::Answer NameSpace::get_block_locations(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "tnn");
  if (const File* const found = file_at(fields.text(1))) {
    const File& file = *found;
    std::string body;
    wire::Writer response(body);
    wire::Writer message(response, 1);
    // All but a last block that is not complete.
    std::uint64_t length = file.length();
    if (!file.blocks.empty() && file.blocks.back().state != Block::State::kComplete) {
      length -= file.blocks.back().length;
    }
    message.add_uint64(1, length);
    const std::uint64_t offset = fields.number(2);
    const std::uint64_t end = offset + fields.number(3);
    const auto add = [&](std::uint32_t field, const Block& block, std::uint64_t start) {
      const bool is_complete = block.state == Block::State::kComplete;
      wire::add_located_block(message, field,
                              located(block, start, is_complete ? block.reported : block.pipeline));
    };
    std::uint64_t start = 0;
    auto block = file.blocks.begin();
    // The first one that ends behind the offset, and also a first one without a length.
    const bool has_length = block != file.blocks.end() && block->length > 0;
    for (; has_length && block != file.blocks.end() && start + block->length <= offset; ++block) {
      start += block->length;
    }
    for (bool is_first = true; block != file.blocks.end() && (is_first || start < end); ++block) {
      add(2, *block, start);
      start += block->length;
      is_first = false;
    }
    if (!file.blocks.empty()) {
      add(4, file.blocks.back(), file.length() - file.blocks.back().length);
    }
    const bool is_last_complete =
        !file.blocks.empty() && file.blocks.back().state == Block::State::kComplete;
    message.add_bool(3, !file.holder.empty());
    message.add_bool(5, is_last_complete);
    message.commit();
    return body;
  }
  return Exception{kFileNotFound, fields.text(1) + " does not exist"};
}

const NameSpace::File* NameSpace::find(const std::string& path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

const NameSpace::File* NameSpace::file_of_block(std::uint64_t block) const {
  for (const auto& [path, file] : files_) {
    for (const Block& one : file.blocks) {
      if (one.id == block) return &file;
    }
  }
  return nullptr;
}

void NameSpace::is_to_copy(std::uint64_t id, const DataNode* target) {
  const BlockAt at = block_at(id);
  if (at.block != nullptr && target != nullptr) at.block->search.copied_to.insert(target);
}

void NameSpace::is_set_up(std::uint64_t id) {
  const BlockAt at = block_at(id);
  if (at.block != nullptr) at.block->search = {};  // it is over
}

std::optional<TimePoint> NameSpace::renewed(const std::string& holder) const {
  const auto lease = leases_.find(holder);
  return lease == leases_.end() ? std::nullopt : std::optional(lease->second.renewed);
}

// --- leases --------------------------------------------------------------------------------------

void NameSpace::open(File& file, const std::string& holder) {
  file.holder = holder;
  ++file.sessions;
  for (Block& block : file.blocks) {  // whoever wrote it before looks for no other DataNode
    block.search = {};
  }
  Lease& lease = leases_[holder];
  lease.renewed = world_.now();
  if (lease.watch == 0) watch(holder, hard_limit_);
}

void NameSpace::close(File& file) {
  const std::string holder = std::exchange(file.holder, {});
  const bool has_more =
      std::ranges::any_of(files_, [&](const auto& one) { return one.second.holder == holder; });
  if (has_more) return;
  const auto lease = leases_.find(holder);
  if (lease == leases_.end()) return;
  world_.cancel(lease->second.watch);
  leases_.erase(lease);
}

bool NameSpace::close_if_complete(File& file) {
  const bool is_complete = std::ranges::all_of(
      file.blocks, [](const Block& block) { return block.state == Block::State::kComplete; });
  if (is_complete) close(file);
  return is_complete;
}

void NameSpace::hand_over(File& file, const std::string& holder) {
  if (file.holder == holder) return;
  const std::uint64_t sessions = file.sessions;
  close(file);
  open(file, holder);
  file.sessions = sessions;
}

bool NameSpace::leases_are_held() const {
  return std::ranges::all_of(leases_, [this](const auto& lease) {
    return std::ranges::any_of(files_,
                               [&](const auto& one) { return one.second.holder == lease.first; });
  });
}

void NameSpace::serve(bool is_served) {
  is_served_ = is_served;
  // Nothing is known of when they were renewed.
  if (is_served) {
    for (auto& [holder, lease] : leases_) lease.renewed = world_.now();
  }
}

bool NameSpace::is_stale(const std::string& holder, Duration limit) const {
  const auto lease = leases_.find(holder);
  return lease == leases_.end() || world_.now() - lease->second.renewed >= limit;
}

void NameSpace::watch(const std::string& holder, Duration after) {
  leases_[holder].watch = world_.after(after, [this, holder] {
    Lease& lease = leases_[holder];
    lease.watch = 0;
    const Duration left = lease.renewed + hard_limit_ - world_.now();
    if (left > Duration{}) return watch(holder, left);
    if (!is_served_) return watch(holder, kRecheck);
    world_.note("nn: the lease of ", holder, " is not renewed");
    const TimePoint last_try = lease.renewed + 2 * hard_limit_;
    std::vector<File*> files;
    for (auto& [path, file] : files_) {
      if (file.holder == holder) files.push_back(&file);
    }
    for (File* const file : files) static_cast<void>(recover(*file, kOwnName));
    // What is its own already may wait for a report of a block that was committed.
    const auto found = leases_.find(holder);
    const bool is_left = found != leases_.end() && found->second.watch == 0;
    if (is_left && world_.now() < last_try) watch(holder, kRecheck);
  });
}

std::optional<NameSpace::Exception> NameSpace::busy(File& file, const std::string& caller) {
  if (file.holder == caller) {
    return Exception{kAlreadyBeingCreated, caller + " is already the current lease holder"};
  }
  const bool is_recovered =
      !file.blocks.empty() && file.blocks.back().state == Block::State::kUnderRecovery;
  if (!is_recovered && !is_stale(file.holder, kSoftLimit)) {
    return Exception{kAlreadyBeingCreated, "the lease is currently owned by " + file.holder};
  }
  if (!is_recovered && recover(file, file.holder)) return std::nullopt;
  return Exception{kRecoveryInProgress, file.path + " is being recovered"};
}

NameSpace::Answer NameSpace::renew_lease(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "t");
  const auto lease = leases_.find(fields.text(1));
  if (lease != leases_.end()) lease->second.renewed = world_.now();
  return std::string();
}

NameSpace::Answer NameSpace::recover_lease(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "tt");
  File* const file = file_at(fields.text(1));
  if (file == nullptr) return Exception{kFileNotFound, fields.text(1) + " does not exist"};
  if (file->holder.empty()) return truth(true);
  if (file->holder != fields.text(2)) ++file->seizures;
  return truth(recover(*file, fields.text(2)));
}

NameSpace::Answer NameSpace::is_file_closed(const Call& call) {
  const Fields fields = read_fields(as_bytes(call.request), "t");
  const File* const file = file_at(fields.text(1));
  if (file == nullptr) return Exception{kFileNotFound, fields.text(1) + " does not exist"};
  return truth(file->holder.empty());
}

bool NameSpace::recover(File& file, const std::string& holder) {
  world_.note("nn: ", file.path, " of ", file.holder, " is recovered for ", holder);
  for (Block& block : file.blocks) settle(block);
  ++file.recoveries;
  hand_over(file, holder);
  if (close_if_complete(file)) return true;
  Block& last = file.blocks.back();
  if (last.state == Block::State::kUnderRecovery && world_.now() < last.recovery_end) return false;
  last.state = Block::State::kUnderRecovery;
  last.recovery = ++last_stamp_;
  last.recovery_end = world_.now() + kRecoveryLimit;
  recover_later(last.id, last.recovery, 1);
  return false;
}

void NameSpace::recover_all() {
  for (auto& [path, file] : files_) {
    if (!file.holder.empty()) static_cast<void>(recover(file, kOwnName));
  }
}

// With the next heartbeat of a DataNode.
void NameSpace::recover_later(std::uint64_t id, std::uint64_t recovery, int attempt) {
  constexpr int kAttempts = 12;
  if (attempt > kAttempts) return;
  const Duration pause = attempt == 1 ? Duration{} : attempt * std::chrono::seconds(2);
  world_.after(pause + chance_.up_to(std::chrono::seconds(3)),
               [this, id, recovery, attempt] { recover_block(id, recovery, attempt); });
}

void NameSpace::recover_block(std::uint64_t id, std::uint64_t recovery, int attempt) {
  const BlockAt at = block_at(id);
  if (at.block == nullptr || at.block->recovery != recovery ||
      at.block->state != Block::State::kUnderRecovery) {
    return;
  }
  Block& block = *at.block;
  struct Found {
    DataNode* node;
    StoredReplica replica;
  };
  std::vector<Found> found;
  bool is_one_missing = false;
  bool is_one_cut = false;  // to nothing
  for (DataNode* const node : block.pipeline) {
    if (!is_served_ || !node->is_up() || network_.is_silent(node->ip())) {
      is_one_missing = true;
      continue;
    }
    const StoredReplica* const replica = node->begin_recovery(id, recovery);
    if (replica == nullptr || replica->stamp < block.stamp) continue;
    is_one_cut = is_one_cut || (replica->has_lost_chunk && replica->bytes.empty());
    if (replica->bytes.empty()) continue;
    found.push_back({node, *replica});
  }
  if (found.empty()) {
    if (is_one_missing) return recover_later(id, recovery, attempt + 1);
    world_.note("nn: no DataNode has a byte of ", id);
    if (is_one_cut) at.file->losses.push_back({at.file->sessions, at.file->start_of(id)});
    at.file->blocks.pop_back();
    at.file->has_lost_block = true;
    static_cast<void>(close_if_complete(*at.file));
    return;
  }
  // The best state decides, the shortest of those the length: what was acknowledged is on each.
  const auto best = std::ranges::min(found, {}, [](const Found& one) { return one.replica.state; });
  const bool is_finalized = best.replica.state == StoredReplica::State::kFinalized;
  std::uint64_t length = best.replica.bytes.size();
  for (const Found& one : found) {
    if (one.replica.state != best.replica.state) continue;
    world_.require(!is_finalized || one.replica.bytes.size() == length,
                   "nn: finalized replicas of ", id, " of ", length, " and of ",
                   one.replica.bytes.size(), " bytes");
    length = std::min<std::uint64_t>(length, one.replica.bytes.size());
  }
  const bool is_cut = std::ranges::any_of(found, [&](const Found& one) {
    return one.replica.state == best.replica.state && one.replica.has_lost_chunk &&
           one.replica.bytes.size() == length;
  });
  std::vector<DataNode*> kept;
  for (const Found& one : found) {
    const bool is_as_good = one.replica.state == best.replica.state ||
                            (is_finalized && one.replica.bytes.size() == length &&
                             one.replica.state == StoredReplica::State::kBeingWritten);
    if (!is_as_good) continue;
    one.node->finish_recovery(id, recovery, length);
    kept.push_back(one.node);
  }
  world_.note("nn: ", id, " is recovered with ", length, " bytes on ", kept.size(), " nodes");
  const bool has_lost_power = std::ranges::any_of(
      block.pipeline, [](const DataNode* node) { return node->has_lost_power(); });
  if (is_cut) at.file->losses.push_back({at.file->sessions, at.file->start_of(id) + length});
  world_.require(length >= block.length || has_lost_power || is_cut, "nn: ", id,
                 " is recovered with ", length, " bytes of ", block.length);
  block.stamp = recovery;
  block.length = length;
  block.pipeline = kept;
  block.reported = kept;
  block.state = Block::State::kComplete;
  static_cast<void>(close_if_complete(*at.file));
}

}  // namespace hflush::sim
