#include "hflush/stream/output_stream.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/base/check.h"

namespace hflush::stream {
namespace {

// From here on a sink may take bytes straight from the caller's memory: below, copying them into a
// batch saves more system calls than the copy costs.
constexpr std::size_t kOfferAtLeast = 512U << 10U;

constexpr std::string_view kAbortable = "fs.capability.outputstream.abortable";

Cut cut_for(Level level) noexcept {
  switch (level) {
    case Level::kHandedOver:
      return Cut::kWholeChunks;
    case Level::kVisible:
    case Level::kDurable:
      break;
    case Level::kBlockEnded:
      return Cut::kBlock;
  }
  return Cut::kEverything;
}

Status closed_failure(std::string_view operation, State state, const std::string& path) {
  std::string message(operation);
  message += ": the stream is ";
  message += to_string(state);
  return Status(StatusCode::kClosed, std::move(message), path);
}

}  // namespace

// Holds a turn for a scope. The mutex is held at both ends.
class OutputStream::TurnHolder {
 public:
  TurnHolder(Turn& turn, env::LoopCondVar& changed) noexcept : turn_(turn), changed_(changed) {
    turn_ = {true, std::this_thread::get_id()};
  }
  ~TurnHolder() {
    turn_ = {};
    changed_.notify_all();
  }
  TurnHolder(const TurnHolder&) = delete;
  TurnHolder& operator=(const TurnHolder&) = delete;

 private:
  Turn& turn_;
  env::LoopCondVar& changed_;
};

OutputStream::OutputStream(std::string path, std::unique_ptr<Sink> sink, BufferPool& pool,
                           const env::Clock& clock)
    : path_(std::move(path)),
      traits_(sink->traits()),
      clock_(clock),
      out_of_memory_(Status::from_errno(ENOMEM, "write", path_)),
      lone_writer_(geometry_, pool),
      progress_(geometry_.start),
      sink_(std::move(sink)) {
  HFLUSH_DCHECK(geometry_.valid());
}

OutputStream::~OutputStream() { abandon(); }

Status OutputStream::foreign_failure(std::string_view operation) const {
  return Status(StatusCode::kForked,
                std::string(operation) + ": the stream was opened before fork, by another process",
                path_);
}

// --- what the sink reports

void OutputStream::acknowledged(std::uint64_t offset) {
  record([&]() HFLUSH_REQUIRES(mutex_) { return progress_.acknowledged(offset); });
}

void OutputStream::reached(Level level, std::uint64_t offset) {
  record([&]() HFLUSH_REQUIRES(mutex_) {
    progress_.reached(level, offset);
    return true;
  });
}

void OutputStream::not_reached(Level level, std::uint64_t offset, Status why) {
  record([&]() HFLUSH_REQUIRES(mutex_) {
    progress_.refused(level, offset, std::move(why));
    return true;
  });
}

void OutputStream::finished() {
  record([&]() HFLUSH_REQUIRES(mutex_) {
    progress_.finished();
    return true;
  });
}

// Handles an event: `change` returns whether a thread may wait for it. Threads are woken without
// the mutex, because they take it first. The thread that has the sink's turn wakes all others when
// it ends the turn: if it woke them for its own events, they would only wait again.
template <typename Change>
void OutputStream::record(Change change) {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    wake = change() && !sink_turn_.taken;
  }
  if (wake) changed_.notify_all();
}

void OutputStream::failed(Status failure) {
  MutexLock lock(mutex_);
  break_locked(std::move(failure));
}

void OutputStream::break_locked(Status failure) {
  ++calls_.write_exceptions;
  failure_ = first_failure(failure_, std::move(failure));
  move_locked(Event::kBroke);
  changed_.notify_all();
}

// --- states and waiting

void OutputStream::move_locked(Event event) {
  const State before = state_;
  state_ = next(before, event).value_or(before);
  if (before == State::kOpen && state_ != State::kOpen) lone_writer_.shut();  // for good
}

Status OutputStream::report_failure_locked() {
  move_locked(Event::kReported);
  return failure_;
}

// May a new call use the stream? The first one after a failure in the background reports it.
Status OutputStream::check_usable_locked(std::string_view operation) {
  if (is_foreign()) return foreign_failure(operation);
  if (state_ == State::kOpen) return {};
  if (state_ == State::kBroken) return report_failure_locked();
  return closed_failure(operation, state_, path_).with_cause(failure_);
}

// Must a call under way give up? A failure, an abort or a failed close ended the stream.
Status OutputStream::check_alive_locked(std::string_view operation) {
  if (!failure_.ok()) return report_failure_locked();
  if (is_final(state_)) return closed_failure(operation, state_, path_);
  return {};
}

// A signal handler that runs inside a waiting call of this thread would wait for itself.
Status OutputStream::check_not_reentered_locked(std::string_view operation) const {
  const std::thread::id self = std::this_thread::get_id();
  const bool inside = (writer_turn_.taken && writer_turn_.holder == self) ||
                      (state_ == State::kClosing && closer_ == self);
  if (!inside) return {};
  // Without the path: that of a file which is written aside means nothing to the caller.
  return Status(StatusCode::kReentered,
                std::string(operation) + ": reentrant call, from within a call of the same thread");
}

Status OutputStream::wait_locked(Interrupt& interrupt) {
  changed_.wait_until(mutex_, interrupt.next_check(), traits_.loop);
  if (!interrupt.is_due()) return {};
  const MutexUnlock unlock(mutex_);
  return interrupt.check_now();
}

// --- writing

bool OutputStream::try_append(Piece piece) {
  if (!mutex_.try_lock()) return false;
  // Again the fast path: another small write may have been in its way.
  const bool accepted =
      state_ == State::kOpen && !writer_turn_.taken &&
      ((piece.owner == nullptr && lone_writer_.append(piece.data)) || try_append_locked(piece));
  mutex_.unlock();
  return accepted;
}

// What a small write does at the end of a packet: the next one is taken, as long as that needs
// neither the sink nor the window. Releasing the GIL for each packet would cost more than the
// packet.
bool OutputStream::try_append_locked(Piece piece) {
  return piece.data.size() <= geometry_.packet_bytes &&
         sealed_bytes_locked() + 2 * geometry_.packet_bytes < geometry_.batch_bytes &&
         window_has_room_locked(piece.data.size()) && append_or_break_locked(piece);
}

Status OutputStream::write(Piece piece, Interrupt& interrupt) {
  if (is_foreign()) return foreign_failure("write");
  MutexLock lock(mutex_);
  HFLUSH_RETURN_IF_ERROR(check_not_reentered_locked("write"));
  HFLUSH_RETURN_IF_ERROR(check_usable_locked("write"));
  while (writer_turn_.taken) {
    HFLUSH_RETURN_IF_ERROR(wait_locked(interrupt));
    HFLUSH_RETURN_IF_ERROR(check_usable_locked("write"));
  }
  const TurnHolder turn(writer_turn_, changed_);
  const LoneWriter::Shut shut(lone_writer_);
  return append_locked(piece, interrupt);
}

Status OutputStream::append_locked(Piece rest, Interrupt& interrupt) {
  ByteView& data = rest.data;
  const std::size_t copied = rest.owner == nullptr ? data.size() : copied_end_locked(data.size());
  // A record of at most half a window is reserved whole: if interrupted, nothing of it is appended.
  std::size_t piece_bytes = geometry_.window_bytes / 2;
  while (!data.empty()) {
    std::size_t taken = 0;
    if (data.size() >= kOfferAtLeast && !geometry_.has_chunks()) {
      HFLUSH_RETURN_IF_ERROR(offer_locked(data, taken, interrupt));
    }
    if (taken == 0) {
      const bool is_kept = data.size() > copied;
      taken = std::min(is_kept ? data.size() - copied : data.size(), piece_bytes);
      HFLUSH_RETURN_IF_ERROR(reserve_locked(taken, interrupt));
      append_or_break_locked({data.first(taken), is_kept ? rest.owner : nullptr});
      const bool batch_is_full = sealed_bytes_locked() >= geometry_.batch_bytes;
      // A thread inside the sink does not make a writer wait: only the window does.
      if (batch_is_full && !sink_turn_.taken) put_locked({});
    }
    data = data.subspan(taken);
    // With what is being filled, less than a packet, a piece fits in the window: that is not
    // acknowledged before it is put.
    piece_bytes = std::min(geometry_.batch_bytes, geometry_.window_bytes - geometry_.packet_bytes);
    HFLUSH_RETURN_IF_ERROR(check_alive_locked("write"));
  }
  return {};
}

// How much at the end of a reference to `size` bytes is copied all the same: the beginning of a
// block, which may not be full for long, and would keep all of them. Not where it is most of them.
std::size_t OutputStream::copied_end_locked(std::size_t size) const {
  if (geometry_.block_bytes == 0) return 0;
  const std::uint64_t begin = lone_writer_.position() - geometry_.block_start;
  const std::uint64_t end = begin % geometry_.block_bytes + size;
  if (end < geometry_.block_bytes) return 0;
  const auto behind = static_cast<std::size_t>(end % geometry_.block_bytes);
  return behind < size / 2 ? behind : 0;
}

// Without memory part of the piece may be appended, so that the stream cannot go on.
bool OutputStream::append_or_break_locked(Piece piece) {
  try {
    if (piece.owner != nullptr) {
      lone_writer_.append_reference(piece.data, *piece.owner, sealed_);
    } else {
      lone_writer_.append(piece.data, sealed_);
    }
    return true;
  } catch (const std::bad_alloc&) {
    break_locked(out_of_memory_);
    return false;
  }
}

// The offset up to which everything is sealed. Without memory what was being filled may be lost.
std::optional<std::uint64_t> OutputStream::cut_or_break_locked(Cut cut) {
  try {
    return lone_writer_.cut(cut, sealed_);
  } catch (const std::bad_alloc&) {
    break_locked(out_of_memory_);
    return std::nullopt;
  }
}

// Offers the caller's own memory to the sink, behind what is buffered.
Status OutputStream::offer_locked(ByteView data, std::size_t& taken, Interrupt& interrupt) {
  while (sink_turn_.taken) HFLUSH_RETURN_IF_ERROR(wait_locked(interrupt));
  HFLUSH_RETURN_IF_ERROR(check_alive_locked("write"));
  if (cut_or_break_locked(Cut::kEverything)) taken = put_locked(data);
  return check_alive_locked("write");
}

bool OutputStream::window_has_room_locked(std::size_t size) const {
  return lone_writer_.position() + size <= progress_.acknowledged() + geometry_.window_bytes;
}

Status OutputStream::reserve_locked(std::size_t size, Interrupt& interrupt) {
  while (!window_has_room_locked(size)) {
    if (!sealed_.empty() && !sink_turn_.taken) {
      put_locked({});
    } else {
      progress_.need(lone_writer_.position() + size - geometry_.window_bytes);
      const Status waited = wait_locked(interrupt);
      progress_.need(std::nullopt);
      HFLUSH_RETURN_IF_ERROR(waited);
    }
    HFLUSH_RETURN_IF_ERROR(check_alive_locked("write"));
  }
  return {};
}

std::uint64_t OutputStream::sealed_bytes_locked() const {
  return sealed_.empty() ? 0 : sealed_.back().end() - sealed_.front().offset();
}

// Hands over what is sealed, and offers `tail`; returns how much of it was taken.
// Requires: the sink's turn is free; with a tail, small writes are shut out and nothing is being
// filled.
std::size_t OutputStream::put_locked(ByteView tail) {
  std::size_t taken = 0;
  at_sink_locked([&](std::span<Packet> batch) { taken = sink_->put({batch, tail}, {}, *this); });
  if (taken > 0) lone_writer_.skip(taken);
  return taken;
}

// Runs `work` with what is sealed, holding the sink's turn and not the mutex.
// Requires: the turn is free.
template <typename Work>
void OutputStream::at_sink_locked(Work work) {
  const TurnHolder turn(sink_turn_, changed_);
  std::vector<Packet> batch;
  batch.swap(sealed_);
  const MutexUnlock unlock(mutex_);
  try {
    work(std::span<Packet>(batch));
  } catch (const std::bad_alloc&) {
    failed(out_of_memory_);
  }
  batch.clear();
}

// --- flush, hflush, hsync

Status OutputStream::flush(Interrupt& interrupt) {
  if (is_foreign()) return {};
  MutexLock lock(mutex_);
  if (state_ != State::kOpen) return {};
  Status reached =
      reach_locked(Level::kHandedOver, lone_writer_.position_after(Cut::kWholeChunks), interrupt);
  // Another thread has ended the stream meanwhile: there is nothing left to flush.
  if (reached.code() == StatusCode::kClosed && failure_.ok()) return {};
  return reached;
}

// Nothing is written meanwhile, so that what is kept back follows on what is handed over.
Status OutputStream::hand_over(Rest& rest, Interrupt& interrupt) {
  if (is_foreign()) return foreign_failure("persist");
  const env::EventLoop::Guest guest(traits_.loop);
  MutexLock lock(mutex_);
  HFLUSH_RETURN_IF_ERROR(check_not_reentered_locked("persist"));
  HFLUSH_RETURN_IF_ERROR(check_usable_locked("persist"));
  while (writer_turn_.taken) {
    HFLUSH_RETURN_IF_ERROR(wait_locked(interrupt));
    HFLUSH_RETURN_IF_ERROR(check_usable_locked("persist"));
  }
  const TurnHolder turn(writer_turn_, changed_);
  const LoneWriter::Shut shut(lone_writer_);
  const std::uint64_t offset = lone_writer_.position_after(Cut::kWholeChunks);
  HFLUSH_RETURN_IF_ERROR(reach_locked(Level::kHandedOver, offset, interrupt));
  rest.offset = offset;
  rest.bytes = lone_writer_.partial_chunk();
  return {};
}

Status OutputStream::hflush(Interrupt& interrupt) {
  return sync(Level::kVisible, "hflush", interrupt);
}

Status OutputStream::hsync(Interrupt& interrupt) {
  return sync(Level::kDurable, "hsync", interrupt);
}

Status OutputStream::hsync_and_end_block(Interrupt& interrupt) {
  return sync(Level::kBlockEnded, "hsync", interrupt);
}

Status OutputStream::sync(Level level, std::string_view operation, Interrupt& interrupt) {
  if (is_foreign()) return foreign_failure(operation);
  const env::TimePoint start = clock_.now();
  if (!traits_.has("hsync")) {
    return Status(StatusCode::kUnsupported,
                  std::string(operation) + " is not supported by this stream", path_);
  }
  if (level == Level::kBlockEnded && !traits_.has(kEndBlock)) {
    return Status(StatusCode::kUnsupported,
                  "hsync with end_block is not supported by this stream: its store has no blocks",
                  path_);
  }
  const env::EventLoop::Guest guest(traits_.loop);
  MutexLock lock(mutex_);
  HFLUSH_RETURN_IF_ERROR(check_usable_locked(operation));
  HFLUSH_RETURN_IF_ERROR(reach_locked(level, lone_writer_.position(), interrupt));
  DurationStatistic& durations = level >= Level::kDurable ? calls_.hsync : calls_.hflush;
  durations.add(clock_.now() - start);
  return {};
}

// Waits until every byte below `target` is at `level`. One request is under way for a level at a
// time: threads that come meanwhile share the next one, which the first of them makes when the one
// under way is answered (group commit). A refusal is the result of every thread that the request
// covered.
Status OutputStream::reach_locked(Level level, std::uint64_t target, Interrupt& interrupt) {
  const Progress::Refusal& refusal = progress_.refusal(level);
  const std::uint64_t refused_before = refusal.number;
  while (!progress_.has_reached(level, target)) {
    HFLUSH_RETURN_IF_ERROR(check_alive_locked("sync"));
    if (refusal.number != refused_before && refusal.offset >= target) return refusal.why;
    if (state_ == State::kOpen && !sink_turn_.taken && progress_.is_answered(level)) {
      request_locked(level);
    } else {
      HFLUSH_RETURN_IF_ERROR(wait_locked(interrupt));
    }
  }
  return {};
}

void OutputStream::request_locked(Level level) {
  const std::optional<std::uint64_t> target = cut_or_break_locked(cut_for(level));
  if (!target) return;
  progress_.requested(level, *target);
  at_sink_locked([&](std::span<Packet> batch) { sink_->put({batch}, level, *this); });
}

// --- the end

Status OutputStream::close(Interrupt& interrupt) {
  if (is_foreign()) return {};  // the parent's stream is the parent's to close (CONC-12)
  const env::TimePoint start = clock_.now();
  const env::EventLoop::Guest guest(traits_.loop);
  MutexLock lock(mutex_);
  if (is_final(state_)) return {};
  HFLUSH_RETURN_IF_ERROR(check_not_reentered_locked("close"));
  if (state_ == State::kClosing) {
    while (!is_final(state_)) HFLUSH_RETURN_IF_ERROR(wait_locked(interrupt));
    return {};
  }
  move_locked(Event::kCloseAsked);
  closer_ = std::this_thread::get_id();
  Status outcome = state_ == State::kClosing ? publish_locked(interrupt) : failure_;
  if (outcome.ok()) {
    move_locked(Event::kPublished);
    calls_.close.add(clock_.now() - start);
  } else {
    if (failure_.ok()) {  // the wait was interrupted, and no one will try again
      failure_ = Status(StatusCode::kInterrupted, "close: " + outcome.message(), path_);
    }
    move_locked(Event::kCloseFailed);
    static_cast<void>(release_sink_locked());  // a failure to clean up no longer matters
  }
  changed_.notify_all();
  return outcome;
}

bool OutputStream::closes_at_once() const {
  static constexpr std::uint64_t kLittle = std::uint64_t{64} << 10U;
  return traits_.loop != nullptr && traits_.loop->answers_at_once() && position() <= kLittle;
}

Status OutputStream::publish_locked(Interrupt& interrupt) {
  // A write under way is wholly in the file (CONC-6); one that still waits for its turn is refused.
  while (writer_turn_.taken || sink_turn_.taken) {
    HFLUSH_RETURN_IF_ERROR(wait_locked(interrupt));
  }
  if (!failure_.ok()) return failure_;
  if (!cut_or_break_locked(Cut::kFinal)) return failure_;
  at_sink_locked([&](std::span<Packet> batch) {
    if (!batch.empty()) sink_->put({batch}, {}, *this);
    sink_->finish(*this);
  });
  while (!progress_.is_finished() && failure_.ok()) {
    const Status waited = wait_locked(interrupt);
    if (!waited.ok() && !progress_.is_finished()) return waited;
  }
  return failure_;
}

// Waits for the thread inside the sink, if any: it is in a system call at most.
Status OutputStream::release_sink_locked() {
  // A signal handler may have forked during the wait that ended here: the sink is the parent's.
  if (is_foreign()) return {};
  if (sink_turn_.taken) {
    const MutexUnlock unlock(mutex_);
    sink_->give_up();
  }
  while (sink_turn_.taken) changed_.wait(mutex_);
  const TurnHolder turn(sink_turn_, changed_);
  sealed_.clear();
  const MutexUnlock unlock(mutex_);
  return sink_->abandon();
}

Status OutputStream::abort(AbortResult& result) {
  if (is_foreign()) return foreign_failure("abort");
  MutexLock lock(mutex_);
  result.already_closed = is_final(state_) || state_ == State::kClosing;
  if (result.already_closed) return {};
  if (!traits_.has(kAbortable)) {
    return Status(StatusCode::kUnsupported, "abort is not supported by this stream", path_);
  }
  ++calls_.aborts;
  move_locked(Event::kAbortAsked);
  result.cleanup = release_sink_locked();
  return {};
}

Status OutputStream::set_drop_behind(std::optional<bool> value) {
  if (is_foreign()) return foreign_failure("set_drop_behind");
  if (!traits_.has("dropbehind")) {
    return Status(StatusCode::kUnsupported, "set_drop_behind is not supported by this stream",
                  path_);
  }
  {
    MutexLock lock(mutex_);
    HFLUSH_RETURN_IF_ERROR(check_usable_locked("set_drop_behind"));
  }
  sink_->advise(value);
  return {};
}

bool OutputStream::abandon() noexcept {
  if (is_foreign()) return false;
  MutexLock lock(mutex_);
  if (is_final(state_) || state_ == State::kClosing) return false;
  move_locked(Event::kAbortAsked);
  static_cast<void>(release_sink_locked());
  return true;
}

bool OutputStream::give_up() noexcept {
  if (is_foreign() || state() != State::kClosing) return false;
  sink_->give_up();
  return true;
}

void OutputStream::supersede(Status why) {
  if (is_foreign()) return;
  MutexLock lock(mutex_);
  if (is_final(state_) || state_ == State::kClosing) return;
  break_locked(std::move(why));
  static_cast<void>(release_sink_locked());
}

// --- getters

// In a forked child the mutex may be locked for ever: nothing below takes it there.

std::uint64_t OutputStream::position() const {
  if (is_foreign()) return geometry_.start;
  MutexLock lock(mutex_);
  return lone_writer_.position();
}

State OutputStream::state() const {
  if (is_foreign()) return State::kAborted;
  MutexLock lock(mutex_);
  return state_;
}

bool OutputStream::has_capability(std::string_view name) const {
  const std::string lower = to_lower(name);
  if (lower == "iostatistics") return true;
  return traits_.has(lower == "hflush" ? "hsync" : lower);
}

void OutputStream::add_statistics(Statistics& statistics) const {
  if (is_foreign()) return;
  {
    MutexLock lock(mutex_);
    statistics["stream_write_bytes"] +=
        static_cast<std::int64_t>(lone_writer_.position() - geometry_.start);
    calls_.add_to(statistics);
  }
  sink_->add_statistics(statistics);
}

Statistics OutputStream::statistics() const {
  Statistics statistics;
  add_statistics(statistics);
  return statistics;
}

PastEvents OutputStream::history() const { return is_foreign() ? PastEvents() : sink_->history(); }

}  // namespace hflush::stream
