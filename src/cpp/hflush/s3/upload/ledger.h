// UploadCounters: counts of an upload's calls. UploadLedger: what other threads than its driver see
// of an upload, during and after it: counters, outcome, and whether it is cleaned up.
//
// UploadLedger is thread-safe; UploadCounters is thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/loop_cond_var.h"
#include "hflush/s3/upload/block_upload.h"
#include "hflush/s3/upload/part_sizes.h"
#include "hflush/s3/upload/part_store.h"
#include "hflush/s3/upload/upload_calls.h"
#include "hflush/stream/duration_statistic.h"

namespace hflush::s3 {

// The result of an upload.
struct UploadOutcome {
  UploadState state = UploadState::kWriting;
  std::string upload_id;
  std::string etag;  // kPublished; empty where the store did not say
  std::string version_id;
  std::uint64_t size = 0;
  std::vector<PartReceipt> parts;     // kPending
  std::uint32_t crc32c = 0;           // of all bytes
  bool has_checksums = false;         // the store keeps a CRC32C of each part
  bool full_object_checksum = false;  // and of the whole
  std::string token;                  // x-amz-meta-hflush-token
  std::vector<Status> others;         // failures beside the one that the stream has reported
  Status cleanup;                     // an upload that could not be aborted, and why
  bool cleaned_up = true;             // nothing of the upload is under way
};

// What remains visible of an upload after the stream's end.
class S3Upload {
 public:
  virtual ~S3Upload() = default;
  virtual UploadOutcome outcome() const = 0;  // thread-safe
  virtual Status cleanup() const = 0;         // of that
  // Waits until nothing of the upload is under way. kTimedOut after `timeout`.
  virtual Status wait_cleaned_up(env::Duration timeout, env::Interrupt& interrupt) = 0;
};

// What an upload goes on from: upload_action::Kept, and the bytes behind it.
struct KeptUpload {
  BegunObject object;
  PartTail tail;
};

// An upload that others can go on with, as long as its stream is open.
class KeepableUpload {
 public:
  virtual ~KeepableUpload() = default;
  // Waits until the store has all parts that end at or before `offset`, up to which the stream has
  // handed bytes over. kNotFound if a part that ends behind `offset` is full and gone by now: ask
  // again with a newer one. The failure that ended the upload; kClosed if it is over otherwise.
  // Thread-safe, for one caller at a time.
  virtual Result<KeptUpload> keep(std::uint64_t offset, env::Interrupt& interrupt) = 0;
};

// Waits until no upload of this process that failed or was abandoned has calls under way. kTimedOut
// after `timeout`.
Status wait_for_cleanups(env::Duration timeout, env::Interrupt& interrupt);

struct UploadCounters {
  std::int64_t block_uploads = 0;  // asked for
  std::int64_t active = 0;
  std::int64_t committed = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  std::int64_t bytes_committed = 0;
  std::int64_t bytes_active = 0;
  std::int64_t bytes_put = 0;  // by blocks asked for
  std::int64_t parts_put = 0;
  std::int64_t part_bytes_put = 0;
  std::int64_t creates = 0;
  std::int64_t aborts = 0;
  std::int64_t abort_failures = 0;
  std::int64_t completed = 0;
  std::int64_t complete_failures = 0;
  std::int64_t looks = 0;
  std::int64_t lists = 0;
  stream::DurationStatistic uploads;

  void block_begins(std::uint64_t bytes) noexcept;
  void block_ends(std::uint64_t bytes, env::Duration duration) noexcept;
  void block_committed(std::uint64_t bytes) noexcept;
  // Of an upload that has `size` bytes in `blocks`.
  void add_to(Statistics& statistics, std::uint64_t size, std::uint32_t blocks) const;
};

class UploadLedger final : public S3Upload {
 public:
  // `begun`: what the upload had before.
  UploadLedger(std::string token, const PartSizes& sizes,
               const std::optional<BegunObject>& begun = {});

  UploadOutcome outcome() const override HFLUSH_EXCLUDES(mutex_);
  Status cleanup() const override HFLUSH_EXCLUDES(mutex_);
  Status wait_cleaned_up(env::Duration timeout, env::Interrupt& interrupt) override
      HFLUSH_EXCLUDES(mutex_);
  void add_statistics(Statistics& statistics) const HFLUSH_EXCLUDES(mutex_);

  // By the driver, before the report to the stream. `version_id`: of the published object. `ended`:
  // for the stream.
  void publish(const BlockUpload& upload, const std::string& version_id,
               const UploadCounters& counters, bool ended) HFLUSH_EXCLUDES(mutex_);
  // Of a stream that ends well. `parts`: of an upload whose publication is handed over.
  void contents(std::vector<PartReceipt> parts, std::uint32_t crc32c, Checksums checksums)
      HFLUSH_EXCLUDES(mutex_);
  // The answer to keep().
  void kept(BegunObject object) HFLUSH_EXCLUDES(mutex_);
  // Waits for it, as KeepableUpload does.
  Result<BegunObject> wait_kept(std::size_t parts, env::Interrupt& interrupt, env::EventLoop& loop)
      HFLUSH_EXCLUDES(mutex_);
  // Nothing more is known of the upload, unless it is published. `was_sent`: it may be.
  void lost(const Status& why, bool was_sent) noexcept HFLUSH_EXCLUDES(mutex_);

 private:
  struct Cleanups;
  static Cleanups& cleanups();
  friend Status wait_for_cleanups(env::Duration timeout, env::Interrupt& interrupt);

  void set_cleaning_locked(bool cleaning) HFLUSH_REQUIRES(mutex_);

  const PartSizes sizes_;
  const std::uint64_t begun_bytes_;
  const std::uint32_t begun_parts_;
  Cleanups& cleanups_;

  // Before that of the clean-ups under way.
  mutable Mutex mutex_;
  env::LoopCondVar cleaned_up_;
  UploadOutcome outcome_ HFLUSH_GUARDED_BY(mutex_);
  Status failure_ HFLUSH_GUARDED_BY(mutex_);  // that ended the upload
  UploadCounters counters_ HFLUSH_GUARDED_BY(mutex_);
  env::LoopCondVar keeping_;                                   // kept_, or the end
  std::optional<BegunObject> kept_ HFLUSH_GUARDED_BY(mutex_);  // the newest
  bool cleaning_ HFLUSH_GUARDED_BY(mutex_) = false;            // counted in cleanups_
};

}  // namespace hflush::s3
