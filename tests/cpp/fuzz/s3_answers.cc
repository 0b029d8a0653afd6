// What a store answers with: documents, errors, dates.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/targets.h"
#include "hflush/s3/call/documents.h"
#include "hflush/s3/call/outcome.h"
#include "hflush/s3/call/signer.h"
#include "hflush/s3/call/xml.h"

namespace hflush::fuzz {
namespace {

using s3::XmlElement;

constexpr int kStatuses[] = {200, 400, 403, 404, 500, 503, 204, 206, 301, 307,
                             408, 409, 412, 416, 429, 501, 502, 504, 507, 0};

std::string written(const XmlElement& element) {
  std::string text = "<" + element.name + ">" + s3::escape_xml(element.text);
  for (const XmlElement& child : element.children) text += written(child);
  return text + "</" + element.name + ">";
}

bool is_same(const XmlElement& a, const XmlElement& b) {
  if (a.name != b.name || a.text != b.text || a.children.size() != b.children.size()) return false;
  for (std::size_t i = 0; i < a.children.size(); ++i) {
    if (!is_same(a.children[i], b.children[i])) return false;
  }
  return true;
}

void require_sound(const XmlElement& element) {
  require(!element.name.empty());
  require(element.name.find_first_of(":<>&/ \t\r\n") == std::string::npos);
  for (const XmlElement& child : element.children) {
    require_sound(child);
    require(element.child(child.name) != nullptr);
  }
}

// One line that a terminal can show.
void require_printable(std::string_view text) {
  for (const char c : text) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

// The rest of the line that `input` begins with; it is taken off.
std::string take_line(std::string_view& input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  std::string line(input.substr(0, end));
  input.remove_prefix(std::min(end + 1, input.size()));
  return line;
}

// Only what is a document has an answer; a refusal says why.
template <typename T>
void require_answer(const Result<T>& result, std::string_view document) {
  if (result.ok()) return require(s3::parse_xml(document).ok());
  require(result.status().code() == StatusCode::kInvalidArgument);
  require(!result.status().message().empty());
}

void require_sound(const s3::Failure& failure, const env::HttpResult& result) {
  require(failure.http_status == result.head.status);
  require(s3::to_string(failure.kind) != "unknown");
  require(failure.transport.ok() == result.end.failure.ok());
  require_printable(failure.code);
  require_printable(failure.region);
  if (failure.retry_after) {
    require(*failure.retry_after >= env::Duration::zero());
    require(*failure.retry_after <= s3::kMaxRetryAfter);
  }
  const Status status = s3::to_status(failure, "Operation", "http://h", "s3://b/k", 1);
  require(!status.ok());
  require(status.remote_class() == failure.code);
  require(status.message().size() < 4096);
}

}  // namespace

void s3_xml(ByteView input) {
  const std::string_view document = as_text(input);
  const auto root = s3::parse_xml(document);
  const auto name = s3::parse_xml_root(document);
  require(root.ok() == name.ok());
  if (!root.ok()) {
    require(root.status().code() == StatusCode::kIo);
    require(root.status().error_number() == EBADMSG);
    require(root.status().message().starts_with("malformed XML at byte "));
    require(name.status().message() == root.status().message());
    return;
  }
  require(*name == root->name);
  require_sound(*root);
  const auto again = s3::parse_xml(written(*root));
  require(again.ok());
  require(is_same(*root, *again));
}

void s3_error_document(ByteView input) {
  if (input.size() < 2) return;
  const auto front = [&](std::size_t i) { return std::to_integer<std::size_t>(input[i]); };
  env::HttpResult result;
  result.head.status = kStatuses[front(0) % std::size(kStatuses)];
  const auto expect = static_cast<s3::Expect>(front(1) % 3);
  if (result.head.status == 0) {
    result.end = {Status(StatusCode::kIo, "broken off"), front(1) >= 0x80};
  }
  std::string_view rest = as_text(input.subspan(2));
  for (const char* header : {"retry-after", "date", "x-amz-bucket-region", "location", "etag"}) {
    std::string value = take_line(rest);
    if (!value.empty()) result.head.headers.push_back({header, std::move(value)});
  }
  result.body = rest;
  const auto failure = s3::judge(result, expect, "CompleteMultipartUploadResult");
  if (failure) return require_sound(*failure, result);
  require(result.head.status / 100 == 2 && result.end.failure.ok());
  if (expect == s3::Expect::kETag) require(!result.head.header("etag").empty());
  if (expect == s3::Expect::kRoot) {
    const auto root = s3::parse_xml(rest);
    require(root.ok() && root->name.starts_with("CompleteMultipartUpload"));
  }
}

void s3_documents(ByteView input) {
  if (input.empty()) return;
  const std::string_view document = as_text(input.subspan(1));
  switch (std::to_integer<int>(input[0]) % 5) {
    case 0: {
      const auto page = s3::parse_object_page(document);
      require_answer(page, document);
      if (!page.ok()) return;
      for (const s3::ListedObject& object : page->objects) {
        require(object.size < 1'000'000'000'000'000'000U);
      }
      return;
    }
    case 1: {
      const auto page = s3::parse_upload_page(document);
      require_answer(page, document);
      require(!page.ok() || !page->next_markers || !page->next_markers->first.empty());
      return;
    }
    case 2:
      return require_answer(s3::parse_delete_result(document), document);
    case 3: {
      const auto id = s3::parse_upload_id(document);
      require_answer(id, document);
      require(!id.ok() || !id->empty());
      return;
    }
    default:
      return require_answer(s3::parse_etag(document, "CopyPartResult"), document);
  }
}

void s3_http_date(ByteView input) {
  const auto time = s3::parse_http_date(as_text(input));
  if (!time) return;
  // What is spelled anew from it is what was read, but for the weekday.
  const std::string spelled = s3::amz_date(*time);
  const std::string_view text = as_text(input);
  require(text.size() == std::string_view("Fri, 02 Jan 2026 03:04:05 GMT").size());
  require(spelled.substr(0, 4) == text.substr(12, 4));
  require(spelled.substr(6, 2) == text.substr(5, 2));
  for (const auto& [at, from] : {std::pair(9, 17), std::pair(11, 20), std::pair(13, 23)}) {
    require(spelled.substr(static_cast<std::size_t>(at), 2) ==
            text.substr(static_cast<std::size_t>(from), 2));
  }
  require(time->time_since_epoch() >= std::chrono::seconds(0));
}

}  // namespace hflush::fuzz
