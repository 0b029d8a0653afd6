#include "hflush/env/http_head.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/base/check.h"

namespace hflush::env {
namespace {

// A return that ends no line counts as one (RFC 9112, 2.2).
constexpr std::string_view kBlanks = " \t\r";

bool is_blank(char letter) noexcept { return kBlanks.find(letter) != std::string_view::npos; }

// Of a field: on one line, whatever came.
std::string value_of(std::string_view text) {
  std::string value(trimmed(text, kBlanks));
  std::ranges::replace(value, '\r', ' ');
  return value;
}

// Of "HTTP/1.1 200 OK"; 0 if there is none.
int status_of(std::string_view line) noexcept {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return 0;
  const std::string_view code = trimmed(line.substr(blank), kBlanks).substr(0, 3);
  int status = 0;
  std::from_chars(code.data(), code.data() + code.size(), status);
  return status;
}

constexpr int kFirstFinal = 200;

}  // namespace

std::string_view HttpHead::header(std::string_view name) const noexcept {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

bool HttpHeadParser::add_line(std::string_view line) {
  if (state_ == State::kTaken) return true;
  if (line.size() > kMaxBytes - bytes_) return false;
  bytes_ += line.size();
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (state_ != State::kHeaders) {
    // After a complete head, and no body: trailers, or a response that takes its place.
    if (!line.starts_with("HTTP/")) return true;
    head_ = HttpHead{status_of(line), {}};
    state_ = State::kHeaders;
  } else if (!line.empty()) {
    add_field(line);
  } else {
    state_ = head_.status < kFirstFinal ? State::kNothing : State::kComplete;
  }
  return true;
}

void HttpHeadParser::add_field(std::string_view line) {
  if (is_blank(line.front())) {  // a line of the header before
    const std::string more = value_of(line);
    if (more.empty() || head_.headers.empty()) return;
    std::string& value = head_.headers.back().value;
    if (!value.empty()) value += ' ';
    value += more;
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  head_.headers.push_back(
      {to_lower(value_of(line.substr(0, colon))), value_of(line.substr(colon + 1))});
}

HttpHead HttpHeadParser::take() {
  HFLUSH_DCHECK(is_complete());
  state_ = State::kTaken;
  return std::move(head_);
}

std::size_t authority_size(std::string_view rest) noexcept {
  const auto end = std::ranges::find_if(
      rest, [](char letter) { return letter == '/' || letter == '?' || letter == '#'; });
  return static_cast<std::size_t>(end - rest.begin());
}

std::string http_authority(std::string_view url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) return {};
  const std::string_view scheme = url.substr(0, colon);
  const bool is_secure = equals_ignoring_case(scheme, "https");
  if (!is_secure && !equals_ignoring_case(scheme, "http")) return {};
  std::string_view rest = url.substr(colon + 3);
  rest = rest.substr(0, authority_size(rest));
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    rest.remove_prefix(at + 1);
  }
  if (rest.empty()) return {};
  std::string authority(rest);
  const bool has_port =
      rest.find(':', rest.front() == '[' ? rest.find(']') : 0) != std::string_view::npos;
  if (!has_port) authority += is_secure ? ":443" : ":80";
  return authority;
}

}  // namespace hflush::env
