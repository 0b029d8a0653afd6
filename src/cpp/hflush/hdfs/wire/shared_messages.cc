#include "hflush/hdfs/wire/shared_messages.h"

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace hflush::hdfs::wire {
namespace {

constexpr std::uint32_t kPermissionBits = 01777;
constexpr std::uint32_t kHasCrypt = 2;  // of FileStatus::flags

void read_datanode_id(Reader from, DatanodeInfo& node) {
  while (from.next()) {
    switch (from.field()) {
      case 1:
        node.ip = from.text();
        break;
      case 2:
        node.host = from.text();
        break;
      case 3:
        node.uuid = from.text();
        break;
      case 4:
        node.transfer_port = from.port();
        break;
      case 6:
        node.rpc_port = from.port();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "ipAddr"},
                {2, "hostName"},
                {3, "datanodeUuid"},
                {4, "xferPort"},
                {5, "infoPort"},
                {6, "ipcPort"}});
}

DatanodeInfo read_datanode_info(Reader from) {
  DatanodeInfo node;
  node.encoded = from.rest();
  while (from.next()) {
    switch (from.field()) {
      case 1: {
        const Reader id = from.message("DatanodeIDProto");
        node.encoded_id = id.rest();
        read_datanode_id(id, node);
        break;
      }
      case 8:
        node.location = from.text();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "id"}});
  return node;
}

std::uint32_t read_permission(Reader from) {
  std::uint32_t permission = 0;
  while (from.next()) {
    if (from.field() == 1) {
      permission = from.uint32() & kPermissionBits;
    } else {
      from.skip();
    }
  }
  from.require({{1, "perm"}});
  return permission;
}

// Java's -1, for a block that is described without its place in the file.
std::uint64_t read_block_offset(Reader& from) {
  const std::uint64_t offset = from.uint64();
  if (offset == std::numeric_limits<std::uint64_t>::max()) return 0;
  if (offset >> 63U != 0) from.refuse("is negative");
  return offset;
}

// The fields that only some files and some calls have.
void read_status_detail(Reader& from, FileStatus& status) {
  switch (from.field()) {
    case 12:
      status.locations = read_located_blocks(from.message("LocatedBlocksProto"));
      break;
    case 13:
      status.file_id = from.uint64();
      break;
    case 14:
      status.children = from.int32();
      break;
    case 15:
      status.encrypted = true;
      from.skip();
      break;
    case 16:
      status.storage_policy = from.uint32();
      break;
    case 17:
      status.erasure_coded = true;
      from.skip();
      break;
    case 18:
      status.flags = from.uint32();
      if ((status.flags & kHasCrypt) != 0) status.encrypted = true;  // also of a directory
      break;
    case 19:
      status.name_space = from.text();
      break;
    default:
      from.skip();
  }
}

}  // namespace

ExtendedBlock read_block(Reader from) {
  ExtendedBlock block;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        block.pool = from.text();
        break;
      case 2:
        block.id = from.uint64();
        break;
      case 3:
        block.generation_stamp = from.uint64();
        break;
      case 4:
        block.length = from.natural();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "poolId"}, {2, "blockId"}, {3, "generationStamp"}});
  return block;
}

void add_block(Writer& to, std::uint32_t field, const ExtendedBlock& block) {
  Writer message(to, field);
  message.add_string(1, block.pool);
  message.add_uint64(2, block.id);
  message.add_uint64(3, block.generation_stamp);
  message.add_uint64(4, block.length);
}

void add_located_block(Writer& to, std::uint32_t field, const LocatedBlock& block) {
  Writer message(to, field);
  add_block(message, 1, block.block);
  message.add_uint64(2, block.offset);
  for (const Replica& replica : block.replicas) message.add_message(3, replica.node.encoded);
  message.add_bool(4, block.corrupt);
  message.add_message(5, block.token.encoded);
  for (const Replica& replica : block.replicas) {
    message.add_enum(7, static_cast<std::int32_t>(replica.storage_type));
  }
  for (const Replica& replica : block.replicas) message.add_string(8, replica.storage_id);
}

void add_permission(Writer& to, std::uint32_t field, std::uint32_t permission) {
  Writer message(to, field);
  message.add_uint32(1, permission);
}

crc::Kind read_checksum_type(Reader& from) {
  return from.enumerator(crc::Kind::kNone, crc::Kind::kCrc32c);
}

LocatedBlock read_located_block(Reader from) {
  LocatedBlock block;
  // By replica, as far as they are given; they come after the replicas, but need not.
  std::vector<StorageType> types;
  std::vector<std::string_view> ids;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        block.block = read_block(from.message("ExtendedBlockProto"));
        break;
      case 2:
        block.offset = read_block_offset(from);
        break;
      case 3:
        block.replicas.emplace_back().node = read_datanode_info(from.message("DatanodeInfoProto"));
        break;
      case 4:
        block.corrupt = from.boolean();
        break;
      case 5:
        block.token.encoded = from.text();
        break;
      case 6:
        from.each_number([&](std::uint64_t cached) { block.cached.push_back(cached != 0); });
        break;
      case 7:
        from.each_number([&](std::uint64_t type) {
          if (type == 0 || type > 255) from.refuse("names no storage type");
          types.push_back(static_cast<StorageType>(type));
        });
        break;
      case 8:
        ids.push_back(from.bytes());
        break;
      case 9:
        block.is_striped = true;
        from.skip();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "b"}, {2, "offset"}, {4, "corrupt"}, {5, "blockToken"}});
  for (std::size_t i = 0; i < block.replicas.size(); ++i) {
    if (i < types.size()) block.replicas[i].storage_type = types[i];
    if (i < ids.size()) block.replicas[i].storage_id = ids[i];
  }
  return block;
}

LocatedBlocks read_located_blocks(Reader from) {
  LocatedBlocks blocks;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        blocks.file_length = from.natural();
        break;
      case 2:
        blocks.blocks.push_back(read_located_block(from.message("LocatedBlockProto")));
        break;
      case 3:
        blocks.under_construction = from.boolean();
        break;
      case 4:
        blocks.last_block = read_located_block(from.message("LocatedBlockProto"));
        break;
      case 5:
        blocks.last_block_complete = from.boolean();
        break;
      case 6:
        blocks.encrypted = true;
        from.skip();
        break;
      case 7:
        blocks.erasure_coded = true;
        from.skip();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "fileLength"}, {3, "underConstruction"}, {5, "isLastBlockComplete"}});
  return blocks;
}

FileStatus read_file_status(Reader from) {
  FileStatus status;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        status.kind = from.enumerator(FileKind::kDirectory, FileKind::kSymlink);
        break;
      case 2:
        status.name = from.text();
        break;
      case 3:
        status.length = from.natural();
        break;
      case 4:
        status.permission = read_permission(from.message("FsPermissionProto"));
        break;
      case 5:
        status.owner = from.text();
        break;
      case 6:
        status.group = from.text();
        break;
      case 7:
        status.modification_time = from.int64();
        break;
      case 8:
        status.access_time = from.int64();
        break;
      case 9:
        status.symlink = from.text();
        break;
      case 10:
        status.replication = from.uint32();
        break;
      case 11:
        status.block_size = from.natural();
        break;
      default:
        read_status_detail(from, status);
    }
  }
  from.require({{1, "fileType"},
                {2, "path"},
                {3, "length"},
                {4, "permission"},
                {5, "owner"},
                {6, "group"},
                {7, "modification_time"},
                {8, "access_time"}});
  return status;
}

DirectoryListing read_directory_listing(Reader from) {
  DirectoryListing listing;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        listing.entries.push_back(read_file_status(from.message("HdfsFileStatusProto")));
        break;
      case 2:
        listing.remaining = from.uint32();
        break;
      default:
        from.skip();
    }
  }
  from.require({{2, "remainingEntries"}});
  return listing;
}

ServerDefaults read_server_defaults(Reader from) {
  ServerDefaults defaults;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        defaults.block_size = from.natural();
        break;
      case 2:
        defaults.bytes_per_checksum = from.uint32();
        break;
      case 3:
        defaults.write_packet_size = from.uint32();
        break;
      case 4:
        defaults.replication = from.uint32();
        break;
      case 5:
        defaults.file_buffer_size = from.uint32();
        break;
      case 6:
        defaults.encrypt_data_transfer = from.boolean();
        break;
      case 7:
        defaults.trash_interval_minutes = from.natural();
        break;
      case 8:
        defaults.checksum = read_checksum_type(from);
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "blockSize"},
                {2, "bytesPerChecksum"},
                {3, "writePacketSize"},
                {4, "replication"},
                {5, "fileBufferSize"}});
  return defaults;
}

ContentSummary read_content_summary(Reader from) {
  ContentSummary summary;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        summary.length = from.natural();
        break;
      case 2:
        summary.file_count = from.natural();
        break;
      case 3:
        summary.directory_count = from.natural();
        break;
      case 4:
        summary.quota = from.int64();
        break;
      case 5:
        summary.space_consumed = from.natural();
        break;
      case 6:
        summary.space_quota = from.int64();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "length"},
                {2, "fileCount"},
                {3, "directoryCount"},
                {4, "quota"},
                {5, "spaceConsumed"},
                {6, "spaceQuota"}});
  return summary;
}

}  // namespace hflush::hdfs::wire
