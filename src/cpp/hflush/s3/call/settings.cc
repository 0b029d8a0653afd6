#include "hflush/s3/call/settings.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>

#include "hflush/base/ascii.h"

namespace hflush::s3 {
namespace {

bool is_address(const std::string& host) noexcept {
  in_addr parsed{};
  return host.find(':') != std::string::npos || ::inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

bool is_loopback(const std::string& host) noexcept {
  in_addr parsed{};
  if (::inet_pton(AF_INET, host.c_str(), &parsed) == 1) {
    return ntohl(parsed.s_addr) >> 24U == 127U;
  }
  return host == "localhost" || host == "::1" || host == "[::1]";
}

// Whether a bucket's name can begin a host's name.
bool is_host_label(std::string_view bucket) noexcept {
  return std::ranges::all_of(bucket, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// "host:port", without the port that the scheme has anyway.
std::string host_and_port(const Settings& settings, std::string_view host) {
  std::string text;
  if (host.find(':') != std::string_view::npos && !host.starts_with('[')) {
    text.append(1, '[').append(host).append(1, ']');
  } else {
    text = host;
  }
  const std::uint16_t usual = settings.scheme == "https" ? 443 : 80;
  if (settings.port != 0 && settings.port != usual) text += ":" + std::to_string(settings.port);
  return text;
}

// AWS's partitions: how the names of their regions begin, and how those of their servers end.
struct Partition {
  std::string_view regions;
  std::string_view suffix;
};
constexpr Partition kPartitions[] = {
    {"cn-", ".amazonaws.com.cn"},     // aws-cn
    {"eu-isoe-", ".cloud.adc-e.uk"},  // aws-iso-e
    {"eusc-", ".amazonaws.eu"},       // aws-eusc
    {"us-iso-", ".c2s.ic.gov"},       // aws-iso
    {"us-isob-", ".sc2s.sgov.gov"},   // aws-iso-b
    {"us-isof-", ".csp.hci.ic.gov"},  // aws-iso-f
    {"", ".amazonaws.com"},           // every other region
};

// "s3", "s3-fips", "s3.eu-west-1", "s3-eu-west-1", "s3.dualstack.eu-west-1": what stands before
// AWS's domain in the name of a server of S3. Hosts of its customers are below that domain, too.
bool names_s3(std::string_view text) noexcept {
  const std::size_t first = text.find('.');
  const std::string_view service = text.substr(0, first);
  if (service != "s3" && !service.starts_with("s3-")) return false;
  if (first == std::string_view::npos) return true;
  std::string_view rest = text.substr(first + 1);
  if (constexpr std::string_view kDual = "dualstack."; rest.starts_with(kDual)) {
    rest.remove_prefix(kDual.size());
  }
  return is_region(rest);
}

// Whether one of the labels of a host's name is that of a server with certified cryptography:
// "s3-fips", and "s3-fips-us-gov-west-1" as of old.
bool names_fips(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('.'), text.size());
    const std::string_view label = text.substr(0, end);
    if (label == "s3-fips" || label.starts_with("s3-fips-")) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

// Where a redirect leads to: what TLS protects stays protected.
std::string authority_of(std::string_view location, std::string_view scheme) {
  if (!location.starts_with(scheme)) return {};
  location.remove_prefix(scheme.size());
  if (!location.starts_with("://")) return {};
  location.remove_prefix(3);
  const std::string_view authority = location.substr(0, location.find_first_of("/?#"));
  const bool is_plain = std::ranges::all_of(authority, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-:[]").find(c) != std::string_view::npos;
  });
  return is_plain ? std::string(authority) : std::string();
}

// The host of "host:port", in lower case.
std::string host_of(std::string_view authority) {
  const std::size_t bracket = authority.find(']');
  return to_lower(
      authority.substr(0, bracket == std::string_view::npos ? authority.find(':') : bracket + 1));
}

// That of an endpoint, likewise.
std::string host_of(const Settings& settings) {
  const std::string& host = settings.host;
  const bool is_bare = host.find(':') != std::string::npos && !host.starts_with('[');
  return to_lower(is_bare ? "[" + host + "]" : host);
}

// Whether it is a server of the store whose endpoint is `own`.
bool is_server(std::string_view name, const std::string& own) {
  if (name == own) return true;
  const std::string_view suffix = aws_suffix_of("." + own);
  if (suffix.empty()) return !is_address(own) && name.ends_with("." + own);
  // Below AWS's domain are hosts of its customers, too.
  if (!name.ends_with(suffix)) return false;
  const std::string_view text = name.substr(0, name.size() - suffix.size());
  return names_s3(text) && (!names_fips(own) || names_fips(text));
}

// Whether what follows the bucket in a host's name is such a server.
bool is_server_of_bucket(std::string_view name, std::string_view bucket, const std::string& own) {
  const std::string of_bucket = std::string(bucket) + ".";
  return name.starts_with(of_bucket) && is_server(name.substr(of_bucket.size()), own);
}

}  // namespace

bool is_region(std::string_view text) noexcept {
  // Of stores beside AWS there are such as "RegionOne" and "NL".
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

std::string_view aws_suffix(std::string_view region) noexcept {
  return std::ranges::find_if(
             kPartitions,
             [region](const Partition& partition) { return region.starts_with(partition.regions); })
      ->suffix;
}

std::string_view aws_suffix_of(std::string_view host) noexcept {
  const auto* const found = std::ranges::find_if(
      kPartitions, [host](const Partition& partition) { return host.ends_with(partition.suffix); });
  return found != std::end(kPartitions) ? found->suffix : std::string_view();
}

bool Settings::names_in_path(std::string_view bucket) const noexcept {
  if (path_style || bucket.empty() || is_address(host) || !is_host_label(bucket)) return true;
  // A certificate for *.host does not cover more than one label.
  return scheme == "https" && bucket.find('.') != std::string_view::npos;
}

bool Settings::names_in_path(std::string_view bucket, std::string_view authority) const {
  return !is_server_of_bucket(host_of(authority), bucket, host_of(*this));
}

std::string Settings::authority(const std::string& bucket) const {
  return host_and_port(*this, names_in_path(bucket) ? host : bucket + "." + host);
}

std::string Settings::authority(const std::string& bucket, const std::string& its_region) const {
  std::string there = host;
  const std::string part = "." + region + ".";
  const std::size_t found = host.find(part);
  if (host == "s3.amazonaws.com") {
    there = "s3." + its_region + ".amazonaws.com";
  } else if (found != std::string::npos && is_aws()) {
    there.replace(found, part.size(), "." + its_region + ".");
  }
  return host_and_port(*this, names_in_path(bucket) ? there : bucket + "." + there);
}

std::string Settings::redirect_authority(std::string_view bucket, std::string_view location) const {
  std::string authority = authority_of(location, scheme);
  if (authority.empty()) return {};
  const std::string name = host_of(authority);
  const std::string own = host_of(*this);
  const bool is_known = is_server(name, own) || is_server_of_bucket(name, bucket, own);
  return is_known ? authority : std::string();
}

// Of what stands before AWS's domain some labels at the end name S3.
bool Settings::is_aws() const noexcept {
  const std::string_view suffix = aws_suffix_of(host);
  if (suffix.empty()) return false;
  std::string_view rest = std::string_view(host).substr(0, host.size() - suffix.size());
  // "bucket.vpce-1a2b-3c4d.s3.us-west-2.vpce"
  if (constexpr std::string_view kVpc = ".vpce"; rest.ends_with(kVpc)) {
    rest.remove_suffix(kVpc.size());
  }
  while (!names_s3(rest)) {
    const std::size_t end = rest.find('.');
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
  return true;
}

bool Settings::signs_payload() const noexcept {
  if (payload_signing != PayloadSigning::kAuto) return payload_signing == PayloadSigning::kAlways;
  return scheme != "https" && !is_loopback(host);
}

}  // namespace hflush::s3
