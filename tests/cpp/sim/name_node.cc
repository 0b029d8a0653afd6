#include "sim/name_node.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "hflush/base/endian.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::sim {
namespace {

namespace wire = hdfs::wire;
using hdfs::ExtendedBlock;

constexpr std::string_view kPreamble("hrpc\x09\x00\x00", 7);
constexpr std::int32_t kContext = -3;
constexpr std::int32_t kPing = -4;
constexpr const char* kPool = "BP-1";

constexpr const char* kIoException = "java.io.IOException";
constexpr const char* kFileNotFound = "java.io.FileNotFoundException";
constexpr const char* kLeaseExpired =
    "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException";
constexpr const char* kNotReplicatedYet =
    "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException";
constexpr const char* kAlreadyExists = "org.apache.hadoop.fs.FileAlreadyExistsException";
constexpr const char* kNoSuchMethod = "org.apache.hadoop.ipc.RpcNoSuchMethodException";

// A message with its length in front, taken from the front of `bytes`.
std::string_view take_delimited(std::string_view& bytes) {
  std::uint64_t size = 0;
  std::size_t at = 0;
  for (unsigned shift = 0; at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    size |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  const std::string_view message = bytes.substr(at, size);
  bytes.remove_prefix(std::min(bytes.size(), at + static_cast<std::size_t>(size)));
  return message;
}

std::int32_t unzigzag(std::uint32_t coded) {
  return static_cast<std::int32_t>((coded >> 1U) ^ (~(coded & 1U) + 1));
}

struct Call {
  std::int32_t id = 0;
  std::string client_id;
  std::string method;
  std::string request;
};

std::string framed(const std::string& body) {
  std::string frame(4, '\0');
  store_be32(reinterpret_cast<std::byte*>(frame.data()), static_cast<std::uint32_t>(body.size()));
  return frame + body;
}

// The fields of the requests of this model; each message has some of them.
struct Fields {
  std::map<std::uint32_t, std::string> texts;
  std::map<std::uint32_t, std::uint64_t> numbers;
  std::vector<std::pair<std::uint32_t, std::string>> messages;  // as sent

  std::string text(std::uint32_t field) const {
    const auto found = texts.find(field);
    return found == texts.end() ? std::string() : found->second;
  }
  std::uint64_t number(std::uint32_t field) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second;
  }
};

// `lengths`: fields with a length, by number: 't' is text (and bytes), 'm' a message.
Fields read(ByteView request, std::string_view kinds) {
  hdfs::wire::Fault fault;
  wire::Reader from("request", request, fault);
  Fields fields;
  while (from.next()) {
    const std::uint32_t field = from.field();
    const char kind = field <= kinds.size() ? kinds[field - 1] : '-';
    if (kind == 't') {
      fields.texts[field] = from.text();
    } else if (kind == 'm') {
      fields.messages.emplace_back(field, from.text());
    } else if (kind == 'n') {
      fields.numbers[field] = from.uint64();
    } else {
      from.skip();
    }
  }
  return fields;
}

ExtendedBlock block_in(const std::string& message) {
  hdfs::wire::Fault fault;
  return wire::read_block(wire::Reader("block", as_bytes(message), fault));
}

std::optional<ExtendedBlock> block_in(const Fields& fields, std::uint32_t number) {
  for (const auto& [field, message] : fields.messages) {
    if (field == number) return block_in(message);
  }
  return std::nullopt;
}

std::string uuid_of_id(std::string_view message) { return read(as_bytes(message), "ttt").text(3); }

// The names of the nodes in a field of DatanodeInfos.
std::vector<std::string> nodes_in(const Fields& fields, std::uint32_t number) {
  std::vector<std::string> uuids;
  for (const auto& [field, message] : fields.messages) {
    if (field != number) continue;
    const Fields info = read(as_bytes(message), "m");
    if (!info.messages.empty()) uuids.push_back(uuid_of_id(info.messages.front().second));
  }
  return uuids;
}

std::string truth(bool value) {
  std::string body;
  wire::Writer(body).add_bool(1, value);
  return body;
}

}  // namespace

std::uint64_t NameNode::File::length() const noexcept {
  std::uint64_t sum = 0;
  for (const Block& block : blocks) sum += block.length;
  return sum;
}

std::uint64_t NameNode::File::start_of(std::uint64_t block) const noexcept {
  std::uint64_t start = 0;
  for (const Block& one : blocks) {
    if (one.id == block) break;
    start += one.length;
  }
  return start;
}

// --- connections ---------------------------------------------------------------------------------

class NameNode::Connection : public std::enable_shared_from_this<NameNode::Connection> {
 public:
  Connection(NameNode& node, std::shared_ptr<End> end) : node_(node), end_(std::move(end)) {}

  void start() {
    end_->on_arrival = [self = shared_from_this()] { self->arrived(); };
  }

 private:
  void arrived() {
    const auto self = shared_from_this();
    std::string& inbox = end_->inbox();
    World& world = node_.world_;
    if (!has_preamble_ && inbox.size() >= kPreamble.size()) {
      world.require(inbox.starts_with(kPreamble), "nn: not Hadoop's RPC");
      end_->taken(kPreamble.size());
      has_preamble_ = true;
    }
    while (has_preamble_ && inbox.size() >= 4 && !end_->is_closed()) {
      const std::uint32_t size = load_be32(reinterpret_cast<const std::byte*>(inbox.data()));
      if (inbox.size() < 4 + size) break;
      const std::string frame = inbox.substr(4, size);
      end_->taken(4 + size);
      take(frame);
    }
    if (end_->is_at_end()) end_->close();
  }

  void take(std::string_view frame) {
    World& world = node_.world_;
    const Fields header = read(as_bytes(take_delimited(frame)), "nnntn");
    Call call;
    call.id = unzigzag(static_cast<std::uint32_t>(header.number(3)));
    call.client_id = header.text(4);
    if (call.id == kContext || call.id == kPing) {
      world.require(has_context_ == (call.id == kPing), "nn: a context in the wrong place");
      has_context_ = true;
      return;
    }
    world.require(has_context_, "nn: a call before the context");
    world.require(call.client_id.size() == 16, "nn: a client id of ", call.client_id.size());
    call.method = read(as_bytes(take_delimited(frame)), "tt").text(1);
    call.request = take_delimited(frame);
    serve(std::move(call));
  }

  void serve(Call call) {
    const Faults& faults = node_.faults_;
    const auto hit = [&](std::uint64_t one_in) {
      const bool is_hit = one_in != 0 && node_.chance_.one_in(one_in);
      if (is_hit) ++node_.hits_;
      return is_hit;
    };
    if (hit(faults.lost_calls)) {
      node_.world_.note("nn loses the call ", call.id, " ", call.method);
      return end_->reset();
    }
    const Duration takes = node_.chance_.up_to(std::chrono::microseconds(500));
    Duration later{};
    if (hit(faults.late_answers)) later = node_.chance_.up_to(std::chrono::seconds(30));
    const bool is_lost = hit(faults.lost_answers);
    node_.world_.after(takes, [self = shared_from_this(), call = std::move(call), is_lost, later] {
      self->answer(call, is_lost, later);
    });
  }

  void answer(const Call& call, bool is_lost, Duration later) {
    const Answer answer =
        node_.carry_out_once({call.client_id, call.id}, call.method, as_bytes(call.request));
    const auto* const thrown = std::get_if<Exception>(&answer);
    node_.world_.note("nn ", call.method, " ", call.id, thrown != nullptr ? " throws " : " answers",
                      thrown != nullptr ? thrown->class_name + ": " + thrown->message : "",
                      is_lost ? ", which is lost" : "");
    if (is_lost) return end_->reset();
    std::string header;
    {
      wire::Writer writer(header);
      writer.add_uint32(1, static_cast<std::uint32_t>(call.id));
      writer.add_enum(2, thrown != nullptr ? 1 : 0);
      if (thrown != nullptr) {
        writer.add_string(4, thrown->class_name);
        writer.add_string(5, thrown->message);
      }
    }
    std::string body = wire::delimited(header);
    if (thrown == nullptr) body += wire::delimited(std::get<std::string>(answer));
    if (later == Duration{}) return end_->send_all(framed(body));
    node_.world_.after(later, [end = end_, frame = framed(body)] { end->send_all(frame); });
  }

  NameNode& node_;
  const std::shared_ptr<End> end_;
  bool has_preamble_ = false;
  bool has_context_ = false;
};

NameNode::NameNode(World& world, Network& network, std::vector<std::unique_ptr<DataNode>>& nodes)
    : world_(world), network_(network), nodes_(nodes), chance_(world.seed(), "namenode") {
  listen();
}

void NameNode::listen() {
  network_.listen(endpoint(), [this](std::shared_ptr<End> end) {
    std::make_shared<Connection>(*this, std::move(end))->start();
  });
}

void NameNode::restart(Duration absence) {
  ++hits_;
  world_.note("nn is gone for ", absence.count() / 1'000'000, " ms");
  network_.crash(kIp);
  world_.after(absence, [this] {
    world_.note("nn is back");
    listen();
  });
}

// --- calls ---------------------------------------------------------------------------------------

NameNode::Answer NameNode::carry_out_once(const CallKey& key, const std::string& method,
                                          ByteView request) {
  static const std::set<std::string> kAtMostOnce{"create", "updatePipeline"};
  const bool is_cached = kAtMostOnce.contains(method);
  if (is_cached) {
    if (const auto found = retry_cache_.find(key); found != retry_cache_.end()) {
      return found->second;
    }
  }
  Answer answer = carry_out(method, request);
  if (const auto* body = std::get_if<std::string>(&answer); body != nullptr && is_cached) {
    retry_cache_[key] = *body;
  }
  return answer;
}

NameNode::Answer NameNode::carry_out(const std::string& method, ByteView request) {
  using Method = Answer (NameNode::*)(ByteView);
  static const std::map<std::string, Method> kMethods{
      {"create", &NameNode::create},
      {"addBlock", &NameNode::add_block},
      {"abandonBlock", &NameNode::abandon_block},
      {"complete", &NameNode::complete},
      {"fsync", &NameNode::fsync},
      {"renewLease", &NameNode::renew_lease},
      {"recoverLease", &NameNode::recover_lease},
      {"updateBlockForPipeline", &NameNode::update_block_for_pipeline},
      {"updatePipeline", &NameNode::update_pipeline},
      {"getAdditionalDatanode", &NameNode::get_additional_datanode},
      {"getBlockLocations", &NameNode::get_block_locations},
  };
  const auto found = kMethods.find(method);
  if (found == kMethods.end()) {
    world_.breach("the model has no " + method);
    return Exception{kNoSuchMethod, method};
  }
  return (this->*found->second)(request);
}

NameNode::Answer NameNode::create(ByteView request) {
  const Fields fields = read(request, "tmtnbnn");
  const std::string path = fields.text(1);
  const auto existing = files_.find(path);
  constexpr std::uint64_t kOverwrite = 2;
  if (existing != files_.end() && (fields.number(4) & kOverwrite) == 0) {
    return Exception{kAlreadyExists, path + " exists"};
  }
  File file;
  file.id = ++last_file_;
  file.path = path;
  file.holder = fields.text(3);
  file.replication = static_cast<std::uint32_t>(fields.number(6));
  file.block_size = fields.number(7);
  files_.insert_or_assign(path, file);
  std::string body;
  wire::Writer(body).add_message(1, status(file));
  return body;
}

std::string NameNode::status(const File& file) const {
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

std::variant<NameNode::File*, NameNode::Exception> NameNode::open_file(std::uint64_t id,
                                                                       const std::string& path,
                                                                       const std::string& holder) {
  const auto found = std::ranges::find_if(
      files_, [&](const auto& one) { return id != 0 ? one.second.id == id : one.first == path; });
  if (found == files_.end()) return Exception{kFileNotFound, path + " does not exist"};
  File& file = found->second;
  if (file.holder.empty()) return Exception{kLeaseExpired, path + " is not open for writing"};
  if (file.holder != holder) return Exception{kLeaseExpired, holder + " is not the lease owner"};
  return &file;
}

std::variant<NameNode::BlockAt, NameNode::Exception> NameNode::open_block(
    const ExtendedBlock& block, const std::string& holder) {
  for (auto& [path, file] : files_) {
    for (Block& one : file.blocks) {
      if (one.id != block.id) continue;
      if (one.state != Block::State::kBeingWritten) {
        return Exception{kIoException, "Unexpected BlockUCState: " + block.to_string() +
                                           " is not UNDER_CONSTRUCTION"};
      }
      if (file.holder != holder) return Exception{kLeaseExpired, "Lease mismatch on " + path};
      return BlockAt{&file, &one};
    }
  }
  return Exception{kIoException, block.to_string() + " does not exist"};
}

// The writer says how long its last block is, and that no more is to come.
std::optional<NameNode::Exception> NameNode::commit(File& file, const ExtendedBlock& last) {
  Block& block = file.blocks.back();
  if (block.id != last.id || block.stamp != last.generation_stamp) {
    return Exception{kIoException, "Commit block with mismatching GS: " + last.to_string()};
  }
  if (block.state != Block::State::kBeingWritten) {
    world_.require(block.length == last.length, "nn: ", last.to_string(), " of ", block.length,
                   " is committed again with ", last.length);
    return std::nullopt;
  }
  world_.require(last.length > 0, "nn: the empty ", last.to_string(), " is committed");
  world_.require(last.length >= block.length, "nn: ", last.to_string(), " is cut from ",
                 block.length, " to ", last.length);
  for (const DataNode* const node : block.pipeline) {
    const StoredReplica* const replica = node->replica(block.id);
    if (!node->is_up()) continue;
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

void NameNode::settle(Block& block) {
  if (block.state == Block::State::kCommitted && !block.reported.empty()) {
    block.state = Block::State::kComplete;
  }
}

void NameNode::finalized(DataNode& node, std::uint64_t block, std::uint64_t stamp,
                         std::uint64_t length) {
  for (auto& [path, file] : files_) {
    for (Block& one : file.blocks) {
      if (one.id != block || one.stamp != stamp) continue;
      world_.require(one.state == Block::State::kBeingWritten || one.length == length,
                     "nn: ", node.info().host, " reports ", block, " with ", length, " bytes, not ",
                     one.length);
      if (!std::ranges::count(one.reported, &node)) one.reported.push_back(&node);
      settle(one);
    }
  }
}

std::vector<DataNode*> NameNode::choose(std::size_t count, const std::set<std::string>& not_these) {
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

hdfs::LocatedBlock NameNode::located(const Block& block, std::uint64_t start,
                                     const std::vector<DataNode*>& nodes) const {
  hdfs::LocatedBlock located;
  located.block = {kPool, block.id, block.stamp, block.length};
  located.offset = start;
  for (const DataNode* const node : nodes) {
    located.replicas.push_back({node->info(), hdfs::StorageType::kDisk, "DS-" + node->info().uuid});
  }
  return located;
}

NameNode::Answer NameNode::add_block(ByteView request) {
  const Fields fields = read(request, "ttmmntn");
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
  // The last block is the one that an earlier attempt of this call has made.
  const std::size_t count = file.blocks.size();
  const bool is_repeated =
      count > 0 && file.blocks.back().state == Block::State::kBeingWritten &&
      (previous ? count > 1 && file.blocks[count - 2].id == previous->id : count == 1);
  if (is_repeated) {
    if (file.blocks.back().length > 0) {
      return Exception{kIoException, "Request looked like a retry to allocate a block"};
    }
    return answer(file.blocks.back());
  }
  if (previous) {
    if (count == 0 || file.blocks.back().id != previous->id) {
      return Exception{kIoException, "passed 'previous' block " + previous->to_string() +
                                         " does not match actual last block"};
    }
    if (auto refused = commit(file, *previous)) return *refused;
  } else if (count > 0) {
    return Exception{kIoException, "passed no 'previous' block"};
  }
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (file.blocks[i].state != Block::State::kComplete) {
      return Exception{kNotReplicatedYet, "Not replicated yet: " + file.path};
    }
  }
  std::set<std::string> excluded;
  for (std::string& uuid : nodes_in(fields, 4)) excluded.insert(std::move(uuid));
  Block block;
  block.id = ++last_block_;
  block.stamp = ++last_stamp_;
  block.pipeline = choose(file.replication, excluded);
  if (block.pipeline.empty()) {
    return Exception{kIoException, "File " + file.path + " could only be written to 0 nodes"};
  }
  file.blocks.push_back(block);
  return answer(block);
}

NameNode::Answer NameNode::abandon_block(ByteView request) {
  const Fields fields = read(request, "mttn");
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

NameNode::Answer NameNode::complete(ByteView request) {
  const Fields fields = read(request, "ttmn");
  const std::optional<ExtendedBlock> last = block_in(fields, 3);
  const auto opened = open_file(fields.number(4), fields.text(1), fields.text(2));
  if (const auto* refused = std::get_if<Exception>(&opened)) {
    // Of a file that was closed with this block: the answer was lost (HDFS-3031).
    const File* const closed = find(fields.text(1));
    const bool is_same = closed != nullptr && closed->holder.empty() && last &&
                         !closed->blocks.empty() && closed->blocks.back().id == last->id &&
                         closed->blocks.back().stamp == last->generation_stamp;
    if (is_same) return truth(true);
    return *refused;
  }
  File& file = *std::get<File*>(opened);
  if (last) {
    if (file.blocks.empty()) return Exception{kIoException, "no block to complete"};
    if (auto refused = commit(file, *last)) return *refused;
  }
  for (const Block& block : file.blocks) {
    if (block.state != Block::State::kComplete) return truth(false);
  }
  file.holder.clear();
  return truth(true);
}

NameNode::Answer NameNode::fsync(ByteView request) {
  const Fields fields = read(request, "ttnn");
  const auto opened = open_file(fields.number(4), fields.text(1), fields.text(2));
  if (const auto* refused = std::get_if<Exception>(&opened)) return *refused;
  File& file = *std::get<File*>(opened);
  const std::uint64_t coded = fields.number(3);  // zigzag
  const bool is_negative = (coded & 1U) != 0;
  if (is_negative || coded == 0 || file.blocks.empty()) return std::string();
  Block& block = file.blocks.back();
  if (block.state != Block::State::kBeingWritten) return std::string();
  const std::uint64_t length = coded >> 1U;
  world_.require(length >= block.length, "nn: fsync cuts ", block.id, " from ", block.length,
                 " to ", length);
  for (const DataNode* const node : block.pipeline) {
    const StoredReplica* const replica = node->replica(block.id);
    if (!node->is_up() || replica == nullptr) continue;
    world_.require(replica->acknowledged >= length, "nn: fsync records ", length, " of ", block.id,
                   ", ", node->info().host, " has acknowledged ", replica->acknowledged);
  }
  block.length = length;
  return std::string();
}

NameNode::Answer NameNode::renew_lease(ByteView /*request*/) { return std::string(); }

// What recovery would do is not part of this model: the file is taken from its writer.
NameNode::Answer NameNode::recover_lease(ByteView request) {
  const Fields fields = read(request, "tt");
  for (auto& [path, file] : files_) {
    if (path != fields.text(1) && hdfs::inode_path(file.id) != fields.text(1)) continue;
    if (!file.holder.empty()) file.holder = fields.text(2);
    return truth(file.holder.empty());
  }
  return Exception{kFileNotFound, fields.text(1) + " does not exist"};
}

NameNode::Answer NameNode::update_block_for_pipeline(ByteView request) {
  const Fields fields = read(request, "mt");
  const std::optional<ExtendedBlock> named = block_in(fields, 1);
  if (!named) return Exception{kIoException, "no block"};
  const auto found = open_block(*named, fields.text(2));
  if (const auto* refused = std::get_if<Exception>(&found)) return *refused;
  Block reserved = *std::get<BlockAt>(found).block;
  reserved.stamp = ++last_stamp_;
  std::string body;
  wire::Writer writer(body);
  wire::add_located_block(writer, 1, located(reserved, 0, {}));
  return body;
}

NameNode::Answer NameNode::update_pipeline(ByteView request) {
  const Fields fields = read(request, "tmmmt");
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
    if (!node->is_up()) continue;
    world_.require(replica != nullptr && replica->stamp >= after->generation_stamp &&
                       replica->acknowledged >= after->length,
                   "nn: the pipeline is updated before ", node->info().host, " has the new stamp");
  }
  block.stamp = after->generation_stamp;
  block.length = after->length;
  block.pipeline = pipeline;
  block.reported.clear();
  return std::string();
}

NameNode::Answer NameNode::get_additional_datanode(ByteView request) {
  const Fields fields = read(request, "tmmmnttn");
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
  for (std::string& uuid : nodes_in(fields, 4)) taken.insert(std::move(uuid));
  for (DataNode* const node : choose(1, taken)) {
    nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(chance_.below(nodes.size() + 1)),
                 node);
  }
  Block block;
  block.id = named->id;
  block.stamp = named->generation_stamp;
  block.length = named->length;
  std::string body;
  wire::Writer writer(body);
  wire::add_located_block(writer, 1, located(block, 0, nodes));
  return body;
}

NameNode::Answer NameNode::get_block_locations(ByteView request) {
  const Fields fields = read(request, "tnn");
  for (auto& [path, file] : files_) {
    if (path != fields.text(1) && hdfs::inode_path(file.id) != fields.text(1)) continue;
    std::string body;
    wire::Writer response(body);
    wire::Writer message(response, 1);
    std::uint64_t complete = 0;
    for (const Block& block : file.blocks) {
      if (block.state == Block::State::kComplete) complete += block.length;
    }
    message.add_uint64(1, complete);
    const std::uint64_t offset = fields.number(2);
    const std::uint64_t end = offset + fields.number(3);
    const auto add = [&](std::uint32_t field, const Block& block, std::uint64_t start) {
      const bool is_complete = block.state == Block::State::kComplete;
      wire::add_located_block(message, field,
                              located(block, start, is_complete ? block.reported : block.pipeline));
    };
    std::uint64_t start = 0;
    for (const Block& block : file.blocks) {
      if (start < end && start + block.length > offset) add(2, block, start);
      start += block.length;
    }
    if (!file.blocks.empty()) add(4, file.blocks.back(), start - file.blocks.back().length);
    const bool is_last_complete =
        !file.blocks.empty() && file.blocks.back().state == Block::State::kComplete;
    message.add_bool(3, !file.holder.empty());
    message.add_bool(5, is_last_complete);
    message.commit();
    return body;
  }
  return Exception{kFileNotFound, fields.text(1) + " does not exist"};
}

const NameNode::File* NameNode::find(const std::string& path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

const NameNode::File* NameNode::file_of_block(std::uint64_t block) const {
  for (const auto& [path, file] : files_) {
    for (const Block& one : file.blocks) {
      if (one.id == block) return &file;
    }
  }
  return nullptr;
}

bool NameNode::has_lease(const std::string& holder) const {
  return std::ranges::any_of(files_, [&](const auto& one) { return one.second.holder == holder; });
}

}  // namespace hflush::sim
