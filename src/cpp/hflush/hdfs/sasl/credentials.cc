#include "hflush/hdfs/sasl/credentials.h"

#include <array>
#include <ctime>
#include <limits>
#include <optional>
#include <utility>

#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs::sasl {
namespace {

constexpr std::string_view kMagic = "HDTS";

Status malformed(std::string what) {
  return Status(StatusCode::kInvalidArgument, "token file: " + std::move(what));
}

// --- Writable

// Hadoop's variable-length integers: from -112 one byte; else how many bytes follow, then those.
void append_vint(std::string& to, std::int64_t value) {
  constexpr std::int64_t kFirst = -112;
  if (value >= kFirst && value <= std::numeric_limits<std::int8_t>::max()) {
    to += static_cast<char>(value);
    return;
  }
  const auto bits = static_cast<std::uint64_t>(value < 0 ? ~value : value);
  unsigned count = 1;
  while (count < 8 && bits >> (8 * count) != 0) ++count;
  to += static_cast<char>((value < 0 ? -120 : kFirst) - static_cast<int>(count));
  while (count-- > 0) to += static_cast<char>(bits >> (8 * count) & 0xFFU);
}

void append_text(std::string& to, std::string_view text) {
  append_vint(to, static_cast<std::int64_t>(text.size()));
  to += text;
}

void append_token(std::string& to, const Token& token) {
  append_text(to, token.identifier);
  append_text(to, token.password);
  append_text(to, token.kind);
  append_text(to, token.service);
}

// The first thing that is wrong is kept, and everything is empty from then on.
class WritableReader {
 public:
  explicit WritableReader(std::string_view bytes) : all_(bytes.size()), rest_(bytes) {}

  Status status() const { return fault_; }
  std::size_t left() const noexcept { return rest_.size(); }

  std::int64_t vint() {
    const std::string_view first = take(1);
    if (first.empty()) return 0;
    const auto byte = static_cast<std::int8_t>(first.front());
    if (byte >= -112) return byte;
    const bool is_negative = byte < -120;
    const auto count = static_cast<std::size_t>(is_negative ? -(byte + 120) : -(byte + 112));
    std::uint64_t bits = 0;
    for (const char c : take(count)) bits = bits << 8U | static_cast<unsigned char>(c);
    return static_cast<std::int64_t>(is_negative ? ~bits : bits);
  }
  std::string text() {
    const std::int64_t size = vint();
    if (size < 0 || std::cmp_greater(size, rest_.size())) {
      refuse("a length of " + std::to_string(size));
      return {};
    }
    return std::string(take(static_cast<std::size_t>(size)));
  }
  Token token() {
    Token token;
    token.identifier = text();
    token.password = text();
    token.kind = text();
    token.service = text();
    return token;
  }
  // Of things that take at least one byte each.
  std::int64_t count() {
    const std::int64_t number = vint();
    if (number >= 0 && std::cmp_less_equal(number, rest_.size())) return number;
    refuse("a number of " + std::to_string(number));
    return 0;
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) {
      refuse("the end");
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  void refuse(const std::string& what) {
    if (fault_.ok()) {
      fault_ = malformed(what + " at byte " + std::to_string(all_ - rest_.size()) + " of " +
                         std::to_string(all_) + " behind its head");
    }
    rest_ = {};
  }

  const std::size_t all_;
  std::string_view rest_;
  Status fault_;
};

Result<Credentials> decode_writable(std::string_view bytes) {
  WritableReader reader(bytes);
  Credentials found;
  for (std::int64_t left = reader.count(); left > 0 && reader.status().ok(); --left) {
    std::string alias = reader.text();
    found.tokens.insert_or_assign(std::move(alias), reader.token());
  }
  for (std::int64_t left = reader.count(); left > 0 && reader.status().ok(); --left) {
    std::string alias = reader.text();
    found.secrets.insert_or_assign(std::move(alias), reader.text());
  }
  HFLUSH_RETURN_IF_ERROR(reader.status());
  return found;
}

// --- protobuf

std::string encode_protobuf(const Token& token) {
  std::string message;
  wire::Writer writer(message);
  writer.add_bytes(1, token.identifier);
  writer.add_bytes(2, token.password);
  writer.add_string(3, token.kind);
  writer.add_string(4, token.service);
  return message;
}

Token read_token(wire::Reader reader) {
  Token token;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        token.identifier = reader.text();
        break;
      case 2:
        token.password = reader.text();
        break;
      case 3:
        token.kind = reader.text();
        break;
      case 4:
        token.service = reader.text();
        break;
      default:
        reader.skip();
    }
  }
  reader.require({{1, "identifier"}, {2, "password"}, {3, "kind"}, {4, "service"}});
  return token;
}

struct Entry {
  std::string alias;
  std::optional<Token> token;
  std::optional<std::string> secret;
};

Entry read_entry(wire::Reader reader) {
  Entry entry;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        entry.alias = reader.text();
        break;
      case 2:
        entry.token = read_token(reader.message("TokenProto"));
        break;
      case 3:
        entry.secret = reader.text();
        break;
      default:
        reader.skip();
    }
  }
  reader.require({{1, "alias"}});
  return entry;
}

Credentials read_credentials(wire::Reader reader) {
  Credentials found;
  while (reader.next()) {
    if (reader.field() != 1 && reader.field() != 2) {
      reader.skip();
      continue;
    }
    Entry entry = read_entry(reader.message("CredentialsKVProto"));
    if (entry.token) found.tokens.insert_or_assign(entry.alias, *std::move(entry.token));
    if (entry.secret) found.secrets.insert_or_assign(entry.alias, *std::move(entry.secret));
  }
  return found;
}

Result<Credentials> decode_protobuf(std::string_view bytes) {
  std::optional<std::string_view> message = wire::take_delimited(bytes);
  if (!message) return malformed("it is shorter than it says");
  Result<Credentials> found = wire::read_whole<Credentials>("token file", "CredentialsProto",
                                                            as_bytes(*message), read_credentials);
  if (!found.ok()) return Status(StatusCode::kInvalidArgument, found.status().message());
  return found;
}

// --- delegation tokens

std::string utc(std::int64_t milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
    return std::to_string(milliseconds) + " ms since 1970";
  }
  return text.data();
}

}  // namespace

// AbstractDelegationTokenIdentifier: a version, owner, renewer and real user, and two times.
std::string describe(const Token& token) {
  const std::string whose = token.service.empty() ? "" : " for " + token.service;
  WritableReader reader(token.identifier);
  const std::int64_t version = reader.vint();
  const std::string owner = reader.text();
  reader.text();
  const std::string real_user = reader.text();
  const std::int64_t issued = reader.vint();
  const std::int64_t good_until = reader.vint();
  if (token.kind != kDelegationToken || !reader.status().ok() || version != 0) {
    return "the token" + whose;
  }
  return "the token of " + owner + (real_user.empty() ? "" : ", as whom " + real_user + " acts,") +
         whose + ", issued " + utc(issued) + " and good until " + utc(good_until) + " at most";
}

hdfs::Token to_wire(const Token& token) { return {encode_protobuf(token)}; }

Result<Token> from_wire(const hdfs::Token& spelled) {
  return wire::read_whole<Token>("a token", "TokenProto", as_bytes(spelled.encoded), read_token);
}

std::string encode(const Token& token) {
  std::string bytes;
  append_token(bytes, token);
  return bytes;
}

Result<Token> decode_token(ByteView bytes) {
  WritableReader reader(as_text(bytes));
  Token token = reader.token();
  if (!reader.status().ok() || reader.left() > 0) {
    return Status(StatusCode::kInvalidArgument, "what is given is no token of Hadoop");
  }
  return token;
}

std::string encode(const Credentials& credentials, TokenFileFormat format) {
  std::string file(kMagic);
  file += static_cast<char>(format);
  if (format == TokenFileFormat::kWritable) {
    append_vint(file, static_cast<std::int64_t>(credentials.tokens.size()));
    for (const auto& [alias, token] : credentials.tokens) {
      append_text(file, alias);
      append_token(file, token);
    }
    append_vint(file, static_cast<std::int64_t>(credentials.secrets.size()));
    for (const auto& [alias, secret] : credentials.secrets) {
      append_text(file, alias);
      append_text(file, secret);
    }
    return file;
  }
  std::string message;
  wire::Writer writer(message);
  for (const auto& [alias, token] : credentials.tokens) {
    wire::Writer entry(writer, 1);
    entry.add_string(1, alias);
    entry.add_message(2, encode_protobuf(token));
  }
  for (const auto& [alias, secret] : credentials.secrets) {
    wire::Writer entry(writer, 2);
    entry.add_string(1, alias);
    entry.add_bytes(3, secret);
  }
  return file + wire::delimited(message);
}

Result<Credentials> decode_credentials(ByteView file) {
  std::string_view bytes = as_text(file);
  if (!bytes.starts_with(kMagic) || bytes.size() == kMagic.size()) {
    return malformed("it does not begin with HDTS and a version");
  }
  const auto version = static_cast<unsigned char>(bytes[kMagic.size()]);
  bytes.remove_prefix(kMagic.size() + 1);
  if (version == static_cast<unsigned char>(TokenFileFormat::kWritable)) {
    return decode_writable(bytes);
  }
  if (version == static_cast<unsigned char>(TokenFileFormat::kProtobuf)) {
    return decode_protobuf(bytes);
  }
  return malformed("its version is " + std::to_string(version) + ", known are 0 and 1");
}

}  // namespace hflush::hdfs::sasl
