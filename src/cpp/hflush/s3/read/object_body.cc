#include "hflush/s3/read/object_body.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "hflush/s3/call/documents.h"
#include "hflush/s3/call/encoding.h"

namespace hflush::s3 {
namespace {

bool take_number(std::string_view& text, std::uint64_t& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_char(std::string_view& text, char expected) noexcept {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

// Whether the etag of an object ends in the number of its parts: "…-2".
bool is_of_parts(std::string_view etag) noexcept {
  etag = bare_etag(etag);
  const std::size_t digits = etag.find_last_not_of("0123456789") + 1;
  return digits > 0 && digits < etag.size() && etag[digits - 1] == '-';
}

// Some stores tell neither the type of a sum of sums, nor how many there are.
void add_stored_sum(const env::HttpHead& head, ExpectedBody& body) {
  constexpr std::size_t kEncodedSize = 8;  // sums of parts have their number behind a dash
  const std::string_view type = head.header("x-amz-checksum-type");
  if (type.empty() ? is_of_parts(head.header("etag")) : type != "FULL_OBJECT") return;
  for (const auto& [kind, name] : {std::pair(crc::Kind::kCrc32c, "x-amz-checksum-crc32c"),
                                   std::pair(crc::Kind::kCrc32, "x-amz-checksum-crc32")}) {
    const std::string_view text = head.header(name);
    if (text.size() != kEncodedSize) continue;
    body.sum_kind = kind;
    body.sum = text;
    return;
  }
}

Status wrong_answer(const ByteRange& asked, const std::string& what) {
  return Status(StatusCode::kIo, "read of " + to_text(asked) + ": the store " + what, {}, EPROTO);
}

// Takes up to `count` bytes from the front, and subtracts them.
std::size_t drop(ByteView& bytes, std::uint64_t& count) noexcept {
  const auto dropped = static_cast<std::size_t>(std::min<std::uint64_t>(count, bytes.size()));
  bytes = bytes.subspan(dropped);
  count -= dropped;
  return dropped;
}

}  // namespace

std::string to_text(const ByteRange& range) {
  return "bytes " + std::to_string(range.begin) + " to " + std::to_string(range.end);
}

std::optional<ContentRange> parse_content_range(std::string_view text) noexcept {
  ContentRange parsed;
  std::uint64_t last = 0;
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  if (!take_number(text, parsed.range.begin) || !take_char(text, '-') || !take_number(text, last) ||
      last < parsed.range.begin || last == UINT64_MAX || !take_char(text, '/')) {
    return std::nullopt;
  }
  parsed.range.end = last + 1;
  if (text == "*") return parsed;
  if (!take_number(text, parsed.total.emplace()) || !text.empty()) return std::nullopt;
  return parsed;
}

Status replaced(const ReadOptions& options, const ByteRange& asked, const std::string& what) {
  std::string message =
      "read of " + to_text(asked) + ": the object was replaced since it was opened, with ";
  if (!options.etag.empty()) message += "etag " + options.etag + " and ";
  message += std::to_string(options.size) + " bytes: " + what;
  return Status(StatusCode::kPreconditionFailed, std::move(message), options.path, ESTALE);
}

Result<ExpectedBody> expected_body(const env::HttpHead& head, const ReadOptions& options,
                                   const ByteRange& asked) {
  const std::string_view etag = head.header("etag");
  if (!options.etag.empty() && !etag.empty() && bare_etag(etag) != bare_etag(options.etag)) {
    return replaced(options, asked, "it has the etag " + std::string(etag) + " now");
  }
  const auto other_size = [&](std::uint64_t size) {
    return replaced(options, asked, "it has " + std::to_string(size) + " bytes now");
  };
  if (head.status == 206) {
    const std::string_view text = head.header("content-range");
    const std::optional<ContentRange> answer = parse_content_range(text);
    if (answer && answer->total && *answer->total != options.size) {
      return other_size(*answer->total);
    }
    if (!answer || answer->range.begin != asked.begin || answer->range.end > asked.end) {
      return wrong_answer(asked, "answered with content-range \"" + std::string(text) + "\"");
    }
    return ExpectedBody{.size = answer->range.end - answer->range.begin};
  }
  if (head.status != 200) {
    return wrong_answer(asked, "answered with HTTP " + std::to_string(head.status));
  }
  std::string_view length = head.header("content-length");
  std::uint64_t size = 0;
  if (take_number(length, size) && length.empty() && size != options.size) return other_size(size);
  ExpectedBody body{.size = options.size, .before = asked.begin};
  add_stored_sum(head, body);
  return body;
}

void ObjectBody::begin(ExpectedBody expected) {
  expected_ = std::move(expected);
  sent_ = 0;
  sum_ = 0;
}

Result<ByteView> ObjectBody::take(ByteView bytes) {
  received_ += bytes.size();
  if (bytes.size() > expected_.size - sent_) return wrong_answer(asked_, "sent more");
  sent_ += bytes.size();
  if (expected_.sum_kind != crc::Kind::kNone) {
    sum_ = crc::extend(expected_.sum_kind, sum_, bytes);
    if (is_complete()) HFLUSH_RETURN_IF_ERROR(check_sum());
  }
  in_front_ += drop(bytes, expected_.before);
  drop(bytes, skip_);
  return bytes;
}

Status ObjectBody::check_sum() const {
  const std::string sum = crc_header(sum_);
  if (sum == expected_.sum) return {};
  return Status(StatusCode::kChecksum,
                "read of " + to_text(asked_) + ": the checksum of what the store sent is " + sum +
                    " and not " + expected_.sum + ", that of the object",
                {}, EIO);
}

}  // namespace hflush::s3
