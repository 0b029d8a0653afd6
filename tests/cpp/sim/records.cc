#include "sim/records.h"

#include "sim/content.h"

namespace hflush::sim {
namespace {

// The head: the caller, its record's number and the size, without which nothing can be read.
constexpr std::size_t kNumberAt = 1;
constexpr std::size_t kSizeAt = 4;

void put(std::string& bytes, std::size_t at, std::size_t end, std::size_t value) {
  for (; at < end; ++at, value >>= 8U) bytes[at] = static_cast<char>(value);
}

std::size_t get(std::string_view bytes, std::size_t at, std::size_t end) {
  std::size_t value = 0;
  while (end > at) value = value << 8U | static_cast<unsigned char>(bytes[--end]);
  return value;
}

}  // namespace

std::string Records::make(std::size_t caller, std::size_t number, std::size_t size) const {
  const std::uint64_t key = (file_ * kMostCallers + caller) * 1'000'003 + number;
  std::string bytes = content(key, 0, size);
  put(bytes, 0, kNumberAt, caller);
  put(bytes, kNumberAt, kSizeAt, number);
  put(bytes, kSizeAt, kHeadSize, size);
  return bytes;
}

bool Records::read(std::string_view text) {
  while (text.size() - end_ >= kHeadSize) {
    const std::string_view rest = text.substr(end_);
    const std::size_t caller = get(rest, 0, kNumberAt);
    const std::size_t number = get(rest, kNumberAt, kSizeAt);
    const std::size_t size = get(rest, kSizeAt, kHeadSize);
    if (caller >= kMostCallers || number != count(caller) + 1 || size < kHeadSize) return false;
    if (rest.size() < size) return true;
    if (rest.substr(0, size) != make(caller, number, size)) return false;
    end_ += size;
    ends_[caller].push_back(end_);
  }
  return true;
}

}  // namespace hflush::sim
