// OutputStream: the stream that callers write to, on every store.
//
// It owns the lock, the states (stream_state.h), the packet being filled (lone_writer.h), the
// waiting and the first failure. Sealed packets go to its Sink; the stream itself knows nothing of
// any store.
//
// Promises (contract.md, docs/semantics.md): write() appends all of its bytes, contiguous with
// respect to every other write (CONC-2); hflush() and hsync() cover every write that returned
// before them, and concurrent callers share one request; the first failure sticks; close() makes
// one attempt and leaves the stream closed whatever happened.
//
// Thread-safe. Two turns, each held by one thread at a time and waited for with `changed_`, order
// the work: the writer's turn (one write() appends from start to end) and the sink's turn (one
// thread is inside put() or finish()). The writer's turn is taken before the sink's. The
// mutex is never held across a call into the sink or into an Interrupt. A waiting call can be
// interrupted; that breaks nothing (an interrupted write appended nothing, unless it is larger than
// half the window). Not usable in a forked child: calls that would do something answer kForked
// there, and the stream looks aborted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/loop_cond_var.h"
#include "hflush/env/own_process.h"
#include "hflush/stream/call_statistics.h"
#include "hflush/stream/lone_writer.h"
#include "hflush/stream/progress.h"
#include "hflush/stream/sink.h"
#include "hflush/stream/stream_state.h"

namespace hflush::stream {

using env::Interrupt;

struct AbortResult {
  bool already_closed = false;
  Status cleanup;
};

class OutputStream final : private SinkEvents {
 public:
  // `path` names the stream in errors. Requires: sink->traits().geometry.valid(); `pool` and
  // `clock` outlive the stream.
  OutputStream(std::string path, std::unique_ptr<Sink> sink, BufferPool& pool,
               const env::Clock& clock);
  // Abandons what was not closed; never publishes (CLOSE-21).
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  // The part of write() that never waits, not even for the mutex: true if all of `data` is
  // appended; false if nothing is, and write() has to be called.
  bool try_write(ByteView data) {
    return !is_foreign() && (lone_writer_.append(data) || try_append({data}));
  }
  Status write(ByteView data, Interrupt& interrupt) { return write(Piece{data}, interrupt); }
  // Whether memory that stays as it is may be written without a copy: with its owner, which is held
  // until the store has the bytes, or the stream has ended. No more than twice the bytes that are
  // needed is held for long: write() copies the end of what fills blocks.
  bool takes_references() const noexcept { return geometry_.takes_references; }
  struct Piece {
    ByteView data;
    const Owner* owner = nullptr;  // none: the data is copied
  };
  bool try_write(Piece piece) { return !is_foreign() && try_append(piece); }
  Status write(Piece piece, Interrupt& interrupt);
  // Passes on what it can, promises nothing; a no-op unless the stream is open (FLUSH-2).
  Status flush(Interrupt& interrupt);
  // flush(), and what that keeps back, less than a chunk: every byte before rest.offset is handed
  // over, rest.bytes follow it, and end where everything ends that was written before. Fails unless
  // the stream is open.
  struct Rest {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };
  Status hand_over(Rest& rest, Interrupt& interrupt);
  Status hflush(Interrupt& interrupt);
  Status hsync(Interrupt& interrupt);
  // hsync(), and the block that holds the newest byte ends: the next write begins another one.
  // Threads that come while such a call is under way share the next one's end. No write of at most
  // half the window is divided by it. kUnsupported unless the sink has kEndBlock.
  Status hsync_and_end_block(Interrupt& interrupt);
  Status close(Interrupt& interrupt);
  // Whether close() will hardly sleep: there is little to send, to a store that answers at once.
  bool closes_at_once() const;
  // A no-op on a closed stream; else kUnsupported, and the stream stays as it is, unless the sink
  // has the capability.
  Status abort(AbortResult& result);
  // kUnsupported, whatever the state, unless the sink has the capability.
  Status set_drop_behind(std::optional<bool> value);
  // Drops the stream: false if it was closed already. Waits at most for a system call under way.
  bool abandon() noexcept;
  // Where the process ends within close(): what is under way waits no longer for who takes the
  // bytes. Whether it does end there.
  bool give_up() noexcept;
  // As abandon(), of a stream whose bytes another writer cuts off: this stream's next calls, and
  // its first close(), fail with `why`.
  void supersede(Status why);

  std::uint64_t position() const;
  // SinkTraits::file_id.
  std::uint64_t file_id() const noexcept { return traits_.file_id; }
  bool has_capability(std::string_view name) const;
  State state() const;
  const std::string& path() const noexcept { return path_; }
  Statistics statistics() const;
  // To the sum of many: counts add up, and extremes are those of all. Where it throws, part of them
  // is added.
  void add_statistics(Statistics& statistics) const;
  PastEvents history() const;
  // Made by a process that this one was forked from.
  bool is_foreign() const noexcept { return origin_.is_parent(); }

 private:
  // The right of one thread at a time to do something; see above.
  struct Turn {
    bool taken = false;
    std::thread::id holder;
  };
  class TurnHolder;

  // SinkEvents
  void acknowledged(std::uint64_t offset) override HFLUSH_EXCLUDES(mutex_);
  void reached(Level level, std::uint64_t offset) override HFLUSH_EXCLUDES(mutex_);
  void not_reached(Level level, std::uint64_t offset, Status why) override HFLUSH_EXCLUDES(mutex_);
  void finished() override HFLUSH_EXCLUDES(mutex_);
  void failed(Status failure) override HFLUSH_EXCLUDES(mutex_);
  template <typename Change>
  void record(Change change) HFLUSH_EXCLUDES(mutex_);

  Status check_usable_locked(std::string_view operation) HFLUSH_REQUIRES(mutex_);
  Status check_alive_locked(std::string_view operation) HFLUSH_REQUIRES(mutex_);
  Status check_not_reentered_locked(std::string_view operation) const HFLUSH_REQUIRES(mutex_);
  Status report_failure_locked() HFLUSH_REQUIRES(mutex_);
  void move_locked(Event event) HFLUSH_REQUIRES(mutex_);
  void break_locked(Status failure) HFLUSH_REQUIRES(mutex_);
  Status wait_locked(Interrupt& interrupt) HFLUSH_REQUIRES(mutex_);

  bool try_append(Piece piece) HFLUSH_EXCLUDES(mutex_);
  bool try_append_locked(Piece piece) HFLUSH_REQUIRES(mutex_);
  Status append_locked(Piece rest, Interrupt& interrupt) HFLUSH_REQUIRES(mutex_);
  std::size_t copied_end_locked(std::size_t size) const HFLUSH_REQUIRES(mutex_);
  bool append_or_break_locked(Piece piece) HFLUSH_REQUIRES(mutex_);
  std::optional<std::uint64_t> cut_or_break_locked(Cut cut) HFLUSH_REQUIRES(mutex_);
  Status reserve_locked(std::size_t size, Interrupt& interrupt) HFLUSH_REQUIRES(mutex_);
  bool window_has_room_locked(std::size_t size) const HFLUSH_REQUIRES(mutex_);
  std::uint64_t sealed_bytes_locked() const HFLUSH_REQUIRES(mutex_);
  std::size_t put_locked(ByteView tail) HFLUSH_REQUIRES(mutex_);
  template <typename Work>
  void at_sink_locked(Work work) HFLUSH_REQUIRES(mutex_);
  Status offer_locked(ByteView data, std::size_t& taken, Interrupt& interrupt)
      HFLUSH_REQUIRES(mutex_);

  Status sync(Level level, std::string_view operation, Interrupt& interrupt)
      HFLUSH_EXCLUDES(mutex_);
  Status reach_locked(Level level, std::uint64_t target, Interrupt& interrupt)
      HFLUSH_REQUIRES(mutex_);
  void request_locked(Level level) HFLUSH_REQUIRES(mutex_);
  Status publish_locked(Interrupt& interrupt) HFLUSH_REQUIRES(mutex_);
  Status release_sink_locked() HFLUSH_REQUIRES(mutex_);
  Status foreign_failure(std::string_view operation) const;

  // Constant after construction.
  const std::string path_;
  const SinkTraits traits_;
  const Geometry& geometry_ = traits_.geometry;
  const env::Clock& clock_;
  const env::Origin origin_;
  const Status out_of_memory_;  // made while there is memory

  LoneWriter lone_writer_;

  // Before the buffer pool's and the loop's. Never held across a call into the sink, an interrupt,
  // or while the GIL is taken.
  mutable Mutex mutex_;
  env::LoopCondVar changed_;  // anything below
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kOpen;
  Status failure_ HFLUSH_GUARDED_BY(mutex_);          // the first one; stays
  std::thread::id closer_ HFLUSH_GUARDED_BY(mutex_);  // the thread at work while kClosing
  Turn writer_turn_ HFLUSH_GUARDED_BY(mutex_);
  Turn sink_turn_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<Packet> sealed_ HFLUSH_GUARDED_BY(mutex_);  // not yet put
  Progress progress_ HFLUSH_GUARDED_BY(mutex_);
  CallStatistics calls_ HFLUSH_GUARDED_BY(mutex_);

  // Called without the mutex, under the sink's turn. Last, so that it is destroyed before the
  // fields that its reports change.
  const std::unique_ptr<Sink> sink_;
};

}  // namespace hflush::stream
