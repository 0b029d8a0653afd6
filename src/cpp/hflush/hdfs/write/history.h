// History: what happened to one stream last, for people who look for the reason of a failure.
//
// Lines, each with its time: at most 64 and, with everything, 4 KiB; a line that is longer than 255
// bytes is cut, and the oldest lines make room. A line that says what the newest one says is
// counted there. Memory grows with the lines that there are; without memory for it a line is left
// out. Pure; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/env/clock.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

class History {
 public:
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxEvents = 64;
  static constexpr std::size_t kMaxLine = 255;

  void note(env::TimePoint when, std::string_view text) noexcept;
  // Oldest first.
  stream::PastEvents events() const;

 private:
  struct Line {
    env::TimePoint when;
    std::uint32_t times;
    std::uint32_t size;
  };

  bool repeats(std::string_view text) const noexcept;

  // Oldest first; the text of all lines, one after the other.
  std::vector<Line> lines_;
  std::string text_;
};

}  // namespace hflush::hdfs
