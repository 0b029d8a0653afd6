// create_upload() over HTTP, against a store that does not repeat checksums.
#include "hflush/s3/upload/creation.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/s3/call/documents.h"
#include "s3/stored_objects.h"

namespace hflush::s3 {
namespace {

using testing::AfterRequests;
using testing::Answer;
using testing::Request;
using testing::ScriptedS3;
using testing::StoredObjects;
using Operations = std::vector<std::string>;

class Bucket {
 public:
  Bucket() {
    Settings settings = testing::loopback_settings(server.port());
    settings.retry.limit = 1;
    options_.bucket = "bucket";
    options_.key = "k";
    auto made = Client::make(
        settings, std::make_shared<CredentialStore>(Credentials{"AKID", "SECRET", "TOKEN"}));
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    client_ = *made;
  }

  CallResult create(env::Interrupt& interrupt, bool checksums = true) {
    const UploadCalls calls(client_->settings(), options_, "token", client_->new_stream());
    return create_upload(*client_, calls, checksums, interrupt);
  }
  Operations operations() {
    Operations names;
    for (const Request& request : server.requests()) {
      names.push_back(StoredObjects::operation_of(request));
    }
    return names;
  }
  void fail(const std::string& operation, const Answer& answer) {
    store.set_instead([=](const std::string& asked, const Request&) {
      return asked == operation ? std::optional(answer) : std::nullopt;
    });
  }

  StoredObjects store{StoredObjects::Knows::kNoChecksums};
  ScriptedS3 server{[this](const Request& request) { return store(request); }};

 private:
  ObjectOptions options_;
  std::shared_ptr<Client> client_;
};

std::string id_of(const CallResult& created) {
  REQUIRE_MESSAGE(created.status.ok(), created.status.to_string());
  return *parse_upload_id(created.body);
}

TEST_CASE("only the first upload of a server declares checksums that are not repeated") {
  Bucket bucket;
  env::Uninterrupted none;
  CHECK(id_of(bucket.create(none, false)) == "2~up/load+1==");
  CHECK(id_of(bucket.create(none)) == "2~up/load+3==");
  CHECK(id_of(bucket.create(none)) == "2~up/load+4==");
  CHECK(bucket.operations() == Operations{"Create", "Create", "Abort", "Create", "Create"});
  CHECK(bucket.store.uploads() == 3);
}

TEST_CASE("an upload that cannot be aborted is the one that was created") {
  Bucket bucket;
  bucket.fail("Abort", Answer::error(403, "AccessDenied"));
  env::Uninterrupted none;
  CHECK(id_of(bucket.create(none)) == "2~up/load+1==");
  CHECK(bucket.operations() == Operations{"Create", "Abort"});
}

TEST_CASE("the first Create may have left an upload") {
  std::atomic<bool> is_first{true};
  Bucket bucket;
  bucket.store.set_lost([&](const std::string& operation, const Request&) {
    const bool is_lost = operation == "Create" && is_first.exchange(false);
    return is_lost ? std::optional(Answer::reset()) : std::nullopt;
  });
  env::Uninterrupted none;
  const CallResult created = bucket.create(none);
  CHECK(id_of(created) == "2~up/load+3==");
  CHECK(created.ambiguous);
  CHECK(bucket.store.uploads() == 2);
}

TEST_CASE("an interruption ends the creation") {
  Bucket bucket;
  bucket.fail("Abort", Answer::silence());
  AfterRequests interrupt(bucket.server, 2);
  CHECK(bucket.create(interrupt).status.code() == StatusCode::kInterrupted);
  CHECK(bucket.operations() == Operations{"Create", "Abort"});
}

}  // namespace
}  // namespace hflush::s3
