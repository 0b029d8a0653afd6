#include "hflush/hdfs/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <random>
#include <string_view>

#include "hflush/base/ascii.h"

namespace hflush::hdfs {
namespace {

// A key that is read by its name, and its value unless set.
struct NamedKey {
  std::string_view key;
  std::string_view fallback;
};

#define HFLUSH_HDFS_KEY(type, key, fallback, member, effect)
#define HFLUSH_HDFS_NAME(constant, key, fallback, effect) \
  constexpr NamedKey constant = {key, fallback};
#include "hflush/hdfs/keys.inc"
#undef HFLUSH_HDFS_KEY
#undef HFLUSH_HDFS_NAME

constexpr std::uint16_t kDefaultPort = 8020;
constexpr std::string_view kScheme = "hdfs://";
constexpr std::string_view kBlanks = " \t\r\n\f\v";

std::string joined(std::string_view first, std::string_view second, std::string_view third = {}) {
  std::string whole(first);
  whole += second;
  whole += third;
  return whole;
}

// An empty value is one that nobody set.
std::string_view value_of(const ConfigurationMap& map, std::string_view key,
                          std::string_view fallback = {}) {
  const auto found = map.find(key);
  const std::string_view value =
      found == map.end() ? std::string_view() : trimmed(found->second, kBlanks);
  return value.empty() ? fallback : value;
}

Status bad_value(std::string_view key, std::string_view value, std::string_view allowed) {
  std::string message(key);
  message += " must be ";
  message += allowed;
  message += ", not '";
  message += value;
  message += '\'';
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view part = trimmed(list.substr(0, comma), kBlanks);
    if (!part.empty()) parts.push_back(part);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return parts;
}

// --- values --------------------------------------------------------------------------------------

// The whole of `text` as a number, decimal or hexadecimal as Hadoop reads it.
std::optional<std::int64_t> whole_number(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::int64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stopped, error] = std::from_chars(begin, end, number, base);
  if (error != std::errc() || stopped != end || text.starts_with('-')) return std::nullopt;
  return negative ? -number : number;
}

std::optional<std::int64_t> byte_count(std::string_view text) {
  constexpr std::string_view kPrefixes = "kmgtpe";
  int shift = 0;
  const std::string last = text.empty() ? std::string() : to_lower(text.substr(text.size() - 1));
  if (const std::size_t index = kPrefixes.find(last);
      !last.empty() && !text.starts_with("0x") && index != std::string_view::npos) {
    shift = 10 * (static_cast<int>(index) + 1);
    text = trimmed(text.substr(0, text.size() - 1), kBlanks);
  }
  const std::optional<std::int64_t> number = whole_number(text);
  if (!number) return std::nullopt;
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max() >> shift;
  if (*number > limit || *number < -limit) return std::nullopt;
  return *number * (std::int64_t{1} << shift);
}

// Longer than kUnlimited is kUnlimited: what is written as "for ever" often is the largest number.
std::optional<env::Duration> duration(std::string_view text, std::int64_t unit_ns) {
  struct Unit {
    std::string_view name;
    std::int64_t ns;
  };
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::array<Unit, 7> kUnits{{{"ns", 1},
                                        {"us", 1'000},
                                        {"ms", 1'000'000},
                                        {"s", kSecond},
                                        {"m", 60 * kSecond},
                                        {"h", 3600 * kSecond},
                                        {"d", 86400 * kSecond}}};
  const std::string lower = to_lower(text);
  std::string_view number = lower;
  for (const Unit& unit : kUnits) {
    if (!lower.ends_with(unit.name)) continue;
    number.remove_suffix(unit.name.size());
    unit_ns = unit.ns;
    break;
  }
  const std::optional<std::int64_t> count = whole_number(trimmed(number, kBlanks));
  if (!count || *count < 0) return std::nullopt;
  if (*count > kUnlimited.count() / unit_ns) return kUnlimited;
  return env::Duration(*count * unit_ns);
}

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::string_view kTimes = "a time such as 500ms, 30s or 2m";

Status read_milliseconds(std::string_view key, std::string_view value, env::Duration& member) {
  const std::optional<env::Duration> read = duration(value, kMillisecond);
  if (!read) return bad_value(key, value, kTimes);
  member = *read;
  return {};
}

Status read_seconds(std::string_view key, std::string_view value, env::Duration& member) {
  const std::optional<env::Duration> read = duration(value, 1000 * kMillisecond);
  if (!read) return bad_value(key, value, kTimes);
  member = *read;
  return {};
}

Status read_timeout(std::string_view key, std::string_view value, env::Duration& member) {
  HFLUSH_RETURN_IF_ERROR(read_milliseconds(key, value, member));
  if (member == env::Duration::zero()) member = kUnlimited;
  return {};
}

template <std::integral T>
Status store(std::string_view key, std::string_view value, std::optional<std::int64_t> number,
             std::int64_t least, std::string_view what, T& member) {
  constexpr auto kMost = static_cast<std::int64_t>(std::min<std::uint64_t>(
      std::numeric_limits<T>::max(), std::numeric_limits<std::int64_t>::max()));
  if (!number || *number < least || *number > kMost) {
    return bad_value(
        key, value, joined(what, " from " + std::to_string(least), " to " + std::to_string(kMost)));
  }
  member = static_cast<T>(*number);
  return {};
}

constexpr std::string_view kWholeNumbers = "a whole number";
constexpr std::string_view kSizes = "a size such as 131072, 128k or 1g,";

template <std::integral T>
Status read_count(std::string_view key, std::string_view value, T& member) {
  return store(key, value, whole_number(value), 0, kWholeNumbers, member);
}

template <std::integral T>
Status read_at_least_one(std::string_view key, std::string_view value, T& member) {
  return store(key, value, whole_number(value), 1, kWholeNumbers, member);
}

template <std::integral T>
Status read_size(std::string_view key, std::string_view value, T& member) {
  return store(key, value, byte_count(value), 1, kSizes, member);
}

Status read_buffer_size(std::string_view key, std::string_view value, int& member) {
  return store(key, value, byte_count(value), 0, kSizes, member);
}

// As Hadoop: frames have a signed length of 32 bits.
Status read_limit(std::string_view key, std::string_view value, std::uint32_t& member) {
  std::int32_t limit = 0;
  HFLUSH_RETURN_IF_ERROR(store(key, value, byte_count(value), 0, kSizes, limit));
  member =
      static_cast<std::uint32_t>(limit == 0 ? std::numeric_limits<std::int32_t>::max() : limit);
  return {};
}

Status read_optional_size(std::string_view key, std::string_view value,
                          std::optional<std::int64_t>& member) {
  std::int64_t size = 0;
  HFLUSH_RETURN_IF_ERROR(store(key, value, byte_count(value), 0, kSizes, size));
  member = size;
  return {};
}

Status read_boolean(std::string_view key, std::string_view value, bool& member) {
  const std::string lower = to_lower(value);
  if (lower != "true" && lower != "false") return bad_value(key, value, "true or false");
  member = lower == "true";
  return {};
}

Status read_optional_boolean(std::string_view key, std::string_view value,
                             std::optional<bool>& member) {
  bool set = false;
  HFLUSH_RETURN_IF_ERROR(read_boolean(key, value, set));
  member = set;
  return {};
}

Status read_checksum_type(std::string_view key, std::string_view value, crc::Kind& member) {
  const std::string lower = to_lower(value);
  if (lower != "crc32c" && lower != "crc32") return bad_value(key, value, "CRC32C or CRC32");
  member = lower == "crc32c" ? crc::Kind::kCrc32c : crc::Kind::kCrc32;
  return {};
}

Status read_retry_spec(std::string_view key, std::string_view value,
                       std::vector<std::pair<env::Duration, int>>& member) {
  constexpr std::string_view kAllowed = "pairs of milliseconds and attempts, such as 10000,6";
  const std::vector<std::string_view> parts = split(value);
  if (parts.empty() || parts.size() % 2 != 0) return bad_value(key, value, kAllowed);
  member.clear();
  for (std::size_t i = 0; i < parts.size(); i += 2) {
    const std::optional<env::Duration> pause = duration(parts[i], kMillisecond);
    int attempts = 0;
    if (!pause || !read_at_least_one(key, parts[i + 1], attempts).ok()) {
      return bad_value(key, value, kAllowed);
    }
    member.emplace_back(*pause, attempts);
  }
  return {};
}

// The names that keys.inc gives the types.
enum class Type : std::uint8_t {
  Milliseconds,
  Seconds,
  Timeout,
  Count,
  AtLeastOne,
  Size,
  BufferSize,
  Limit,
  Boolean,
  ChecksumType,
  RetrySpec,
  OptionalSize,
  OptionalBoolean,
};

template <Type kType, typename Member>
Status read(const ConfigurationMap& map, std::string_view key, std::string_view fallback,
            Member& member) {
  const std::string_view value = value_of(map, key, fallback);
  if (value.empty()) return {};
  if constexpr (kType == Type::Milliseconds) return read_milliseconds(key, value, member);
  if constexpr (kType == Type::Seconds) return read_seconds(key, value, member);
  if constexpr (kType == Type::Timeout) return read_timeout(key, value, member);
  if constexpr (kType == Type::Count) return read_count(key, value, member);
  if constexpr (kType == Type::AtLeastOne) return read_at_least_one(key, value, member);
  if constexpr (kType == Type::Size) return read_size(key, value, member);
  if constexpr (kType == Type::BufferSize) return read_buffer_size(key, value, member);
  if constexpr (kType == Type::Limit) return read_limit(key, value, member);
  if constexpr (kType == Type::Boolean) return read_boolean(key, value, member);
  if constexpr (kType == Type::ChecksumType) return read_checksum_type(key, value, member);
  if constexpr (kType == Type::RetrySpec) return read_retry_spec(key, value, member);
  if constexpr (kType == Type::OptionalSize) return read_optional_size(key, value, member);
  if constexpr (kType == Type::OptionalBoolean) return read_optional_boolean(key, value, member);
}

Status read_all(const ConfigurationMap& map, Settings& settings) {
#define HFLUSH_HDFS_NAME(constant, key, fallback, effect)
#define HFLUSH_HDFS_KEY(type, key, fallback, member, effect) \
  HFLUSH_RETURN_IF_ERROR(read<Type::type>(map, key, fallback, settings.member));
#include "hflush/hdfs/keys.inc"
#undef HFLUSH_HDFS_KEY
#undef HFLUSH_HDFS_NAME
  return {};
}

// What follows from several keys.
Status complete(const ConfigurationMap& map, Settings& settings) {
  WriteSettings& write = settings.write;
  constexpr std::uint64_t kChunkOverhead = 4 + 33;  // one sum, and the largest packet header
  if (write.bytes_per_checksum + kChunkOverhead > write.max_packet_size) {
    return bad_value("dfs.bytes-per-checksum", std::to_string(write.bytes_per_checksum),
                     "so small that a chunk fits in a packet of " +
                         std::to_string(write.max_packet_size) +
                         " bytes (dfs.data.transfer.max.packet.size)");
  }
  write.packet_size = std::min(write.packet_size, write.max_packet_size);
  if (value_of(map, "dfs.client.read.prefetch.size").empty()) {
    constexpr std::uint64_t kBlocks = 10;
    settings.read.prefetch_bytes =
        write.block_size > std::numeric_limits<std::int64_t>::max() / kBlocks
            ? std::numeric_limits<std::int64_t>::max()
            : kBlocks * write.block_size;
  }
  settings.read.socket_timeout = write.socket_timeout;
  settings.read.use_datanode_hostname = write.use_datanode_hostname;
  return {};
}

// --- servers -------------------------------------------------------------------------------------

struct Authority {
  std::string host;
  std::optional<std::uint16_t> port;
};

// `source`: where it was written, for the failure.
Result<Authority> parse_authority(std::string_view text, const std::string& source) {
  constexpr std::string_view kForm = "host:port, [ipv6]:port or the name of a nameservice";
  Authority authority;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return bad_value(source, text, kForm);
    authority.host = text.substr(1, bracket - 1);
    port = text.substr(bracket + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    authority.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (authority.host.empty() || authority.host.find_first_of(" \t/@,?#[]") != std::string::npos) {
    return bad_value(source, text, kForm);
  }
  if (port.empty() || port == ":") return authority;
  constexpr std::int64_t kMaxPort = 65535;
  const std::string_view digits = port.substr(1);
  const bool plain = digits.find_first_not_of("0123456789") == std::string_view::npos;
  const std::optional<std::int64_t> number = whole_number(digits);
  if (!port.starts_with(':') || !plain || !number || *number < 1 || *number > kMaxPort) {
    return bad_value(source, text, joined(kForm, ", with a port from 1 to 65535"));
  }
  authority.port = static_cast<std::uint16_t>(*number);
  return authority;
}

Status missing(const std::string& key, std::string_view service) {
  return Status(StatusCode::kInvalidArgument,
                joined(key, " is missing: it is needed for the nameservice ", service));
}

// The NameNode that `key` has the address of; some tools write "hdfs://" in front of it.
Status add_name_node(const ConfigurationMap& map, const std::string& key, std::string_view service,
                     std::vector<env::Endpoint>& name_nodes) {
  std::string_view value = value_of(map, key);
  if (value.empty()) return missing(key, service);
  if (value.starts_with(kScheme)) value.remove_prefix(kScheme.size());
  if (value.ends_with('/')) value.remove_suffix(1);
  HFLUSH_ASSIGN_OR_RETURN(const Authority address, parse_authority(value, key));
  name_nodes.push_back({address.host, address.port.value_or(kDefaultPort)});
  return {};
}

bool is_nameservice(const ConfigurationMap& map, std::string_view name) {
  const std::vector<std::string_view> known = split(value_of(map, kNameservices.key));
  return std::ranges::find(known, name) != known.end() ||
         !value_of(map, joined(kProxyProvider.key, name)).empty();
}

Status resolve_nameservice(const ConfigurationMap& map, const Authority& authority,
                           Settings& settings) {
  const std::string& service = authority.host;
  if (authority.port.value_or(kDefaultPort) != kDefaultPort) {
    return Status(StatusCode::kInvalidArgument,
                  "hdfs://" + service + ":" + std::to_string(*authority.port) + ": " + service +
                      " is a nameservice, which has no port");
  }
  settings.service = service;
  const std::vector<std::string_view> ids = split(value_of(map, joined(kNameNodes.key, service)));
  if (ids.empty()) {
    const std::string only = joined(kRpcAddress.key, service);
    if (value_of(map, only).empty()) return missing(joined(kNameNodes.key, service), service);
    return add_name_node(map, only, service, settings.name_nodes);
  }
  for (const std::string_view id : ids) {
    const std::string key = joined(kRpcAddress.key, service + ".", id);
    HFLUSH_RETURN_IF_ERROR(add_name_node(map, key, service, settings.name_nodes));
  }
  const std::string order = joined(kRandomOrderOf.key, service);
  return read<Type::Boolean>(map, order, {}, settings.rpc.random_order);
}

// The authority of fs.defaultFS, for a URL that has none.
Result<std::string> default_authority(const ConfigurationMap& map) {
  std::string_view value = value_of(map, kDefaultFs.key, kDefaultFs.fallback);
  const std::string_view whole = value;
  if (value.starts_with(kScheme)) {
    value.remove_prefix(kScheme.size());
    value = value.substr(0, value.find('/'));
    if (!value.empty()) return std::string(value);
  }
  return bad_value(kDefaultFs.key, whole,
                   "hdfs://host:port or hdfs://nameservice where the URL of a file names neither");
}

Status resolve(const ConfigurationMap& map, const std::string& written, Settings& settings) {
  std::string authority = written;
  if (authority.empty()) {
    HFLUSH_ASSIGN_OR_RETURN(authority, default_authority(map));
  }
  const std::string source = joined("the authority of hdfs://", authority);
  if (authority.find('@') != std::string::npos) {
    return bad_value(source, authority, "without a user; HADOOP_USER_NAME says who you are");
  }
  HFLUSH_ASSIGN_OR_RETURN(const Authority parsed, parse_authority(authority, source));
  if (is_nameservice(map, parsed.host)) return resolve_nameservice(map, parsed, settings);
  if (!parsed.port) {
    settings.unknown_host_hint =
        "; if " + parsed.host +
        " is a nameservice, the configuration does not know it: HADOOP_CONF_DIR is to name the "
        "directory of core-site.xml and hdfs-site.xml, or conf= to have dfs.nameservices";
  }
  settings.name_nodes.push_back({parsed.host, parsed.port.value_or(kDefaultPort)});
  settings.service = settings.name_nodes.front().to_string();
  return {};
}

// A server that would let us in without is not to be used without.
Status check_authentication(const ConfigurationMap& map) {
  const std::string_view method = value_of(map, kAuthentication.key, kAuthentication.fallback);
  if (equals_ignoring_case(method, "simple")) return {};
  return Status(StatusCode::kUnsupported,
                joined(kAuthentication.key, " is ", method) +
                    ": only simple is supported yet, and it is not used in place of another");
}

// Unique: leases are held under this name. The form is the Java client's.
std::string make_client_name(const ConfigurationMap& map) {
  std::random_device random;
  const auto number = static_cast<std::int32_t>(random());
  std::string name = "DFSClient_";
  name += value_of(map, kTaskAttempt.key, kTaskAttempt.fallback);
  name += "_" + std::to_string(number) + "_" + std::to_string(getpid());
  return name;
}

}  // namespace

Result<Settings> Settings::from_map(const ConfigurationMap& map, const std::string& authority,
                                    const std::string& user, const std::string& real_user) {
  Settings settings;
  if (user.empty()) {
    return Status(StatusCode::kInvalidArgument, "the user of an HDFS client must have a name");
  }
  settings.user = user;
  settings.real_user = real_user;
  HFLUSH_RETURN_IF_ERROR(check_authentication(map));
  HFLUSH_RETURN_IF_ERROR(read_all(map, settings));
  HFLUSH_RETURN_IF_ERROR(complete(map, settings));
  HFLUSH_RETURN_IF_ERROR(resolve(map, authority, settings));
  settings.client_name = make_client_name(map);
  return settings;
}

std::vector<std::string_view> Settings::keys() {
  return {
#define HFLUSH_HDFS_NAME(constant, key, fallback, effect) key,
#define HFLUSH_HDFS_KEY(type, key, fallback, member, effect) key,
#include "hflush/hdfs/keys.inc"
#undef HFLUSH_HDFS_KEY
#undef HFLUSH_HDFS_NAME
  };
}

}  // namespace hflush::hdfs
