#include "hflush/hdfs/wire/name_node_requests.h"

#include <utility>

#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {
namespace {

using wire::Reader;
using wire::Writer;

// What `fill(Writer)` writes.
template <typename Fill>
std::string encoded(Fill fill) {
  std::string body;
  Writer to(body);
  fill(to);
  return body;
}

std::string empty_request() {
  return encoded([](Writer& /*to*/) {});
}

template <typename T, typename Read>
Result<T> response(std::string_view method, ByteView body, Read read) {
  return wire::read_whole<T>(std::string(method) + ": malformed response", "the response", body,
                             read);
}

Result<Nothing> empty_response(std::string_view method, ByteView body) {
  return response<Nothing>(method, body, [](Reader from) {
    while (from.next()) from.skip();
    return Nothing{};
  });
}

// Field 1 of a response that may be without it, as read by `read(Reader&)`.
template <typename T, typename Read>
std::optional<T> first_field(Reader& from, Read read) {
  std::optional<T> value;
  while (from.next()) {
    if (from.field() == 1) {
      value = read(from);
    } else {
      from.skip();
    }
  }
  return value;
}

// The response is field 1, called `name`.
template <typename T, typename Read>
Result<T> one_field(std::string_view method, ByteView body, std::string_view name, Read read) {
  return response<T>(method, body, [&](Reader from) {
    std::optional<T> value = first_field<T>(from, read);
    from.require({{1, name}});
    return value ? *std::move(value) : T{};
  });
}

template <typename T, typename Read>
Result<std::optional<T>> one_optional_field(std::string_view method, ByteView body, Read read) {
  return response<std::optional<T>>(method, body,
                                    [&](Reader from) { return first_field<T>(from, read); });
}

Result<bool> boolean_result(std::string_view method, ByteView body) {
  return one_field<bool>(method, body, "result", [](Reader& from) { return from.boolean(); });
}

LocatedBlock located_block(Reader& from) {
  return wire::read_located_block(from.message("LocatedBlockProto"));
}

FileStatus file_status(Reader& from) {
  return wire::read_file_status(from.message("HdfsFileStatusProto"));
}

ListCorruptFileBlocks::Response corrupt_file_blocks(Reader& from) {
  Reader page = from.message("CorruptFileBlocksProto");
  ListCorruptFileBlocks::Response answer;
  while (page.next()) {
    switch (page.field()) {
      case 1:
        answer.files.push_back(page.text());
        break;
      case 2:
        answer.cookie = page.text();
        break;
      default:
        page.skip();
    }
  }
  page.require({{2, "cookie"}});
  return answer;
}

std::string encryption_zone_path(Reader& from) {
  Reader zone = from.message("EncryptionZoneProto");
  std::string path;
  while (zone.next()) {
    if (zone.field() == 2) {
      path = zone.text();
    } else {
      zone.skip();
    }
  }
  zone.require({{2, "path"}});
  return path;
}

}  // namespace

std::string Create::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    wire::add_permission(to, 2, masked);
    to.add_string(3, client_name);
    to.add_uint32(4, flags);
    to.add_bool(5, create_parent);
    to.add_uint32(6, replication);
    to.add_uint64(7, block_size);
    wire::add_permission(to, 9, unmasked);
    if (!ec_policy.empty()) to.add_string(10, ec_policy);
    if (!storage_policy.empty()) to.add_string(11, storage_policy);
  });
}

// The message may be without it, for the sake of servers before Hadoop 2; nothing can be written
// then.
Result<Create::Response> Create::decode(ByteView body) {
  return one_field<FileStatus>(kMethod, body, "fs", file_status);
}

std::string Append::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_string(2, client_name);
    to.add_uint32(3, flags);
  });
}

Result<Append::Response> Append::decode(ByteView body) {
  return response<Response>(kMethod, body, [](Reader from) {
    Response answer;
    while (from.next()) {
      switch (from.field()) {
        case 1:
          answer.block = located_block(from);
          break;
        case 2:
          answer.status = file_status(from);
          break;
        default:
          from.skip();
      }
    }
    return answer;
  });
}

std::string AddBlock::encode() const {
  constexpr std::int32_t kNoLocalWrite = 1;
  constexpr std::int32_t kIgnoreClientLocality = 2;
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_string(2, client_name);
    if (previous) wire::add_block(to, 3, *previous);
    for (const DatanodeInfo& node : excluded) to.add_message(4, node.encoded);
    to.add_uint64(5, file_id);
    for (const std::string& node : favored_nodes) to.add_string(6, node);
    if (no_local_write) to.add_enum(7, kNoLocalWrite);
    if (ignore_client_locality) to.add_enum(7, kIgnoreClientLocality);
  });
}

Result<AddBlock::Response> AddBlock::decode(ByteView body) {
  return one_field<LocatedBlock>(kMethod, body, "block", located_block);
}

std::string AbandonBlock::encode() const {
  return encoded([this](Writer& to) {
    wire::add_block(to, 1, block);
    to.add_string(2, path);
    to.add_string(3, client_name);
    to.add_uint64(4, file_id);
  });
}

Result<Nothing> AbandonBlock::decode(ByteView body) { return empty_response(kMethod, body); }

std::string GetAdditionalDatanode::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    wire::add_block(to, 2, block);
    for (const Replica& replica : existing) to.add_message(3, replica.node.encoded);
    for (const DatanodeInfo& node : excluded) to.add_message(4, node.encoded);
    to.add_uint32(5, additional_nodes);
    to.add_string(6, client_name);
    for (const Replica& replica : existing) to.add_string(7, replica.storage_id);
    to.add_uint64(8, file_id);
  });
}

Result<LocatedBlock> GetAdditionalDatanode::decode(ByteView body) {
  return one_field<LocatedBlock>(kMethod, body, "block", located_block);
}

std::string UpdateBlockForPipeline::encode() const {
  return encoded([this](Writer& to) {
    wire::add_block(to, 1, block);
    to.add_string(2, client_name);
  });
}

Result<LocatedBlock> UpdateBlockForPipeline::decode(ByteView body) {
  return one_field<LocatedBlock>(kMethod, body, "block", located_block);
}

std::string UpdatePipeline::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, client_name);
    wire::add_block(to, 2, old_block);
    wire::add_block(to, 3, new_block);
    for (const Replica& replica : replicas) to.add_message(4, replica.node.encoded_id);
    for (const Replica& replica : replicas) to.add_string(5, replica.storage_id);
  });
}

Result<Nothing> UpdatePipeline::decode(ByteView body) { return empty_response(kMethod, body); }

std::string Complete::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_string(2, client_name);
    if (last) wire::add_block(to, 3, *last);
    to.add_uint64(4, file_id);
  });
}

Result<bool> Complete::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string Fsync::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_string(2, client_name);
    to.add_sint64(3, last_block_length);
    to.add_uint64(4, file_id);
  });
}

Result<Nothing> Fsync::decode(ByteView body) { return empty_response(kMethod, body); }

std::string RenewLease::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, client_name);
    for (const std::string& name_space : name_spaces) to.add_string(2, name_space);
  });
}

Result<Nothing> RenewLease::decode(ByteView body) { return empty_response(kMethod, body); }

std::string RecoverLease::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_string(2, client_name);
  });
}

Result<bool> RecoverLease::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string IsFileClosed::encode() const {
  return encoded([this](Writer& to) { to.add_string(1, path); });
}

Result<bool> IsFileClosed::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string ReportBadBlocks::encode() const {
  return encoded([this](Writer& to) {
    for (const LocatedBlock& block : blocks) wire::add_located_block(to, 1, block);
  });
}

Result<Nothing> ReportBadBlocks::decode(ByteView body) { return empty_response(kMethod, body); }

std::string GetServerDefaults::encode() const { return empty_request(); }

Result<ServerDefaults> GetServerDefaults::decode(ByteView body) {
  return one_field<ServerDefaults>(kMethod, body, "serverDefaults", [](Reader& from) {
    return wire::read_server_defaults(from.message("FsServerDefaultsProto"));
  });
}

std::string GetFileInfo::encode() const {
  return encoded([this](Writer& to) { to.add_string(1, path); });
}

Result<std::optional<FileStatus>> GetFileInfo::decode(ByteView body) {
  return one_optional_field<FileStatus>(kMethod, body, file_status);
}

std::string GetListing::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_bytes(2, start_after);
    to.add_bool(3, need_location);
  });
}

Result<std::optional<DirectoryListing>> GetListing::decode(ByteView body) {
  return one_optional_field<DirectoryListing>(kMethod, body, [](Reader& from) {
    return wire::read_directory_listing(from.message("DirectoryListingProto"));
  });
}

std::string GetBlockLocations::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_uint64(2, offset);
    to.add_uint64(3, length);
  });
}

Result<std::optional<LocatedBlocks>> GetBlockLocations::decode(ByteView body) {
  return one_optional_field<LocatedBlocks>(kMethod, body, [](Reader& from) {
    return wire::read_located_blocks(from.message("LocatedBlocksProto"));
  });
}

std::string Mkdirs::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    wire::add_permission(to, 2, masked);
    to.add_bool(3, create_parent);
    wire::add_permission(to, 4, unmasked);
  });
}

Result<bool> Mkdirs::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string Delete::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_bool(2, recursive);
  });
}

Result<bool> Delete::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string Rename::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, source);
    to.add_string(2, destination);
  });
}

Result<bool> Rename::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string Rename2::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, source);
    to.add_string(2, destination);
    to.add_bool(3, overwrite);
    to.add_bool(4, to_trash);
  });
}

Result<Nothing> Rename2::decode(ByteView body) { return empty_response(kMethod, body); }

std::string Truncate::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_uint64(2, new_length);
    to.add_string(3, client_name);
  });
}

Result<bool> Truncate::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string Concat::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, target);
    for (const std::string& source : sources) to.add_string(2, source);
  });
}

Result<Nothing> Concat::decode(ByteView body) { return empty_response(kMethod, body); }

std::string SetPermission::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    wire::add_permission(to, 2, permission);
  });
}

Result<Nothing> SetPermission::decode(ByteView body) { return empty_response(kMethod, body); }

std::string SetOwner::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    if (owner) to.add_string(2, *owner);
    if (group) to.add_string(3, *group);
  });
}

Result<Nothing> SetOwner::decode(ByteView body) { return empty_response(kMethod, body); }

std::string SetTimes::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_uint64(2, static_cast<std::uint64_t>(modification_time));
    to.add_uint64(3, static_cast<std::uint64_t>(access_time));
  });
}

Result<Nothing> SetTimes::decode(ByteView body) { return empty_response(kMethod, body); }

std::string SetReplication::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_uint32(2, replication);
  });
}

Result<bool> SetReplication::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string GetContentSummary::encode() const {
  return encoded([this](Writer& to) { to.add_string(1, path); });
}

Result<ContentSummary> GetContentSummary::decode(ByteView body) {
  return one_field<ContentSummary>(kMethod, body, "summary", [](Reader& from) {
    return wire::read_content_summary(from.message("ContentSummaryProto"));
  });
}

std::string GetFsStats::encode() const { return empty_request(); }

Result<FsStats> GetFsStats::decode(ByteView body) {
  return response<FsStats>(kMethod, body, [](Reader from) {
    FsStats stats;
    while (from.next()) {
      switch (from.field()) {
        case 1:
          stats.capacity = from.natural();
          break;
        case 2:
          stats.used = from.natural();
          break;
        case 3:
          stats.remaining = from.natural();
          break;
        case 4:
          stats.under_replicated = from.natural();
          break;
        case 5:
          stats.corrupt_blocks = from.natural();
          break;
        case 6:
          stats.missing_blocks = from.natural();
          break;
        default:
          from.skip();
      }
    }
    from.require({{1, "capacity"},
                  {2, "used"},
                  {3, "remaining"},
                  {4, "under_replicated"},
                  {5, "corrupt_blocks"},
                  {6, "missing_blocks"}});
    return stats;
  });
}

std::string SetSafeMode::encode() const {
  return encoded([this](Writer& to) {
    to.add_enum(1, static_cast<std::int32_t>(action));
    to.add_bool(2, checked);
  });
}

Result<bool> SetSafeMode::decode(ByteView body) { return boolean_result(kMethod, body); }

std::string GetStoragePolicies::encode() const { return empty_request(); }

Result<std::vector<std::string>> GetStoragePolicies::decode(ByteView body) {
  return response<Response>(kMethod, body, [](Reader from) {
    Response names;
    while (from.next()) {
      if (from.field() != 1) {
        from.skip();
        continue;
      }
      Reader policy = from.message("BlockStoragePolicyProto");
      while (policy.next()) {
        if (policy.field() == 2) {
          names.emplace_back(policy.text());
        } else {
          policy.skip();
        }
      }
      policy.require({{1, "policyId"}, {2, "name"}});
    }
    return names;
  });
}

std::string SetStoragePolicy::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_string(2, policy);
  });
}

Result<Nothing> SetStoragePolicy::decode(ByteView body) { return empty_response(kMethod, body); }

std::string SetQuota::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    to.add_uint64(2, static_cast<std::uint64_t>(name_quota));
    to.add_uint64(3, static_cast<std::uint64_t>(space_quota));
    if (type) to.add_enum(4, static_cast<std::int32_t>(*type));
  });
}

Result<Nothing> SetQuota::decode(ByteView body) { return empty_response(kMethod, body); }

std::string ListCorruptFileBlocks::encode() const {
  return encoded([this](Writer& to) {
    to.add_string(1, path);
    if (!cookie.empty()) to.add_string(2, cookie);
  });
}

Result<ListCorruptFileBlocks::Response> ListCorruptFileBlocks::decode(ByteView body) {
  return one_field<Response>(kMethod, body, "corrupt", corrupt_file_blocks);
}

std::string GetEZForPath::encode() const {
  return encoded([this](Writer& to) { to.add_string(1, path); });
}

Result<std::optional<std::string>> GetEZForPath::decode(ByteView body) {
  return one_optional_field<std::string>(kMethod, body, encryption_zone_path);
}

std::string GetEnclosingRoot::encode() const {
  return encoded([this](Writer& to) { to.add_string(1, path); });
}

Result<std::string> GetEnclosingRoot::decode(ByteView body) {
  return one_field<std::string>(kMethod, body, "enclosingRootPath",
                                [](Reader& from) { return from.text(); });
}

std::string Msync::encode() const { return empty_request(); }

Result<Nothing> Msync::decode(ByteView body) { return empty_response(kMethod, body); }

std::string GetDelegationToken::encode() const {
  return encoded([this](Writer& to) { to.add_string(1, renewer); });
}

Result<std::optional<Token>> GetDelegationToken::decode(ByteView body) {
  return one_optional_field<Token>(kMethod, body, [](Reader& from) { return Token{from.text()}; });
}

std::string RenewDelegationToken::encode() const {
  return encoded([this](Writer& to) { to.add_message(1, token.encoded); });
}

Result<std::int64_t> RenewDelegationToken::decode(ByteView body) {
  return one_field<std::int64_t>(kMethod, body, "newExpiryTime",
                                 [](Reader& from) { return from.int64(); });
}

std::string CancelDelegationToken::encode() const {
  return encoded([this](Writer& to) { to.add_message(1, token.encoded); });
}

Result<Nothing> CancelDelegationToken::decode(ByteView body) {
  return empty_response(kMethod, body);
}

std::string GetReplicaVisibleLength::encode() const {
  return encoded([this](Writer& to) { wire::add_block(to, 1, block); });
}

Result<std::int64_t> GetReplicaVisibleLength::decode(ByteView body) {
  return one_field<std::int64_t>(kMethod, body, "length",
                                 [](Reader& from) { return from.int64(); });
}

static_assert(Request<Create> && Request<Append> && Request<AddBlock> && Request<AbandonBlock> &&
              Request<GetAdditionalDatanode> && Request<UpdateBlockForPipeline> &&
              Request<UpdatePipeline> && Request<Complete> && Request<Fsync> &&
              Request<RenewLease> && Request<RecoverLease> && Request<IsFileClosed> &&
              Request<ReportBadBlocks> && Request<GetServerDefaults> && Request<GetFileInfo> &&
              Request<GetListing> && Request<GetBlockLocations> && Request<Mkdirs> &&
              Request<Delete> && Request<Rename> && Request<Rename2> && Request<Truncate> &&
              Request<Concat> && Request<SetPermission> && Request<SetOwner> && Request<SetTimes> &&
              Request<SetReplication> && Request<GetContentSummary> && Request<GetFsStats> &&
              Request<SetSafeMode> && Request<SetStoragePolicy> && Request<SetQuota> &&
              Request<ListCorruptFileBlocks> && Request<GetEZForPath> &&
              Request<GetEnclosingRoot> && Request<Msync> && Request<GetDelegationToken> &&
              Request<RenewDelegationToken> && Request<CancelDelegationToken> &&
              Request<GetReplicaVisibleLength>);

}  // namespace hflush::hdfs
