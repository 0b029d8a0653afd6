// Names that only the test program's resolver knows: its getaddrinfo() comes before the system's,
// also for libcurl.
#pragma once

#include "env/loopback.h"

namespace hflush::env::testing {

// Has the addresses 127.0.0.2, 127.0.0.1 and once more 127.0.0.2, in this order.
inline constexpr const char* kManyAddresses = "many-addresses.test";
// Has 127.0.0.1, where a test listens, and 127.0.0.2.
inline constexpr const char* kTwoAddresses = "two.invalid";
// Its lookups hang for as long as a HangingLookups exists, and then find nothing.
inline constexpr const char* kHangs = "hangs.invalid";

// Lookups of kHangs so far.
struct Lookups {
  bool hang = false;
  int begun = 0;
  int ended = 0;
  int without_signals = 0;  // on threads that take none
};
Shared<Lookups>& lookups();

// Lookups of kHangs do not come to an end for the length of a scope, and then all of them do.
class HangingLookups {
 public:
  HangingLookups();
  ~HangingLookups();
  HangingLookups(const HangingLookups&) = delete;
  HangingLookups& operator=(const HangingLookups&) = delete;
};

}  // namespace hflush::env::testing
