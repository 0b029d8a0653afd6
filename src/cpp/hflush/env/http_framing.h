// HTTP/1.1 as bytes: what a request begins with, and where a response ends.
//
// HttpResponseReader takes the bytes of one response in pieces of any size, and says what they are.
// Interim responses (1xx) are passed over. A body ends with its Content-Length, its last chunk, or
// the connection; HEAD, 204 and 304 have none. What could be read in two ways is refused: lengths
// that differ or are no numbers, other transfer codings than chunked, sizes of chunks that are
// none, another protocol. Trailers are read over. Bounded: it takes no more than
// HttpHeadParser::kMaxBytes of lines before a body, between two chunks and behind a body, and
// 100 KiB of a line; of bodies it keeps nothing, and they may have any number of chunks. State
// machines without I/O; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "hflush/base/bytes.h"
#include "hflush/base/status.h"
#include "hflush/env/http_client.h"
#include "hflush/env/http_head.h"

namespace hflush::env {

// Why it cannot be sent: a URL that is not of HTTP, line ends where there may be none.
Status check_http_request(const HttpRequest& request);
// Whether the request says that header by itself.
bool has_header(const HttpRequest& request, std::string_view name) noexcept;

// Everything before the body: the request's headers, Host, User-Agent unless `user_agent` is empty,
// Content-Length where there is a body, or PUT and POST, and Expect where it asks before it.
// Requires: check_http_request() is fine.
std::string http_request_head(const HttpRequest& request, std::string_view user_agent);
// How much follows the head: HEAD sends no body.
std::uint64_t body_size(const HttpRequest& request) noexcept;
// Whether it asks before it sends its body.
bool asks_first(const HttpRequest& request) noexcept;

class HttpResponseReader {
 public:
  enum class What : std::uint8_t {
    kMore,    // all was taken: the rest of the response has to come
    kHead,    // take_head()
    kBody,    // `body`, which is part of what was given
    kEnd,     // the response is whole; bytes that follow are not its own
    kBroken,  // why(); there is nothing more to be had
  };
  struct Step {
    What what = What::kMore;
    std::size_t taken = 0;
    ByteView body;
  };

  // `to_head`: the request was HEAD.
  explicit HttpResponseReader(bool to_head) noexcept : to_head_(to_head) {}

  // What comes next of `bytes`, which begin behind those that were taken. After kEnd and kBroken
  // the same again.
  Step next(ByteView bytes);
  // The connection has been closed: kEnd, or kBroken where the response was not whole.
  What closed() noexcept;

  // Requires: kHead; once.
  HttpHead take_head() noexcept { return std::move(head_); }
  // Whether a byte has come.
  bool has_begun() const noexcept { return has_begun_; }
  // Whether an interim response said to go on (100).
  bool was_told_to_go_on() const noexcept { return was_told_to_go_on_; }
  // Whether the connection is good for another request. Requires: kEnd.
  bool keeps_connection() const noexcept { return keeps_connection_; }
  bool is_too_long() const noexcept { return is_too_long_; }
  const char* why() const noexcept { return why_; }

 private:
  enum class State : std::uint8_t {
    kStatusLine,
    kFields,
    kBody,       // left_ bytes of it
    kChunkSize,  // a line
    kChunk,      // left_ bytes of it
    kChunkEnd,   // an empty line
    kTrailers,
    kUntilClosed,
    kEnded,
    kBroken,
  };

  std::optional<std::string_view> take_line(ByteView bytes, std::size_t& taken);
  bool take_status(std::string_view line);
  bool take_field(std::string_view line);
  bool take_chunk_size(std::string_view line);
  bool take_head_end();
  bool choose_body();
  bool has_token(std::string_view name, std::string_view token) const noexcept;
  bool breaks(const char* why) noexcept;

  const bool to_head_;
  State state_ = State::kStatusLine;
  bool has_begun_ = false;
  bool was_told_to_go_on_ = false;
  bool keeps_connection_ = false;
  bool is_too_long_ = false;
  bool is_old_ = false;  // HTTP/1.0
  const char* why_ = "";
  std::uint64_t left_ = 0;
  std::size_t line_bytes_ = 0;  // of the lines that were taken since the last chunk
  std::string line_;            // the front of one whose end has not come
  HttpHeadParser parser_;
  HttpHead head_;
};

}  // namespace hflush::env
