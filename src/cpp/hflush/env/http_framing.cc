#include "hflush/env/http_framing.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "hflush/base/ascii.h"

namespace hflush::env {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::size_t kLongestLine = std::size_t{100} << 10U;  // as libcurl has it

// What would end a line or a string early. One pass: find_first_of() searches for each character.
bool breaks_a_line(std::string_view text) noexcept {
  return std::ranges::any_of(
      text, [](char letter) { return letter == '\r' || letter == '\n' || letter == '\0'; });
}

}  // namespace

Status check_http_request(const HttpRequest& request) {
  const auto invalid = [](const char* what) {
    return Status(StatusCode::kInvalidArgument, std::string("http request with ") + what, {},
                  EINVAL);
  };
  if (http_authority(request.url).empty()) return invalid("a url that is not http or https");
  if (breaks_a_line(request.url)) return invalid("a line end in its url");
  if (request.method.empty() || breaks_a_line(request.method)) return invalid("no valid method");
  for (const HttpHeader& header : request.headers) {
    if (header.name.empty() || breaks_a_line(header.name) || breaks_a_line(header.value) ||
        header.name.find(':') != std::string::npos) {
      return invalid("an invalid header");
    }
  }
  return {};
}

bool has_header(const HttpRequest& request, std::string_view name) noexcept {
  return std::ranges::any_of(request.headers, [&](const HttpHeader& header) {
    return equals_ignoring_case(header.name, name);
  });
}

std::string http_request_head(const HttpRequest& request, std::string_view user_agent) {
  std::string head;
  head.reserve(1024);
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.append(name).append(value.empty() ? ":" : ": ").append(value).append("\r\n");
  };
  const std::string_view url = request.url;
  const std::size_t authority = url.find("://") + 3;
  const std::size_t begin = authority + authority_size(url.substr(authority));
  const std::string_view target = url.substr(begin, url.find('#', begin) - begin);
  head.append(request.method).append(target.starts_with('/') ? " " : " /").append(target);
  head.append(" HTTP/1.1\r\n");
  if (!has_header(request, "Host")) add("Host", url.substr(authority, begin - authority));
  if (!user_agent.empty() && !has_header(request, "User-Agent")) add("User-Agent", user_agent);
  for (const HttpHeader& header : request.headers) add(header.name, header.value);
  const bool has_length = request.body || request.method == "PUT" || request.method == "POST";
  if (has_length && request.method != "HEAD") {
    add("Content-Length", std::to_string(body_size(request)));
  }
  if (asks_first(request)) add("Expect", "100-continue");
  return head.append("\r\n");
}

std::uint64_t body_size(const HttpRequest& request) noexcept {
  return request.body && request.method != "HEAD" ? request.body->size() : 0;
}

bool asks_first(const HttpRequest& request) noexcept {
  return request.expect_continue && body_size(request) > 0;
}

HttpResponseReader::Step HttpResponseReader::next(ByteView bytes) {
  has_begun_ = has_begun_ || !bytes.empty();
  std::size_t taken = 0;
  while (true) {
    const ByteView rest = bytes.subspan(taken);
    switch (state_) {
      case State::kEnded:
        return {What::kEnd, taken, {}};
      case State::kBroken:
        return {What::kBroken, taken, {}};
      case State::kBody:
      case State::kChunk:
      case State::kUntilClosed: {
        if (state_ == State::kBody && left_ == 0) {
          state_ = State::kEnded;
          continue;
        }
        if (state_ == State::kChunk && left_ == 0) {
          state_ = State::kChunkEnd;
          continue;
        }
        if (rest.empty()) return {What::kMore, taken, {}};
        const std::size_t size = state_ == State::kUntilClosed
                                     ? rest.size()
                                     : std::min<std::uint64_t>(left_, rest.size());
        left_ -= state_ == State::kUntilClosed ? 0 : size;
        return {What::kBody, taken + size, rest.first(size)};
      }
      case State::kStatusLine:
      case State::kFields:
      case State::kChunkSize:
      case State::kChunkEnd:
      case State::kTrailers:
        break;
    }
    const std::optional<std::string_view> line = take_line(rest, taken);
    if (!line) {
      if (state_ == State::kBroken) continue;
      return {What::kMore, taken, {}};
    }
    const std::string_view content = trimmed(*line, "\r\n");
    bool has_head = false;
    switch (state_) {
      case State::kStatusLine:
        if (take_status(content)) static_cast<void>(take_field(*line));
        break;
      case State::kFields:
        has_head = take_field(*line) && parser_.is_complete() && take_head_end();
        break;
      case State::kChunkSize:
        static_cast<void>(take_chunk_size(content));
        break;
      case State::kChunkEnd:
        if (content.empty()) {
          state_ = State::kChunkSize;
        } else {
          breaks("a chunk that is longer than it says");
        }
        break;
      default:
        if (content.empty()) state_ = State::kEnded;
        break;
    }
    line_.clear();
    if (has_head) return {What::kHead, taken, {}};
  }
}

HttpResponseReader::What HttpResponseReader::closed() noexcept {
  if (state_ == State::kUntilClosed || (state_ == State::kBody && left_ == 0)) {
    state_ = State::kEnded;
    keeps_connection_ = false;
  }
  if (state_ == State::kEnded) return What::kEnd;
  if (state_ != State::kBroken) breaks("the connection was closed");
  return What::kBroken;
}

// The next line with its end; nullopt where its end has not come.
std::optional<std::string_view> HttpResponseReader::take_line(ByteView bytes, std::size_t& taken) {
  const std::string_view text = as_text(bytes);
  const std::size_t end = text.find('\n');
  const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
  if (size > HttpHeadParser::kMaxBytes - line_bytes_ || size > kLongestLine - line_.size()) {
    is_too_long_ = true;
    breaks("its head is too long");
    return std::nullopt;
  }
  line_bytes_ += size;
  taken += size;
  if (end == std::string_view::npos) {
    line_.append(text);
    return std::nullopt;
  }
  if (line_.empty()) return text.substr(0, size);
  return line_.append(text.substr(0, size));
}

// "HTTP/1.1 200 OK"
bool HttpResponseReader::take_status(std::string_view line) {
  int status = 0;
  if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ' ||
      (line.size() > 12 && line[12] != ' ') || !parse_number(line.substr(9, 3), status) ||
      status < 100 || (line[7] != '0' && line[7] != '1')) {
    return breaks("it is not HTTP/1.1");
  }
  // Nothing has asked for another protocol.
  if (status == 101) return breaks("it changes the protocol");
  was_told_to_go_on_ = was_told_to_go_on_ || status == 100;
  is_old_ = line[7] == '0';
  state_ = State::kFields;
  return true;
}

bool HttpResponseReader::take_field(std::string_view line) {
  if (!parser_.add_line(line)) {
    is_too_long_ = true;
    return breaks("its head is too long");
  }
  // An interim response is over; a final one comes.
  if (state_ == State::kFields && trimmed(line, "\r\n").empty() && !parser_.is_complete()) {
    state_ = State::kStatusLine;
  }
  return true;
}

bool HttpResponseReader::take_chunk_size(std::string_view line) {
  const std::string_view digits = trimmed(line.substr(0, line.find(';')), kBlanks);
  if (!parse_number(digits, left_, 16)) return breaks("the size of a chunk is no number");
  state_ = left_ == 0 ? State::kTrailers : State::kChunk;
  if (left_ > 0) line_bytes_ = 0;
  return true;
}

// The head of the final response is there.
bool HttpResponseReader::take_head_end() {
  head_ = parser_.take();
  keeps_connection_ =
      !has_token("connection", "close") && (!is_old_ || has_token("connection", "keep-alive"));
  return choose_body();
}

bool HttpResponseReader::choose_body() {
  bool is_chunked = false;
  std::optional<std::uint64_t> length;
  for (const HttpHeader& header : head_.headers) {
    if (header.name == "transfer-encoding" && header.value != "identity") {
      if (is_chunked || !equals_ignoring_case(header.value, "chunked")) {
        return breaks("its transfer coding is not known");
      }
      is_chunked = true;
    }
    if (header.name == "content-length") {
      std::uint64_t number = 0;
      if (!parse_number(header.value, number) || (length && *length != number)) {
        return breaks("its length is no number");
      }
      length = number;
    }
  }
  if (is_chunked && length) keeps_connection_ = false;
  left_ = length.value_or(0);
  if (to_head_ || head_.status == 204 || head_.status == 304) {
    state_ = State::kEnded;
  } else if (is_chunked) {
    state_ = State::kChunkSize;
  } else if (length) {
    state_ = State::kBody;
  } else {
    keeps_connection_ = false;
    state_ = State::kUntilClosed;
  }
  return true;
}

// Whether a list of words, in one header or several, has that one.
bool HttpResponseReader::has_token(std::string_view name, std::string_view token) const noexcept {
  for (const HttpHeader& header : head_.headers) {
    if (header.name != name) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      if (equals_ignoring_case(trimmed(rest.substr(0, end), kBlanks), token)) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return false;
}

bool HttpResponseReader::breaks(const char* why) noexcept {
  state_ = State::kBroken;
  keeps_connection_ = false;
  why_ = why;
  return false;
}

}  // namespace hflush::env
