// Settings: how a client speaks to the store, and which hosts its requests may go to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/call/attempts.h"

namespace hflush::s3 {

enum class PayloadSigning : std::uint8_t {
  kAuto,  // signed, unless TLS or the loopback interface protects it
  kAlways,
  kNever,  // UNSIGNED-PAYLOAD
};

// What a server was found to refuse of what requests can do without (extras.h). Thread-safe.
using RefusedExtras = std::atomic<std::uint8_t>;

struct Settings {
  std::string scheme = "https";
  std::string host;        // without port
  std::uint16_t port = 0;  // 0: the scheme's
  std::string base_path;   // before every bucket, unencoded: "/storage/v1/s3"
  std::string region = "us-east-1";
  bool follows_regions = true;  // a bucket of another region is asked there
  bool path_style = false;
  PayloadSigning payload_signing = PayloadSigning::kAuto;
  bool content_md5 = false;           // of parts and objects
  bool checksums = true;              // x-amz-checksum-crc32c where the store knows it
  bool insists_on_checksums = false;  // a store that refuses to take them is not written without
  bool expect_continue = true;
  std::size_t max_uploads = 16;  // parts and objects under way at once, of all streams; no more
                                 // than connections
  env::Duration connect_timeout = std::chrono::seconds(10);
  env::Duration stall_timeout = std::chrono::seconds(60);
  env::Duration complete_timeout = std::chrono::minutes(10);  // the same of Complete
  // Total time of one attempt, even if data keeps arriving: for uploads of parts and objects, and
  // for everything else except downloads.
  env::Duration upload_timeout = env::kNoTimeout;
  env::Duration request_timeout = env::kNoTimeout;
  // Shared by the clients of a server; none: this client's own.
  std::shared_ptr<RefusedExtras> refused_extras;
  RetrySettings retry;
  env::HttpSettings http;

  // Whether requests for the bucket name it in their path rather than in their host.
  bool names_in_path(std::string_view bucket) const noexcept;
  // The same of those to "host:port", where a redirect has led: redirect_authority().
  bool names_in_path(std::string_view bucket, std::string_view authority) const;
  // "host:port" as the Host header has it: no port where it is the scheme's own.
  std::string authority(const std::string& bucket) const;
  // The same of the endpoint for `region`, where the host is one of AWS's, which has one for each.
  std::string authority(const std::string& bucket, const std::string& region) const;
  // "host:port" that a redirect to `location` leads to; empty if it may not be followed: another
  // scheme, or a host that is neither the endpoint's, nor below it; at AWS: that is neither the
  // endpoint's, nor the bucket's there, nor another server of S3 (with FIPS, if the endpoint is).
  std::string redirect_authority(std::string_view bucket, std::string_view location) const;
  // Whether the server is one of AWS's, and not of a customer's below its domain.
  bool is_aws() const noexcept;
  // Bodies of any size are hashed, so that the signature protects them.
  bool signs_payload() const noexcept;
};

// Whether it can be the name of a region, which becomes part of a host's name and of the signature.
bool is_region(std::string_view text) noexcept;
// How the names of AWS's servers end: ".amazonaws.com" in most regions.
std::string_view aws_suffix(std::string_view region) noexcept;
// The one of these that a host's name ends with; empty: it is not at AWS.
std::string_view aws_suffix_of(std::string_view host) noexcept;

}  // namespace hflush::s3
