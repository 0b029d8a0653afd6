// Addresses: where the calls of a bucket are sent, and for which region and time they are signed:
// as the settings say, corrected by what the store has answered.
//
//   answer                          from then on
//   moved, for good                 the bucket's calls go to that region and host
//   moved, for now (307)            this call goes there
//   moved, without a usable host    the host of the region
//   a skewed clock, with a Date     every call is signed with the store's time
//   not sent                        hosts of redirects are forgotten, regions are kept
//
// Names are resolved by libcurl for each connection. No I/O, no clock. Thread-compatible.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "hflush/s3/call/outcome.h"
#include "hflush/s3/call/settings.h"
#include "hflush/s3/call/signer.h"

namespace hflush::s3 {

// Where an attempt is sent.
struct Target {
  std::string authority;  // "host:port" as the Host header has it
  std::string region;
  bool names_bucket = true;                           // in the path
  std::chrono::system_clock::duration clock_ahead{};  // by which the store's clock is
};

// What answers have said of a bucket; empty: nothing.
struct Correction {
  std::string region;
  std::string authority;
};

class Addresses {
 public:
  // `settings` outlives it.
  explicit Addresses(const Settings& settings) noexcept : settings_(settings) {}

  // `own`: what counts for the call alone.
  Target target(const std::string& bucket, const Correction& own) const;
  // An attempt failed so, at `time` of our clock.
  void learn(const std::string& bucket, const Failure& failure, SystemTime time, Correction& own);

 private:
  void correct(const std::string& bucket, const Correction& correction, Target& target) const;

  const Settings& settings_;
  std::chrono::system_clock::duration clock_ahead_{};
  std::map<std::string, Correction, std::less<>> corrections_;  // by bucket
};

// A redirect (kAddress) that may not be followed becomes kFinal: nothing of a request goes to
// another domain or over another scheme. `region`: that the attempt was signed for.
void check_redirect(const Settings& settings, std::string_view bucket, std::string_view region,
                    Failure& failure);

}  // namespace hflush::s3
