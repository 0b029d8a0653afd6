#include "hflush/hdfs/wire/replica_lengths.h"

#include <charconv>
#include <system_error>

namespace hflush::hdfs {
namespace {

// "…\n  getNumBytes()     = 1025\n…"
std::optional<std::uint64_t> number_behind(std::string_view name, std::string_view text) noexcept {
  const std::size_t found = text.find(name);
  if (found == std::string_view::npos) return std::nullopt;
  text.remove_prefix(found + name.size());
  const std::size_t digits = text.find_first_not_of(" =");
  if (digits == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data() + digits, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<ReplicaLengths> replica_lengths(std::string_view message) noexcept {
  const std::optional<std::uint64_t> received = number_behind("getNumBytes()", message);
  const std::optional<std::uint64_t> visible = number_behind("getVisibleLength()", message);
  if (!received || !visible) return std::nullopt;
  return ReplicaLengths{*received, *visible};
}

}  // namespace hflush::hdfs
