#include "hflush/hdfs/write/history.h"

#include <string>

namespace hflush::hdfs {

void History::note(env::TimePoint when, std::string_view text) noexcept {
  text = text.substr(0, kMaxLine);
  if (repeats(text)) {
    Line& newest = lines_[(oldest_ + count_ - 1U) % kMaxEvents];
    newest.when = when;
    ++newest.times;
    return;
  }
  while (count_ == kMaxEvents || text_size_ + text.size() > kTextBytes) {
    text_size_ = static_cast<std::uint16_t>(text_size_ - line(0).size);
    oldest_ = static_cast<std::uint16_t>((oldest_ + 1U) % kMaxEvents);
    --count_;
  }
  lines_[(oldest_ + count_) % kMaxEvents] = {when, 1, text_end_,
                                             static_cast<std::uint16_t>(text.size())};
  ++count_;
  for (const char character : text) {
    text_[text_end_] = character;
    text_end_ = static_cast<std::uint16_t>((text_end_ + 1U) % kTextBytes);
  }
  text_size_ = static_cast<std::uint16_t>(text_size_ + text.size());
}

bool History::repeats(std::string_view text) const noexcept {
  if (count_ == 0) return false;
  const Line& newest = line(count_ - 1U);
  if (newest.size != text.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text_[(newest.begin + i) % kTextBytes] != text[i]) return false;
  }
  return true;
}

stream::PastEvents History::events() const {
  stream::PastEvents events;
  events.reserve(count_);
  for (std::size_t index = 0; index < count_; ++index) {
    const Line& one = line(index);
    stream::PastEvent& event =
        events.emplace_back(stream::PastEvent{one.when, std::string(one.size, '\0'), one.times});
    for (std::size_t i = 0; i < one.size; ++i) {
      event.what[i] = text_[(one.begin + i) % kTextBytes];
    }
  }
  return events;
}

}  // namespace hflush::hdfs
