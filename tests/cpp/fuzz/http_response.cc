// A response of HTTP/1.1 and what follows it, cut anywhere.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "fuzz/targets.h"
#include "hflush/env/http_framing.h"

namespace hflush::fuzz {
namespace {

using env::HttpResponseReader;
using What = HttpResponseReader::What;

struct Read {
  std::string body;
  int status = 0;
  std::size_t taken = 0;
  What end = What::kMore;
  bool keeps_connection = false;
  bool operator==(const Read&) const = default;
};

Read read(ByteView input, std::size_t piece, bool to_head) {
  HttpResponseReader reader(to_head);
  Read seen;
  while (!input.empty()) {
    ByteView bytes = input.first(std::min(piece, input.size()));
    input = input.subspan(bytes.size());
    while (true) {
      const HttpResponseReader::Step step = reader.next(bytes);
      require(step.taken <= bytes.size());
      bytes = bytes.subspan(step.taken);
      seen.taken += step.taken;
      if (step.what == What::kHead) {
        require(seen.status == 0);
        seen.status = reader.take_head().status;
        require(seen.status >= 200 && seen.status <= 999);
      } else if (step.what == What::kBody) {
        require(seen.status != 0 && !step.body.empty());
        seen.body.append(as_text(step.body));
      } else {
        require(step.what != What::kMore || bytes.empty());
        seen.end = step.what;
        break;
      }
    }
    if (seen.end != What::kMore) break;
  }
  if (seen.end == What::kMore) seen.end = reader.closed();
  require(seen.end == What::kEnd || seen.end == What::kBroken);
  require(seen.end == What::kBroken || seen.status != 0);
  require(reader.next({}).what == seen.end);
  seen.keeps_connection = reader.keeps_connection();
  require(!seen.keeps_connection || seen.end == What::kEnd);
  return seen;
}

}  // namespace

void http_response(ByteView input) {
  if (input.empty()) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  const bool to_head = (choice & 1U) != 0;
  input = input.subspan(1);
  const Read whole = read(input, input.size() + 1, to_head);
  require(read(input, 1, to_head) == whole);
  require(read(input, 1 + choice / 2, to_head) == whole);
  // What follows is not looked at.
  if (whole.end == What::kEnd && whole.keeps_connection) {
    require(read(input.first(whole.taken), input.size() + 1, to_head) == whole);
  }
}

}  // namespace hflush::fuzz
