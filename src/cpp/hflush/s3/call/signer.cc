#include "hflush/s3/call/signer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/base/binary_text.h"
#include "hflush/base/bytes.h"
#include "hflush/crypto/digest.h"

namespace hflush::s3 {
namespace {

namespace chrono = std::chrono;

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr std::string_view kService = "s3";
constexpr std::string_view kTerminator = "aws4_request";
// About so long are the names of signed headers, and a canonical request without its path.
constexpr std::size_t kNameBytes = 24;
constexpr std::size_t kCanonicalBytes = 1024;
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> kWeekdays = {"Mon", "Tue", "Wed", "Thu",
                                                       "Fri", "Sat", "Sun"};

// Sorted by name, each name once.
using SignedHeaders = std::vector<env::HttpHeader>;

constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

// Without surrounding blanks, and with one for each run of them.
std::string condensed(std::string_view value) {
  const auto both_blank = [](char one, char next) { return is_blank(one) && is_blank(next); };
  if (value.empty() || (!is_blank(value.front()) && !is_blank(value.back()) &&
                        value.find('\t') == std::string_view::npos &&
                        std::ranges::adjacent_find(value, both_blank) == value.end())) {
    return std::string(value);
  }
  std::string result;
  bool pending = false;
  for (const char c : value) {
    if (is_blank(c)) {
      pending = !result.empty();
    } else {
      if (pending) result += ' ';
      pending = false;
      result += c;
    }
  }
  return result;
}

bool is_signed(std::string_view name) noexcept {
  static constexpr std::array<std::string_view, 6> kNames = {
      "content-md5", "content-type", "date", "if-match", "if-none-match", "range"};
  return name.starts_with("x-amz-") || std::ranges::find(kNames, name) != kNames.end();
}

SignedHeaders signed_headers(const RequestToSign& request,
                             const std::vector<env::HttpHeader>& added) {
  SignedHeaders headers;
  headers.reserve(1 + request.headers.size() + added.size());
  headers.push_back({"host", condensed(request.host)});
  for (const auto* list : {&request.headers, &added}) {
    for (const env::HttpHeader& header : *list) {
      std::string name = to_lower(header.name);
      if (!is_signed(name)) continue;
      std::string value = condensed(header.value);
      const auto known = std::ranges::find(headers, name, &env::HttpHeader::name);
      if (known != headers.end()) {
        known->value.append(1, ',').append(value);
      } else {
        headers.push_back({std::move(name), std::move(value)});
      }
    }
  }
  std::ranges::sort(headers, {}, &env::HttpHeader::name);
  return headers;
}

std::string names_of(const SignedHeaders& headers) {
  std::string names;
  names.reserve(kNameBytes * headers.size());
  for (const auto& [name, value] : headers) {
    if (!names.empty()) names += ';';
    names += name;
  }
  return names;
}

std::string canonical_request_of(const RequestToSign& request, const SignedHeaders& headers,
                                 std::string_view names) {
  std::string text;
  text.reserve(kCanonicalBytes + request.encoded_path.size());
  text += request.method;
  text += '\n';
  text += request.encoded_path.empty() ? std::string_view("/") : request.encoded_path;
  text += '\n';
  text += canonical_query(request.query);
  text += '\n';
  for (const auto& [name, value] : headers) {
    text += name;
    text += ':';
    text += value;
    text += '\n';
  }
  text += '\n';
  text += names;
  text += '\n';
  text += request.payload_sha256;
  return text;
}

void append_number(std::string& text, unsigned number, int digits) {
  std::string spelled = std::to_string(number);
  text.append(
      std::max<std::size_t>(static_cast<std::size_t>(digits), spelled.size()) - spelled.size(),
      '0');
  text += spelled;
}

// A fixed number of decimal digits off the front.
std::optional<unsigned> take_number(std::string_view& text, std::size_t digits) noexcept {
  if (text.size() < digits) return std::nullopt;
  unsigned number = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<unsigned>(c - '0');
  }
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, std::string_view expected) noexcept {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

// The place, from 0 on, of the name that stands in front.
template <std::size_t N>
std::optional<unsigned> take_one_of(std::string_view& text,
                                    const std::array<std::string_view, N>& names) noexcept {
  for (unsigned i = 0; i < N; ++i) {
    if (take(text, names[i])) return i;
  }
  return std::nullopt;
}

}  // namespace

SigningKey signing_key(const Credentials& credentials, std::string_view region, SystemTime now) {
  const std::string first = "AWS4" + credentials.secret_key;
  const std::string day = amz_date(now).substr(0, 8);
  SigningKey key = crypto::hmac_sha256(as_bytes(first), as_bytes(day));
  for (const std::string_view part : {region, kService, kTerminator}) {
    key = crypto::hmac_sha256(key, as_bytes(part));
  }
  return key;
}

SigningKey SigningKeys::of(const Credentials& credentials, std::uint64_t generation,
                           std::string_view region, SystemTime now) {
  const auto day = chrono::floor<chrono::days>(now);
  {
    const MutexLock lock(mutex_);
    for (const Known& one : known_) {
      if (one.generation == generation && one.day == day && one.region == region) return one.key;
    }
  }
  const SigningKey key = signing_key(credentials, region, now);
  const MutexLock lock(mutex_);
  if (known_.size() == kMost) known_.erase(known_.begin());
  known_.push_back({generation, day, std::string(region), key});
  return key;
}

std::vector<env::HttpHeader> sign(const RequestToSign& request, const Credentials& credentials,
                                  std::string_view region, SystemTime now,
                                  const std::optional<SigningKey>& key) {
  if (credentials.anonymous()) return {};
  const std::string time = amz_date(now);
  const std::string day = time.substr(0, time.find('T'));
  std::vector<env::HttpHeader> added = {
      {"x-amz-date", time}, {"x-amz-content-sha256", std::string(request.payload_sha256)}};
  if (!credentials.session_token.empty()) {
    added.push_back({"x-amz-security-token", credentials.session_token});
  }
  const SignedHeaders headers = signed_headers(request, added);
  const std::string names = names_of(headers);
  std::string scope = day + '/';
  scope += region;
  scope += '/';
  scope += kService;
  scope += '/';
  scope += kTerminator;
  std::string to_sign(kAlgorithm);
  to_sign += '\n' + time + '\n' + scope + '\n';
  to_sign += to_hex(crypto::sha256(as_bytes(canonical_request_of(request, headers, names))));
  const SigningKey known = key ? *key : signing_key(credentials, region, now);
  std::string authorization(kAlgorithm);
  authorization += " Credential=" + credentials.access_key + '/' + scope;
  authorization += ", SignedHeaders=" + names;
  authorization += ", Signature=" + to_hex(crypto::hmac_sha256(known, as_bytes(to_sign)));
  added.push_back({"Authorization", std::move(authorization)});
  return added;
}

std::string canonical_request(const RequestToSign& request,
                              const std::vector<env::HttpHeader>& added) {
  const SignedHeaders headers = signed_headers(request, added);
  return canonical_request_of(request, headers, names_of(headers));
}

std::string amz_date(SystemTime time) {
  const auto day = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date(day);
  const auto seconds = chrono::floor<chrono::seconds>(time - day).count();
  std::string text;
  append_number(text, static_cast<unsigned>(static_cast<int>(date.year())), 4);
  append_number(text, static_cast<unsigned>(date.month()), 2);
  append_number(text, static_cast<unsigned>(date.day()), 2);
  text += 'T';
  append_number(text, static_cast<unsigned>(seconds / 3600), 2);
  append_number(text, static_cast<unsigned>(seconds / 60 % 60), 2);
  append_number(text, static_cast<unsigned>(seconds % 60), 2);
  text += 'Z';
  return text;
}

std::optional<SystemTime> parse_http_date(std::string_view text) {
  if (!take_one_of(text, kWeekdays) || !take(text, ", ")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day || !take(text, " ")) return std::nullopt;
  const auto month = take_one_of(text, kMonths);
  if (!month || !take(text, " ")) return std::nullopt;
  const auto year = take_number(text, 4);
  if (!year || !take(text, " ")) return std::nullopt;
  const auto hour = take_number(text, 2);
  if (!hour || !take(text, ":")) return std::nullopt;
  const auto minute = take_number(text, 2);
  if (!minute || !take(text, ":")) return std::nullopt;
  const auto second = take_number(text, 2);
  if (!second || text != " GMT") return std::nullopt;
  const chrono::year_month_day date(chrono::year(static_cast<int>(*year)),
                                    chrono::month(*month + 1), chrono::day(*day));
  // SystemTime counts nanoseconds, and ends in 2262.
  if (*year < 1970 || *year > 2200 || !date.ok()) return std::nullopt;
  if (*hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  return chrono::sys_days(date) + chrono::hours(*hour) + chrono::minutes(*minute) +
         chrono::seconds(*second);
}

}  // namespace hflush::s3
