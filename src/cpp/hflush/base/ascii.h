// Letters, blanks and numbers of protocols and configurations: ASCII alone, whatever the locale.
// Pure.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

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

// Whether the whole of `text` is a number that fits: then `number` is it.
template <typename Number>
bool parse_number(std::string_view text, Number& number, int base = 10) noexcept {
  Number parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed, base);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  number = parsed;
  return true;
}

}  // namespace hflush
