#include "hflush/hdfs/write/history.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <system_error>

namespace hflush::hdfs {

namespace {

// Not inside a character of UTF-8.
std::size_t end_of_line(std::string_view text) noexcept {
  std::size_t end = std::min(text.size(), History::kMaxLine);
  const auto continues = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; };
  while (end > 0 && end < text.size() && continues()) --end;
  return end;
}

// Twice as much as before at least, and `most` at most.
template <typename Values>
void reserve(Values& values, std::size_t needed, std::size_t most) {
  if (needed <= values.capacity()) return;
  values.reserve(std::min(std::max(needed, 2 * values.capacity()), most));
}

}  // namespace

void History::note(env::TimePoint when, std::string_view text) noexcept {
  constexpr std::size_t kTextBytes = kMaxBytes - sizeof(History) - kMaxEvents * sizeof(Line);
  text = text.substr(0, end_of_line(text));
  if (repeats(text)) {
    lines_.back().when = when;
    ++lines_.back().times;
    return;
  }
  while (lines_.size() == kMaxEvents || text_.size() + text.size() >= kTextBytes) {
    text_.erase(0, lines_.front().size);
    lines_.erase(lines_.begin());
  }
  try {
    reserve(lines_, lines_.size() + 1, kMaxEvents);
    reserve(text_, text_.size() + text.size(), kTextBytes - 1);  // its terminator is allocated, too
  } catch (const std::bad_alloc&) {
    return;
  }
  lines_.push_back({when, 1, static_cast<std::uint32_t>(text.size())});
  text_.append(text);
}

bool History::repeats(std::string_view text) const noexcept {
  return !lines_.empty() && lines_.back().size == text.size() && text_.ends_with(text);
}

stream::PastEvents History::events() const {
  stream::PastEvents events;
  events.reserve(lines_.size());
  std::size_t begin = 0;
  for (const Line& line : lines_) {
    events.push_back({line.when, text_.substr(begin, line.size), line.times});
    begin += line.size;
  }
  return events;
}

HistoryLine& HistoryLine::operator<<(std::string_view text) noexcept {
  size_ += text.copy(text_.data() + size_, text_.size() - size_);
  return *this;
}

template <typename Number>
HistoryLine& HistoryLine::append(Number number) noexcept {
  char* const begin = text_.data() + size_;
  const auto [end, error] = std::to_chars(begin, text_.data() + text_.size(), number);
  if (error == std::errc()) size_ += static_cast<std::size_t>(end - begin);
  return *this;
}

HistoryLine& HistoryLine::operator<<(std::uint64_t number) noexcept { return append(number); }

HistoryLine& HistoryLine::operator<<(const ExtendedBlock& block) noexcept {
  *this << "blk_";
  append(static_cast<std::int64_t>(block.id));  // as ExtendedBlock::to_string() has it
  return *this << "_" << block.generation_stamp;
}

}  // namespace hflush::hdfs
