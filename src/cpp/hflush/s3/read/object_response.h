// ObjectResponse: the answer to one GET, and where its bytes go.
//
// The loop thread fills, one reader at a time takes. A reader that finds no bytes waits, and bytes
// that come then are copied straight into its memory; others go into a ReadBuffer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/loop_cond_var.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/read/object_body.h"
#include "hflush/s3/read/read_buffer.h"
#include "hflush/s3/read/read_options.h"

namespace hflush::s3 {

// Of one file. Atomic, because the loop thread counts too; nothing depends on their order.
struct ReadCounters {
  std::atomic<std::int64_t> opened{0};
  std::atomic<std::int64_t> aborted{0};
  std::atomic<std::int64_t> received{0};
  std::atomic<std::int64_t> skipped{0};
  std::atomic<std::int64_t> mismatches{0};
  std::atomic<std::int64_t> unbuffered{0};
  std::atomic<std::int64_t> discarded{0};
  std::atomic<std::int64_t> corrupt{0};

  static void add(std::atomic<std::int64_t>& counter, std::uint64_t count) noexcept {
    counter.fetch_add(static_cast<std::int64_t>(count), std::memory_order_relaxed);
  }
};

class ObjectResponse final : public Download {
 public:
  enum class State : std::uint8_t {
    kComing,
    kComplete,  // all that the store wanted to send is here
    kBroken,    // it broke off; the rest can be asked for
    kReleased,  // by the reader; so can the rest
    kFailed,    // asking again would not help
  };
  struct Ending {
    State state;
    Status failure;          // what to report if the rest does not come
    std::uint64_t received;  // bytes of the range
  };

  ObjectResponse(std::shared_ptr<const ReadOptions> options, std::shared_ptr<ReadCounters> counters,
                 ByteRange asked);

  // --- the reader

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t remaining() const noexcept { return asked_.end - position_; }
  // Bytes go to `out` from the start: the next read() is to be of just that. Before the GET.
  void expect(MutableByteView out) HFLUSH_EXCLUDES(mutex_);
  // Fewer bytes than `out` has room for only if no more come: then ending() says why. The caller is
  // a guest of `loop`, which brings them, unless it is null.
  Result<std::size_t> read(MutableByteView out, Client& client, env::EventLoop* loop,
                           env::Interrupt& interrupt) HFLUSH_EXCLUDES(mutex_);
  void skip(std::uint64_t count, Client& client) HFLUSH_EXCLUDES(mutex_);
  Ending ending() const HFLUSH_EXCLUDES(mutex_);
  // Drops the bytes that come from now on. Returns whether the GET has to be cancelled: not if the
  // last bytes are here, so that the connection can be kept.
  bool release() HFLUSH_EXCLUDES(mutex_);
  // After release(): of the bytes that have come, keeps only the next `bytes`, and blocks that are
  // begun. A reader that wants the rest asks for it again. On any thread, beside a reader.
  void keep(std::uint64_t bytes) HFLUSH_EXCLUDES(mutex_);

  Client::CallId call = 0;

  // --- the loop thread

  void on_head(const env::HttpHead& head) override;
  bool on_body(ByteView bytes) override;
  void on_end(CallResult result) override;

 private:
  // Takes the next block, or waits for bytes straight into `out`; returns how many came.
  Result<std::size_t> more(MutableByteView out, Client& client, env::EventLoop* loop,
                           env::Interrupt& interrupt) HFLUSH_EXCLUDES(mutex_);
  Status wait_locked(env::EventLoop* loop, env::Interrupt& interrupt) HFLUSH_REQUIRES(mutex_);
  bool must_resume_locked() HFLUSH_REQUIRES(mutex_);
  Status store_locked(ByteView bytes) HFLUSH_REQUIRES(mutex_);
  void fail_locked(Status failure) HFLUSH_REQUIRES(mutex_);
  Status explained(const CallResult& result) const;

  const std::shared_ptr<const ReadOptions> options_;
  const std::shared_ptr<ReadCounters> counters_;
  const ByteRange asked_;

  // The reader's; readers follow on each other under the file's lock.
  std::uint64_t position_;  // of the next byte to be taken
  ReadBuffer::Block front_;
  bool expected_ = false;

  // Before the memory budget's. Never held while the store is waited for.
  mutable Mutex mutex_;
  env::LoopCondVar arrived_;
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kComing;
  Status failure_ HFLUSH_GUARDED_BY(mutex_);
  ObjectBody body_ HFLUSH_GUARDED_BY(mutex_);
  MutableByteView wanted_ HFLUSH_GUARDED_BY(mutex_);  // the memory of a reader that waits
  ReadBuffer buffer_ HFLUSH_GUARDED_BY(mutex_);
  bool paused_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool is_over_ HFLUSH_GUARDED_BY(mutex_) = false;  // the GET; or it is being cancelled
};

}  // namespace hflush::s3
