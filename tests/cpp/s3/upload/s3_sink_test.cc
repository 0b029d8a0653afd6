// The sink below a real output stream, over HTTP, against a store that does what the test says.
#include "hflush/s3/upload/s3_sink.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hflush/env/process.h"
#include "hflush/s3/upload/upload_shell.h"
#include "hflush/stream/output_stream.h"
#include "s3/stored_objects.h"
#include "testing/bytes.h"
#include "testing/patience.h"

namespace hflush::s3 {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using hflush::testing::kPatience;
using hflush::testing::pattern;
using stream::OutputStream;
using testing::Answer;
using testing::Gate;
using testing::Request;
using testing::ScriptedS3;
using testing::StoredObjects;
using Knows = StoredObjects::Knows;

constexpr std::size_t kBlock = 64U << 10U;
const std::string kPath = "/bucket/a key+é";

// Gives up when the test says so.
class Impatient final : public env::Interrupt {
 public:
  std::atomic<bool> enough{false};

 private:
  Status check() override {
    return enough ? Status(StatusCode::kInterrupted, "interrupted") : Status();
  }
};

// A stream of an object, and what remains of it.
struct Opened {
  std::unique_ptr<OutputStream> stream;
  std::shared_ptr<S3Upload> upload;

  Status write(ByteView data) const {
    env::Uninterrupted none;
    return stream->write(data, none);
  }
  Status close() const {
    env::Uninterrupted none;
    return stream->close(none);
  }
  Status wait_cleaned_up(env::Duration timeout = kPatience) const {
    env::Uninterrupted none;
    return upload->wait_cleaned_up(timeout, none);
  }
};

class Bucket {
 public:
  explicit Bucket(Knows knows = Knows::kFullChecksums) : store(knows) {
    settings = testing::loopback_settings(server.port());
    settings.retry.limit = 2;
    settings.retry.throttle_limit = 2;
    options.bucket = "bucket";
    options.key = "a key+é";
    options.block_bytes = kBlock;
    options.verify_encryption = false;  // of which this store says nothing
  }

  Opened open() {
    if (client_ == nullptr) {
      auto made = Client::make(
          settings, std::make_shared<CredentialStore>(Credentials{"AKID", "SECRET", "TOKEN"}));
      REQUIRE_MESSAGE(made.ok(), made.status().to_string());
      client_ = *made;
    }
    auto sink = std::make_unique<S3Sink>(client_, options);
    auto upload = sink->upload();
    return {std::make_unique<OutputStream>("s3://bucket/a key", std::move(sink),
                                           env::Process::current().buffers(), env::steady_clock()),
            std::move(upload)};
  }

  std::vector<std::string> operations() {
    std::vector<std::string> names;
    for (const Request& request : server.requests()) {
      names.push_back(StoredObjects::operation_of(request));
    }
    return names;
  }
  std::size_t count(const std::string& operation) {
    const auto all = operations();
    return static_cast<std::size_t>(std::ranges::count(all, operation));
  }
  Request request(const std::string& operation) {
    for (const Request& request : server.requests()) {
      if (StoredObjects::operation_of(request) == operation) return request;
    }
    FAIL("no such request: ", operation);
    return {};
  }
  void fail(const std::string& operation, const Answer& answer) {
    store.set_instead([=](const std::string& asked, const Request&) {
      return asked == operation ? std::optional(answer) : std::nullopt;
    });
  }
  void lose(const std::string& operation, const Answer& answer) {
    store.set_lost([=](const std::string& asked, const Request&) {
      return asked == operation ? std::optional(answer) : std::nullopt;
    });
  }
  bool holds(ByteView data) {
    const auto object = store.object(kPath);
    return object && object->body == as_text(data);
  }

  Settings settings;
  ObjectOptions options;
  StoredObjects store;
  ScriptedS3 server{[this](const Request& request) { return store(request); }};

 private:
  std::shared_ptr<Client> client_;
};

TEST_CASE("geometry: what a stream relies on, whatever the options") {
  ObjectOptions usual;
  const stream::Geometry geometry = upload_geometry(usual);
  CHECK(geometry.packet_bytes == 256U << 10U);
  CHECK(geometry.batch_bytes == 1U << 20U);
  CHECK(geometry.block_bytes == 8U << 20U);
  CHECK(geometry.window_bytes == 4U << 20U);
  CHECK(upload_window(usual, part_sizes(usual)) == 28U << 20U);  // three and a half blocks
  for (const std::uint64_t block : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5'000'001},
                                    std::uint64_t{8} << 20U, std::uint64_t{6} << 30U, UINT64_MAX}) {
    for (const std::uint64_t memory :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{9} << 20U}) {
      for (const std::size_t active : {0U, 1U, 4U}) {
        for (const Buffering buffering :
             {Buffering::kMemory, Buffering::kDisk, Buffering::kAdaptive}) {
          ObjectOptions options;
          options.block_bytes = block;
          options.memory_bytes = memory;
          options.active_blocks = active;
          options.buffering = buffering;
          const stream::Geometry sizes = upload_geometry(options);
          CHECK(sizes.valid());
          CHECK(sizes.block_bytes >= std::min(block, PartSizes::kMaxPart));
          CHECK(sizes.block_bytes <= PartSizes::kMaxPart);
          if (buffering == Buffering::kMemory) {
            const PartSizes parts = part_sizes(options);
            CHECK(upload_window(options, parts) >= 2 * parts.size(parts.max_parts()));
          }
          CHECK(sizes.window_bytes <= upload_window(options, part_sizes(options)));
        }
      }
    }
  }
}

TEST_CASE("what fits into one block is one PUT") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock - 1}) {
    CAPTURE(size);
    Bucket bucket;
    bucket.options.headers = {{"x-amz-meta-a", "b"}, {"content-type", "text/plain"}};
    bucket.options.request_headers = {
        {"x-amz-server-side-encryption-customer-algorithm", "AES256"}};
    const auto data = pattern(size);
    const Opened opened = bucket.open();
    REQUIRE(opened.write(data).ok());
    CHECK(opened.close().to_string() == "ok");
    CHECK(bucket.operations() == std::vector<std::string>{"Put"});
    CHECK(bucket.holds(data));

    const UploadOutcome outcome = opened.upload->outcome();
    CHECK(outcome.state == UploadState::kPublished);
    CHECK(outcome.etag == bucket.store.object(kPath)->etag);
    CHECK(outcome.version_id == "v1");
    CHECK(outcome.size == size);
    CHECK(outcome.upload_id.empty());
    CHECK(outcome.crc32c == crc::extend(crc::Kind::kCrc32c, 0, data));
    CHECK(outcome.cleaned_up);
    CHECK(outcome.token.size() == 32);

    const Request put = bucket.request("Put");
    CHECK(put.header("x-amz-meta-hflush-token") == outcome.token);
    CHECK(put.header("x-amz-meta-a") == "b");
    CHECK(put.header("content-type") == "text/plain");
    CHECK(put.header("x-amz-server-side-encryption-customer-algorithm") == "AES256");
    CHECK(put.header("x-amz-checksum-crc32c") ==
          crc_header(crc::extend(crc::Kind::kCrc32c, 0, data)));
    CHECK(put.header("if-none-match").empty());
  }
}

TEST_CASE("two objects have two tokens") {
  Bucket bucket;
  CHECK(bucket.open().upload->outcome().token != bucket.open().upload->outcome().token);
}

TEST_CASE("more is parts, in order and complete, on connections of its own where that matters") {
  for (const std::size_t size : {kBlock, 2 * kBlock, 7 * kBlock + 1, 20 * kBlock}) {
    for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk, Buffering::kAdaptive}) {
      CAPTURE(size);
      CAPTURE(static_cast<int>(buffering));
      Bucket bucket;
      bucket.options.buffering = buffering;
      bucket.options.headers = {{"x-amz-storage-class", "STANDARD_IA"}};
      bucket.options.request_headers = {
          {"x-amz-server-side-encryption-customer-algorithm", "AES256"}};
      const auto data = pattern(size);
      const Opened opened = bucket.open();
      for (std::size_t at = 0; at < size; at += 50'000) {
        REQUIRE(opened.write(ByteView(data).subspan(at, std::min<std::size_t>(50'000, size - at)))
                    .ok());
      }
      CHECK(opened.close().to_string() == "ok");
      CHECK(bucket.holds(data));
      CHECK(bucket.store.uploads() == 0);

      const std::size_t parts = (size + kBlock - 1) / kBlock;
      CHECK(bucket.count("Create") == 1);
      CHECK(bucket.count("Part") == parts);
      CHECK(bucket.count("Complete") == 1);
      CHECK(bucket.operations().size() == parts + 2);

      const UploadOutcome outcome = opened.upload->outcome();
      CHECK(outcome.state == UploadState::kPublished);
      CHECK(outcome.etag == bucket.store.object(kPath)->etag);
      CHECK(outcome.version_id == "v2");
      CHECK(outcome.upload_id == "2~up/load+1==");
      CHECK(outcome.has_checksums);
      CHECK(outcome.full_object_checksum);

      const Request create = bucket.request("Create");
      CHECK(create.header("x-amz-meta-hflush-token") == outcome.token);
      CHECK(create.header("x-amz-checksum-algorithm") == "CRC32C");
      CHECK(create.header("x-amz-checksum-type") == "FULL_OBJECT");
      CHECK(create.header("x-amz-storage-class") == "STANDARD_IA");
      CHECK(create.header("content-type") == "application/octet-stream");
      const Request complete = bucket.request("Complete");
      CHECK(complete.header("x-amz-mp-object-size") == std::to_string(size));
      CHECK(complete.header("x-amz-checksum-type") == "FULL_OBJECT");
      CHECK(complete.header("x-amz-checksum-crc32c") == crc_header(outcome.crc32c));
      CHECK(complete.header("x-amz-storage-class").empty());
      for (const Request& request : bucket.server.requests()) {
        CHECK(request.header("x-amz-server-side-encryption-customer-algorithm") == "AES256");
        if (StoredObjects::operation_of(request) != "Part") continue;
        CHECK(!request.header("x-amz-checksum-crc32c").empty());
        CHECK(request.connection != complete.connection);
      }
      CHECK(create.connection != complete.connection);
    }
  }
}

TEST_CASE("a store is asked for no more checksums than it knows") {
  for (const Knows knows : {Knows::kNoChecksums, Knows::kPartChecksums}) {
    Bucket bucket(knows);
    const auto data = pattern(3 * kBlock);
    const Opened opened = bucket.open();
    REQUIRE(opened.write(data).ok());
    CHECK(opened.close().to_string() == "ok");
    CHECK(bucket.holds(data));
    const bool has_checksums = knows == Knows::kPartChecksums;
    CHECK(opened.upload->outcome().has_checksums == has_checksums);
    CHECK(!opened.upload->outcome().full_object_checksum);
    CHECK(bucket.request("Part").header("x-amz-checksum-crc32c").empty() != has_checksums);
    const Request complete = bucket.request("Complete");
    CHECK((complete.body.find("ChecksumCRC32C") != std::string::npos) == has_checksums);
    CHECK(complete.header("x-amz-checksum-crc32c").empty());
    CHECK(complete.header("x-amz-checksum-type").empty());
  }
  Bucket bucket;
  bucket.settings.checksums = false;
  const Opened opened = bucket.open();
  REQUIRE(opened.write(pattern(kBlock)).ok());
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.request("Create").header("x-amz-checksum-algorithm").empty());
  CHECK(bucket.request("Part").header("x-amz-checksum-crc32c").empty());
}

TEST_CASE("a store that does not repeat checksums is not asked for them again") {
  Bucket bucket(Knows::kNoChecksums);
  bucket.store.set_instead(
      [](const std::string& operation, const Request& request) -> std::optional<Answer> {
        const bool is_noted =
            request.query.contains("uploadId") && request.query.at("uploadId") == "2~up/load+1==";
        if (operation != "Part" || !is_noted) return std::nullopt;
        return Answer::error(400, "InvalidRequest");
      });
  const auto data = pattern(kBlock);
  for (int i = 0; i < 2; ++i) {
    const Opened opened = bucket.open();
    REQUIRE(opened.write(data).ok());
    CHECK(opened.close().to_string() == "ok");
    CHECK(bucket.holds(data));
  }
  CHECK(bucket.operations() == std::vector<std::string>{"Create", "Abort", "Create", "Part",
                                                        "Complete", "Create", "Part", "Complete"});
  const auto requests = bucket.server.requests();
  CHECK(std::ranges::count_if(requests, [](const Request& request) {
          return !request.header("x-amz-checksum-algorithm").empty() ||
                 !request.header("x-amz-checksum-type").empty();
        }) == 1);
  CHECK(bucket.store.uploads() == 0);
}

TEST_CASE("an upload with checksums that are not repeated goes on if it cannot be aborted") {
  Bucket bucket(Knows::kNoChecksums);
  bucket.fail("Abort", Answer::error(403, "AccessDenied"));
  const auto data = pattern(kBlock);
  const Opened opened = bucket.open();
  REQUIRE(opened.write(data).ok());
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.holds(data));
  CHECK(bucket.operations() == std::vector<std::string>{"Create", "Abort", "Part", "Complete"});
  CHECK(bucket.store.uploads() == 0);
}

TEST_CASE("blanks around the id of an upload are not part of it") {
  Bucket bucket;
  bucket.lose("Create", {.headers = {{"x-amz-checksum-algorithm", "CRC32C"},
                                     {"x-amz-checksum-type", "FULL_OBJECT"}},
                         .body = "<InitiateMultipartUploadResult>\n  <UploadId>\n    "
                                 "2~up/load+1==\n  </UploadId></InitiateMultipartUploadResult>"});
  const auto data = pattern(kBlock);
  const Opened opened = bucket.open();
  REQUIRE(opened.write(data).ok());
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.holds(data));
  CHECK(opened.upload->outcome().upload_id == "2~up/load+1==");
}

TEST_CASE("an upload without an id fails the stream, and is reported") {
  Bucket bucket;
  bucket.lose("Create", {.body = "<InitiateMultipartUploadResult/>"});
  const Opened opened = bucket.open();
  Status failure = opened.write(pattern(kBlock));
  if (failure.ok()) failure = opened.close();
  CHECK(failure.code() == StatusCode::kIo);
  CHECK(failure.message().find("<InitiateMultipartUploadResult> without <UploadId>") !=
        std::string::npos);
  CHECK(opened.upload->outcome().state == UploadState::kFailed);
  CHECK_FALSE(opened.upload->cleanup().ok());
  CHECK(bucket.count("Abort") == 0);
}

TEST_CASE("what the first of two Creates may have left is reported") {
  std::atomic<bool> is_first{true};
  Bucket bucket(Knows::kNoChecksums);
  bucket.store.set_lost([&](const std::string& operation, const Request&) {
    const bool is_lost = operation == "Create" && is_first.exchange(false);
    return is_lost ? std::optional(Answer::reset()) : std::nullopt;
  });
  const Opened opened = bucket.open();
  REQUIRE(opened.write(pattern(kBlock)).ok());
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.count("Create") == 3);
  CHECK_FALSE(opened.upload->outcome().cleanup.ok());
  CHECK(bucket.store.uploads() == 1);
}

TEST_CASE("a stream that ends before its upload has taken the place of another leaves neither") {
  Gate gate;
  Bucket bucket(Knows::kNoChecksums);
  bucket.store.set_instead(
      [&](const std::string& operation, const Request&) -> std::optional<Answer> {
        if (operation == "Abort") gate.pass();
        return std::nullopt;
      });
  Opened opened = bucket.open();
  REQUIRE(opened.write(pattern(kBlock)).ok());
  REQUIRE(gate.wait_for_waiting(1));
  opened.stream.reset();
  gate.open();
  CHECK(opened.wait_cleaned_up().ok());
  CHECK(opened.upload->outcome().state == UploadState::kAbandoned);
  CHECK(bucket.operations() == std::vector<std::string>{"Create", "Abort", "Abort"});
  CHECK(bucket.store.uploads() == 0);
}

TEST_CASE("payloads are signed and have their MD5 if asked for") {
  for (const std::size_t size : {std::size_t{100}, 3 * kBlock + 1}) {
    Bucket bucket;
    bucket.settings.payload_signing = PayloadSigning::kAlways;
    bucket.settings.content_md5 = true;
    const auto data = pattern(size);
    const Opened opened = bucket.open();
    REQUIRE(opened.write(data).ok());
    CHECK(opened.close().to_string() == "ok");
    CHECK(bucket.holds(data));
    const Request sent = bucket.request(size < kBlock ? "Put" : "Part");
    CHECK(sent.header("x-amz-content-sha256").size() == 64);  // the store has checked it
    CHECK(sent.header("content-md5").size() == 24);
  }
}

// --- failures

TEST_CASE("a part that fails fails the stream, and the upload is aborted") {
  for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk}) {
    Bucket bucket;
    bucket.options.buffering = buffering;
    bucket.store.put(kPath, "old");
    bucket.store.set_instead(
        [](const std::string& operation, const Request& request) -> std::optional<Answer> {
          if (operation != "Part" || request.query.at("partNumber") != "2") return std::nullopt;
          return Answer::error(403, "AccessDenied");
        });
    const Opened opened = bucket.open();
    Status failure;
    for (int i = 0; i < 100 && failure.ok(); ++i) failure = opened.write(pattern(kBlock));
    const Status closed = opened.close();
    if (failure.ok()) failure = closed;
    CHECK(failure.code() == StatusCode::kPermissionDenied);
    CHECK(failure.remote_class() == "AccessDenied");
    CHECK(failure.path() == "s3://bucket/a key+é");
    CHECK(failure.message().find("part 2 of 65536 bytes from offset 65536") != std::string::npos);
    CHECK(failure.message().find("2~up/load+1==") != std::string::npos);
    CHECK(opened.close().to_string() == "ok");
    CHECK(opened.wait_cleaned_up().ok());
    const UploadOutcome outcome = opened.upload->outcome();
    CHECK(outcome.state == UploadState::kFailed);
    CHECK(outcome.upload_id == "2~up/load+1==");
    CHECK(outcome.cleanup.ok());
    CHECK(bucket.store.uploads() == 0);
    CHECK(bucket.count("Complete") == 0);
    CHECK(bucket.store.object(kPath)->body == "old");
    env::Uninterrupted none;
    CHECK(wait_for_cleanups(kPatience, none).ok());
  }
}

TEST_CASE("what may pass is tried again with the same bytes") {
  std::atomic<int> refusals{0};
  Bucket bucket;
  bucket.store.set_instead([&](const std::string&, const Request&) -> std::optional<Answer> {
    switch (refusals++) {
      case 1:
      case 4:
        return Answer::reset();
      case 2:
        return Answer::error(503, "SlowDown");
      case 6:
        return Answer::error(400, "RequestTimeout");
      default:
        return std::nullopt;
    }
  });
  const auto data = pattern(5 * kBlock + 9);
  const Opened opened = bucket.open();
  REQUIRE(opened.write(data).ok());
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.holds(data));
  CHECK(refusals > 7);
}

TEST_CASE("an upload that cannot be made fails the stream") {
  Bucket bucket;
  bucket.fail("Create", Answer::error(404, "NoSuchBucket"));
  const Opened opened = bucket.open();
  Status failure = opened.write(pattern(kBlock));
  if (failure.ok()) failure = opened.close();
  CHECK(failure.code() == StatusCode::kNotFound);
  CHECK(failure.remote_class() == "NoSuchBucket");
  CHECK(failure.message().find("after 65536 bytes") != std::string::npos);
  CHECK(opened.upload->outcome().state == UploadState::kFailed);
  CHECK(bucket.count("Abort") == 0);
}

TEST_CASE("an abort is looked at where an attempt at a part was not answered") {
  std::atomic<bool> is_first{true};
  Bucket bucket;
  bucket.options.active_blocks = 1;
  bucket.store.set_instead(
      [&](const std::string& operation, const Request& request) -> std::optional<Answer> {
        if (operation != "Part") return std::nullopt;
        if (request.query.at("partNumber") != "1") return Answer::error(403, "AccessDenied");
        return is_first.exchange(false) ? std::optional(Answer::reset()) : std::nullopt;
      });
  const Opened opened = bucket.open();
  static_cast<void>(opened.write(pattern(3 * kBlock)));
  CHECK_FALSE(opened.close().ok());
  CHECK(opened.wait_cleaned_up().ok());
  CHECK(bucket.operations() ==
        std::vector<std::string>{"Create", "Part", "Part", "Part", "Abort", "List"});
  CHECK(bucket.store.uploads() == 0);
}

TEST_CASE("an abort that fails is told in the outcome") {
  Bucket bucket;
  bucket.store.set_instead(
      [](const std::string& operation, const Request&) -> std::optional<Answer> {
        if (operation == "Part") return Answer::error(403, "AccessDenied");
        if (operation == "Abort") return Answer::error(500, "InternalError");
        return std::nullopt;
      });
  const Opened opened = bucket.open();
  Status failure = opened.write(pattern(2 * kBlock));
  const Status closed = opened.close();
  if (failure.ok()) failure = closed;
  CHECK(failure.code() == StatusCode::kPermissionDenied);
  CHECK(opened.wait_cleaned_up().ok());
  const UploadOutcome outcome = opened.upload->outcome();
  CHECK(outcome.cleaned_up);
  CHECK(!outcome.cleanup.ok());
  CHECK(outcome.cleanup.message().find("2~up/load+1==") != std::string::npos);
  CHECK(bucket.store.uploads() == 1);
}

TEST_CASE("a publication without an answer is looked for") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    CAPTURE(size);
    Bucket bucket;
    bucket.options.condition.if_absent = true;
    bucket.lose(size < kBlock ? "Put" : "Complete", Answer::reset());
    const auto data = pattern(size);
    const Opened opened = bucket.open();
    REQUIRE(opened.write(data).ok());
    CHECK(opened.close().to_string() == "ok");
    CHECK(bucket.holds(data));
    CHECK(bucket.count("Head") == 1);
    CHECK(bucket.count("Complete") + bucket.count("Put") == 1);
    CHECK(opened.upload->outcome().state == UploadState::kPublished);
    CHECK(opened.upload->outcome().etag == bucket.store.object(kPath)->etag);
  }
}

TEST_CASE("what a store has published before it refuses is no object of others") {
  for (const char* const code : {"SlowDownWrite", "RequestTimeout", "ServiceUnavailable"}) {
    CAPTURE(code);
    std::atomic<bool> is_first{true};
    Bucket bucket;
    bucket.options.condition.if_absent = true;
    bucket.store.set_lost([&](const std::string& operation, const Request&) {
      const bool refuses = operation == "Put" && is_first.exchange(false);
      return refuses ? std::optional(Answer::error(503, code)) : std::nullopt;
    });
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(10)).ok());
    CHECK(opened.close().to_string() == "ok");
    CHECK(bucket.operations() == std::vector<std::string>{"Put", "Put", "Head"});
    CHECK(opened.upload->outcome().state == UploadState::kPublished);
  }
}

TEST_CASE("a publication that did not take place is asked for again, after a while") {
  std::atomic<int> completes{0};
  Bucket bucket;
  bucket.store.set_instead(
      [&](const std::string& operation, const Request&) -> std::optional<Answer> {
        if (operation != "Complete" || completes++ > 1) return std::nullopt;
        return Answer{};  // 200, and nothing else
      });
  const auto data = pattern(3 * kBlock);
  const Opened opened = bucket.open();
  REQUIRE(opened.write(data).ok());
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.holds(data));
  CHECK(bucket.count("Complete") == 3);
  CHECK(bucket.count("Head") == 2);
  CHECK(bucket.count("List") == 2);
}

TEST_CASE("a publication that never takes place fails, and the upload is aborted") {
  Bucket bucket;
  bucket.fail("Complete", Answer{});
  const Opened opened = bucket.open();
  REQUIRE(opened.write(pattern(2 * kBlock)).ok());
  const Status failure = opened.close();
  CHECK(failure.code() == StatusCode::kIo);
  CHECK(failure.message().find("2 parts of 131072 bytes") != std::string::npos);
  CHECK(opened.wait_cleaned_up().ok());
  CHECK(opened.upload->outcome().state == UploadState::kFailed);
  CHECK(bucket.store.uploads() == 0);
  CHECK(!bucket.store.object(kPath));
}

TEST_CASE("who may not look publishes all the same, and leaves no upload") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    for (const bool recovers : {true, false}) {
      CAPTURE(size);
      CAPTURE(recovers);
      const std::string publishing = size < kBlock ? "Put" : "Complete";
      std::atomic<int> asked{0};
      Bucket bucket;
      bucket.options.condition.if_absent = true;
      bucket.store.set_instead(
          [&](const std::string& operation, const Request&) -> std::optional<Answer> {
            if (operation == "Head") return Answer{.status = 403};
            if (operation == "List") return Answer::error(403, "AccessDenied");
            if (operation != publishing || (asked++ > 0 && recovers)) return std::nullopt;
            return Answer::error(500, "InternalError");
          });
      const Opened opened = bucket.open();
      REQUIRE(opened.write(pattern(size)).ok());
      CHECK(opened.close().ok() == recovers);
      CHECK(opened.wait_cleaned_up().ok());
      CHECK(opened.upload->outcome().state ==
            (recovers ? UploadState::kPublished : UploadState::kUnknown));
      CHECK(opened.upload->outcome().cleanup.ok());
      CHECK(bucket.store.uploads() == 0);
    }
  }
}

TEST_CASE("an object that must not be there is not replaced") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    Bucket bucket;
    bucket.store.put(kPath, "old");
    bucket.options.condition.if_absent = true;
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(size)).ok());
    const Status refused = opened.close();
    CHECK(refused.code() == StatusCode::kAlreadyExists);
    CHECK(refused.error_number() == EEXIST);
    CHECK(bucket.store.object(kPath)->body == "old");
    CHECK(opened.wait_cleaned_up().ok());
    CHECK(bucket.store.uploads() == 0);
    if (size < kBlock) continue;
    CHECK(bucket.request("Create").header("if-none-match").empty());
    CHECK(bucket.request("Part").header("if-none-match").empty());
    CHECK(bucket.request("Complete").header("if-none-match") == "*");
  }
}

TEST_CASE("an object is replaced only if it is the one that was meant") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    Bucket bucket;
    bucket.store.put(kPath, "old");
    bucket.options.condition.if_match = "\"another\"";
    const Opened refused = bucket.open();
    REQUIRE(refused.write(pattern(size)).ok());
    CHECK(refused.close().code() == StatusCode::kPreconditionFailed);
    CHECK(bucket.store.object(kPath)->body == "old");
    bucket.options.condition.if_match = bucket.store.object(kPath)->etag;
    const Opened accepted = bucket.open();
    REQUIRE(accepted.write(pattern(size)).ok());
    CHECK(accepted.close().ok());
    CHECK(bucket.holds(pattern(size)));
  }
}

TEST_CASE("a directory without room fails the stream") {
  Bucket bucket;
  bucket.options.buffering = Buffering::kDisk;
  bucket.options.buffer_directories = {"/dev/null"};
  const Opened opened = bucket.open();
  Status failure = opened.write(pattern(3 * kBlock));
  if (failure.ok()) failure = opened.close();
  CHECK(failure.code() == StatusCode::kIo);
  CHECK(failure.path() == "/dev/null");
  CHECK(bucket.operations().empty());
  CHECK(opened.upload->outcome().state == UploadState::kFailed);
}

// --- ends without publication

TEST_CASE("an abandoned upload waits for nobody, and is cleaned up behind") {
  for (const bool destroyed : {false, true}) {
    CAPTURE(destroyed);
    Gate gate;
    Bucket bucket;
    bucket.store.set_instead(
        [&](const std::string& operation, const Request&) -> std::optional<Answer> {
          if (operation == "Part") gate.pass();
          return std::nullopt;
        });
    Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(3 * kBlock)).ok());
    REQUIRE(gate.wait_for_waiting(3));
    if (destroyed) {
      opened.stream.reset();
    } else {
      stream::AbortResult result;
      CHECK(opened.stream->abort(result).ok());
      CHECK(!result.already_closed);
      CHECK(result.cleanup.ok());
      CHECK(opened.close().to_string() == "ok");
    }
    CHECK(opened.wait_cleaned_up().ok());  // cancelled parts need not be waited for
    CHECK(opened.upload->outcome().state == UploadState::kAbandoned);
    CHECK(bucket.count("Abort") >= 1);
    CHECK(bucket.count("Complete") == 0);
    env::Uninterrupted none;
    CHECK(wait_for_cleanups(kPatience, none).ok());
    gate.open();
    CHECK(!bucket.store.object(kPath));
  }
}

TEST_CASE("an upload that is being made when it is abandoned is aborted") {
  Gate gate;
  Bucket bucket;
  bucket.store.set_instead(
      [&](const std::string& operation, const Request&) -> std::optional<Answer> {
        if (operation == "Create") gate.pass();
        return std::nullopt;
      });
  Opened opened = bucket.open();
  REQUIRE(opened.write(pattern(2 * kBlock)).ok());
  REQUIRE(gate.wait_for_waiting(1));
  opened.stream.reset();
  CHECK(!opened.upload->outcome().cleaned_up);
  CHECK(opened.wait_cleaned_up(0s).code() == StatusCode::kTimedOut);
  env::Uninterrupted none;
  CHECK(wait_for_cleanups(0s, none).code() == StatusCode::kTimedOut);
  gate.open();
  CHECK(opened.wait_cleaned_up().ok());
  CHECK(wait_for_cleanups(kPatience, none).ok());
  CHECK(bucket.store.uploads() == 0);
  CHECK(bucket.count("Part") == 0);
}

TEST_CASE("a stream that is dropped before its first block asks for nothing") {
  Bucket bucket;
  Opened opened = bucket.open();
  REQUIRE(opened.write(pattern(kBlock - 1)).ok());
  opened.stream.reset();
  CHECK(opened.wait_cleaned_up().ok());
  CHECK(opened.upload->outcome().state == UploadState::kAbandoned);
  CHECK(bucket.operations().empty());
}

TEST_CASE("an interrupted close publishes nothing afterwards") {
  for (const std::string operation : {"Part", "Complete", "Put"}) {
    CAPTURE(operation);
    Gate gate;
    std::atomic<bool> is_held{true};
    Bucket bucket;
    bucket.store.set_instead(
        [&](const std::string& asked, const Request&) -> std::optional<Answer> {
          if (asked != operation || !is_held) return std::nullopt;
          gate.pass();
          return Answer::reset();
        });
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(operation == "Put" ? 10 : 2 * kBlock)).ok());
    Impatient impatient;
    std::thread interrupter([&] {
      static_cast<void>(gate.wait_for_waiting(1));
      impatient.enough = true;
    });
    const Status closed = opened.stream->close(impatient);
    interrupter.join();
    CHECK(closed.code() == StatusCode::kInterrupted);
    gate.open();
    CHECK(opened.wait_cleaned_up().ok());
    const UploadState state = opened.upload->outcome().state;
    CHECK((operation == "Put" ? state == UploadState::kUnknown : state == UploadState::kAbandoned));
    CHECK(!bucket.store.object(kPath));
    CHECK(bucket.store.uploads() == 0);
    CHECK(bucket.count("Put") + bucket.count("Complete") <= 1);
  }
}

TEST_CASE("close and abort at once: one of them wins") {
  Bucket bucket;
  const auto data = pattern(3 * kBlock);
  for (int i = 0; i < 50; ++i) {
    const Opened opened = bucket.open();
    REQUIRE(opened.write(data).ok());
    stream::AbortResult result;
    std::thread aborter([&] { CHECK(opened.stream->abort(result).ok()); });
    CHECK(opened.close().to_string() == "ok");
    aborter.join();
    CHECK(opened.wait_cleaned_up().ok());
    const UploadState state = opened.upload->outcome().state;
    CHECK(state == (result.already_closed ? UploadState::kPublished : UploadState::kAbandoned));
  }
  CHECK(bucket.store.uploads() == 0);
}

// --- delayed completion

TEST_CASE("a delayed stream hands its publication over, and nothing aborts it") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, 3 * kBlock + 5}) {
    CAPTURE(size);
    Bucket bucket;
    bucket.options.delayed = true;
    const auto data = pattern(size);
    Opened opened = bucket.open();
    CHECK(opened.stream->has_capability("fs.s3a.capability.magic.output.stream"));
    REQUIRE(opened.write(data).ok());
    CHECK(opened.close().to_string() == "ok");
    opened.stream.reset();
    CHECK(opened.wait_cleaned_up().ok());
    const UploadOutcome outcome = opened.upload->outcome();
    CHECK(outcome.state == UploadState::kPending);
    CHECK(outcome.upload_id == "2~up/load+1==");
    CHECK(outcome.crc32c == crc::extend(crc::Kind::kCrc32c, 0, data));
    REQUIRE(outcome.parts.size() == std::max<std::size_t>(1, (size + kBlock - 1) / kBlock));
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < outcome.parts.size(); ++i) {
      CHECK(outcome.parts[i].number == i + 1);
      CHECK(!outcome.parts[i].etag.empty());
      total += outcome.parts[i].size;
    }
    CHECK(total == size);
    CHECK(bucket.count("Complete") == 0);
    CHECK(bucket.count("Abort") == 0);
    CHECK(bucket.store.uploads() == 1);
    CHECK(!bucket.store.object(kPath));
  }
}

// --- capabilities, memory, numbers

TEST_CASE("capabilities") {
  Bucket bucket;
  const Opened opened = bucket.open();
  CHECK(opened.stream->has_capability("fs.capability.outputstream.abortable"));
  CHECK(opened.stream->has_capability("iostatistics"));
  for (const char* name : {"hsync", "hflush", "dropbehind", "in:readahead",
                           "fs.s3a.capability.magic.output.stream", ""}) {
    CHECK(!opened.stream->has_capability(name));
  }
  env::Uninterrupted none;
  CHECK(opened.stream->hsync(none).code() == StatusCode::kUnsupported);
  CHECK(opened.stream->hflush(none).code() == StatusCode::kUnsupported);
  REQUIRE(opened.write(pattern(100'000)).ok());
  CHECK(opened.stream->flush(none).ok());
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.holds(pattern(100'000)));
}

TEST_CASE("a writer waits when its budget is used up, and goes on when there is room") {
  for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk}) {
    CAPTURE(static_cast<int>(buffering));
    Gate gate;
    Bucket bucket;
    bucket.options.buffering = buffering;
    bucket.options.active_blocks = 2;
    bucket.options.memory_bytes = 40 * kBlock;
    bucket.store.set_instead(
        [&](const std::string& operation, const Request&) -> std::optional<Answer> {
          if (operation == "Part") gate.pass();
          return std::nullopt;
        });
    const Opened opened = bucket.open();
    const auto data = pattern(200 * kBlock);
    Impatient impatient;
    Status written;
    std::size_t done = 0;
    std::thread writer([&] {
      while (written.ok() && done < data.size()) {
        written = opened.stream->write(ByteView(data).subspan(done, kBlock), impatient);
        if (written.ok()) done += kBlock;
      }
    });
    REQUIRE(gate.wait_for_waiting(2));
    // On disk may lie what is uploading and one part more, and the window on top of that.
    const std::size_t bound = buffering == Buffering::kMemory ? 40 * kBlock : 44 * kBlock;
    const auto deadline = CondVar::Clock::now() + kPatience;
    while (opened.stream->position() < 40 * kBlock && CondVar::Clock::now() < deadline) {
      std::this_thread::yield();
    }
    impatient.enough = true;
    writer.join();
    CHECK(written.code() == StatusCode::kInterrupted);
    CHECK(done >= 40 * kBlock);
    CHECK(done <= bound);
    CHECK(bucket.count("Part") == 2);
    gate.open();
    REQUIRE(opened.write(ByteView(data).subspan(done)).ok());
    CHECK(opened.close().to_string() == "ok");
    CHECK(bucket.holds(data));
  }
}

TEST_CASE("a writer never waits for itself, however small the budget and large the write") {
  for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk, Buffering::kAdaptive}) {
    for (const std::size_t first : {0U, 1U, 900'000U, 1'500'000U}) {
      CAPTURE(static_cast<int>(buffering));
      CAPTURE(first);
      Bucket bucket;
      bucket.options.buffering = buffering;
      bucket.options.block_bytes = 3U << 19U;
      bucket.options.active_blocks = 1;
      bucket.options.memory_bytes = 1;
      const auto data = pattern(9'000'000);
      const Opened opened = bucket.open();
      REQUIRE(opened.write(ByteView(data).first(first)).ok());
      REQUIRE(opened.write(ByteView(data).subspan(first)).ok());
      CHECK(opened.close().to_string() == "ok");
      CHECK(bucket.holds(data));
    }
  }
}

TEST_CASE("a stream that has ended keeps no memory in the pool, however long it is kept") {
  constexpr std::size_t kLarge = std::size_t{8} << 20U;
  constexpr std::size_t kPoolKeeps = std::size_t{8} << 20U;  // without any reservation
  for (const bool closed : {true, false}) {
    CAPTURE(closed);
    Bucket bucket;
    bucket.options.block_bytes = kLarge;
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(3 * kLarge)).ok());
    if (closed) {
      CHECK(opened.close().to_string() == "ok");
    } else {
      stream::AbortResult result;
      CHECK(opened.stream->abort(result).ok());
      CHECK(opened.wait_cleaned_up().ok());
    }
    CHECK(env::Process::current().buffers().cached_bytes() <= kPoolKeeps);
  }
}

TEST_CASE("parts that grow are taken as they come, from memory to disk") {
  Bucket bucket;
  bucket.options.max_parts = 20;
  bucket.options.memory_bytes = 4 * kBlock;
  const auto data = pattern(60 * kBlock + 100);
  const Opened opened = bucket.open();
  for (std::size_t at = 0; at < data.size(); at += 300'000) {
    REQUIRE(
        opened.write(ByteView(data).subspan(at, std::min<std::size_t>(300'000, data.size() - at)))
            .ok());
  }
  CHECK(opened.close().to_string() == "ok");
  CHECK(bucket.holds(data));
  CHECK(bucket.count("Part") < 20);
}

TEST_CASE("numbers have Hadoop's names") {
  Bucket bucket;
  const auto data = pattern(3 * kBlock + 1);
  const Opened opened = bucket.open();
  REQUIRE(opened.write(data).ok());
  CHECK(opened.close().to_string() == "ok");
  const Statistics numbers = opened.stream->statistics();
  const auto size = static_cast<std::int64_t>(data.size());
  CHECK(numbers.at("stream_write_bytes") == size);
  CHECK(numbers.at("stream_write_total_data") == size);
  CHECK(numbers.at("stream_write_total_time.samples") == 4);
  CHECK(numbers.at("stream_write_block_uploads") == 4);
  CHECK(numbers.at("stream_write_block_uploads_committed") == 4);
  CHECK(numbers.at("stream_write_block_uploads_active") == 0);
  CHECK(numbers.at("stream_write_block_uploads_pending") == 0);
  CHECK(numbers.at("stream_write_block_uploads_data_pending") == 0);
  CHECK(numbers.at("object_put_bytes") == size);
  CHECK(numbers.at("object_put_bytes_pending") == 0);
  CHECK(numbers.at("object_multipart_initiated") == 1);
  CHECK(numbers.at("multipart_upload_completed") == 1);
  CHECK(numbers.at("multipart_upload_part_put") == 4);
  CHECK(numbers.at("multipart_upload_part_put_bytes") == size);
  CHECK(numbers.at("object_multipart_aborted") == 0);
}

TEST_CASE("what was found at the key counts as what it was") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    CAPTURE(size);
    const bool is_small = size < kBlock;
    Bucket bucket;
    bucket.options.condition.if_absent = true;
    bucket.lose(is_small ? "Put" : "Complete", Answer::reset());
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(size)).ok());
    CHECK(opened.close().to_string() == "ok");
    const Statistics numbers = opened.stream->statistics();
    const std::int64_t blocks = is_small ? 1 : 3;
    CHECK(numbers.at("stream_write_total_data") == static_cast<std::int64_t>(size));
    CHECK(numbers.at("stream_write_block_uploads") == blocks);
    CHECK(numbers.at("stream_write_block_uploads_committed") == blocks);
    CHECK(numbers.at("stream_write_block_uploads_pending") == 0);
    CHECK(numbers.at("stream_write_block_uploads_data_pending") == 0);
    CHECK(numbers.at("object_put_request_completed") == blocks);
    CHECK(numbers.at("multipart_upload_completed") == (is_small ? 0 : 1));
    CHECK(numbers.at("stream_write_exceptions_completing_upload") == 0);
  }
}

TEST_CASE("a repetition that is given up before its time counts as nothing") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    CAPTURE(size);
    const bool is_small = size < kBlock;
    std::atomic<int> looks{0};
    Bucket bucket;
    bucket.settings.retry.interval = 10s;
    bucket.options.condition.if_absent = true;
    bucket.lose(is_small ? "Put" : "Complete", Answer::reset());
    bucket.store.set_instead(
        [&](const std::string& operation, const Request&) -> std::optional<Answer> {
          if (operation == "List") return Answer{.body = "<ListPartsResult></ListPartsResult>"};
          if (operation != "Head" || looks++ > 0) return std::nullopt;
          looks.notify_all();
          return Answer{.status = 404,
                        .headers = {{"x-amz-request-id", "1"}}};  // the store tells of it late
        });
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(size)).ok());
    Impatient impatient;
    std::thread interrupter([&] {
      looks.wait(0);
      impatient.enough = true;
    });
    const Status closed = opened.stream->close(impatient);
    interrupter.join();
    CHECK(closed.code() == StatusCode::kInterrupted);
    CHECK(opened.wait_cleaned_up().ok());
    CHECK(bucket.count(is_small ? "Put" : "Complete") == 1);
    CHECK(opened.upload->outcome().state == UploadState::kPublished);
    const Statistics numbers = opened.stream->statistics();
    CHECK(numbers.at("stream_write_total_data") == static_cast<std::int64_t>(size));
    CHECK(numbers.at("stream_write_block_uploads_aborted") == 0);
    CHECK(numbers.at("multipart_upload_completed") == (is_small ? 0 : 1));
    CHECK(numbers.at("stream_write_exceptions_completing_upload") == 0);
  }
}

TEST_CASE("an object that is found is compared for encryption, as one that is answered") {
  for (const bool is_lost : {false, true}) {
    CAPTURE(is_lost);
    Bucket bucket;
    bucket.options.verify_encryption = true;
    bucket.options.condition.if_absent = true;
    bucket.options.request_headers = {{"x-amz-server-side-encryption", "AES256"}};
    if (is_lost) bucket.lose("Put", Answer::reset());
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(10)).ok());
    const Status closed = opened.close();
    CHECK(closed.code() == StatusCode::kIo);
    CHECK(closed.message().starts_with("PutObject (published): "));
    CHECK(closed.message().find("encryption is not what was asked for") != std::string::npos);
    CHECK(opened.upload->outcome().state == UploadState::kPublished);
    CHECK(bucket.count("Head") == (is_lost ? 1 : 0));
    CHECK(bucket.count("Put") == 1);
  }
}

TEST_CASE("what a call's own attempts have taken is part of a publication's time") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    CAPTURE(size);
    const std::string operation = size < kBlock ? "Put" : "Complete";
    Bucket bucket;
    bucket.settings.retry.throttle_limit = 1000;
    bucket.settings.retry.deadline = 300ms;
    bucket.settings.retry.interval = 50ms;
    bucket.settings.retry.throttle_interval = 50ms;
    bucket.settings.retry.max_interval = 50ms;
    bucket.options.condition.if_absent = true;
    bucket.fail(operation, Answer{.status = 503});  // of something in between
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(size)).ok());
    CHECK_FALSE(opened.close().ok());
    const std::vector<std::string> asked = bucket.operations();
    const auto looked = std::ranges::find(asked, "Head");
    CHECK(std::count(asked.begin(), looked, operation) > 2);
    CHECK(std::count(looked, asked.end(), operation) == 0);
    CHECK(bucket.count("Head") >= 1);
  }
}

TEST_CASE("what was not found counts as a failure") {
  for (const std::size_t size : {std::size_t{10}, 3 * kBlock}) {
    CAPTURE(size);
    const bool is_small = size < kBlock;
    std::atomic<int> asked{0};
    Bucket bucket;
    bucket.options.condition.if_absent = true;
    bucket.store.set_instead(
        [&](const std::string& operation, const Request&) -> std::optional<Answer> {
          if (operation != (is_small ? "Put" : "Complete") || asked++ > 0) return std::nullopt;
          return Answer::reset();
        });
    const Opened opened = bucket.open();
    REQUIRE(opened.write(pattern(size)).ok());
    CHECK(opened.close().to_string() == "ok");
    const Statistics numbers = opened.stream->statistics();
    CHECK(numbers.at("stream_write_total_data") == static_cast<std::int64_t>(size));
    CHECK(numbers.at("stream_write_block_uploads") == (is_small ? 2 : 3));
    CHECK(numbers.at("stream_write_block_uploads_committed") == (is_small ? 1 : 3));
    CHECK(numbers.at("multipart_upload_completed") == (is_small ? 0 : 1));
    CHECK(numbers.at("stream_write_exceptions_completing_upload") == (is_small ? 0 : 1));
  }
}

}  // namespace
}  // namespace hflush::s3
