// Journal: what one writer was promised, and by whom it was written down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/world.h"

namespace hflush::sim {

struct Journal {
  enum class End : std::uint8_t { kOpen, kPublished, kFailed, kAbandoned };

  std::uint64_t file = 0;  // its content (content.h)
  std::string path;
  std::string holder;          // the client's name
  std::string host;            // and where it is
  std::uint64_t session = 0;   // of the file (NameSpace::File::sessions)
  std::uint64_t seizures = 0;  // of the file when it began
  std::uint64_t block_size = 0;
  std::uint64_t begin = 0;         // where an append begins
  std::uint64_t written = 0;       // accepted
  std::uint64_t acknowledged = 0;  // by hflush
  std::uint64_t durable = 0;       // by hsync
  // When hsync was called for so much, the first time.
  struct Hsync {
    std::uint64_t covered;
    TimePoint began;
  };
  std::vector<Hsync> hsyncs;
  // How many recoveries there were before the last write, and before the last one acknowledged.
  std::int64_t recoveries_at_write = 0;
  std::int64_t recoveries_at_ack = 0;
  bool ends_blocks = false;  // before they are full
  End end = End::kOpen;
  std::optional<std::string_view> excuse;  // why the stream may have failed, when it was seen to

  void hsync_begins(std::uint64_t covered, TimePoint now) {
    if (hsyncs.empty() || hsyncs.back().covered < covered) hsyncs.push_back({covered, now});
  }
};

}  // namespace hflush::sim
