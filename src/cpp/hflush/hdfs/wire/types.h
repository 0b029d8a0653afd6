// The things HDFS talks about: blocks, replicas, nodes, files. Plain values.
//
// What a client only carries from one server to another (tokens, node descriptions) is kept as the
// server sent it, unknown fields included, beside the few fields that the client reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hflush/crc/checksum.h"
#include "hflush/env/socket.h"

namespace hflush::hdfs {

struct ExtendedBlock {
  std::string pool;
  std::uint64_t id = 0;
  std::uint64_t generation_stamp = 0;
  std::uint64_t length = 0;  // numBytes

  std::string to_string() const;  // "blk_1073741825_1001", for messages
  bool operator==(const ExtendedBlock&) const = default;
};

// A serialized TokenProto. Never empty: security off has a token with four empty fields.
struct Token {
  std::string encoded = std::string("\x0a\x00\x12\x00\x1a\x00\x22\x00", 8);
  bool operator==(const Token&) const = default;
};

struct DatanodeInfo {
  std::string ip;
  std::string host;
  std::string uuid;
  std::uint16_t transfer_port = 0;
  std::uint16_t rpc_port = 0;
  std::string location;    // of the network topology: "/default-rack"
  std::string encoded;     // the DatanodeInfoProto as received
  std::string encoded_id;  // its DatanodeIDProto as received

  env::Endpoint transfer_endpoint(bool by_host_name) const {
    return {by_host_name ? host : ip, transfer_port};
  }
  env::Endpoint rpc_endpoint(bool by_host_name) const {
    return {by_host_name ? host : ip, rpc_port};
  }
  // "ip:port" of the data transfer, the form in which servers name a bad node.
  std::string transfer_address() const;
};

enum class StorageType : std::uint8_t {
  kDisk = 1,
  kSsd = 2,
  kArchive = 3,
  kRamDisk = 4,
  kProvided = 5,
  kNvdimm = 6,
  // A number beyond these is one that a later Hadoop has, and goes back as it came.
};

// Where one replica is, or will be.
struct Replica {
  DatanodeInfo node;
  StorageType storage_type = StorageType::kDisk;
  std::string storage_id;  // empty: unknown
};

struct LocatedBlock {
  ExtendedBlock block;
  std::uint64_t offset = 0;  // of its first byte in the file; 0 where that has no meaning
  std::vector<Replica> replicas;
  bool corrupt = false;
  Token token;
  std::vector<bool> cached;  // by replica; may be shorter
  bool is_striped = false;   // has blockIndices

  std::uint64_t end() const noexcept { return offset + block.length; }
};

struct LocatedBlocks {
  std::uint64_t file_length = 0;  // without a last block that is not complete
  std::vector<LocatedBlock> blocks;
  bool under_construction = false;
  std::optional<LocatedBlock> last_block;
  bool last_block_complete = false;
  bool encrypted = false;
  bool erasure_coded = false;
};

// The name of a file by its id: as long as it exists, wherever it is renamed to.
std::string inode_path(std::uint64_t file_id);

enum class FileKind : std::uint8_t { kDirectory = 1, kFile = 2, kSymlink = 3 };

struct FileStatus {
  FileKind kind = FileKind::kFile;
  std::string name;  // last component; empty for the path that was asked for
  std::uint64_t length = 0;
  std::uint32_t permission = 0;  // & 01777
  std::string owner;
  std::string group;
  std::int64_t modification_time = 0;  // ms since the epoch
  std::int64_t access_time = 0;
  std::string symlink;
  std::uint32_t replication = 0;
  std::uint64_t block_size = 0;
  std::uint64_t file_id = 0;
  std::int32_t children = -1;
  std::uint32_t storage_policy = 0;
  std::uint32_t flags = 0;  // HAS_ACL=1 HAS_CRYPT=2 HAS_EC=4 SNAPSHOT_ENABLED=8
  std::optional<LocatedBlocks> locations;
  bool encrypted = false;
  bool erasure_coded = false;
  std::string name_space;  // of router-based federation; usually empty

  static constexpr std::uint32_t kLazyPersistPolicy = 15;
};

struct ServerDefaults {
  std::uint64_t block_size = 0;
  std::uint32_t bytes_per_checksum = 0;
  std::uint32_t write_packet_size = 0;
  std::uint32_t replication = 0;
  std::uint32_t file_buffer_size = 0;
  bool encrypt_data_transfer = false;
  std::uint64_t trash_interval_minutes = 0;
  crc::Kind checksum = crc::Kind::kCrc32;
};

struct ContentSummary {
  std::uint64_t length = 0;
  std::uint64_t file_count = 0;
  std::uint64_t directory_count = 0;
  std::int64_t quota = -1;
  std::uint64_t space_consumed = 0;
  std::int64_t space_quota = -1;
};

struct FsStats {
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;
  std::uint64_t remaining = 0;
  std::uint64_t under_replicated = 0;
  std::uint64_t corrupt_blocks = 0;
  std::uint64_t missing_blocks = 0;
};

struct DirectoryListing {
  std::vector<FileStatus> entries;
  std::uint32_t remaining = 0;
};

}  // namespace hflush::hdfs
