#include "hflush/s3/upload/ledger.h"

#include <algorithm>
#include <utility>

#include "hflush/env/answer.h"
#include "hflush/env/own_process.h"

namespace hflush::s3 {
namespace {

// Whether keep() may still be answered.
bool may_be_kept(UploadState state) noexcept {
  return state == UploadState::kWriting || state == UploadState::kFinishing;
}

std::int64_t signed_of(std::uint64_t bytes) noexcept { return static_cast<std::int64_t>(bytes); }

}  // namespace

// Uploads of this process that failed or were abandoned, and have calls under way.
struct UploadLedger::Cleanups {
  // Innermost.
  Mutex mutex;
  env::LoopCondVar changed;
  std::size_t under_way HFLUSH_GUARDED_BY(mutex) = 0;

  void add() {
    MutexLock lock(mutex);
    ++under_way;
  }
  void remove() {
    MutexLock lock(mutex);
    --under_way;
    changed.notify_all();
  }
};

UploadLedger::Cleanups& UploadLedger::cleanups() {
  static env::PerProcess<Cleanups> all;
  return all.get();
}

Status wait_for_cleanups(env::Duration timeout, env::Interrupt& interrupt) {
  const env::TimePoint deadline = env::deadline_after(CondVar::Clock::now(), timeout);
  UploadLedger::Cleanups& all = UploadLedger::cleanups();
  MutexLock lock(all.mutex);
  while (all.under_way != 0) {
    HFLUSH_RETURN_IF_ERROR(env::wait_until(all.mutex, all.changed, deadline, interrupt));
  }
  return {};
}

// --- counters

void UploadCounters::block_begins(std::uint64_t bytes) noexcept {
  ++block_uploads;
  ++active;
  bytes_put += signed_of(bytes);
  bytes_active += signed_of(bytes);
}

void UploadCounters::block_ends(std::uint64_t bytes, env::Duration duration) noexcept {
  --active;
  bytes_active -= signed_of(bytes);
  uploads.add(duration);
}

void UploadCounters::block_committed(std::uint64_t bytes) noexcept {
  ++committed;
  bytes_committed += signed_of(bytes);
}

void UploadCounters::add_to(Statistics& statistics, std::uint64_t size,
                            std::uint32_t blocks) const {
  const std::int64_t ended = committed + failed + cancelled;
  statistics["stream_write_total_data"] += bytes_committed;
  uploads.add_to(statistics, "stream_write_total_time");
  statistics["stream_write_block_uploads"] += block_uploads;
  statistics["stream_write_block_uploads_active"] += active;
  statistics["stream_write_block_uploads_pending"] +=
      std::max<std::int64_t>(0, std::int64_t{blocks} - ended - active);
  statistics["stream_write_block_uploads_data_pending"] += signed_of(size) - bytes_committed;
  statistics["stream_write_block_uploads_committed"] += committed;
  statistics["stream_write_block_uploads_aborted"] += cancelled;
  statistics["stream_write_exceptions_completing_upload"] += complete_failures;
  statistics["object_put_request"] += block_uploads;
  statistics["object_put_request_completed"] += ended;
  statistics["object_put_request_active"] += active;
  statistics["object_put_bytes"] += bytes_put;
  statistics["object_put_bytes_pending"] += bytes_active;
  statistics["object_multipart_initiated"] += creates;
  statistics["object_multipart_aborted"] += aborts;
  statistics["object_multipart_aborted.failures"] += abort_failures;
  statistics["multipart_upload_completed"] += completed;
  statistics["multipart_upload_part_put"] += parts_put;
  statistics["multipart_upload_part_put_bytes"] += part_bytes_put;
  statistics["multipart_upload_list"] += lists;
  statistics["object_metadata_request"] += looks;
}

// --- the ledger

UploadLedger::UploadLedger(std::string token, const PartSizes& sizes,
                           const std::optional<BegunObject>& begun)
    : sizes_(sizes),
      begun_bytes_(begun ? begun->upload.bytes() : 0),
      begun_parts_(begun ? static_cast<std::uint32_t>(begun->upload.parts.size()) : 0),
      cleanups_(cleanups()) {
  outcome_.token = std::move(token);
  outcome_.size = begun_bytes_;
  if (begun) outcome_.upload_id = begun->upload.upload_id;
}

UploadOutcome UploadLedger::outcome() const {
  MutexLock lock(mutex_);
  return outcome_;
}

Status UploadLedger::cleanup() const {
  MutexLock lock(mutex_);
  return outcome_.cleanup;
}

Status UploadLedger::wait_cleaned_up(env::Duration timeout, env::Interrupt& interrupt) {
  const env::TimePoint deadline = env::deadline_after(CondVar::Clock::now(), timeout);
  MutexLock lock(mutex_);
  while (!outcome_.cleaned_up) {
    HFLUSH_RETURN_IF_ERROR(env::wait_until(mutex_, cleaned_up_, deadline, interrupt));
  }
  return {};
}

void UploadLedger::add_statistics(Statistics& statistics) const {
  UploadCounters counters;
  std::uint64_t size = 0;
  {
    MutexLock lock(mutex_);
    counters = counters_;
    size = outcome_.size;
  }
  const std::uint32_t blocks = size == 0 ? 0 : sizes_.at(size - 1);
  counters.add_to(statistics, size - begun_bytes_, blocks - begun_parts_);
}

void UploadLedger::publish(const BlockUpload& upload, const std::string& version_id,
                           const UploadCounters& counters, bool ended) {
  MutexLock lock(mutex_);
  counters_ = counters;
  outcome_.state = upload.state();
  outcome_.size = upload.size();
  if (outcome_.upload_id.empty()) outcome_.upload_id = upload.upload_id();
  if (outcome_.state == UploadState::kPublished && outcome_.etag.empty()) {
    outcome_.etag = upload.etag();
    outcome_.version_id = version_id;
  }
  if (!upload.failure().ok()) {
    failure_ = upload.failure();
    outcome_.others = failure_.others();
  }
  outcome_.cleaned_up = !upload.busy();
  if (outcome_.cleaned_up) outcome_.cleanup = upload.cleanup_failure();
  set_cleaning_locked(ended && !outcome_.cleaned_up);
  if (outcome_.cleaned_up) cleaned_up_.notify_all();
  if (!may_be_kept(outcome_.state)) keeping_.notify_all();
}

void UploadLedger::kept(BegunObject object) {
  MutexLock lock(mutex_);
  kept_ = std::move(object);
  keeping_.notify_all();
}

Result<BegunObject> UploadLedger::wait_kept(std::size_t parts, env::Interrupt& interrupt,
                                            env::EventLoop& loop) {
  MutexLock lock(mutex_);
  while (!kept_ || kept_->upload.parts.size() != parts) {
    if (!may_be_kept(outcome_.state)) {
      if (!failure_.ok()) return failure_;
      return Status(StatusCode::kClosed,
                    "persist: the upload is " + std::string(to_string(outcome_.state)));
    }
    HFLUSH_RETURN_IF_ERROR(
        env::wait_until(mutex_, keeping_, env::TimePoint::max(), interrupt, &loop));
  }
  return *std::exchange(kept_, std::nullopt);
}

void UploadLedger::contents(std::vector<PartReceipt> parts, std::uint32_t crc32c,
                            Checksums checksums) {
  MutexLock lock(mutex_);
  outcome_.parts = std::move(parts);
  outcome_.crc32c = crc32c;
  outcome_.has_checksums = checksums.of_parts;
  outcome_.full_object_checksum = checksums.of_full_object;
}

void UploadLedger::lost(const Status& why, bool was_sent) noexcept {
  MutexLock lock(mutex_);
  const UploadState before = outcome_.state;
  if (before != UploadState::kPublished && before != UploadState::kPending) {
    outcome_.state = was_sent ? UploadState::kUnknown : UploadState::kFailed;
    outcome_.cleanup = why;
  }
  outcome_.cleaned_up = true;
  set_cleaning_locked(false);
  cleaned_up_.notify_all();
  keeping_.notify_all();
}

void UploadLedger::set_cleaning_locked(bool cleaning) {
  if (cleaning == std::exchange(cleaning_, cleaning)) return;
  if (cleaning) {
    cleanups_.add();
  } else {
    cleanups_.remove();
  }
}

}  // namespace hflush::s3
