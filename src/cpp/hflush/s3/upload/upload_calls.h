// UploadCalls: the calls that an upload is made of, as S3 wants them. Pure.
//
// A condition goes with the call that publishes (Complete, PutObject) and no other; the attributes
// of the object with Create or PutObject; keys of SSE-C with every request in which S3 takes them.
// Checksums are sent only if the store has said that it knows them: others may lose an upload at
// its last step. A store to which Create declares them, and that says nothing, is asked again
// without: it may have noted them, and then takes no part without a sum. Complete, Create and a
// PutObject with a condition have a connection of their own, because libcurl repeats a request that
// a dead connection may have delivered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/block_upload.h"
#include "hflush/s3/upload/part_store.h"

namespace hflush::s3 {

// The checksums that a store keeps: those which it has echoed to Create.
struct Checksums {
  bool of_parts = false;        // a CRC32C of each part
  bool of_full_object = false;  // and of the whole
};

// The object of an upload that was begun before.
struct BegunObject {
  BegunUpload upload;
  std::string token;  // x-amz-meta-hflush-token, which Create was given
  Checksums checksums;
};

struct ObjectOptions {
  std::string bucket;
  std::string key;
  std::string path;                      // for messages; empty: "s3://bucket/key"
  std::vector<env::HttpHeader> headers;  // of the object: Content-Type, x-amz-meta-*, storage
                                         // class, ACL, SSE: on Create and PutObject
  std::vector<env::HttpHeader> request_headers;         // repeated on every request of the upload
  std::uint64_t block_bytes = std::uint64_t{8} << 20U;  // fs.s3a.multipart.size; rounded up to
                                                        // whole chunks of 64 KiB
  bool uniform_parts = false;
  std::uint32_t max_parts = PartSizes::kMaxParts;
  std::size_t active_blocks = 4;  // fs.s3a.fast.upload.active.blocks
  Buffering buffering = Buffering::kAdaptive;
  std::vector<std::string> buffer_directories;  // the first in which a file can be made
  std::uint64_t memory_bytes = 0;               // 0: as active_blocks needs (upload_target.h)
  bool references = true;  // a caller's memory that stays is sent from where it lies
  Condition condition;
  bool delayed = false;
  bool verify_encryption = true;          // of what `headers` and `request_headers` ask for
  std::optional<BegunObject> begun = {};  // Requires: check_begun() is fine
};

// How the encryption that an answer reports differs from the one that was asked for; empty: not at
// all. Names of KMS keys are compared where they can be: an alias is answered with the key's.
std::string encryption_difference(const std::vector<env::HttpHeader>& asked,
                                  const env::HttpHead& answered);

// Whether an answer reports encryption. Some stores, such as MinIO, report that of parts, but not
// that of Create.
bool tells_encryption(const env::HttpHead& answered) noexcept;

// Without the weak mark that a proxy has put in front: the store does not know it.
std::string_view strong_etag(std::string_view etag) noexcept;

// Bytes of all parts.
std::uint64_t total_size(const std::vector<PartReceipt>& parts) noexcept;

// Bytes in memory, with their MD5 if that is wanted and this system has one. Their SHA-256 is left
// to the client.
PartBody body_of(std::string bytes, bool with_md5);

class UploadCalls {
 public:
  static constexpr std::string_view kTokenHeader = "x-amz-meta-hflush-token";
  static constexpr int kBackgroundRetries = 3;  // cleaning up is worth a few attempts

  // `settings` and `options` outlive it. `token` tells the object from all others (empty: it needs
  // none, since it is not looked for); `stream` is Call::stream.
  UploadCalls(const Settings& settings, const ObjectOptions& options, std::string token,
              std::uint64_t stream);

  const std::string& token() const noexcept { return token_; }
  const ObjectOptions& options() const noexcept { return options_; }

  // With the checksums that the settings want, or those.
  Call create() const { return create({settings_.checksums, settings_.checksums}); }
  Call create(Checksums wanted) const;
  Checksums checksums(const env::HttpHead& created) const;
  // The id of an upload whose Create has declared checksums that the answer does not repeat: the
  // server is to do without kDeclaredChecksums, and another upload takes its place. Else empty.
  std::string unechoed_upload(const CallResult& created) const;
  Call upload_part(const std::string& upload_id, std::uint32_t number, PartBody body,
                   Checksums checksums) const;
  // The same of bytes in memory, with their MD5 where the store keeps no checksums of parts; with
  // their CRC32C where it does, or this system has no MD5.
  Call upload_part(const std::string& upload_id, std::uint32_t number, std::string bytes,
                   bool checksums) const;
  // `crc32c`: of all bytes, of which there are `size`.
  Call complete(const std::string& upload_id, const std::vector<PartReceipt>& parts,
                std::uint64_t size, std::uint32_t crc32c, Checksums checksums) const;
  Call put_object(PartBody body) const;
  Call head_object() const;
  // Whether the object that was looked at is this one: token and length.
  bool is_ours(const env::HttpHead& head, std::uint64_t size) const;
  Call list_parts(const std::string& upload_id) const;
  // `retry_limit`: none for that of the settings.
  Call abort(const std::string& upload_id,
             std::optional<int> retry_limit = kBackgroundRetries) const;

  // What the answers to them say.
  Seen key_seen(const CallResult& head, std::uint64_t size) const;
  static UploadSeen upload_seen(const CallResult& list);
  static bool has_ended(const CallResult& abort);                 // or had before
  static std::string completed_etag(const CallResult& complete);  // empty where there is none

 private:
  Call call(std::string operation, std::string method) const;
  void add_object_headers(Call& call) const;
  void add_condition(Call& call) const;
  static void add_body(Call& call, PartBody body, bool with_crc);

  const Settings& settings_;
  const ObjectOptions& options_;
  const std::string token_;
  const std::uint64_t stream_;
};

}  // namespace hflush::s3
