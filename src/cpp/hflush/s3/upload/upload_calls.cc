#include "hflush/s3/upload/upload_calls.h"

#include <algorithm>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/base/binary_text.h"
#include "hflush/crc/checksum.h"
#include "hflush/crypto/digest.h"
#include "hflush/s3/call/documents.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/call/xml.h"

namespace hflush::s3 {
namespace {

constexpr std::string_view kNamespace = "http://s3.amazonaws.com/doc/2006-03-01/";
constexpr std::string_view kAlgorithm = "x-amz-checksum-algorithm";
constexpr std::string_view kEncryption = "x-amz-server-side-encryption";
constexpr std::string_view kKmsKey = "x-amz-server-side-encryption-aws-kms-key-id";
// Answered as they were sent.
constexpr std::string_view kEchoed[] = {
    kEncryption,
    kKmsKey,
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key-md5",
};

// The store has refused, for good, to say what was asked, or it is not clear who says what.
bool is_hidden(const CallResult& look) {
  return look.failure->kind == FailureKind::kFinal && look.failure->http_status != 0;
}

// Of an upload that is looked at or aborted; not of a bucket, and not what a proxy says.
bool is_gone(const CallResult& result) {
  return result.failure && result.failure->http_status == 404 &&
         (result.failure->code == "NoSuchUpload" || result.failure->code == "NoSuchKey");
}

// A key's id is answered by its ARN, if at all.
bool is_same_kms_key(std::string_view asked, std::string_view answered) noexcept {
  if (answered.empty() || asked == answered) return true;
  if (asked.starts_with("alias/") || asked.find(":alias/") != std::string_view::npos) return true;
  if (!answered.ends_with(asked) || asked.starts_with("arn:")) return false;
  const char before = answered[answered.size() - asked.size() - 1];
  return before == '/' || before == ':';
}

}  // namespace

std::string encryption_difference(const std::vector<env::HttpHeader>& asked,
                                  const env::HttpHead& answered) {
  for (const env::HttpHeader& header : asked) {
    const std::string name = to_lower(header.name);
    if (std::ranges::find(kEchoed, name) == std::end(kEchoed)) continue;
    const std::string_view answer = answered.header(name);
    const bool is_same = name == kKmsKey ? is_same_kms_key(header.value, answer)
                                         : equals_ignoring_case(header.value, answer);
    if (is_same) continue;
    return "encryption is not what was asked for: " + name + " is " +
           (answer.empty() ? "not answered" : "'" + std::string(answer) + "'") + " instead of '" +
           header.value + "'. Does this store encrypt? (hflush.s3.encryption.verify)";
  }
  return {};
}

bool tells_encryption(const env::HttpHead& answered) noexcept {
  return std::ranges::any_of(answered.headers, [](const env::HttpHeader& header) {
    return header.name.starts_with(kEncryption);
  });
}

std::string_view strong_etag(std::string_view etag) noexcept {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  return etag;
}

std::uint64_t total_size(const std::vector<PartReceipt>& parts) noexcept {
  std::uint64_t size = 0;
  for (const PartReceipt& part : parts) size += part.size;
  return size;
}

PartBody body_of(std::string bytes, bool with_md5) {
  PartBody body;
  const ByteView view = as_bytes(bytes);
  body.size = bytes.size();
  body.crc32c = crc::extend(crc::Kind::kCrc32c, 0, view);
  if (with_md5 && crypto::load_md5().ok()) body.md5 = to_base64(crypto::md5(view));
  body.body = env::text_body(std::move(bytes));
  return body;
}

UploadCalls::UploadCalls(const Settings& settings, const ObjectOptions& options, std::string token,
                         std::uint64_t stream)
    : settings_(settings), options_(options), token_(std::move(token)), stream_(stream) {}

Call UploadCalls::call(std::string operation, std::string method) const {
  Call call;
  call.operation = std::move(operation);
  call.method = std::move(method);
  call.bucket = options_.bucket;
  call.key = options_.key;
  call.headers = options_.request_headers;
  call.stream = stream_;
  return call;
}

void UploadCalls::add_object_headers(Call& call) const {
  call.headers.insert(call.headers.end(), options_.headers.begin(), options_.headers.end());
  const bool has_type = std::ranges::any_of(options_.headers, [](const env::HttpHeader& header) {
    return equals_ignoring_case(header.name, "content-type");
  });
  if (!has_type) call.headers.push_back({"Content-Type", "application/octet-stream"});
  if (!token_.empty()) call.headers.push_back({std::string(kTokenHeader), token_});
}

void UploadCalls::add_condition(Call& call) const {
  const Condition& condition = options_.condition;
  if (condition.if_absent) call.headers.push_back({"If-None-Match", "*"});
  if (!condition.if_match.empty()) call.headers.push_back({"If-Match", condition.if_match});
}

void UploadCalls::add_body(Call& call, PartBody body, bool with_crc) {
  if (with_crc) call.headers.push_back({"x-amz-checksum-crc32c", crc_header(body.crc32c)});
  if (!body.md5.empty()) call.headers.push_back({"Content-MD5", std::move(body.md5)});
  call.body_sha256 = std::move(body.sha256);
  call.body = std::move(body.body);
  call.is_upload = true;
  call.expect = Expect::kETag;
}

Call UploadCalls::create(Checksums wanted) const {
  Call create = call("CreateMultipartUpload", "POST");
  create.query = {{"uploads", ""}};
  add_object_headers(create);
  if (wanted.of_parts) create.headers.push_back({std::string(kAlgorithm), "CRC32C"});
  if (wanted.of_full_object) create.headers.push_back({"x-amz-checksum-type", "FULL_OBJECT"});
  create.fresh_connection = true;
  create.expect = Expect::kRoot;
  create.root = "InitiateMultipartUploadResult";
  return create;
}

Checksums UploadCalls::checksums(const env::HttpHead& created) const {
  Checksums known;
  known.of_parts =
      settings_.checksums && equals_ignoring_case(created.header(kAlgorithm), "crc32c");
  known.of_full_object =
      known.of_parts && equals_ignoring_case(created.header("x-amz-checksum-type"), "full_object");
  return known;
}

std::string UploadCalls::unechoed_upload(const CallResult& created) const {
  const bool declares = std::ranges::any_of(
      created.sent, [](const env::HttpHeader& header) { return header.name == kAlgorithm; });
  if (!declares || created.failure || checksums(created.head).of_parts || settings_.is_aws()) {
    return {};
  }
  const Result<std::string> id = parse_upload_id(created.body);
  return id.ok() ? *id : std::string();
}

Call UploadCalls::upload_part(const std::string& upload_id, std::uint32_t number, PartBody body,
                              Checksums checksums) const {
  Call upload = call("UploadPart", "PUT");
  upload.query = {{"partNumber", std::to_string(number)}, {"uploadId", upload_id}};
  add_body(upload, std::move(body), checksums.of_parts);
  return upload;
}

Call UploadCalls::upload_part(const std::string& upload_id, std::uint32_t number, std::string bytes,
                              bool checksums) const {
  PartBody body = body_of(std::move(bytes), !checksums);
  const bool with_crc = body.md5.empty();
  return upload_part(upload_id, number, std::move(body), {with_crc, false});
}

Call UploadCalls::complete(const std::string& upload_id, const std::vector<PartReceipt>& parts,
                           std::uint64_t size, std::uint32_t crc32c, Checksums checksums) const {
  std::string list = "<CompleteMultipartUpload xmlns=\"" + std::string(kNamespace) + "\">";
  for (const PartReceipt& part : parts) {
    list += "<Part><PartNumber>" + std::to_string(part.number) + "</PartNumber><ETag>" +
            escape_xml(part.etag) + "</ETag>";
    if (checksums.of_parts) {
      list += "<ChecksumCRC32C>" + crc_header(part.crc32c) + "</ChecksumCRC32C>";
    }
    list += "</Part>";
  }
  list += "</CompleteMultipartUpload>";

  Call complete = call("CompleteMultipartUpload", "POST");
  complete.query = {{"uploadId", upload_id}};
  complete.headers.push_back({"Content-Type", "application/xml"});
  complete.headers.push_back({"x-amz-mp-object-size", std::to_string(size)});
  if (checksums.of_full_object && size != 0) {  // MinIO finds that of no bytes to be another
    complete.headers.push_back({"x-amz-checksum-crc32c", crc_header(crc32c)});
    complete.headers.push_back({"x-amz-checksum-type", "FULL_OBJECT"});
  }
  add_condition(complete);
  complete.body = env::text_body(std::move(list));
  complete.repeat = Repeat::kNotTwice;
  complete.fresh_connection = true;
  complete.stall_timeout = settings_.complete_timeout;
  complete.expect = Expect::kRoot;
  complete.root = "CompleteMultipartUploadResult";
  return complete;
}

Call UploadCalls::put_object(PartBody body) const {
  Call put = call("PutObject", "PUT");
  add_object_headers(put);
  add_condition(put);
  const bool is_marker = put.key.ends_with('/') && body.size == 0;
  add_body(put, std::move(body), settings_.checksums);
  if (is_marker) put.expect = Expect::kNoBody;
  put.urgent = true;
  if (options_.condition.any()) {
    put.repeat = Repeat::kConditional;
    put.fresh_connection = true;
  }
  return put;
}

Call UploadCalls::head_object() const {
  Call head = call("HeadObject", "HEAD");
  head.guesses_expiry = true;
  head.expect = Expect::kHead;
  return head;
}

bool UploadCalls::is_ours(const env::HttpHead& head, std::uint64_t size) const {
  const std::string_view length = head.header("content-length");  // some leave out that of nothing
  return !token_.empty() && head.header(kTokenHeader) == token_ &&
         (length.empty() || length == std::to_string(size));
}

Call UploadCalls::list_parts(const std::string& upload_id) const {
  Call list = call("ListParts", "GET");
  list.query = {{"max-parts", "1"}, {"uploadId", upload_id}};
  list.expect = Expect::kRoot;
  list.root = "ListPartsResult";
  return list;
}

Call UploadCalls::abort(const std::string& upload_id, std::optional<int> retry_limit) const {
  Call abort = call("AbortMultipartUpload", "DELETE");
  std::erase_if(abort.headers, [](const env::HttpHeader& header) {
    return header.name.starts_with("x-amz-server-side-encryption");
  });
  abort.query = {{"uploadId", upload_id}};
  abort.retry_limit = retry_limit;
  abort.expect = Expect::kNoBody;
  return abort;
}

Seen UploadCalls::key_seen(const CallResult& head, std::uint64_t size) const {
  if (!head.failure) {
    const bool is_this = is_ours(head.head, size);
    return {is_this ? Seen::What::kOurs : Seen::What::kAnother,
            std::string(head.head.header("etag")),
            {}};
  }
  const bool is_absent = head.failure->http_status == 404 && head.failure->is_of_store;
  if (is_absent) return {Seen::What::kNothing, "", {}};
  return {is_hidden(head) ? Seen::What::kHidden : Seen::What::kCannotTell, "", head.status};
}

UploadSeen UploadCalls::upload_seen(const CallResult& list) {
  if (!list.failure) return UploadSeen::kThere;
  if (is_gone(list)) return UploadSeen::kGone;
  return is_hidden(list) ? UploadSeen::kHidden : UploadSeen::kCannotTell;
}

bool UploadCalls::has_ended(const CallResult& abort) { return !abort.failure || is_gone(abort); }

std::string UploadCalls::completed_etag(const CallResult& complete) {
  const Result<XmlElement> document = parse_xml(complete.body);
  return document.ok() ? std::string(document->value("ETag")) : std::string();
}

}  // namespace hflush::s3
