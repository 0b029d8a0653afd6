#include "scripted_name_node.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/endian.h"
#include "hflush/hdfs/wire/shared_messages.h"

namespace scripted {
namespace {

using hflush::hdfs::ExtendedBlock;
using hflush::hdfs::wire::Fault;
using hflush::hdfs::wire::read_block;
using hflush::hdfs::wire::Reader;
using hflush::hdfs::wire::Writer;

constexpr std::size_t kMaxFrame = std::size_t{16} << 20U;
constexpr std::array kPreamble{std::byte{'h'}, std::byte{'r'}, std::byte{'p'}, std::byte{'c'},
                               std::byte{9},   std::byte{0},   std::byte{0}};
constexpr std::string_view kNothing;  // the response message without fields
constexpr std::uint32_t kIsDirectory = 1;
constexpr std::uint32_t kIsFile = 2;
constexpr std::uint32_t kOverwrite = 0x02;
constexpr std::uint32_t kCrc32c = 2;

std::uint64_t now_in_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// The next delimited message of a frame.
Reader next_message(std::string_view name, std::string_view& frame, Fault& fault) {
  std::size_t size = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (frame.empty() || shift > 28) {
      fault.set("no length");
      return {name, {}, fault};
    }
    const auto next = static_cast<unsigned char>(frame.front());
    frame.remove_prefix(1);
    size |= std::size_t{next & 0x7fU} << shift;
    if ((next & 0x80U) == 0) break;
  }
  if (size > frame.size()) {
    fault.set("a length beyond the frame");
    return {name, {}, fault};
  }
  const std::string_view message = frame.substr(0, size);
  frame.remove_prefix(size);
  return {name, hflush::as_bytes(message), fault};
}

// The field with this number, of a request that needs no other.
std::string text_field(Reader request, std::uint32_t field) {
  std::string text;
  while (request.next()) {
    if (request.field() == field) {
      text = request.text();
    } else {
      request.skip();
    }
  }
  return text;
}

// What addBlock and complete say: which file, and how its last block ended.
struct FileEnd {
  std::string path;
  std::optional<ExtendedBlock> last;
};

FileEnd read_file_end(Reader request) {
  FileEnd end;
  while (request.next()) {
    switch (request.field()) {
      case 1:
        end.path = request.text();
        break;
      case 3:
        end.last = read_block(request.message("ExtendedBlockProto"));
        break;
      default:
        request.skip();
    }
  }
  return end;
}

std::string boolean_response(bool result) {
  std::string message;
  Writer(message).add_bool(1, result);
  return message;
}

void add_status(Writer& response, std::uint32_t kind, std::uint64_t length,
                std::uint32_t permission, std::uint32_t replication, std::uint64_t block_size,
                std::uint64_t id) {
  Writer status(response, 1);
  status.add_enum(1, static_cast<std::int32_t>(kind));
  status.add_bytes(2, "", 0);
  status.add_uint64(3, length);
  hflush::hdfs::wire::add_permission(status, 4, permission);
  status.add_string(5, "scripted");
  status.add_string(6, "scripted");
  status.add_uint64(7, now_in_milliseconds());
  status.add_uint64(8, 0);
  status.add_uint32(10, replication);
  status.add_uint64(11, block_size);
  status.add_uint64(13, id);
  status.add_int32(14, 0);
}

std::string server_defaults() {
  std::string defaults;
  Writer fields(defaults);
  fields.add_uint64(1, std::uint64_t{128} << 20U);  // blockSize
  fields.add_uint32(2, 512);                        // bytesPerChecksum
  fields.add_uint32(3, 65536);                      // writePacketSize
  fields.add_uint32(4, 3);                          // replication
  fields.add_uint32(5, 4096);                       // fileBufferSize
  fields.add_enum(8, kCrc32c);                      // checksumType
  std::string message;
  Writer(message).add_message(1, defaults);
  return message;
}

// A node of a pipeline; only the first one can be connected to.
std::string data_node(std::uint32_t number, std::uint16_t port) {
  const std::string host = "127.0.0." + std::to_string(number + 1);
  std::string message;
  Writer info(message);
  {
    Writer id(info, 1);
    id.add_string(1, host);
    id.add_string(2, host);
    id.add_string(3, "00000000-0000-0000-0000-00000000000" + std::to_string(number));
    id.add_uint32(4, port);
    id.add_uint32(5, 0);
    id.add_uint32(6, 0);
  }
  info.add_string(8, "/default-rack");
  return message;
}

}  // namespace

void NameNode::serve(const Stream& stream) {
  std::array<std::byte, kPreamble.size()> preamble;
  if (!stream.read(preamble) || preamble != kPreamble) return;
  std::string frame;
  while (true) {
    std::array<std::byte, 4> length;
    if (!stream.read(length)) return;
    const std::size_t size = hflush::load_be32(length.data());
    if (size > kMaxFrame) return;
    frame.resize(size);
    if (!stream.read(std::as_writable_bytes(std::span(frame)))) return;
    bool good = true;
    const std::string response = answer_frame(frame, good);
    if (!good || !stream.write(hflush::as_bytes(response))) return;
  }
}

std::string NameNode::answer_frame(std::string_view frame, bool& good) {
  Fault fault;
  std::int32_t call = 0;
  std::string client;
  Reader header = next_message("RpcRequestHeaderProto", frame, fault);
  while (header.next()) {
    switch (header.field()) {
      case 3:
        call = static_cast<std::int32_t>(header.sint64());
        break;
      case 4:
        client = header.text();
        break;
      default:
        header.skip();
    }
  }
  good = !fault.any();
  if (!good || call < 0) return {};  // context and ping have no answer

  const std::string method = text_field(next_message("RequestHeaderProto", frame, fault), 1);
  const Answer answered = answer(method, next_message(method, frame, fault));
  good = !fault.any();
  const auto* failure = std::get_if<Failure>(&answered);

  std::string response_header;
  Writer writer(response_header);
  writer.add_uint32(1, static_cast<std::uint32_t>(call));
  writer.add_enum(2, failure == nullptr ? 0 : 1);
  writer.add_uint32(3, 9);
  if (failure != nullptr) {
    writer.add_string(4, std::string(failure->java_class));
    writer.add_string(5, failure->message);
    writer.add_enum(6, 1);
  }
  writer.add_bytes(7, client);
  writer.add_sint32(8, 0);

  std::string body = hflush::hdfs::wire::delimited(response_header);
  if (failure == nullptr) body += hflush::hdfs::wire::delimited(std::get<std::string>(answered));
  std::array<std::byte, 4> length;
  hflush::store_be32(length.data(), static_cast<std::uint32_t>(body.size()));
  return std::string(hflush::as_text(length)) + body;
}

NameNode::Answer NameNode::answer(std::string_view method, Reader request) {
  if (method == "getServerDefaults") return server_defaults();
  if (method == "getFileInfo") return get_file_info(request);
  if (method == "create") return create(request);
  if (method == "delete") return remove(request);
  if (method == "addBlock") return add_block(request);
  if (method == "complete") return complete(request);
  if (method == "getBlockLocations") return get_block_locations(request);
  if (method == "updateBlockForPipeline") return update_block(request);
  if (method == "mkdirs") return boolean_response(true);
  for (const std::string_view ignored : {"abandonBlock", "fsync", "renewLease", "updatePipeline"}) {
    if (method == ignored) return std::string(kNothing);
  }
  return Failure{"org.apache.hadoop.ipc.RpcNoSuchMethodException",
                 "Unknown method " + std::string(method) + " called on the scripted NameNode"};
}

NameNode::Answer NameNode::get_file_info(Reader request) {
  const std::string path = text_field(request, 1);
  std::string message;
  Writer response(message);
  const hflush::MutexLock lock(mutex_);
  if (const auto found = files_.find(path); found != files_.end()) {
    const File& file = found->second;
    add_status(response, kIsFile, file.length, file.permission, file.replication, file.block_size,
               file.id);
    return message;
  }
  const std::string below = path == "/" ? path : path + "/";
  const auto child = files_.lower_bound(below);
  const bool has_children = child != files_.end() && child->first.starts_with(below);
  if (path == "/" || has_children) add_status(response, kIsDirectory, 0, 0755, 0, 0, 16385);
  return message;
}

NameNode::Answer NameNode::create(Reader request) {
  std::string path;
  std::uint32_t flags = 0;
  File file;
  while (request.next()) {
    switch (request.field()) {
      case 1:
        path = request.text();
        break;
      case 2: {
        Reader permission = request.message("FsPermissionProto");
        while (permission.next()) file.permission = permission.uint32();
        break;
      }
      case 4:
        flags = request.uint32();
        break;
      case 6:
        file.replication = request.uint32();
        break;
      case 7:
        file.block_size = request.uint64();
        break;
      default:
        request.skip();
    }
  }
  const hflush::MutexLock lock(mutex_);
  if ((flags & kOverwrite) == 0 && files_.contains(path)) {
    return Failure{"org.apache.hadoop.fs.FileAlreadyExistsException",
                   path + " for client 127.0.0.1 already exists"};
  }
  file.id = next_file_++;
  files_[path] = file;
  std::string message;
  Writer response(message);
  add_status(response, kIsFile, 0, file.permission, file.replication, file.block_size, file.id);
  return message;
}

NameNode::Answer NameNode::remove(Reader request) {
  const std::string path = text_field(request, 1);
  const hflush::MutexLock lock(mutex_);
  const std::size_t removed = std::erase_if(files_, [&](const auto& entry) {
    return entry.first == path || entry.first.starts_with(path + "/");
  });
  return boolean_response(removed > 0);
}

NameNode::Answer NameNode::add_block(Reader request) {
  const auto [path, previous] = read_file_end(request);
  std::uint32_t replication = 0;
  {
    const hflush::MutexLock lock(mutex_);
    const auto found = files_.find(path);
    if (found == files_.end()) {
      return Failure{"java.io.FileNotFoundException", "File does not exist: " + path};
    }
    if (previous) found->second.add(*previous);
    replication = found->second.replication;
  }
  return located_block({"BP-1-127.0.0.1-1", next_block_++, next_stamp_++, 0}, replication);
}

NameNode::Answer NameNode::complete(Reader request) {
  const auto [path, last] = read_file_end(request);
  const hflush::MutexLock lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) {
    return Failure{"java.io.FileNotFoundException", "File does not exist: " + path};
  }
  if (last) found->second.add(*last);
  return boolean_response(true);
}

// All finished blocks, wherever the range that was asked for is. The file may be named by its id.
NameNode::Answer NameNode::get_block_locations(Reader request) {
  const std::string path = text_field(request, 1);
  const hflush::MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(files_, [&path](const auto& entry) {
    return path == entry.first || path == "/.reserved/.inodes/" + std::to_string(entry.second.id);
  });
  if (found == files_.end()) {
    return Failure{"java.io.FileNotFoundException", "File does not exist: " + path};
  }
  const File& file = found->second;
  std::string message;
  {
    Writer response(message);
    Writer located(response, 1);
    located.add_uint64(1, file.length);
    std::uint64_t offset = 0;
    for (const ExtendedBlock& block : file.blocks) {
      hflush::hdfs::wire::add_located_block(located, 2,
                                            replicated(block, file.replication, offset));
      offset += block.length;
    }
    located.add_bool(3, true);   // under construction
    located.add_bool(5, false);  // the last block is complete
  }
  return message;
}

NameNode::Answer NameNode::update_block(Reader request) {
  ExtendedBlock block;
  while (request.next()) {
    if (request.field() == 1) {
      block = read_block(request.message("ExtendedBlockProto"));
    } else {
      request.skip();
    }
  }
  block.generation_stamp = next_stamp_++;
  return located_block(block, 0);
}

void NameNode::File::add(const ExtendedBlock& block) {
  length += block.length;
  blocks.push_back(block);
}

std::string NameNode::located_block(const ExtendedBlock& block, std::uint32_t replicas) const {
  std::string message;
  Writer response(message);
  hflush::hdfs::wire::add_located_block(response, 1, replicated(block, replicas, 0));
  return message;
}

hflush::hdfs::LocatedBlock NameNode::replicated(const ExtendedBlock& block, std::uint32_t replicas,
                                                std::uint64_t offset) const {
  static constexpr std::uint32_t kMostNodes = 9;
  hflush::hdfs::LocatedBlock located;
  located.block = block;
  located.offset = offset;
  for (std::uint32_t number = 0; number < std::min(replicas, kMostNodes); ++number) {
    hflush::hdfs::Replica& replica = located.replicas.emplace_back();
    replica.node.encoded = data_node(number, data_node_port_);
    replica.storage_id = "DS-" + std::to_string(number);
  }
  return located;
}

}  // namespace scripted
