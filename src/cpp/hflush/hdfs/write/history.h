// History: what happened to one stream last, for people who look for the reason of a failure.
//
// Lines, each with its time: at most 64 and, with everything, 4 KiB; a line that is longer than 255
// bytes is cut, and the oldest lines make room. A line that says what the newest one says is
// counted there. Memory grows with the lines that there are; without memory for it a line is left
// out. Pure; thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/types.h"
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

// A line that is put together without memory of its own; what is beyond kMaxLine is left out.
class HistoryLine {
 public:
  HistoryLine& operator<<(std::string_view text) noexcept;
  HistoryLine& operator<<(std::uint64_t number) noexcept;
  // "blk_1_1001"
  HistoryLine& operator<<(const ExtendedBlock& block) noexcept;
  std::string_view text() const noexcept { return {text_.data(), size_}; }

 private:
  template <typename Number>
  HistoryLine& append(Number number) noexcept;

  std::array<char, History::kMaxLine> text_;
  std::size_t size_ = 0;
};

}  // namespace hflush::hdfs
