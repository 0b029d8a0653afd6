// The head of a response, line by line.
#include "hflush/env/http_head.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fuzz/targets.h"

namespace hflush::fuzz {
namespace {

using env::HttpHead;
using env::HttpHeader;
using env::HttpHeadParser;

void require_sound(const HttpHead& head, std::size_t received) {
  require(head.status >= 200 && head.status <= 999);
  std::size_t kept = 0;
  for (const HttpHeader& header : head.headers) {
    kept += header.name.size() + header.value.size();
    require(header.name.find(':') == std::string::npos);
    require(std::ranges::none_of(header.name, [](char c) { return c >= 'A' && c <= 'Z'; }));
    for (const std::string& text : {header.name, header.value}) {
      require(text.find_first_of("\r\n") == std::string::npos);
      require(text.empty() || (text.front() != ' ' && text.back() != ' '));
    }
    // The first of a name counts.
    const auto first = std::ranges::find(head.headers, header.name, &HttpHeader::name);
    require(head.header(header.name) == first->value);
  }
  require(kept <= received);
}

bool is_same(const HttpHead& a, const HttpHead& b) {
  return a.status == b.status &&
         std::ranges::equal(a.headers, b.headers, [](const HttpHeader& x, const HttpHeader& y) {
           return x.name == y.name && x.value == y.value;
         });
}

// Spelled as usual it means the same.
void require_round_trip(const HttpHead& head) {
  HttpHeadParser parser;
  require(parser.add_line("HTTP/1.1 " + std::to_string(head.status) + " Said\r\n"));
  for (const HttpHeader& header : head.headers) {
    if (!parser.add_line(header.name + ": " + header.value + "\r\n")) return;  // longer than it was
  }
  require(parser.add_line("\r\n"));
  require(parser.is_complete());
  require(is_same(parser.take(), head));
}

}  // namespace

void http_head(ByteView input) {
  if (input.empty()) return;
  const bool takes_at_once = (std::to_integer<unsigned>(input[0]) & 1U) != 0;
  std::string_view rest = as_text(input.subspan(1));
  HttpHeadParser parser;
  std::optional<HttpHead> taken;
  std::size_t received = 0;
  while (!rest.empty()) {
    const std::size_t size = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const bool has_room = parser.add_line(rest.substr(0, size));
    rest.remove_prefix(size);
    received += size;
    require(has_room || (!taken && received > HttpHeadParser::kMaxBytes));
    if (!has_room) break;
    require(!taken || (parser.has_head() && !parser.is_complete()));
    if (takes_at_once && parser.is_complete()) taken = parser.take();
  }
  if (parser.is_complete()) taken = parser.take();
  require(parser.has_head() == taken.has_value());
  if (!taken) return;
  require_sound(*taken, received);
  require_round_trip(*taken);
}

}  // namespace hflush::fuzz
