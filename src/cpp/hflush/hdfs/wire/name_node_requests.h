// The methods of ClientProtocol (and the one of ClientDatanodeProtocol) that this client calls: one
// struct each, with what goes over the wire.
//
// A request is any type that satisfies `Request`: its method name, whether a repeat is harmless,
// what comes back, and how both are spelled in protobuf. RpcClient sends any of them. Encoding
// never fails; decode() refuses what is not the response with a clear Status, and never allocates
// more than the bytes at hand justify.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// What a second execution of a call would do (Hadoop's @Idempotent and @AtMostOnce). An
// at-most-once call is repeated only with the client and call id of the first attempt: the
// NameNode's retry cache then gives the first answer. One that is never repeated may do harm when
// it comes late: the caller finds out by other means whether it was carried out.
enum class Repeat : std::uint8_t { kIdempotent, kAtMostOnce, kNever };

template <typename T>
concept Request = requires(const T& request, ByteView body) {
  { T::kMethod } -> std::convertible_to<std::string_view>;
  { T::kRepeat } -> std::convertible_to<Repeat>;
  typename T::Response;
  // The request message, without the length in front.
  { request.encode() } -> std::same_as<std::string>;
  // The response message, without the length in front.
  { T::decode(body) } -> std::same_as<Result<typename T::Response>>;
};

using Nothing = std::monostate;

// Flags of create() and append() as they travel.
inline constexpr std::uint32_t kFlagCreate = 0x01;
inline constexpr std::uint32_t kFlagOverwrite = 0x02;
inline constexpr std::uint32_t kFlagAppend = 0x04;
inline constexpr std::uint32_t kFlagLazyPersist = 0x10;
inline constexpr std::uint32_t kFlagNewBlock = 0x20;
inline constexpr std::uint32_t kFlagShouldReplicate = 0x80;

struct Create {
  static constexpr std::string_view kMethod = "create";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  using Response = FileStatus;

  std::string path;
  std::uint32_t masked = 0644;    // permission after the umask
  std::uint32_t unmasked = 0666;  // before it
  std::string client_name;
  std::uint32_t flags = kFlagCreate;
  bool create_parent = true;
  std::uint32_t replication = 3;
  std::uint64_t block_size = 0;
  std::string storage_policy;  // empty: inherited
  std::string ec_policy;       // empty: inherited

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct Append {
  static constexpr std::string_view kMethod = "append";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  struct Response {
    std::optional<LocatedBlock> block;
    std::optional<FileStatus> status;
  };

  std::string path;
  std::string client_name;
  std::uint32_t flags = kFlagAppend;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct AddBlock {
  static constexpr std::string_view kMethod = "addBlock";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = LocatedBlock;

  std::string path;
  std::string client_name;
  std::optional<ExtendedBlock> previous;
  std::vector<DatanodeInfo> excluded;
  std::uint64_t file_id = 0;
  std::vector<std::string> favored_nodes;  // "host:port"
  bool no_local_write = false;
  bool ignore_client_locality = false;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// Takes the last block off the file. Repeating it, and a block that is not the last, are harmless.
struct AbandonBlock {
  static constexpr std::string_view kMethod = "abandonBlock";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  ExtendedBlock block;
  std::string path;
  std::string client_name;
  std::uint64_t file_id = 0;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// Answers the existing nodes and the new ones, in any order.
struct GetAdditionalDatanode {
  static constexpr std::string_view kMethod = "getAdditionalDatanode";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = LocatedBlock;

  std::string path;
  ExtendedBlock block;
  std::vector<Replica> existing;
  std::vector<DatanodeInfo> excluded;
  std::uint32_t additional_nodes = 1;
  std::string client_name;
  std::uint64_t file_id = 0;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// Reserves a new generation stamp. The answer has it, with a fresh token and no replicas.
struct UpdateBlockForPipeline {
  static constexpr std::string_view kMethod = "updateBlockForPipeline";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = LocatedBlock;

  ExtendedBlock block;
  std::string client_name;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct UpdatePipeline {
  static constexpr std::string_view kMethod = "updatePipeline";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  using Response = Nothing;

  std::string client_name;
  ExtendedBlock old_block;
  ExtendedBlock new_block;
  std::vector<Replica> replicas;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// false: not yet, ask again.
struct Complete {
  static constexpr std::string_view kMethod = "complete";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = bool;

  std::string path;
  std::string client_name;
  std::optional<ExtendedBlock> last;
  std::uint64_t file_id = 0;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct Fsync {
  static constexpr std::string_view kMethod = "fsync";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::string path;
  std::string client_name;
  std::int64_t last_block_length = -1;  // -1: the recorded length stays
  std::uint64_t file_id = 0;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct RenewLease {
  static constexpr std::string_view kMethod = "renewLease";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::string client_name;
  std::vector<std::string> name_spaces;  // of router-based federation

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// true: the file is closed already. A late repeat would take the file from its next writer.
struct RecoverLease {
  static constexpr std::string_view kMethod = "recoverLease";
  static constexpr Repeat kRepeat = Repeat::kNever;
  using Response = bool;

  std::string path;
  std::string client_name;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct IsFileClosed {
  static constexpr std::string_view kMethod = "isFileClosed";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = bool;

  std::string path;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct ReportBadBlocks {
  static constexpr std::string_view kMethod = "reportBadBlocks";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::vector<LocatedBlock> blocks;  // each with its bad replicas only

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct GetServerDefaults {
  static constexpr std::string_view kMethod = "getServerDefaults";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = ServerDefaults;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// nullopt: there is no such path.
struct GetFileInfo {
  static constexpr std::string_view kMethod = "getFileInfo";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::optional<FileStatus>;

  std::string path;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// nullopt: there is no such path.
struct GetListing {
  static constexpr std::string_view kMethod = "getListing";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::optional<DirectoryListing>;

  std::string path;
  std::string start_after;  // the name of the last entry of the page before; empty at first
  bool need_location = false;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct GetBlockLocations {
  static constexpr std::string_view kMethod = "getBlockLocations";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::optional<LocatedBlocks>;

  std::string path;
  std::uint64_t offset = 0;  // at most 2^63 - 1, as length
  std::uint64_t length = 0;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct Mkdirs {
  static constexpr std::string_view kMethod = "mkdirs";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = bool;

  std::string path;
  std::uint32_t masked = 0755;    // permission after the umask
  std::uint32_t unmasked = 0777;  // before it
  bool create_parent = true;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// false: there was nothing to delete.
struct Delete {
  static constexpr std::string_view kMethod = "delete";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  using Response = bool;

  std::string path;
  bool recursive = false;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// FileSystem.rename: into an existing directory, false for most failures.
struct Rename {
  static constexpr std::string_view kMethod = "rename";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  using Response = bool;

  std::string source;
  std::string destination;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// FileContext.rename: exactly, or an exception.
struct Rename2 {
  static constexpr std::string_view kMethod = "rename2";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  using Response = Nothing;

  std::string source;
  std::string destination;
  bool overwrite = false;
  bool to_trash = false;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// false: the new last block is being recovered; done when the file is closed. A late repeat would
// cut off what another writer has appended: the retry cache does not know it.
struct Truncate {
  static constexpr std::string_view kMethod = "truncate";
  static constexpr Repeat kRepeat = Repeat::kNever;
  using Response = bool;

  std::string path;
  std::uint64_t new_length = 0;
  std::string client_name;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct Concat {
  static constexpr std::string_view kMethod = "concat";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  using Response = Nothing;

  std::string target;
  std::vector<std::string> sources;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct SetPermission {
  static constexpr std::string_view kMethod = "setPermission";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::string path;
  std::uint32_t permission = 0;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct SetOwner {
  static constexpr std::string_view kMethod = "setOwner";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::string path;
  std::optional<std::string> owner;  // one of the two at least
  std::optional<std::string> group;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct SetTimes {
  static constexpr std::string_view kMethod = "setTimes";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::string path;
  std::int64_t modification_time = -1;  // ms since the epoch; -1: stays
  std::int64_t access_time = -1;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// false: a directory, or no such path.
struct SetReplication {
  static constexpr std::string_view kMethod = "setReplication";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = bool;

  std::string path;
  std::uint32_t replication = 0;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct GetContentSummary {
  static constexpr std::string_view kMethod = "getContentSummary";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = ContentSummary;

  std::string path;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct GetFsStats {
  static constexpr std::string_view kMethod = "getFsStats";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = FsStats;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

enum class SafeModeAction : std::uint8_t { kLeave = 1, kEnter = 2, kGet = 3, kForceExit = 4 };

// Whether the NameNode is in safe mode afterwards.
struct SetSafeMode {
  static constexpr std::string_view kMethod = "setSafeMode";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = bool;

  SafeModeAction action = SafeModeAction::kGet;
  bool checked = false;  // asks the active NameNode only

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// The names of all there are.
struct GetStoragePolicies {
  static constexpr std::string_view kMethod = "getStoragePolicies";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::vector<std::string>;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct SetStoragePolicy {
  static constexpr std::string_view kMethod = "setStoragePolicy";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::string path;
  std::string policy;  // "HOT", "ALL_SSD"

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct SetQuota {
  static constexpr std::string_view kMethod = "setQuota";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;
  static constexpr std::int64_t kUnchanged = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kNone = -1;

  std::string path;
  std::int64_t name_quota = kUnchanged;   // files and directories
  std::int64_t space_quota = kUnchanged;  // bytes, all replicas counted
  std::optional<StorageType> type;        // space_quota is of this storage type only

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// Files below a path that have a block without a good replica, a page at a time: no files end it.
struct ListCorruptFileBlocks {
  static constexpr std::string_view kMethod = "listCorruptFileBlocks";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  struct Response {
    std::vector<std::string> files;
    std::string cookie;  // of the next page
  };

  std::string path;
  std::string cookie;  // empty at first

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// The root of the encryption zone that the path is in.
struct GetEZForPath {
  static constexpr std::string_view kMethod = "getEZForPath";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::optional<std::string>;

  std::string path;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// "/", or the root of the encryption zone that the path is in.
struct GetEnclosingRoot {
  static constexpr std::string_view kMethod = "getEnclosingRoot";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::string;

  std::string path;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// Brings what an observer NameNode answers up to now.
struct Msync {
  static constexpr std::string_view kMethod = "msync";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// Without a token: the NameNode gives none, because it does not ask who calls.
struct GetDelegationToken {
  static constexpr std::string_view kMethod = "getDelegationToken";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::optional<Token>;

  std::string renewer;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// Until when the token is good now: milliseconds since the epoch.
struct RenewDelegationToken {
  static constexpr std::string_view kMethod = "renewDelegationToken";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::int64_t;

  Token token;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

struct CancelDelegationToken {
  static constexpr std::string_view kMethod = "cancelDelegationToken";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = Nothing;

  Token token;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

// The one call of ClientDatanodeProtocol. Negative: this DataNode does not know.
struct GetReplicaVisibleLength {
  static constexpr std::string_view kMethod = "getReplicaVisibleLength";
  static constexpr Repeat kRepeat = Repeat::kIdempotent;
  using Response = std::int64_t;

  ExtendedBlock block;

  std::string encode() const;
  static Result<Response> decode(ByteView body);
};

}  // namespace hflush::hdfs
