// StoredObjects: what a store behind a ScriptedS3 keeps. It checks checksums, parts and conditions
// as a good one does, and is told by the test where to fail.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/binary_text.h"
#include "hflush/crc/checksum.h"
#include "hflush/crypto/digest.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/call/xml.h"
#include "s3/scripted_s3.h"

namespace hflush::s3::testing {

struct StoredObject {
  std::string body;
  Headers headers;  // of the request that began it
  std::string etag;
};

class StoredObjects {
 public:
  // Asked first; an answer is given instead of what the store would do. The server's threads call
  // it to the last: what it refers to has to outlive the server, not only the store.
  using Instead =
      std::function<std::optional<Answer>(const std::string& operation, const Request&)>;

  // What it echoes of what Create asks for.
  enum class Knows : std::uint8_t { kNoChecksums, kPartChecksums, kFullChecksums };

  explicit StoredObjects(Knows knows = Knows::kFullChecksums) : knows_(knows) {
    REQUIRE(crypto::load_digests().ok());
  }

  void set_instead(Instead instead) {
    const MutexLock lock(mutex_);
    instead_ = std::move(instead);
  }
  // What is done, but answered with this.
  void set_lost(Instead lost) {
    const MutexLock lock(mutex_);
    lost_ = std::move(lost);
  }
  void put(const std::string& path, const std::string& body) {
    const MutexLock lock(mutex_);
    objects_[path] = {body, {}, etag_of(body)};
  }
  std::optional<StoredObject> object(const std::string& path) {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(path);
    return found == objects_.end() ? std::nullopt : std::optional(found->second);
  }
  std::size_t uploads() {
    const MutexLock lock(mutex_);
    return uploads_.size();
  }

  static std::string operation_of(const Request& request) {
    if (request.method == "POST") return request.asks("uploads") ? "Create" : "Complete";
    if (request.method == "PUT") return request.asks("partNumber") ? "Part" : "Put";
    if (request.method == "DELETE") return "Abort";
    return request.method == "HEAD" ? "Head" : "List";
  }

  Answer operator()(const Request& request) {
    const std::string operation = operation_of(request);
    Instead instead;
    Instead lost;
    {
      const MutexLock lock(mutex_);
      instead = instead_;
      lost = lost_;
    }
    if (instead) {
      if (std::optional<Answer> answer = instead(operation, request)) return *std::move(answer);
    }
    Answer answer = execute(operation, request);
    if (lost) {
      if (std::optional<Answer> other = lost(operation, request)) return *std::move(other);
    }
    return answer;
  }

 private:
  struct Part {
    std::string body;
    std::string etag;
    std::string crc32c;  // that came with it
  };
  struct Upload {
    std::string path;
    Headers headers;
    std::map<std::uint32_t, Part> parts;
  };

  static std::string etag_of(const std::string& body) {
    return '"' + to_hex(crypto::md5(as_bytes(body))) + '"';
  }

  static std::optional<Answer> check_body(const Request& request) {
    const ByteView body = as_bytes(request.body);
    const std::string crc = request.header("x-amz-checksum-crc32c");  // Complete: of the object
    if (request.method == "PUT" && !crc.empty() &&
        crc != crc_header(crc::extend(crc::Kind::kCrc32c, 0, body))) {
      return Answer::error(400, "BadDigest");
    }
    const std::string digest = request.header("content-md5");
    if (!digest.empty() && digest != to_base64(crypto::md5(body)))
      return Answer::error(400, "BadDigest");
    const std::string sha = request.header("x-amz-content-sha256");
    if (sha != "UNSIGNED-PAYLOAD" && sha != to_hex(crypto::sha256(body))) {
      return Answer::error(400, "XAmzContentSHA256Mismatch");
    }
    return std::nullopt;
  }

  std::optional<Answer> check_condition_locked(const Request& request) const
      HFLUSH_REQUIRES(mutex_) {
    const auto found = objects_.find(request.path);
    const std::string match = request.header("if-match");
    const bool refused =
        (request.header("if-none-match") == "*" && found != objects_.end()) ||
        (!match.empty() && (found == objects_.end() || found->second.etag != match));
    if (refused) return Answer::error(412, "PreconditionFailed");
    return std::nullopt;
  }

  Answer execute(const std::string& operation, const Request& request) {
    if (std::optional<Answer> refused = check_body(request)) return *std::move(refused);
    const MutexLock lock(mutex_);
    if (operation == "Put") return put_locked(request);
    if (operation == "Create") return create_locked(request);
    if (operation == "Head") return head_locked(request);
    const auto upload = uploads_.find(request.query.at("uploadId"));
    if (upload == uploads_.end()) return Answer::error(404, "NoSuchUpload");
    if (operation == "Abort") {
      uploads_.erase(upload);
      return {.status = 204};
    }
    if (operation == "List") return {.body = "<ListPartsResult></ListPartsResult>"};
    if (operation == "Complete") return complete_locked(request, upload->second);
    const auto number = static_cast<std::uint32_t>(std::stoul(request.query.at("partNumber")));
    Part& part = upload->second.parts[number];
    part = {request.body, etag_of(request.body), request.header("x-amz-checksum-crc32c")};
    return {.headers = {{"ETag", part.etag}}};
  }

  Answer put_locked(const Request& request) HFLUSH_REQUIRES(mutex_) {
    if (std::optional<Answer> refused = check_condition_locked(request)) return *std::move(refused);
    objects_[request.path] = {request.body, request.headers, etag_of(request.body)};
    return {.headers = {{"ETag", etag_of(request.body)}, {"x-amz-version-id", "v1"}}};
  }

  Answer create_locked(const Request& request) HFLUSH_REQUIRES(mutex_) {
    // With what has to be escaped in a query.
    const std::string id = "2~up/load+" + std::to_string(++last_upload_) + "==";
    uploads_[id] = {request.path, request.headers, {}};
    Answer answer{.body = "<InitiateMultipartUploadResult><UploadId>" + id +
                          "</UploadId></InitiateMultipartUploadResult>"};
    if (knows_ != Knows::kNoChecksums) answer.headers["x-amz-checksum-algorithm"] = "CRC32C";
    if (knows_ == Knows::kFullChecksums) answer.headers["x-amz-checksum-type"] = "FULL_OBJECT";
    return answer;
  }

  Answer head_locked(const Request& request) const HFLUSH_REQUIRES(mutex_) {
    const auto found = objects_.find(request.path);
    if (found == objects_.end()) return {.status = 404, .headers = {{"x-amz-request-id", "1"}}};
    Answer answer{.headers = {{"ETag", found->second.etag},
                              {"Content-Length", std::to_string(found->second.body.size())}}};
    const auto token = found->second.headers.find("x-amz-meta-hflush-token");
    if (token != found->second.headers.end()) answer.headers[token->first] = token->second;
    return answer;
  }

  Answer complete_locked(const Request& request, const Upload& upload) HFLUSH_REQUIRES(mutex_) {
    if (std::optional<Answer> refused = check_condition_locked(request)) return *std::move(refused);
    const Result<XmlElement> list = parse_xml(request.body);
    if (!list.ok() || list->name != "CompleteMultipartUpload" || list->children.empty()) {
      return Answer::error(400, "MalformedXML");
    }
    StoredObject object{{}, upload.headers, {}};
    std::uint32_t number = 0;
    for (const XmlElement& listed : list->children) {
      const auto part = upload.parts.find(++number);
      if (part == upload.parts.end() || listed.value("PartNumber") != std::to_string(number) ||
          listed.value("ETag") != part->second.etag ||
          listed.value("ChecksumCRC32C") != part->second.crc32c) {
        return Answer::error(400, "InvalidPart");
      }
      object.body += part->second.body;
    }
    const std::string crc = request.header("x-amz-checksum-crc32c");
    const std::string size = request.header("x-amz-mp-object-size");
    if ((!crc.empty() &&
         crc != crc_header(crc::extend(crc::Kind::kCrc32c, 0, as_bytes(object.body)))) ||
        size != std::to_string(object.body.size())) {
      return Answer::error(400, "BadDigest");
    }
    object.etag =
        "\"" + to_hex(crypto::md5(as_bytes(object.body))) + "-" + std::to_string(number) + "\"";
    Answer answer{.headers = {{"x-amz-version-id", "v2"}},
                  .body = "<CompleteMultipartUploadResult><ETag>" + escape_xml(object.etag) +
                          "</ETag></CompleteMultipartUploadResult>"};
    const std::string path = upload.path;
    uploads_.erase(request.query.at("uploadId"));
    objects_[path] = std::move(object);
    return answer;
  }

  const Knows knows_;

  Mutex mutex_;
  Instead instead_ HFLUSH_GUARDED_BY(mutex_);
  Instead lost_ HFLUSH_GUARDED_BY(mutex_);
  std::map<std::string, StoredObject> objects_ HFLUSH_GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ HFLUSH_GUARDED_BY(mutex_);
  int last_upload_ HFLUSH_GUARDED_BY(mutex_) = 0;
};

}  // namespace hflush::s3::testing
