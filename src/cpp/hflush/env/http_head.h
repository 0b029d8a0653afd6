// HttpHeadParser: the head of a final response from its lines, as they come.
//
// Interim responses (1xx) are passed over, and so is a whole response that another one follows
// before its head was taken. Names are in lower case; neither they nor values have line breaks, or
// blanks around them. Bounded: whatever a server sends, no more than kMaxBytes are kept. A state
// machine without I/O; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hflush/env/http_client.h"

namespace hflush::env {

class HttpHeadParser {
 public:
  // Of all lines together, interim responses included.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 10U;

  // The next line, with its end. False: too many bytes.
  bool add_line(std::string_view line);
  // The head of a final response is there, and was not taken.
  bool is_complete() const noexcept { return state_ == State::kComplete; }
  // The same, whether it was taken or not.
  bool has_head() const noexcept { return is_complete() || state_ == State::kTaken; }
  // Requires: is_complete(). Lines that follow, which are trailers, change nothing.
  HttpHead take();

 private:
  enum class State : std::uint8_t { kNothing, kHeaders, kComplete, kTaken };

  void add_field(std::string_view line);

  State state_ = State::kNothing;
  std::size_t bytes_ = 0;
  HttpHead head_;
};

// How much of what follows "://" in a URL is its authority.
std::size_t authority_size(std::string_view rest) noexcept;

// "host:port" of a URL, with the scheme's port if it has none of its own, for messages: nothing
// else of it is in there. Empty if it is not a URL of http or https.
std::string http_authority(std::string_view url);

}  // namespace hflush::env
