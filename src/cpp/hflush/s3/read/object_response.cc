#include "hflush/s3/read/object_response.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "hflush/env/answer.h"

namespace hflush::s3 {

ObjectResponse::ObjectResponse(std::shared_ptr<const ReadOptions> options,
                               std::shared_ptr<ReadCounters> counters, ByteRange asked)
    : options_(std::move(options)),
      counters_(std::move(counters)),
      asked_(asked),
      position_(asked.begin),
      body_(asked),
      buffer_(MemoryBudget::of_process()) {}

void ObjectResponse::expect(MutableByteView out) {
  expected_ = true;
  const MutexLock lock(mutex_);
  wanted_ = out;
}

Result<std::size_t> ObjectResponse::read(MutableByteView out, Client& client, env::EventLoop* loop,
                                         env::Interrupt& interrupt) {
  std::size_t done = 0;
  while (done < out.size()) {
    if (front_.size() == 0) {
      HFLUSH_ASSIGN_OR_RETURN(const std::size_t direct,
                              more(out.subspan(done), client, loop, interrupt));
      done += direct;
      if (front_.size() == 0) break;
    }
    done += front_.take(out.subspan(done));
  }
  position_ += done;
  return done;
}

Result<std::size_t> ObjectResponse::more(MutableByteView out, Client& client, env::EventLoop* loop,
                                         env::Interrupt& interrupt) {
  // Goes back to its pool without the lock.
  const ReadBuffer::Block used = std::exchange(front_, {});
  bool resumes = false;
  {
    const MutexLock lock(mutex_);
    if (!expected_ && !buffer_.empty()) {
      front_ = buffer_.pop_front();
      resumes = must_resume_locked();
    } else {
      if (!std::exchange(expected_, false)) wanted_ = out;
      const Status interrupted = wait_locked(loop, interrupt);
      const std::size_t got = out.size() - wanted_.size();
      wanted_ = {};
      if (!interrupted.ok()) return interrupted;
      return got;
    }
  }
  if (resumes) client.resume(call);
  return std::size_t{0};
}

Status ObjectResponse::wait_locked(env::EventLoop* loop, env::Interrupt& interrupt) {
  while (!wanted_.empty() && state_ == State::kComing) {
    HFLUSH_RETURN_IF_ERROR(
        env::wait_until(mutex_, arrived_, env::TimePoint::max(), interrupt, loop));
  }
  return {};
}

void ObjectResponse::skip(std::uint64_t count, Client& client) {
  if (count == 0) return;
  ReadCounters::add(counters_->skipped, count);
  position_ += count;
  count -= front_.skip(count);
  bool resumes = false;
  {
    const MutexLock lock(mutex_);
    body_.skip(count - buffer_.skip(count));
    resumes = must_resume_locked();
  }
  if (resumes) client.resume(call);
}

ObjectResponse::Ending ObjectResponse::ending() const {
  const MutexLock lock(mutex_);
  return {state_, failure_, body_.received_of_range()};
}

bool ObjectResponse::release() {
  {
    const MutexLock lock(mutex_);
    if (is_over_ || (state_ == State::kComing && body_.is_complete())) return false;
    if (state_ == State::kComing) state_ = State::kReleased;
    is_over_ = true;
  }
  ReadCounters::add(counters_->aborted, 1);
  arrived_.notify_all();
  return true;
}

void ObjectResponse::keep(std::uint64_t bytes) {
  std::uint64_t discarded = 0;
  while (true) {
    // Goes back to its pool without the lock; a list of them would need memory.
    ReadBuffer::Block dropped;
    const MutexLock lock(mutex_);
    dropped = buffer_.pop_back_beyond(bytes);
    if (dropped.size() == 0) break;
    discarded += dropped.size();
    if (state_ != State::kFailed) state_ = State::kReleased;
  }
  ReadCounters::add(counters_->discarded, discarded);
}

bool ObjectResponse::must_resume_locked() {
  return buffer_.size() <= options_->window_bytes / 2 && std::exchange(paused_, false);
}

void ObjectResponse::on_head(const env::HttpHead& head) {
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kComing) return;
    Result<ExpectedBody> expected = expected_body(head, *options_, asked_);
    if (expected.ok()) return body_.begin(*std::move(expected));
    fail_locked(expected.status());
  }
  arrived_.notify_all();
}

bool ObjectResponse::on_body(ByteView bytes) {
  bool wakes = false;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kComing) return true;  // no reader wants it any more
    if (!buffer_.has_room_for(bytes.size(), options_->window_bytes)) {
      paused_ = true;  // until the reader has taken some
      return false;
    }
    const bool reader_waits = !wanted_.empty();
    if (Status failure = store_locked(bytes); !failure.ok()) fail_locked(std::move(failure));
    wakes = reader_waits && (wanted_.empty() || state_ != State::kComing);
    ReadCounters::add(counters_->received, bytes.size());
  }
  if (wakes) arrived_.notify_all();
  return true;
}

Status ObjectResponse::store_locked(ByteView bytes) {
  HFLUSH_ASSIGN_OR_RETURN(ByteView rest, body_.take(bytes));
  const std::size_t direct = std::min(rest.size(), wanted_.size());
  if (direct > 0) {
    std::memcpy(wanted_.data(), rest.data(), direct);
    wanted_ = wanted_.subspan(direct);
    rest = rest.subspan(direct);
  }
  return buffer_.append(rest) ? Status() : Status::from_errno(ENOMEM, "read", options_->path);
}

void ObjectResponse::fail_locked(Status failure) {
  if (failure.code() == StatusCode::kPreconditionFailed)
    ReadCounters::add(counters_->mismatches, 1);
  if (failure.code() == StatusCode::kChecksum) ReadCounters::add(counters_->corrupt, 1);
  state_ = State::kFailed;
  failure_ = std::move(failure);
}

void ObjectResponse::on_end(CallResult result) {
  {
    const MutexLock lock(mutex_);
    is_over_ = true;
    if (state_ != State::kComing) return;
    if (result.failure && body_.received() == 0) {
      fail_locked(explained(result));
    } else if (result.failure) {
      state_ = State::kBroken;
      failure_ = result.status;
    } else {
      state_ = body_.is_complete() ? State::kComplete : State::kBroken;
      failure_ = Status(StatusCode::kIo,
                        "read of " + to_text(asked_) + ": the store sent only " +
                            std::to_string(body_.received()) + " bytes",
                        options_->path, EIO);
    }
  }
  arrived_.notify_all();
}

// Why the store refused.
Status ObjectResponse::explained(const CallResult& result) const {
  const bool has_changed =
      result.failure->kind == FailureKind::kPrecondition || result.failure->http_status == 416;
  if (!has_changed) return result.status.with_path(options_->path);
  return replaced(*options_, asked_, result.status.message())
      .with_remote_class(result.failure->code);
}

}  // namespace hflush::s3
