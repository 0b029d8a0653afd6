// History: what happened to one stream last, for people who look for the reason of a failure.
//
// A ring of lines, each with its time: at most 64 lines and, with everything, 4 KiB; a line that is
// longer than 255 bytes is cut, and the oldest lines make room. A line that says what the newest
// one says is counted there. Nothing is allocated by note(). Pure; thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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
    std::uint32_t times = 0;
    std::uint16_t begin = 0;  // in text_
    std::uint16_t size = 0;
  };
  static constexpr std::size_t kTextBytes =
      kMaxBytes - kMaxEvents * sizeof(Line) - 4 * sizeof(std::uint16_t);

  const Line& line(std::size_t index) const noexcept {
    return lines_[(oldest_ + index) % kMaxEvents];
  }
  bool repeats(std::string_view text) const noexcept;

  std::array<Line, kMaxEvents> lines_{};
  std::array<char, kTextBytes> text_{};
  std::uint16_t oldest_ = 0;  // of lines_
  std::uint16_t count_ = 0;
  std::uint16_t text_end_ = 0;   // where the next line begins
  std::uint16_t text_size_ = 0;  // of all lines
};

static_assert(sizeof(History) <= History::kMaxBytes);

}  // namespace hflush::hdfs
