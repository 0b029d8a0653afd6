#include "hflush/hdfs/sasl/mechanism.h"

#include <array>

namespace hflush::hdfs::sasl {

std::string_view to_string(Protection protection) noexcept {
  constexpr auto kNames = std::to_array<std::string_view>({"auth", "auth-int", "auth-conf"});
  return kNames[static_cast<std::size_t>(protection)];
}

std::string_view hadoop_name(Protection protection) noexcept {
  constexpr auto kNames =
      std::to_array<std::string_view>({"authentication", "integrity", "privacy"});
  return kNames[static_cast<std::size_t>(protection)];
}

}  // namespace hflush::hdfs::sasl
