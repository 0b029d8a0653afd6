// Addresses: what is learnt from each kind of answer, and where requests go then.
#include "hflush/s3/call/addresses.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

namespace hflush::s3 {
namespace {

using std::chrono::seconds;

const SystemTime kNow{seconds(1'700'000'000)};

Settings aws() {
  Settings settings;
  settings.host = "s3.us-east-1.amazonaws.com";
  return settings;
}

Failure moved(std::string region, std::string location, bool is_temporary = false) {
  Failure failure;
  failure.kind = FailureKind::kAddress;
  failure.http_status = is_temporary ? 307 : 301;
  failure.region = std::move(region);
  failure.location = std::move(location);
  failure.is_temporary = is_temporary;
  return failure;
}

Failure of_kind(FailureKind kind) {
  Failure failure;
  failure.kind = kind;
  return failure;
}

// Addresses, and a call.
struct Bench {
  explicit Bench(Settings its_settings = aws())
      : settings(std::move(its_settings)), addresses(settings) {}
  void learn(const Failure& failure) { addresses.learn("b", failure, kNow, own); }
  // "host region", and how the bucket is named.
  std::string where(const std::string& bucket, const Correction& correction) const {
    const Target target = addresses.target(bucket, correction);
    return target.authority + " " + target.region + (target.names_bucket ? " in path" : "");
  }
  std::string this_call() const { return where("b", own); }
  std::string another_call() const { return where("b", {}); }
  std::string another_bucket() const { return where("c", {}); }

  const Settings settings;
  Addresses addresses;
  Correction own;
};

constexpr const char* kAtFirst = "b.s3.us-east-1.amazonaws.com us-east-1";

TEST_CASE("addresses: another region is remembered for the bucket") {
  Bench bench;
  CHECK(bench.this_call() == kAtFirst);
  bench.learn(moved("eu-west-1", ""));
  CHECK(bench.this_call() == "b.s3.eu-west-1.amazonaws.com eu-west-1");
  CHECK(bench.another_call() == bench.this_call());
  CHECK(bench.another_bucket() == "c.s3.us-east-1.amazonaws.com us-east-1");
  bench.learn(moved("no region!", ""));
  CHECK(bench.this_call() == "b.s3.eu-west-1.amazonaws.com eu-west-1");

  Settings its_settings = aws();
  its_settings.host = "swift.example";
  Bench other(its_settings);
  other.learn(moved("RegionOne", ""));
  CHECK(other.this_call() == "b.swift.example RegionOne");
}

TEST_CASE(
    "addresses: a redirect leads all calls of the bucket, or this one where it is temporary") {
  const std::string there = "https://b.s3.eu-west-1.amazonaws.com/k";
  Bench for_good;
  for_good.learn(moved("", there));
  CHECK(for_good.this_call() == "b.s3.eu-west-1.amazonaws.com us-east-1");
  CHECK(for_good.another_call() == for_good.this_call());

  Bench for_now;
  for_now.learn(moved("", there, true));
  CHECK(for_now.this_call() == "b.s3.eu-west-1.amazonaws.com us-east-1");
  CHECK(for_now.another_call() == kAtFirst);

  Bench in_path;
  in_path.learn(moved("eu-west-1", "https://s3.eu-west-1.amazonaws.com/b/k"));
  CHECK(in_path.this_call() == "s3.eu-west-1.amazonaws.com eu-west-1 in path");
}

TEST_CASE("addresses: a bucket that is called as the server is stays in the path") {
  Settings its_settings;
  its_settings.scheme = "http";
  its_settings.host = "b.local";
  its_settings.path_style = true;
  Bench bench(its_settings);
  bench.learn(moved("", "http://b.local:9001/b/k"));
  CHECK(bench.this_call() == "b.local:9001 us-east-1 in path");
  bench.learn(moved("", "http://b.b.local:9001/k"));
  CHECK(bench.this_call() == "b.b.local:9001 us-east-1");
}

TEST_CASE("addresses: the call's own redirect comes before the bucket's") {
  Bench bench;
  bench.learn(moved("eu-west-1", ""));
  bench.learn(moved("", "https://b.s3.eu-north-7.amazonaws.com/k", true));
  CHECK(bench.this_call() == "b.s3.eu-north-7.amazonaws.com eu-west-1");
  CHECK(bench.another_call() == "b.s3.eu-west-1.amazonaws.com eu-west-1");
}

TEST_CASE("addresses: where nothing could be sent, hosts of redirects are forgotten") {
  Bench bench;
  bench.learn(moved("eu-west-1", "https://b.s3-eu-west-1.amazonaws.com/k"));
  bench.learn(moved("", "https://b.s3.eu-north-7.amazonaws.com/k", true));
  bench.learn(of_kind(FailureKind::kNotSent));
  CHECK(bench.this_call() == "b.s3.eu-west-1.amazonaws.com eu-west-1");
  CHECK(bench.another_call() == bench.this_call());
}

TEST_CASE("addresses: the store's clock is learnt for every bucket") {
  Bench bench;
  Failure skewed = of_kind(FailureKind::kClock);
  bench.learn(skewed);  // without a date
  CHECK(bench.addresses.target("c", {}).clock_ahead == seconds(0));
  skewed.server_time_s = 1'700'003'600;
  bench.learn(skewed);
  CHECK(bench.addresses.target("c", {}).clock_ahead == seconds(3600));
}

TEST_CASE("addresses: other failures say nothing of an address") {
  for (const FailureKind kind :
       {FailureKind::kAmbiguous, FailureKind::kThrottled, FailureKind::kTransient,
        FailureKind::kCredentials, FailureKind::kTransit, FailureKind::kConflict,
        FailureKind::kPrecondition, FailureKind::kGone, FailureKind::kFinal}) {
    CAPTURE(to_string(kind));
    Bench bench;
    Failure failure = moved("eu-west-1", "https://b.s3.eu-west-1.amazonaws.com/k");
    failure.kind = kind;
    failure.server_time_s = 1;
    bench.learn(failure);
    CHECK(bench.this_call() == kAtFirst);
    CHECK(bench.addresses.target("b", {}).clock_ahead == seconds(0));
  }
}

TEST_CASE("addresses: which redirects are followed") {
  const auto checked = [](Failure failure, bool follows_regions = true) {
    Settings settings = aws();
    settings.follows_regions = follows_regions;
    check_redirect(settings, "b", "us-east-1", failure);
    return failure;
  };
  const std::string good = "https://b.s3.eu-west-1.amazonaws.com/k";
  const std::string bad = "https://evil.example/k";
  CHECK(checked(moved("", good)).kind == FailureKind::kAddress);
  CHECK(checked(moved("eu-west-1", "")).kind == FailureKind::kAddress);

  const Failure elsewhere = checked(moved("", bad));
  CHECK(elsewhere.kind == FailureKind::kFinal);
  CHECK(elsewhere.message ==
        "redirected to another domain than s3.us-east-1.amazonaws.com, or another scheme than "
        "https: not followed");
  // The region says where, unless the attempt was signed for it.
  const Failure by_region = checked(moved("eu-west-1", bad));
  CHECK(by_region.kind == FailureKind::kAddress);
  CHECK(by_region.location.empty());
  CHECK(checked(moved("us-east-1", bad)).kind == FailureKind::kFinal);
  CHECK(checked(moved("eu-west-1", bad, true)).kind == FailureKind::kFinal);

  // As fs.s3a.cross.region.access.enabled says; a temporary one is not of another region.
  const Failure stays = checked(moved("eu-west-1", good), false);
  CHECK(stays.kind == FailureKind::kFinal);
  CHECK(stays.message == ": not followed, as fs.s3a.cross.region.access.enabled says");
  CHECK(checked(moved("", good, true), false).kind == FailureKind::kAddress);

  Failure other = moved("", bad);
  other.kind = FailureKind::kAmbiguous;
  CHECK(checked(other).kind == FailureKind::kAmbiguous);
}

}  // namespace
}  // namespace hflush::s3
