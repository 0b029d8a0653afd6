#include "hflush/env/local_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <array>
#include <memory>

namespace hflush::env {
namespace {

std::string number_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address != nullptr && address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  if (bytes == nullptr) return {};
  const char* const number = inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return number == nullptr ? std::string() : std::string(number);
}

}  // namespace

bool is_local_address(const std::string& ip) {
  if (ip.starts_with("127.")) return true;  // all of them, though one is listed
  ifaddrs* found = nullptr;
  if (ip.empty() || getifaddrs(&found) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, &freeifaddrs);
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    if (number_of(one->ifa_addr) == ip) return true;
  }
  return false;
}

}  // namespace hflush::env
