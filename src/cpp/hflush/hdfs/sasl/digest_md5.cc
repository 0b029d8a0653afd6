#include "hflush/hdfs/sasl/digest_md5.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/base/binary_text.h"
#include "hflush/base/bytes.h"
#include "hflush/base/check.h"
#include "hflush/base/endian.h"
#include "hflush/crypto/digest.h"
#include "hflush/crypto/triple_des.h"

namespace hflush::hdfs::sasl {
namespace {

using crypto::Md5;
using crypto::TripleDes;

constexpr std::string_view kNonceCount = "00000001";
constexpr std::size_t kMac = 10;  // of HMAC-MD5's bytes
constexpr std::string_view kMessageType("\x00\x01", 2);
constexpr std::size_t kTrailer = 6;  // message type and sequence number
// What is ready to receive in one piece, and what a server takes that does not say.
constexpr std::size_t kMaxBuffer = 65536;

Status broken(std::string what) {
  return Status(StatusCode::kPermissionDenied, "DIGEST-MD5: " + std::move(what));
}

// --- messages

using Directives = std::map<std::string, std::string, std::less<>>;

// name=value and name="quoted value", by commas.
Result<Directives> parse(std::string_view text) {
  Directives found;
  const auto skip = [&](std::string_view characters) {
    text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
  };
  for (skip(" \t,"); !text.empty(); skip(" \t,")) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return broken("the server's message has a directive without a value");
    }
    std::string name(text.substr(0, equals));
    text.remove_prefix(equals + 1);
    std::string value;
    if (text.starts_with('"')) {
      std::size_t at = 1;
      for (; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\') ++at;
        if (at == text.size()) break;
        value += text[at];
      }
      if (at >= text.size()) return broken("the server's message has a quote without its end");
      text.remove_prefix(at + 1);
    } else {
      const std::size_t end = std::min(text.find_first_of(", \t"), text.size());
      value = text.substr(0, end);
      text.remove_prefix(end);
    }
    found.emplace(std::move(name), std::move(value));  // of several, the first
  }
  return found;
}

std::string_view value_of(const Directives& directives, std::string_view name) {
  const auto found = directives.find(name);
  return found == directives.end() ? std::string_view() : std::string_view(found->second);
}

// Whether one of the words, by commas, is `word`.
bool lists(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t comma = std::min(words.find(','), words.size());
    std::string_view one = words.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (one == word) return true;
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
  return false;
}

std::string quoted(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  return value + '"';
}

// --- keys

Md5 md5(std::string_view text) { return crypto::md5(as_bytes(text)); }

std::string joined(std::string_view first, std::string_view second, std::string_view third) {
  std::string all(first);
  all += ':';
  all += second;
  all += ':';
  all += third;
  return all;
}

// `start`, and the words with `which` where they have a star.
Md5 key_of(std::string_view start, std::string_view which, std::string_view what) {
  std::string text(start);
  text += what.substr(0, what.find('*'));
  text += which;
  text += what.substr(what.find('*') + 1);
  return md5(text);
}

constexpr std::string_view kToServer = "client-to-server";
constexpr std::string_view kToClient = "server-to-client";

// Seven bytes as a key of DES: seven bits of each of the eight bytes, and odd parity.
void expand_des_key(std::span<const std::byte, 7> from, std::span<std::byte, 8> to) {
  std::uint64_t bits = 0;
  for (const std::byte byte : from) bits = bits << 8U | std::to_integer<std::uint64_t>(byte);
  for (std::size_t i = 0; i < to.size(); ++i) {
    auto value = static_cast<unsigned>(bits >> (49 - 7 * i) & 0x7FU) << 1U;
    unsigned ones = 0;
    for (unsigned bit = 1; bit < 8; ++bit) ones += value >> bit & 1U;
    if (ones % 2 == 0) value |= 1U;
    to[i] = static_cast<std::byte>(value);
  }
}

Result<std::unique_ptr<TripleDes>> make_cipher(TripleDes::Direction direction, const Md5& secret) {
  TripleDes::Key key;
  const std::span<const std::byte, 16> bytes(secret);
  expand_des_key(bytes.subspan<0, 7>(), std::span(key).subspan<0, 8>());
  expand_des_key(bytes.subspan<7, 7>(), std::span(key).subspan<8, 8>());
  std::copy_n(key.begin(), 8, key.begin() + 16);  // two keys: the first is the third
  TripleDes::Iv iv;
  std::ranges::copy(bytes.subspan<8, 8>(), iv.begin());
  return TripleDes::make(direction, key, iv);
}

// One direction of a protected connection.
struct Direction {
  Md5 signing_key{};
  std::unique_ptr<TripleDes> cipher;  // of auth-conf
  std::uint32_t sequence = 0;

  std::string sequence_bytes() const {
    std::array<std::byte, 4> bytes;
    store_be32(bytes.data(), sequence);
    return std::string(as_text(bytes));
  }
  std::string mac(std::string_view message) const {
    const Md5 sum =
        crypto::hmac_md5(signing_key, as_bytes(sequence_bytes() + std::string(message)));
    return std::string(as_text(sum).substr(0, kMac));
  }
};

// --- the mechanism

class DigestMd5 final : public Mechanism {
 public:
  explicit DigestMd5(DigestMd5Options options) : options_(std::move(options)) {}

  Result<std::string> respond(std::string_view challenge) override;
  bool is_complete() const noexcept override { return stage_ == Stage::kComplete; }
  Protection protection() const noexcept override { return protection_; }
  std::size_t max_wrapped() const noexcept override;
  std::string wrap(std::string_view bytes) override;
  Result<std::string> unwrap(std::string_view wrapped) override;

 private:
  enum class Stage : std::uint8_t { kFirst, kProof, kComplete };

  Result<std::string> answer(const Directives& challenge);
  Status choose(std::string_view offered, std::string_view ciphers);
  Status derive(std::string_view session_key);
  std::string digest(std::string_view session_key, std::string_view method,
                     std::string_view nonce) const;

  const DigestMd5Options options_;
  Stage stage_ = Stage::kFirst;
  Protection protection_ = Protection::kAuth;
  std::size_t server_buffer_ = kMaxBuffer;
  std::string proof_;  // that the server has to give
  Direction to_server_;
  Direction to_client_;
};

Result<std::string> DigestMd5::respond(std::string_view challenge) {
  HFLUSH_ASSIGN_OR_RETURN(const Directives directives, parse(challenge));
  switch (stage_) {
    case Stage::kFirst:
      return answer(directives);
    case Stage::kProof:
      if (value_of(directives, "rspauth") != proof_) {
        return broken("the server does not know the secret of the token: it is not who it says");
      }
      stage_ = Stage::kComplete;
      return std::string();
    case Stage::kComplete:
      break;
  }
  return broken("the server goes on after the end");
}

// The strongest that both want: the first of this side's list that the server offers.
Status DigestMd5::choose(std::string_view offered, std::string_view ciphers) {
  if (offered.empty()) offered = "auth";
  std::string wanted;
  for (const Protection protection : options_.protections) {
    if (!wanted.empty()) wanted += ',';
    wanted += to_string(protection);
    if (!lists(offered, to_string(protection))) continue;
    if (protection == Protection::kAuthConf && !lists(ciphers, "3des")) continue;
    protection_ = protection;
    return {};
  }
  return broken("no protection that both sides want: the server offers " + std::string(offered) +
                (ciphers.empty() ? "" : " with " + std::string(ciphers)) + ", wanted is " + wanted);
}

Result<std::string> DigestMd5::answer(const Directives& challenge) {
  const std::string_view nonce = value_of(challenge, "nonce");
  if (nonce.empty()) return broken("the server's challenge has no nonce");
  if (value_of(challenge, "algorithm") != "md5-sess") {
    return broken("the server's algorithm is not md5-sess");
  }
  const std::string_view ciphers = value_of(challenge, "cipher");
  HFLUSH_RETURN_IF_ERROR(choose(value_of(challenge, "qop"), ciphers));
  const std::string_view said = value_of(challenge, "maxbuf");
  const bool has_size = said.empty() || parse_number(said, server_buffer_);
  if (!has_size || server_buffer_ <= 2 * (kMac + kTrailer) || server_buffer_ > 1U << 24U) {
    return broken("the server's maxbuf is " + std::string(said));
  }
  const std::string_view realm = value_of(challenge, "realm");
  const Md5 secret = md5(joined(options_.user, realm, options_.password));
  const Md5 session = md5(joined(as_text(secret), nonce, options_.client_nonce));
  const std::string session_key = to_hex(session);
  HFLUSH_RETURN_IF_ERROR(derive(as_text(session)));
  proof_ = digest(session_key, "", nonce);
  stage_ = Stage::kProof;
  std::string message =
      "charset=utf-8,username=" + quoted(options_.user) + ",realm=" + quoted(realm) +
      ",nonce=" + quoted(nonce) + ",nc=" + std::string(kNonceCount) +
      ",cnonce=" + quoted(options_.client_nonce) + ",digest-uri=" + quoted(options_.digest_uri) +
      ",maxbuf=" + std::to_string(kMaxBuffer) +
      ",response=" + digest(session_key, "AUTHENTICATE", nonce) +
      ",qop=" + std::string(to_string(protection_));
  if (protection_ == Protection::kAuthConf) message += ",cipher=\"3des\"";
  return message;
}

std::string DigestMd5::digest(std::string_view session_key, std::string_view method,
                              std::string_view nonce) const {
  std::string second = std::string(method) + ':' + options_.digest_uri;
  if (protection_ != Protection::kAuth) second += ":00000000000000000000000000000000";
  std::string text(session_key);
  for (const std::string_view part :
       {nonce, kNonceCount, std::string_view(options_.client_nonce), to_string(protection_)}) {
    text += ':';
    text += part;
  }
  text += ':' + to_hex(md5(second));
  return to_hex(md5(text));
}

Status DigestMd5::derive(std::string_view session_key) {
  if (protection_ == Protection::kAuth) return {};
  constexpr std::string_view kSigning = "Digest session key to * signing key magic constant";
  to_server_.signing_key = key_of(session_key, kToServer, kSigning);
  to_client_.signing_key = key_of(session_key, kToClient, kSigning);
  if (protection_ == Protection::kAuthInt) return {};
  constexpr std::string_view kSealing = "Digest H(A1) to * sealing key magic constant";
  HFLUSH_ASSIGN_OR_RETURN(to_server_.cipher, make_cipher(TripleDes::Direction::kEncrypt,
                                                         key_of(session_key, kToServer, kSealing)));
  HFLUSH_ASSIGN_OR_RETURN(to_client_.cipher, make_cipher(TripleDes::Direction::kDecrypt,
                                                         key_of(session_key, kToClient, kSealing)));
  return {};
}

// --- protection

std::size_t DigestMd5::max_wrapped() const noexcept {
  return server_buffer_ - kMac - kTrailer - TripleDes::kBlock;
}

std::string DigestMd5::wrap(std::string_view bytes) {
  HFLUSH_DCHECK(is_complete() && protection_ != Protection::kAuth);
  std::string body(bytes);
  if (to_server_.cipher) {
    const std::size_t pad = TripleDes::kBlock - (bytes.size() + kMac) % TripleDes::kBlock;
    body.append(pad, static_cast<char>(pad));
  }
  body += to_server_.mac(bytes);
  if (to_server_.cipher) body = to_server_.cipher->apply(body);
  body += kMessageType;
  body += to_server_.sequence_bytes();
  ++to_server_.sequence;
  return body;
}

Result<std::string> DigestMd5::unwrap(std::string_view wrapped) {
  HFLUSH_DCHECK(is_complete() && protection_ != Protection::kAuth);
  // A server of Java wraps a whole response, however long the client's maxbuf says it may be.
  if (wrapped.size() < kMac + kTrailer) {
    return broken("the server sent a protected message of " + std::to_string(wrapped.size()) +
                  " bytes");
  }
  const std::string_view trailer = wrapped.substr(wrapped.size() - kTrailer);
  std::string body(wrapped.substr(0, wrapped.size() - kTrailer));
  const Status bad = broken("a protected message of the server is not as it was sent");
  if (to_client_.cipher) {
    if (body.size() % TripleDes::kBlock != 0) return bad;
    body = to_client_.cipher->apply(body);
  }
  const std::string mac = body.substr(body.size() - kMac);
  body.resize(body.size() - kMac);
  if (to_client_.cipher) {
    const auto pad = body.empty() ? 0U : static_cast<unsigned char>(body.back());
    if (pad < 1 || pad > TripleDes::kBlock || pad > body.size()) return bad;
    body.resize(body.size() - pad);
  }
  const bool is_next =
      trailer.substr(0, 2) == kMessageType && trailer.substr(2) == to_client_.sequence_bytes();
  if (!is_next || mac != to_client_.mac(body)) return bad;
  ++to_client_.sequence;
  return body;
}

}  // namespace

Result<std::unique_ptr<Mechanism>> make_digest_md5(DigestMd5Options options) {
  HFLUSH_RETURN_IF_ERROR(crypto::load_md5());
  return std::unique_ptr<Mechanism>(std::make_unique<DigestMd5>(std::move(options)));
}

}  // namespace hflush::hdfs::sasl
