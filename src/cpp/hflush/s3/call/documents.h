// The documents of S3 that a name space is read from: pages of listings, and what deletions, copies
// and new uploads are answered; and the one that DeleteObjects is sent.
//
// Keys are encoded as in URLs where the document says so (encoding-type=url), since XML cannot hold
// every character of a key. A document that is not understood is kInvalidArgument, never taken for
// an empty answer: malformed XML, another root, an entry without its key, a page that others follow
// without a key from which to go on. What is not needed may be missing. Times may be written as in
// HTTP. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/result.h"

namespace hflush::s3 {

// What a plus sign is in an encoded key. AWS writes a blank so and a plus as "%2B"; some servers
// leave a plus as it is.
enum class Plus : std::uint8_t { kUnknown, kBlank, kItself };

struct ListedObject {
  std::string key;
  std::optional<std::uint64_t> size;  // none: the store does not say; 0 of a marker then
  std::string etag;                   // bare; empty: likewise
  std::int64_t modified = 0;          // seconds since 1970; 0: likewise, or it cannot be read
  std::string storage_class;          // empty: likewise, or STANDARD
};

// A page of ListObjectsV2, or of ListObjects.
struct ObjectPage {
  std::vector<ListedObject> objects;
  std::vector<std::string> prefixes;
  // Both empty: the last page.
  std::string next_token;
  std::string next_marker;     // without a token: ListObjects goes on behind that key
  Plus plus = Plus::kUnknown;  // as it was passed, else what the page shows
  // Keys and prefixes in which a plus may be a blank; as they are if it is none. Read as blanks.
  std::vector<std::string> doubtful;
};

struct ListedUpload {
  std::string key;
  std::string upload_id;
  double initiated = 0;  // seconds since 1970; 0: the store does not say, or it cannot be read
};

// A page of ListMultipartUploads.
struct UploadPage {
  std::vector<ListedUpload> uploads;
  std::vector<std::string> doubtful;  // as of ObjectPage
  // Key and upload id to go on from; none: the last page.
  std::optional<std::pair<std::string, std::string>> next_markers;
};

// An object that DeleteObjects did not remove.
struct NotDeleted {
  std::string key;  // empty: the store does not say which
  std::string code;
  std::string message;
};

// Whether a document's root is the one that is expected. Some stores say "ListPartsResponse" where
// AWS says "ListPartsResult", or name a root after its call: "ListObjectsV2Result".
bool is_same_root(std::string_view root, std::string_view expected) noexcept;

Result<ObjectPage> parse_object_page(std::string_view document, Plus plus = Plus::kUnknown);
Result<UploadPage> parse_upload_page(std::string_view document, Plus plus = Plus::kUnknown);
Result<std::vector<NotDeleted>> parse_delete_result(std::string_view document);
// The id of a new upload, which is not empty.
Result<std::string> parse_upload_id(std::string_view document);
// The bare etag in a document with that root; empty where there is none.
Result<std::string> parse_etag(std::string_view document, std::string_view root);

// An etag without quotes and without the mark of a weak one: stores differ in quoting, and a proxy
// may make an etag weak.
std::string_view bare_etag(std::string_view text) noexcept;

// What DeleteObjects is sent. Quiet: the answer is to name only what was not removed.
std::string delete_document(const std::vector<std::string>& keys, bool quiet);

}  // namespace hflush::s3
