// complete() over HTTP, against a store that does what the test says.
#include "hflush/s3/upload/completion.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hflush/env/process.h"
#include "hflush/s3/call/xml.h"
#include "hflush/s3/upload/publication_time.h"
#include "s3/stored_objects.h"

namespace hflush::s3 {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::Answer;
using testing::Request;
using testing::ScriptedS3;
using testing::StoredObjects;
using Step = Publication::Step;

const std::string kPath = "/bucket/k";

// Ends the wait when the store has been asked so often.
class UntilAsked final : public env::Interrupt {
 public:
  UntilAsked(ScriptedS3& server, std::size_t count) : server_(server), count_(count) {}

 private:
  Status check() override {
    if (server_.request_count() < count_) return {};
    return Status(StatusCode::kInterrupted, "interrupted by a signal");
  }

  ScriptedS3& server_;
  const std::size_t count_;
};

// An upload of two parts in a store, and what completes it.
class Bucket {
 public:
  Bucket() {
    settings = testing::loopback_settings(server.port());
    settings.retry.limit = 1;
    options.bucket = "bucket";
    options.key = "k";
    options.path = "s3://bucket/k";
  }

  void begin() {
    auto made = Client::make(
        settings, std::make_shared<CredentialStore>(Credentials{"AKID", "SECRET", "TOKEN"}));
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    client = *made;
    const UploadCalls calls = upload_calls();
    const CallResult created = make(calls.create());
    what.upload_id = parse_xml(created.body)->value("UploadId");
    what.checksums = calls.checksums(created.head);
    for (const std::uint32_t number : {1U, 2U}) {
      PartBody body = body_of(std::string(number, 'a'), /*with_md5=*/false);
      const std::uint32_t crc32c = body.crc32c;
      const CallResult put =
          make(calls.upload_part(what.upload_id, number, std::move(body), what.checksums));
      what.parts.push_back({number, std::string(put.head.header("etag")), number, crc32c});
    }
    what.crc32c = body_of("aaa", false).crc32c;
  }

  UploadCalls upload_calls() {
    return {client->settings(), options, "token", client->new_stream()};
  }
  CallResult make(Call call) {
    CallResult result = client->call_and_wait(std::move(call), uninterrupted_);
    REQUIRE_MESSAGE(result.status.ok(), result.status.to_string());
    return result;
  }
  Completed complete() { return complete(uninterrupted_); }
  Completed complete(env::Interrupt& interrupt) {
    const UploadCalls calls = upload_calls();
    return s3::complete(*client, calls, what, interrupt);
  }

  void instead_of_complete(const Answer& answer) {
    store.set_instead([=](const std::string& operation, const Request&) {
      return operation == "Complete" ? std::optional(answer) : std::nullopt;
    });
  }
  void lose_complete() {
    store.set_lost([](const std::string& operation, const Request&) {
      return operation == "Complete" ? std::optional(Answer::reset()) : std::nullopt;
    });
  }
  // After the upload was made.
  std::vector<std::string> operations() {
    std::vector<std::string> names;
    for (const Request& request : server.requests()) {
      names.push_back(StoredObjects::operation_of(request));
    }
    names.erase(names.begin(), names.begin() + 3);
    return names;
  }
  std::string body() { return store.object(kPath) ? store.object(kPath)->body : "nothing"; }

  Settings settings;
  ObjectOptions options;
  StoredObjects store;
  ScriptedS3 server{[this](const Request& request) { return store(request); }};
  std::shared_ptr<Client> client;
  Completion what;

 private:
  env::Uninterrupted uninterrupted_;
};

using Operations = std::vector<std::string>;

TEST_CASE("complete: published, with the checksums of its parts and of the whole") {
  Bucket bucket;
  bucket.begin();
  REQUIRE(bucket.what.checksums.of_full_object);
  const Completed done = bucket.complete();
  CHECK(done.outcome == Step::kPublished);
  CHECK(done.failure.ok());
  CHECK(done.etag == bucket.store.object(kPath)->etag);
  CHECK(bucket.body() == "aaa");
  CHECK(bucket.operations() == Operations{"Complete"});
}

TEST_CASE("complete: an answer without an etag: the key has it") {
  Bucket bucket;
  bucket.begin();
  bucket.store.set_lost([](const std::string& operation, const Request&) {
    const Answer without{.body = "<CompleteMultipartUploadResult/>"};
    return operation == "Complete" ? std::optional(without) : std::nullopt;
  });
  const Completed done = bucket.complete();
  CHECK(done.etag == bucket.store.object(kPath)->etag);
  CHECK(bucket.operations() == Operations{"Complete", "Head"});
}

TEST_CASE("complete: a lost answer is found at the key, for each kind of holder") {
  for (const Holders holders : {Holders::kOne, Holders::kEqual, Holders::kFirst}) {
    Bucket bucket;
    bucket.begin();
    bucket.what.holders = holders;
    bucket.lose_complete();
    const Completed done = bucket.complete();
    CHECK(done.outcome == Step::kPublished);
    CHECK(done.etag == bucket.store.object(kPath)->etag);
    CHECK(bucket.operations() == Operations{"Complete", "Head"});
  }
}

TEST_CASE("complete: asked for again as often as it may; only an upload of its own is aborted") {
  for (const Holders holders : {Holders::kOne, Holders::kEqual, Holders::kFirst}) {
    Bucket bucket;
    bucket.begin();
    bucket.what.holders = holders;
    bucket.instead_of_complete(Answer::error(500, "InternalError"));
    const Completed done = bucket.complete();
    CHECK(done.outcome == Step::kNotPublished);
    CHECK(done.kind == FailureKind::kAmbiguous);
    CHECK(done.failure.path() == "s3://bucket/k");
    CHECK(done.failure.remote_class() == "InternalError");
    const bool is_own = holders == Holders::kOne;
    CHECK(bucket.store.uploads() == (is_own ? 0 : 1));
    const Operations all = bucket.operations();
    CHECK(std::ranges::count(all, "Complete") == 1 + Publication::kLimit);
    CHECK(std::ranges::count(all, "Abort") == (is_own ? 1 : 0));
    if (is_own) continue;
    bucket.store.set_instead({});
    CHECK(bucket.complete().outcome == Step::kPublished);
  }
}

TEST_CASE("complete: once more, after another has done it") {
  Bucket bucket;
  bucket.begin();
  REQUIRE(bucket.complete().outcome == Step::kPublished);
  bucket.what.holders = Holders::kEqual;
  CHECK(bucket.complete().outcome == Step::kPublished);
  bucket.what.holders = Holders::kFirst;
  const Completed late = bucket.complete();
  CHECK(late.outcome == Step::kNotPublished);
  CHECK(late.failure.code() == StatusCode::kNotFound);
  CHECK(late.failure.message().starts_with("complete: no such upload: "));
}

TEST_CASE("complete: a refusal of a pending commit is told as it came") {
  Bucket bucket;
  bucket.begin();
  bucket.what.holders = Holders::kEqual;
  bucket.instead_of_complete(Answer::error(400, "InvalidPart"));
  const Completed done = bucket.complete();
  CHECK(done.outcome == Step::kNotPublished);
  CHECK(done.kind == FailureKind::kFinal);
  CHECK(done.failure.remote_class() == "InvalidPart");
  CHECK(bucket.operations() == Operations{"Complete", "Head"});
}

TEST_CASE("complete: the deadline of retries ends it") {
  Bucket bucket;
  bucket.settings.retry.deadline = 1ms;
  bucket.begin();
  bucket.instead_of_complete(Answer::reset());
  const Completed done = bucket.complete();
  CHECK(done.outcome == Step::kNotPublished);
  CHECK(bucket.operations() == Operations{"Complete", "Head", "List", "Abort", "Head"});
}

TEST_CASE("complete: without an upload, an object without bytes") {
  Bucket bucket;
  bucket.begin();
  bucket.what = {};
  bucket.options.condition.if_absent = true;
  const Completed done = bucket.complete();
  CHECK(done.outcome == Step::kPublished);
  CHECK(bucket.body().empty());
  const Completed again = bucket.complete();
  CHECK(again.outcome == Step::kNotPublished);
  CHECK(again.failure.code() == StatusCode::kAlreadyExists);
}

TEST_CASE("complete: an interruption ends it, in a call and in a pause") {
  for (const bool hangs : {true, false}) {
    CAPTURE(hangs);
    Bucket bucket;
    bucket.settings.retry.interval = 10s;
    bucket.begin();
    bucket.instead_of_complete(hangs ? Answer::silence() : Answer::reset());
    // The three calls that made the upload and Complete; in the pause the two looks, too.
    UntilAsked interrupt(bucket.server, hangs ? 4 : 6);
    const Completed done = bucket.complete(interrupt);
    CHECK(done.outcome == Step::kUnknown);
    CHECK(done.failure.code() == StatusCode::kInterrupted);
    CHECK(bucket.store.uploads() == 1);
  }
}

TEST_CASE("the time of a publication") {
  Settings settings;
  settings.stall_timeout = 60s;
  settings.retry.interval = 1s;
  settings.retry.max_interval = 5s;
  settings.retry.deadline = 100s;
  const env::TimePoint start{1000s};
  PublicationTime time(settings);
  CHECK_FALSE(time.end());
  CHECK_FALSE(time.end_of_look(start));
  CHECK_FALSE(time.is_up(start, 1));
  CHECK(time.pause_before(1) == 2s);
  CHECK(time.pause_before(9) == 5s);
  SUBCASE("from the first failure, by the deadline of its call") {
    time.failed(start, start + 10s);
    time.failed(start + 5s, start + 99s);
    CHECK(time.end() == start + 10s);
    CHECK_FALSE(time.is_up(start + 7s, 1));
    CHECK(time.is_up(start + 8s, 1));
    CHECK(time.end_of_look(start + 8s) == start + 68s);
  }
  SUBCASE("or by that of retries") {
    time.failed(start, std::nullopt);
    CHECK(time.end() == start + 100s);
    CHECK(time.end_of_look(start) == start + 100s);
  }
}

}  // namespace
}  // namespace hflush::s3
