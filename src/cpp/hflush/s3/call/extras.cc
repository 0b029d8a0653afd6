#include "hflush/s3/call/extras.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/ascii.h"

namespace hflush::s3 {
namespace {

constexpr std::string_view kNotImplemented[] = {
    "NotImplemented",
    "NotSupported",
    "UnsupportedOperation",
    "XNotImplemented",
};
// Codes that stores use for a header that they do not know, and for much else.
constexpr std::string_view kBadArguments[] = {
    "BadRequest", "InvalidArgument", "InvalidHeader", "InvalidRequest", "MalformedHeader",
};
// Of stores that want the bucket in the name of the host.
constexpr std::string_view kWantBucketInHost[] = {
    "PathStyleDomainForbidden",
    "SecondLevelDomainForbidden",
    "VirtualHostDomainRequired",
};
// Calls whose checksums the store has asked for, or has said that it knows.
constexpr std::string_view kChecked[] = {"CompleteMultipartUpload", "DeleteObjects", "UploadPart"};
// In messages about bodies that the signature does not protect.
constexpr std::string_view kUnsigned[] = {"x-amz-content-sha256", "unsigned-payload",
                                          "unsigned payload"};
// Of messages about what is in a header, and not about the header.
constexpr std::string_view kContents[] = {"match", "value for", "digest"};

struct Reason {
  std::string_view header;  // or the beginning of its name
  std::string_view why;
};
// The keys of the configuration by which headers are sent.
constexpr Reason kReasons[] = {
    {"content-encoding", "because of fs.s3a.object.content.encoding"},
    {"content-md5", "unless fs.s3a.request.md5.header=false"},
    {"if-match", "unless fs.s3a.create.conditional.enabled=false"},
    {"if-none-match", "unless fs.s3a.create.conditional.enabled=false"},
    {"x-amz-acl", "because of fs.s3a.acl.default"},
    {"x-amz-checksum-", "unless fs.s3a.create.checksum.algorithm=NONE"},
    {"x-amz-copy-source-if-match", "so that what was looked at is copied, and nothing else"},
    {"x-amz-request-payer", "unless fs.s3a.requester.pays.enabled=false"},
    {"x-amz-server-side-encryption", "because of fs.s3a.encryption.algorithm"},
    {"x-amz-storage-class", "because of fs.s3a.create.storage.class"},
};

bool is_read(const Call& call) noexcept { return call.method == "GET" || call.method == "HEAD"; }

template <typename Texts>
bool is_among(const Texts& texts, std::string_view text) noexcept {
  return std::ranges::find(texts, text) != std::end(texts);
}

// Which extra a header is, by its name in lower case.
Extras extra_of(std::string_view name, const Call& call) noexcept {
  if (name == "x-amz-mp-object-size") return kObjectSize;
  if (name == "x-amz-copy-source-if-match") {  // parts of a copy have to be of one object
    return call.operation == "CopyObject" ? kConditionOfCopy : kNoExtras;
  }
  if (name == "if-match") return call.operation == "GetObject" ? kConditionOfRead : kNoExtras;
  if (!name.starts_with("x-amz-checksum-")) return kNoExtras;
  if (is_read(call)) return kAskedChecksums;
  return is_among(kChecked, call.operation) ? kNoExtras : kSentChecksums;
}

bool is_encoding(const std::pair<std::string, std::string>& parameter) noexcept {
  return parameter.first == "encoding-type";
}

bool is_unknown_there(const Failure& failure) noexcept {
  return failure.http_status == 501 || is_among(kNotImplemented, failure.code);
}

// Headers are named after what they are for: their names say nothing of a refusal's reason.
bool is_about_contents(std::string message, const Call& call) {
  std::vector<std::string> names;
  names.reserve(call.headers.size());
  for (const env::HttpHeader& header : call.headers) names.push_back(to_lower(header.name));
  std::ranges::sort(names, std::greater(), &std::string::size);  // one may begin another
  for (const std::string& name : names) {
    const std::size_t at = message.find(name);
    if (at != std::string::npos) message.erase(at, name.size());
  }
  return std::ranges::any_of(kContents, [&message](std::string_view word) {
    return message.find(word) != std::string_view::npos;
  });
}

// The extras of a call whose names are in a message.
Extras named_extras(std::string_view message, const Call& call) {
  Extras named = kNoExtras;
  for (const env::HttpHeader& header : call.headers) {
    const std::string name = to_lower(header.name);
    if (message.find(name) != std::string_view::npos) named |= extra_of(name, call);
  }
  if (std::ranges::any_of(call.query, is_encoding) &&
      message.find("encoding") != std::string_view::npos) {
    named |= kEncodedKeys;
  }
  return named;
}

// Whether a store asks for what older ones know alone, as for objects that are locked.
bool wants_md5(const Call& call, std::string_view message) {
  return call.is_upload && message.find("content-md5") != std::string_view::npos &&
         std::ranges::none_of(call.headers, [](const env::HttpHeader& header) {
           return to_lower(header.name) == "content-md5";
         });
}

// Whether a part is refused for its number.
bool is_about_numbers(const Call& call, std::string_view message) noexcept {
  return call.operation.starts_with("UploadPart") &&
         (message.find("part number") != std::string_view::npos ||
          message.find("partnumber") != std::string_view::npos);
}

// Whether a body was refused because the signature does not protect it.
bool refuses_unsigned(const Failure& failure, const Call& call, const Settings& settings,
                      std::string_view message) noexcept {
  if (!call.is_upload || call.body == nullptr || !call.body_sha256.empty() ||
      settings.payload_signing == PayloadSigning::kNever) {
    return false;
  }
  return failure.code == "XAmzContentSHA256Mismatch" ||
         (failure.kind == FailureKind::kFinal &&
          std::ranges::any_of(kUnsigned, [message](std::string_view name) {
            return message.find(name) != std::string_view::npos;
          }));
}

}  // namespace

Extras extras_of(const Call& call, const Settings& settings) {
  Extras extras = std::ranges::any_of(call.query, is_encoding) ? kEncodedKeys : kNoExtras;
  for (const env::HttpHeader& header : call.headers) {
    extras |= extra_of(to_lower(header.name), call);
  }
  return settings.insists_on_checksums ? extras & ~kSentChecksums : extras;
}

void leave_out(Extras extras, Call& call) {
  std::erase_if(call.headers, [&](const env::HttpHeader& header) {
    return (extra_of(to_lower(header.name), call) & extras) != 0;
  });
  if ((extras & kEncodedKeys) != 0) std::erase_if(call.query, is_encoding);
}

Extras refused_extras(const Failure& failure, const Call& call, const Settings& settings) {
  const std::string message = to_lower(failure.message);
  if (refuses_unsigned(failure, call, settings, message)) return kUnsignedBody;
  if (failure.kind != FailureKind::kFinal || settings.is_aws()) return kNoExtras;
  const Extras had = extras_of(call, settings);
  if (had == kNoExtras || wants_md5(call, message)) return kNoExtras;
  const Extras named = named_extras(message, call) & had;
  if (is_unknown_there(failure)) return named != kNoExtras ? named : had;
  if (failure.code == "SignatureDoesNotMatch") return had & (kSentChecksums | kAskedChecksums);
  if (failure.http_status != 400 || is_about_contents(message, call)) return kNoExtras;
  if (named != kNoExtras) return named;
  if (call.operation == "CompleteMultipartUpload") return kNoExtras;
  return failure.code.empty() || is_among(kBadArguments, failure.code) ? had : kNoExtras;
}

std::string advice(const Failure& failure, const Call& call) {
  if (failure.kind != FailureKind::kFinal) return {};
  if (is_among(kWantBucketInHost, failure.code)) {
    return "the bucket is in the path unless fs.s3a.path.style.access=false";
  }
  if (call.operation == "CompleteMultipartUpload" && failure.code == "InvalidPart") {
    return "some stores complete an upload only with all parts that it has: where more were put "
           "after persist(), resume it and write at least as far, or abort";
  }
  const std::string message = to_lower(failure.message);
  if (is_about_numbers(call, message)) {
    return "how many parts the store takes is set by hflush.s3.multipart.parts";
  }
  if (wants_md5(call, message)) return "it is sent where fs.s3a.request.md5.header=true";
  const bool is_unknown = is_unknown_there(failure);
  if (!is_unknown && (failure.http_status != 400 || is_about_contents(message, call))) return {};
  std::string named;
  std::string all;
  for (const env::HttpHeader& header : call.headers) {
    const std::string name = to_lower(header.name);
    const auto* const found = std::ranges::find_if(
        kReasons, [&](const Reason& one) { return name.starts_with(one.header); });
    if (found == std::end(kReasons)) continue;
    std::string& list = message.find(name) != std::string::npos ? named : all;
    if (list.find(found->why) != std::string::npos) continue;
    list += (list.empty() ? "" : ", ") + name + " is sent " + std::string(found->why);
  }
  if (!named.empty()) return named;
  return is_unknown ? all : std::string();
}

}  // namespace hflush::s3
