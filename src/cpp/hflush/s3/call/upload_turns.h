// UploadTurns: which upload is next when not all may be under way at once.
//
// Streams take turns, so that a large one does not keep a small one waiting; the uploads of one
// stream go in order. Urgent ones, in order, have every other turn: they hardly wait, and however
// many they are, streams go on. Only add() allocates. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <optional>

namespace hflush::s3 {

class UploadTurns {
 public:
  struct Upload {
    std::uint64_t id = 0;
    std::uint64_t stream = 0;
    bool urgent = false;
  };

  bool empty() const noexcept { return urgent_.empty() && streams_.empty(); }

  // `first`: before what waits already of its stream, or of the urgent ones (a retry).
  void add(const Upload& upload, bool first) {
    if (upload.urgent) return insert(urgent_, upload.id, first);
    Ids& waiting = waiting_[upload.stream];
    if (waiting.empty()) streams_.push_back(upload.stream);
    insert(waiting, upload.id, first);
  }

  // Takes the next one; nullopt if none waits.
  std::optional<std::uint64_t> next() {
    const bool is_urgent = !urgent_.empty() && (streams_.empty() || !urgent_had_turn_);
    urgent_had_turn_ = is_urgent;
    if (is_urgent) return take(urgent_);
    if (streams_.empty()) return std::nullopt;
    const std::uint64_t stream = streams_.front();
    const auto waiting = waiting_.find(stream);
    const std::uint64_t id = take(waiting->second);
    if (waiting->second.empty()) {
      waiting_.erase(waiting);
      streams_.pop_front();
    } else {
      streams_.splice(streams_.end(), streams_, streams_.begin());
    }
    return id;
  }

  // No effect on one that does not wait.
  void remove(const Upload& upload) {
    if (upload.urgent) {
      std::erase(urgent_, upload.id);
      return;
    }
    const auto waiting = waiting_.find(upload.stream);
    if (waiting == waiting_.end()) return;
    std::erase(waiting->second, upload.id);
    if (!waiting->second.empty()) return;
    waiting_.erase(waiting);
    std::erase(streams_, upload.stream);
  }

 private:
  using Ids = std::list<std::uint64_t>;

  static void insert(Ids& ids, std::uint64_t id, bool first) {
    if (first) {
      ids.push_front(id);
    } else {
      ids.push_back(id);
    }
  }
  static std::uint64_t take(Ids& ids) {
    const std::uint64_t id = ids.front();
    ids.pop_front();
    return id;
  }

  Ids urgent_;
  bool urgent_had_turn_ = false;          // the last one
  std::map<std::uint64_t, Ids> waiting_;  // of each stream that has any
  Ids streams_;                           // those, in the order of their turns
};

}  // namespace hflush::s3
