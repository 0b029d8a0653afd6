// Records: what several callers write to one stream. Each write is one record, which says whose it
// is and which of theirs, so that a text tells in which order they came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hflush::sim {

class Records {
 public:
  static constexpr std::size_t kHeadSize = 8;
  static constexpr std::size_t kMostCallers = 16;

  explicit Records(std::uint64_t file) : file_(file), ends_(kMostCallers) {}

  // Of `size` bytes. Requires: no less than kHeadSize. Numbers begin with 1, callers with 0.
  std::string make(std::size_t caller, std::size_t number, std::size_t size) const;

  // Reads on in a text that has grown. False if it is not made of whole records, each caller's in
  // its order; the last one may be cut off.
  bool read(std::string_view text);
  // Where the last whole one ends.
  std::size_t end() const noexcept { return end_; }
  // How many of a caller there are, and where one of them ends.
  std::size_t count(std::size_t caller) const { return ends_[caller].size(); }
  std::size_t end_of(std::size_t caller, std::size_t number) const {
    return ends_[caller][number - 1];
  }

 private:
  const std::uint64_t file_;
  std::size_t end_ = 0;
  std::vector<std::vector<std::size_t>> ends_;  // of each caller
};

}  // namespace hflush::sim
