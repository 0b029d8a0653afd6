#include "env/names.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <netdb.h>
#include <pthread.h>

#include <csignal>
#include <initializer_list>
#include <string_view>

namespace hflush::env::testing {
namespace {

int look_up_hanging() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  lookups().update([&](Lookups& value) {
    ++value.begun;
    if (::sigismember(&blocked, SIGINT) == 1) ++value.without_signals;
  });
  static_cast<void>(lookups().wait_until([](const Lookups& value) { return !value.hang; }));
  lookups().update([](Lookups& value) { ++value.ended; });
  return EAI_NONAME;
}

int system_getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                       addrinfo** found) {
  static const auto system =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return system(host, service, hints, found);
}

// All of these, one after the other.
int addresses(std::initializer_list<const char*> all, const char* service, const addrinfo* hints,
              addrinfo** found) {
  *found = nullptr;
  for (const char* address : all) {
    if (const int error = system_getaddrinfo(address, service, hints, found); error != 0) {
      return error;
    }
    while (*found != nullptr) found = &(*found)->ai_next;
  }
  return 0;
}

}  // namespace

Shared<Lookups>& lookups() {
  static Shared<Lookups> seen;
  return seen;
}

HangingLookups::HangingLookups() {
  lookups().update([](Lookups& value) { value = {.hang = true}; });
}

HangingLookups::~HangingLookups() {
  lookups().update([](Lookups& value) { value.hang = false; });
  CHECK(lookups().wait_until([](const Lookups& value) { return value.ended == value.begun; }));
}

}  // namespace hflush::env::testing

extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* host,
                                                                  const char* service,
                                                                  const addrinfo* hints,
                                                                  addrinfo** found) {
  using namespace hflush::env::testing;
  const std::string_view name = host == nullptr ? std::string_view() : host;
  if (name == kHangs) return look_up_hanging();
  if (name == kTwoAddresses) return addresses({"127.0.0.1", "127.0.0.2"}, service, hints, found);
  if (name == kManyAddresses) {
    return addresses({"127.0.0.2", "127.0.0.1", "127.0.0.2"}, service, hints, found);
  }
  return system_getaddrinfo(host, service, hints, found);
}
