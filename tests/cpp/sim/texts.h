// Texts: what belongs at each place of each file. Mostly that is known beforehand (content.h).
// Where several callers write to one stream, what the first DataNode is given for a place belongs
// there, and nothing else from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "sim/content.h"

namespace hflush::sim {

class Texts {
 public:
  // The file has several callers.
  void share(std::uint64_t file) { shared_[file]; }
  // From this place on it has one again, who appends. What the callers wrote there before may still
  // be on its way to a DataNode that was cut off, for a replica that nothing counts any more.
  void end_sharing(std::uint64_t file, std::uint64_t place);

  // Whether these bytes belong there.
  bool accept(std::uint64_t file, std::uint64_t place, std::string_view bytes);
  std::string at(std::uint64_t file, std::uint64_t place, std::size_t size) const;
  // Of a file that has had several callers: what they wrote, and whether it has them still.
  const std::string& shared(std::uint64_t file) const { return shared_.at(file).known; }
  bool is_shared(std::uint64_t file) const { return !shared_.at(file).has_ended; }

 private:
  struct Shared {
    std::string known;
    std::string written;  // by the callers, when it ended
    bool has_ended = false;
  };

  std::map<std::uint64_t, Shared> shared_;  // by file
};

}  // namespace hflush::sim
