// What is known of an upload after its stream: its state, and whether anything of it is under way.
#include "hflush/s3/upload/ledger.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <latch>
#include <thread>

#include "testing/patience.h"

namespace hflush::s3 {
namespace {

using std::chrono::milliseconds;
using testing::kPatience;

class NoInterrupt final : public env::Interrupt {
 private:
  Status check() override { return {}; }
};

struct Fixture {
  Fixture() : ledger("token", upload.options().sizes) {}

  void publish(bool ended) { ledger.publish(upload, "version", counters, ended); }

  BlockUpload upload{
      {.path = "s3://bucket/key", .sizes = PartSizes(10, 100, true), .condition = {}}};
  UploadActions actions;
  UploadCounters counters;
  UploadLedger ledger;
  NoInterrupt patient;
};

TEST_CASE("an upload is cleaned up when nothing of it is under way, and who waits hears of it") {
  Fixture fixture;
  fixture.upload.put(20, fixture.actions);  // asks for Create
  fixture.publish(false);
  CHECK_FALSE(fixture.ledger.outcome().cleaned_up);
  CHECK(wait_for_cleanups(milliseconds(0), fixture.patient).ok());  // it is not ended
  fixture.upload.abandon(fixture.actions);
  fixture.publish(true);
  CHECK(fixture.ledger.outcome().state == UploadState::kAbandoned);
  CHECK(fixture.ledger.wait_cleaned_up(milliseconds(0), fixture.patient).code() ==
        StatusCode::kTimedOut);
  CHECK(wait_for_cleanups(milliseconds(0), fixture.patient).code() == StatusCode::kTimedOut);

  std::latch waiting(2);
  std::thread one([&] {
    NoInterrupt patient;
    waiting.arrive_and_wait();
    CHECK(fixture.ledger.wait_cleaned_up(kPatience, patient).ok());
  });
  std::thread all([&] {
    NoInterrupt patient;
    waiting.arrive_and_wait();
    CHECK(wait_for_cleanups(kPatience, patient).ok());
  });
  fixture.upload.create_cancelled(fixture.actions);
  fixture.publish(true);
  one.join();
  all.join();
  CHECK(fixture.ledger.outcome().cleaned_up);
  CHECK_FALSE(fixture.ledger.outcome().cleanup.ok());  // an upload may be left
}

TEST_CASE("an upload that is lost for want of memory has failed, or may be published") {
  Fixture fixture;
  const Status why = Status::from_errno(ENOMEM, "write", {});
  fixture.upload.put(20, fixture.actions);
  fixture.publish(true);
  bool was_sent = false;
  UploadState state = UploadState::kFailed;
  SUBCASE("it was not sent") {}
  SUBCASE("it was sent") {
    was_sent = true;
    state = UploadState::kUnknown;
  }
  fixture.ledger.lost(why, was_sent);
  const UploadOutcome outcome = fixture.ledger.outcome();
  CHECK(outcome.state == state);
  CHECK(outcome.cleanup.error_number() == ENOMEM);
  CHECK(outcome.cleaned_up);
  CHECK(wait_for_cleanups(milliseconds(0), fixture.patient).ok());
}

TEST_CASE("a published upload has its etag and version, and stays published without memory") {
  Fixture fixture;
  fixture.upload.put(5, fixture.actions);
  fixture.upload.finish(fixture.actions);
  fixture.upload.put_done("\"etag\"", fixture.actions);
  fixture.ledger.contents({}, 17, {.of_parts = true});
  fixture.publish(true);
  fixture.ledger.lost(Status::from_errno(ENOMEM, "write", {}), true);
  const UploadOutcome outcome = fixture.ledger.outcome();
  CHECK(outcome.state == UploadState::kPublished);
  CHECK(outcome.etag == "\"etag\"");
  CHECK(outcome.version_id == "version");
  CHECK(outcome.token == "token");
  CHECK(outcome.size == 5);
  CHECK(outcome.crc32c == 17);
  CHECK(outcome.has_checksums);
  CHECK(outcome.cleanup.ok());
}

TEST_CASE("statistics count blocks that wait, are active and have ended") {
  Fixture fixture;
  fixture.upload.put(35, fixture.actions);
  fixture.counters.block_begins(10);
  fixture.counters.block_begins(10);
  fixture.counters.block_ends(10, milliseconds(2));
  fixture.counters.block_committed(10);
  fixture.publish(false);
  Statistics statistics;
  fixture.ledger.add_statistics(statistics);
  CHECK(statistics.at("stream_write_block_uploads") == 2);
  CHECK(statistics.at("stream_write_block_uploads_active") == 1);
  CHECK(statistics.at("stream_write_block_uploads_pending") == 2);  // of four
  CHECK(statistics.at("stream_write_block_uploads_committed") == 1);
  CHECK(statistics.at("stream_write_block_uploads_data_pending") == 25);
  CHECK(statistics.at("object_put_bytes_pending") == 10);
  CHECK(statistics.at("stream_write_total_data") == 10);
}

}  // namespace
}  // namespace hflush::s3
