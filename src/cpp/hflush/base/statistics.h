// Statistics: name -> value, as docs/semantics.md lists them; values are only ever added to.
//
// An array in the order in which the names were added, and one text that holds all names. About
// forty numbers are added to a sum whenever a stream ends, which has to cost less than a call of
// Python: each kind of stream has its names in one order, so a lookup begins behind the last one.
//
// Thread-compatible. Adding a name may throw std::bad_alloc, and then changes nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hflush {

class Statistics {
 public:
  // The name lives as long as the statistics it is of, unchanged.
  using Entry = std::pair<std::string_view, std::int64_t>;

  Statistics() = default;
  Statistics(std::initializer_list<Entry> entries) {
    for (const auto& [name, value] : entries) (*this)[name] = value;
  }

  // The value of a name, 0 if it is new. Valid until the next new one.
  std::int64_t& operator[](std::string_view name) { return of(name, {}); }
  // The same for a name in two pieces.
  std::int64_t& of(std::string_view name, std::string_view part) {
    const std::size_t known = find(name, part, next_);
    next_ = known + 1;
    return known < slots_.size() ? slots_[known].value : append(name, part);
  }
  // Extremes: a value that is new, or less (more) than the one before.
  void lower(std::string_view name, std::string_view part, std::int64_t value) {
    const std::size_t names = slots_.size();
    std::int64_t& least = of(name, part);
    if (slots_.size() > names || value < least) least = value;
  }
  void raise(std::string_view name, std::string_view part, std::int64_t value) {
    const std::size_t names = slots_.size();
    std::int64_t& most = of(name, part);
    if (slots_.size() > names || value > most) most = value;
  }

  bool contains(std::string_view name) const noexcept { return find(name, {}, 0) < slots_.size(); }
  // Throws std::out_of_range.
  std::int64_t at(std::string_view name) const {
    const std::size_t known = find(name, {}, 0);
    if (known == slots_.size()) throw std::out_of_range("no statistic " + std::string(name));
    return slots_[known].value;
  }

  void clear() noexcept {
    slots_.clear();
    names_.clear();
    next_ = 0;
  }

  // By name.
  std::vector<Entry> sorted() const {
    std::vector<Entry> entries;
    entries.reserve(slots_.size());
    for (const Slot& slot : slots_) entries.emplace_back(name_of(slot), slot.value);
    std::ranges::sort(entries);
    return entries;
  }

  friend bool operator==(const Statistics& a, const Statistics& b) {
    return a.sorted() == b.sorted();
  }

 private:
  struct Slot {
    std::uint32_t name_begin = 0;
    std::uint32_t name_size = 0;
    std::int64_t value = 0;
  };
  // The most that a stream has.
  static constexpr std::size_t kUsualCount = 48;
  static constexpr std::size_t kUsualNameSize = 32;

  std::string_view name_of(const Slot& slot) const noexcept {
    return {names_.data() + slot.name_begin, slot.name_size};
  }

  bool is_named(const Slot& slot, std::string_view name, std::string_view part) const noexcept {
    if (slot.name_size != name.size() + part.size()) return false;
    const std::string_view known = name_of(slot);
    return known.starts_with(name) && known.ends_with(part);
  }

  // Where a name is, looked for from `first` on and then before that; slots_.size() if nowhere.
  std::size_t find(std::string_view name, std::string_view part, std::size_t first) const noexcept {
    for (std::size_t i = first; i < slots_.size(); ++i) {
      if (is_named(slots_[i], name, part)) return i;
    }
    for (std::size_t i = 0; i < std::min(first, slots_.size()); ++i) {
      if (is_named(slots_[i], name, part)) return i;
    }
    return slots_.size();
  }

  std::int64_t& append(std::string_view name, std::string_view part) {
    if (slots_.empty()) {
      slots_.reserve(kUsualCount);
      names_.reserve(kUsualCount * kUsualNameSize);
    }
    const std::size_t begin = names_.size();
    const std::size_t size = name.size() + part.size();
    names_.reserve(begin + size);
    Slot& slot = slots_.emplace_back();
    names_.append(name).append(part);
    slot.name_begin = static_cast<std::uint32_t>(begin);
    slot.name_size = static_cast<std::uint32_t>(size);
    return slot.value;
  }

  std::vector<Slot> slots_;
  std::string names_;     // of all slots, one after another
  std::size_t next_ = 0;  // behind the slot that was looked up last
};

}  // namespace hflush
