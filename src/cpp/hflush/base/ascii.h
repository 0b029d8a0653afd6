// Letters and blanks of protocols and configurations: ASCII alone, whatever the locale. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace hflush {

constexpr char to_lower(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

inline std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) letter = to_lower(letter);
  return lower;
}

constexpr bool equals_ignoring_case(std::string_view one, std::string_view other) noexcept {
  return std::ranges::equal(
      one, other, [](char left, char right) { return to_lower(left) == to_lower(right); });
}

// Without any of `blanks` at its ends.
constexpr std::string_view trimmed(std::string_view text, std::string_view blanks) noexcept {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace hflush
