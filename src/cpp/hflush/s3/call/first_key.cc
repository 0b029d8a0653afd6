#include "hflush/s3/call/first_key.h"

#include <utility>

#include "hflush/s3/call/documents.h"

namespace hflush::s3 {

Call first_key_call(std::string bucket, std::string prefix, std::vector<env::HttpHeader> headers) {
  Call call;
  call.operation = "ListObjectsV2";
  call.method = "GET";
  call.bucket = std::move(bucket);
  call.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"max-keys", "1"}};
  call.query.emplace_back("prefix", std::move(prefix));
  call.headers = std::move(headers);
  call.expect = Expect::kRoot;
  call.root = "ListBucketResult";
  return call;
}

std::optional<bool> has_first_key(const CallResult& answer) {
  if (answer.failure) return std::nullopt;
  const Result<ObjectPage> page = parse_object_page(answer.body);
  if (!page.ok()) return std::nullopt;
  if (!page->objects.empty()) return true;
  if (!page->next_token.empty() || !page->next_marker.empty()) return std::nullopt;
  return false;
}

}  // namespace hflush::s3
