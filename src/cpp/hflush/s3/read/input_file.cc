#include "hflush/s3/read/input_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <new>
#include <optional>
#include <random>
#include <utility>

#include "hflush/base/buffer_pool.h"
#include "hflush/base/mutex.h"
#include "hflush/crc/checksum.h"
#include "hflush/env/answer.h"
#include "hflush/env/loop_cond_var.h"
#include "hflush/env/process.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/memory_budget.h"
#include "hflush/s3/packets.h"

namespace hflush::s3 {
namespace {

// A response that brought so much of what was wanted before it broke off starts the count of
// failures anew.
constexpr std::uint64_t kProgress = std::uint64_t{1} << 20U;

// What the loop thread fills and a reader takes in one piece.
constexpr std::size_t kBlockBytes = kBufferBytes;

// Atomic, because the loop thread counts too; nothing depends on their order.
struct Counters {
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

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// "bytes 0-99/1000" as {0, 100} and 1000; a total of "*" is none.
struct ContentRange {
  Range range;
  std::optional<std::uint64_t> total;
};

bool take_number(std::string_view& text, std::uint64_t& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char expected) noexcept {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<ContentRange> parse_content_range(std::string_view text) noexcept {
  ContentRange parsed;
  std::uint64_t last = 0;
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  if (!take_number(text, parsed.range.begin) || !take(text, '-') || !take_number(text, last) ||
      last < parsed.range.begin || last == UINT64_MAX || !take(text, '/')) {
    return std::nullopt;
  }
  parsed.range.end = last + 1;
  if (text == "*") return parsed;
  if (!take_number(text, parsed.total.emplace()) || !text.empty()) return std::nullopt;
  return parsed;
}

// Stores differ in quoting, and a proxy may make an etag weak.
std::string_view bare_etag(std::string_view etag) noexcept {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"')) {
    etag = etag.substr(1, etag.size() - 2);
  }
  return etag;
}

// The CRC of a whole object as a store tells it; none of the parts', which have their number behind
// a dash.
struct StoredSum {
  crc::Kind kind = crc::Kind::kNone;
  std::string text;  // as a header has it
};

StoredSum stored_sum(const env::HttpHead& head) {
  constexpr std::size_t kEncodedSize = 8;
  const std::string_view type = head.header("x-amz-checksum-type");
  if (!type.empty() && type != "FULL_OBJECT") return {};
  for (const auto& [kind, name] : {std::pair(crc::Kind::kCrc32c, "x-amz-checksum-crc32c"),
                                   std::pair(crc::Kind::kCrc32, "x-amz-checksum-crc32")}) {
    const std::string_view text = head.header(name);
    if (text.size() == kEncodedSize) return {kind, std::string(text)};
  }
  return {};
}

std::string to_text(const Range& range) {
  return "bytes " + std::to_string(range.begin) + " to " + std::to_string(range.end);
}

// The answer to one GET: what has come of it, and where the next bytes go.
//
// The loop thread fills, one reader at a time takes. A reader that finds nothing waits, and what
// comes then is copied straight into its buffer; otherwise it lands in blocks that change hands as
// a whole, so that nobody copies under the lock what another could copy at the same time.
class Response final : public Download {
 public:
  enum class State : std::uint8_t {
    kComing,
    kComplete,  // what the store wanted to send has come
    kBroken,    // it broke off; the rest can be asked for
    kLetGo,     // so did we
    kFailed,    // asking again would not help
  };
  struct Ending {
    State state;
    Status failure;          // what there is to say if the rest cannot be had
    std::uint64_t received;  // bytes of the range
  };

  Response(std::shared_ptr<const ReadOptions> options, std::shared_ptr<Counters> counters,
           Range range)
      : options_(std::move(options)),
        counters_(std::move(counters)),
        range_(range),
        position_(range.begin),
        left_(range.end - range.begin) {}

  // --- the reader

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t end() const noexcept { return range_.end; }
  // Bytes go to `out` from the start: the next read() is to be of just that. Before the GET.
  void expect(MutableByteView out) HFLUSH_EXCLUDES(mutex_) {
    expected_ = true;
    const MutexLock lock(mutex_);
    wanted_ = out;
  }
  // Fewer bytes than `out` has room for only if no more come: then ending() says why. Of `loop`,
  // which brings them, the caller is a guest, unless it is null.
  Result<std::size_t> read(MutableByteView out, Client& client, env::EventLoop* loop,
                           env::Interrupt& interrupt) HFLUSH_EXCLUDES(mutex_);
  void skip(std::uint64_t count, Client& client) HFLUSH_EXCLUDES(mutex_);
  Ending ending() const HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return {state_, failure_, received_ - in_front_};
  }
  // Nothing that comes is kept from now on. Whether the GET has to be cancelled for that: the last
  // bytes may be here, and the connection can be kept.
  bool let_go() HFLUSH_EXCLUDES(mutex_);
  // After let_go(): of what has come, no more is kept than the next `bytes`, but for blocks that
  // are begun. Whoever wants the rest asks for it again. On any thread, beside a reader.
  void keep(std::uint64_t bytes) HFLUSH_EXCLUDES(mutex_);

  Client::CallId call = 0;

  // --- the loop thread

  void on_head(const env::HttpHead& head) override;
  bool on_body(ByteView bytes) override;
  void on_end(CallResult result) override;

 private:
  struct Block {
    Buffer memory;
    std::size_t begin = 0;
    std::size_t end = 0;

    std::size_t size() const noexcept { return end - begin; }
  };

  std::size_t take_front(MutableByteView out) noexcept;
  // The next block, or bytes that were waited for, straight into `out`: how many those were.
  Result<std::size_t> more(MutableByteView out, Client& client, env::EventLoop* loop,
                           env::Interrupt& interrupt) HFLUSH_EXCLUDES(mutex_);
  Status wait_locked(env::EventLoop* loop, env::Interrupt& interrupt) HFLUSH_REQUIRES(mutex_);
  bool must_resume_locked() HFLUSH_REQUIRES(mutex_);
  Status check_body_locked(ByteView bytes) HFLUSH_REQUIRES(mutex_);
  void store_locked(ByteView bytes) HFLUSH_REQUIRES(mutex_);
  void fail_locked(Status failure) HFLUSH_REQUIRES(mutex_);
  Status check_head_locked(const env::HttpHead& head) HFLUSH_REQUIRES(mutex_);
  Status replaced(const std::string& what) const;
  Status explained(const CallResult& result) const;

  const std::shared_ptr<const ReadOptions> options_;
  const std::shared_ptr<Counters> counters_;
  const Range range_;  // that was asked for

  // The reader's; readers follow on each other under the file's lock.
  std::uint64_t position_;  // of the next byte to be taken
  Block front_;
  bool expected_ = false;

  mutable Mutex mutex_;
  env::LoopCondVar arrived_;
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kComing;
  Status failure_ HFLUSH_GUARDED_BY(mutex_);
  std::uint64_t left_ HFLUSH_GUARDED_BY(mutex_);        // bytes that are still to come
  std::uint64_t before_ HFLUSH_GUARDED_BY(mutex_) = 0;  // of those, in front of the range
  std::uint64_t skip_ HFLUSH_GUARDED_BY(mutex_) = 0;    // of those, that nobody wants any more
  std::uint64_t received_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::uint64_t in_front_ HFLUSH_GUARDED_BY(mutex_) = 0;  // of those, in front of the range
  MutableByteView wanted_ HFLUSH_GUARDED_BY(mutex_);      // of a reader that waits
  std::deque<Block> blocks_ HFLUSH_GUARDED_BY(mutex_);
  std::uint64_t buffered_ HFLUSH_GUARDED_BY(mutex_) = 0;  // bytes in them
  MemoryBudget::Share share_ HFLUSH_GUARDED_BY(mutex_){MemoryBudget::of_process()};
  bool paused_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool is_over_ HFLUSH_GUARDED_BY(mutex_) = false;   // the GET; or it is being cancelled
  StoredSum stored_sum_ HFLUSH_GUARDED_BY(mutex_);   // of the whole, which is on its way
  std::uint32_t sum_ HFLUSH_GUARDED_BY(mutex_) = 0;  // of what has come of it
};

Result<std::size_t> Response::read(MutableByteView out, Client& client, env::EventLoop* loop,
                                   env::Interrupt& interrupt) {
  std::size_t done = 0;
  while (done < out.size()) {
    if (front_.size() == 0) {
      HFLUSH_ASSIGN_OR_RETURN(const std::size_t direct,
                              more(out.subspan(done), client, loop, interrupt));
      done += direct;
      if (front_.size() == 0) break;
    }
    done += take_front(out.subspan(done));
  }
  position_ += done;
  return done;
}

std::size_t Response::take_front(MutableByteView out) noexcept {
  const std::size_t count = std::min(out.size(), front_.size());
  std::memcpy(out.data(), front_.memory.data() + front_.begin, count);
  front_.begin += count;
  return count;
}

Result<std::size_t> Response::more(MutableByteView out, Client& client, env::EventLoop* loop,
                                   env::Interrupt& interrupt) {
  Block used = std::exchange(front_, {});  // goes back to its pool without the lock
  bool resumes = false;
  {
    const MutexLock lock(mutex_);
    if (!expected_ && !blocks_.empty()) {
      front_ = std::move(blocks_.front());
      blocks_.pop_front();
      buffered_ -= front_.size();
      share_.hold(buffered_);
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

Status Response::wait_locked(env::EventLoop* loop, env::Interrupt& interrupt) {
  while (!wanted_.empty() && state_ == State::kComing) {
    HFLUSH_RETURN_IF_ERROR(
        env::wait_until(mutex_, arrived_, env::TimePoint::max(), interrupt, loop));
  }
  return {};
}

void Response::skip(std::uint64_t count, Client& client) {
  if (count == 0) return;
  Counters::add(counters_->skipped, count);
  position_ += count;
  const std::uint64_t in_front = std::min<std::uint64_t>(count, front_.size());
  front_.begin += static_cast<std::size_t>(in_front);
  count -= in_front;
  bool resumes = false;
  {
    const MutexLock lock(mutex_);
    while (count > 0 && !blocks_.empty()) {
      Block& block = blocks_.front();
      const std::uint64_t in_block = std::min<std::uint64_t>(count, block.size());
      block.begin += static_cast<std::size_t>(in_block);
      count -= in_block;
      buffered_ -= in_block;
      if (block.size() == 0) blocks_.pop_front();
    }
    skip_ += count;
    share_.hold(buffered_);
    resumes = must_resume_locked();
  }
  if (resumes) client.resume(call);
}

bool Response::let_go() {
  {
    const MutexLock lock(mutex_);
    if (is_over_ || (state_ == State::kComing && left_ == 0)) return false;
    if (state_ == State::kComing) state_ = State::kLetGo;
    is_over_ = true;
  }
  Counters::add(counters_->aborted, 1);
  arrived_.notify_all();
  return true;
}

void Response::keep(std::uint64_t bytes) {
  std::uint64_t discarded = 0;
  while (true) {
    Block dropped;  // goes back to its pool without the lock; a list of them would need memory
    const MutexLock lock(mutex_);
    if (blocks_.empty() || buffered_ - blocks_.back().size() < bytes) break;
    dropped = std::move(blocks_.back());
    blocks_.pop_back();
    buffered_ -= dropped.size();
    share_.hold(buffered_);
    discarded += dropped.size();
    if (state_ != State::kFailed) state_ = State::kLetGo;
  }
  Counters::add(counters_->discarded, discarded);
}

bool Response::must_resume_locked() {
  return buffered_ <= options_->window_bytes / 2 && std::exchange(paused_, false);
}

void Response::on_head(const env::HttpHead& head) {
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kComing) return;
    Status mismatch = check_head_locked(head);
    if (mismatch.ok()) return;
    fail_locked(std::move(mismatch));
  }
  arrived_.notify_all();
}

Status Response::check_head_locked(const env::HttpHead& head) {
  stored_sum_ = {};  // an attempt before this one may have had one
  const std::string_view etag = head.header("etag");
  if (!options_->etag.empty() && !etag.empty() && bare_etag(etag) != bare_etag(options_->etag)) {
    return replaced("it has the etag " + std::string(etag) + " now");
  }
  if (head.status == 206) {
    const std::string_view text = head.header("content-range");
    const std::optional<ContentRange> answer = parse_content_range(text);
    if (answer && answer->total && *answer->total != options_->size) {
      return replaced("it has " + std::to_string(*answer->total) + " bytes now");
    }
    if (!answer || answer->range.begin != range_.begin || answer->range.end > range_.end) {
      return Status(StatusCode::kIo,
                    "read of " + to_text(range_) + ": the store answered with content-range \"" +
                        std::string(text) + "\"",
                    options_->path, EPROTO);
    }
    left_ = answer->range.end - answer->range.begin;
    before_ = 0;
    return {};
  }
  if (head.status != 200) {
    return Status(StatusCode::kIo,
                  "read of " + to_text(range_) + ": the store answered with HTTP " +
                      std::to_string(head.status),
                  options_->path, EPROTO);
  }
  // The whole object: it was asked for, or the store knows no ranges.
  std::string_view length = head.header("content-length");
  std::uint64_t size = 0;
  if (take_number(length, size) && length.empty() && size != options_->size) {
    return replaced("it has " + std::to_string(size) + " bytes now");
  }
  left_ = options_->size;
  before_ = range_.begin;
  stored_sum_ = stored_sum(head);
  sum_ = 0;
  return {};
}

bool Response::on_body(ByteView bytes) {
  bool wakes = false;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kComing) return true;  // nobody wants it any more
    // Something is always kept for the reader; more as far as the process has memory. It is asked
    // for again as soon as the reader has taken some.
    if (buffered_ > 0 && (buffered_ >= options_->window_bytes ||
                          !share_.try_hold(buffered_ + bytes.size(), false))) {
      paused_ = true;
      return false;
    }
    const bool somebody_waits = !wanted_.empty();
    received_ += bytes.size();
    Status mismatch = check_body_locked(bytes);
    if (mismatch.ok()) {
      left_ -= bytes.size();
      store_locked(bytes);
      share_.hold(buffered_);
    } else {
      fail_locked(std::move(mismatch));
    }
    wakes = somebody_waits && (wanted_.empty() || state_ != State::kComing);
    Counters::add(counters_->received, bytes.size());
  }
  if (wakes) arrived_.notify_all();
  return true;
}

Status Response::check_body_locked(ByteView bytes) {
  if (bytes.size() > left_) {
    return Status(StatusCode::kIo, "read of " + to_text(range_) + ": the store sent more",
                  options_->path, EPROTO);
  }
  if (stored_sum_.kind == crc::Kind::kNone) return {};
  sum_ = crc::extend(stored_sum_.kind, sum_, bytes);
  if (bytes.size() < left_ || crc_header(sum_) == stored_sum_.text) return {};
  Counters::add(counters_->corrupt, 1);
  return Status(StatusCode::kChecksum,
                "read of " + to_text(range_) + ": the checksum of what the store sent is " +
                    crc_header(sum_) + " and not " + stored_sum_.text + ", that of the object",
                options_->path, EIO);
}

void Response::store_locked(ByteView bytes) {
  const auto drop = [&bytes](std::uint64_t& count) {
    const std::uint64_t dropped = std::min<std::uint64_t>(count, bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(dropped));
    count -= dropped;
  };
  const std::size_t sent = bytes.size();
  drop(before_);
  in_front_ += sent - bytes.size();
  drop(skip_);
  const std::size_t direct = std::min(bytes.size(), wanted_.size());
  if (direct > 0) {
    std::memcpy(wanted_.data(), bytes.data(), direct);
    wanted_ = wanted_.subspan(direct);
    bytes = bytes.subspan(direct);
  }
  try {
    while (!bytes.empty()) {
      if (blocks_.empty() || blocks_.back().end == blocks_.back().memory.size()) {
        blocks_.push_back({env::Process::current().buffers().take(kBlockBytes), 0, 0});
      }
      Block& block = blocks_.back();
      const std::size_t count = std::min(bytes.size(), block.memory.size() - block.end);
      std::memcpy(block.memory.data() + block.end, bytes.data(), count);
      block.end += count;
      buffered_ += count;
      bytes = bytes.subspan(count);
    }
  } catch (const std::bad_alloc&) {
    fail_locked(Status::from_errno(ENOMEM, "read", options_->path));
  }
}

void Response::fail_locked(Status failure) {
  state_ = State::kFailed;
  failure_ = std::move(failure);
}

void Response::on_end(CallResult result) {
  {
    const MutexLock lock(mutex_);
    is_over_ = true;
    if (state_ != State::kComing) return;
    if (result.failure && received_ == 0) {
      fail_locked(explained(result));
    } else if (result.failure) {
      state_ = State::kBroken;
      failure_ = result.status;
    } else {
      state_ = left_ == 0 ? State::kComplete : State::kBroken;
      failure_ = Status(StatusCode::kIo,
                        "read of " + to_text(range_) + ": the store sent only " +
                            std::to_string(received_) + " bytes",
                        options_->path, EIO);
    }
  }
  arrived_.notify_all();
}

Status Response::replaced(const std::string& what) const {
  Counters::add(counters_->mismatches, 1);
  std::string message =
      "read of " + to_text(range_) + ": the object was replaced since it was opened, with ";
  if (!options_->etag.empty()) message += "etag " + options_->etag + " and ";
  message += std::to_string(options_->size) + " bytes: " + what;
  return Status(StatusCode::kPreconditionFailed, std::move(message), options_->path, ESTALE);
}

// Why the store refused.
Status Response::explained(const CallResult& result) const {
  const bool has_changed =
      result.failure->kind == FailureKind::kPrecondition || result.failure->http_status == 416;
  if (!has_changed) return result.status.with_path(options_->path);
  return replaced(result.status.message()).with_remote_class(result.failure->code);
}

// Before a response is asked for again: nothing the first time, then from half of what doubles each
// time.
env::Duration delay_of(int failures, const RetrySettings& retry) {
  if (failures <= 1) return env::Duration::zero();
  thread_local std::minstd_rand generator{std::random_device{}()};
  const env::Duration longest =
      doubled(retry.interval, static_cast<std::uint64_t>(failures - 2), retry.max_interval);
  return env::Duration(std::uniform_int_distribution<env::Duration::rep>(
      longest.count() - longest.count() / 2, longest.count())(generator));
}

}  // namespace

class InputFile::Core final : public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<Client> client, ReadOptions options)
      : client_(std::move(client)),
        options_(std::make_shared<const ReadOptions>(std::move(options))) {}

  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt) HFLUSH_EXCLUDES(mutex_);
  std::uint64_t length() const noexcept { return options_->size; }
  void close() HFLUSH_EXCLUDES(mutex_);
  bool closed() const HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return closed_;
  }
  void unbuffer() HFLUSH_EXCLUDES(mutex_);
  void add_statistics(Statistics& statistics) const;
  bool is_foreign() const noexcept { return generation_ != env::Process::generation(); }
  const std::string& path() const noexcept { return options_->path; }

 private:
  // A response, ended when it is let go.
  class Stream {
   public:
    Stream() = default;
    Stream(std::shared_ptr<Client> client, std::shared_ptr<Response> response)
        : client_(std::move(client)), response_(std::move(response)) {}
    Stream(Stream&& other) noexcept = default;
    Stream& operator=(Stream&& other) noexcept {
      std::swap(client_, other.client_);
      std::swap(response_, other.response_);
      return *this;
    }
    ~Stream() {
      if (response_ == nullptr || !response_->let_go()) return;
      client_->cancel(response_->call);
      response_->keep(0);
    }

    explicit operator bool() const noexcept { return response_ != nullptr; }
    Response& operator*() const noexcept { return *response_; }
    Response* operator->() const noexcept { return response_.get(); }
    const std::shared_ptr<Response>& response() const noexcept { return response_; }

   private:
    std::shared_ptr<Client> client_;
    std::shared_ptr<Response> response_;
  };

  // `stream`: one that leads to the position, or none; then what is left of the last one.
  Status read_all(std::uint64_t position, MutableByteView out, bool in_order, Stream& stream,
                  env::Interrupt& interrupt);
  Stream open(Range range, MutableByteView out);
  bool leads_to_locked(std::uint64_t position) const HFLUSH_REQUIRES(mutex_);
  void watch_for_idleness();
  void idle_timer_fired() HFLUSH_EXCLUDES(mutex_);

  const std::shared_ptr<Client> client_;
  const std::shared_ptr<const ReadOptions> options_;
  const std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
  const std::uint32_t generation_ = env::Process::generation();

  mutable Mutex mutex_;
  bool closed_ HFLUSH_GUARDED_BY(mutex_) = false;
  // Where the next read is if reads go in order; and what streams to there, unless a call uses it.
  std::uint64_t next_position_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::size_t last_size_ HFLUSH_GUARDED_BY(mutex_) = 0;  // that was asked for
  Stream ahead_ HFLUSH_GUARDED_BY(mutex_);
  bool is_watched_ HFLUSH_GUARDED_BY(mutex_) = false;  // a timer looks whether it is read
  std::uint64_t reads_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::uint64_t reads_seen_ HFLUSH_GUARDED_BY(mutex_) = 0;  // by the timer
};

Result<std::size_t> InputFile::Core::read_at(std::uint64_t position, MutableByteView out,
                                             env::Interrupt& interrupt) {
  Stream stream;
  bool in_order = false;
  {
    const MutexLock lock(mutex_);
    if (closed_) return Status(StatusCode::kClosed, "file is closed", path(), EBADF);
    if (position >= options_->size || out.empty()) return std::size_t{0};
    if (leads_to_locked(position)) stream = std::move(ahead_);
    in_order = stream || position == next_position_;
    ++reads_;
  }
  const auto size =
      static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), options_->size - position));
  const Status status = read_all(position, out.first(size), in_order, stream, interrupt);
  if (!status.ok()) return status.with_path(path());

  bool starts_watch = false;
  {
    const MutexLock lock(mutex_);
    next_position_ = position + size;
    last_size_ = out.size();
    if (!closed_ && stream && stream->position() < stream->end()) {
      std::swap(ahead_, stream);  // the one before it is let go without the lock
      starts_watch = !std::exchange(is_watched_, true);
      if (starts_watch) reads_seen_ = reads_;
    }
  }
  if (starts_watch) watch_for_idleness();
  return size;
}

Status InputFile::Core::read_all(std::uint64_t position, MutableByteView out, bool in_order,
                                 Stream& stream, env::Interrupt& interrupt) {
  const std::uint64_t begin = position;
  const MutableByteView whole = out;
  // What streams ahead comes while the program computes: that is not the caller's work.
  env::EventLoop* const loop = stream ? nullptr : &client_->loop();
  const env::EventLoop::Guest guest(loop);
  bool is_second = false;
  int failures = 0;
  while (true) {
    if (stream) {
      stream->skip(position - stream->position(), *client_);
    } else {
      stream = open({position, in_order ? options_->size : position + out.size()}, out);
    }
    HFLUSH_ASSIGN_OR_RETURN(const std::size_t size, stream->read(out, *client_, loop, interrupt));
    position += size;
    out = out.subspan(size);
    if (out.empty()) return {};

    const Response::Ending ending = stream->ending();
    stream = Stream();
    if (ending.failure.code() == StatusCode::kChecksum && begin == 0 && !is_second) {
      // Nobody has seen a byte of it yet.
      is_second = true;
      position = begin;
      out = whole;
      continue;
    }
    if (ending.state == Response::State::kFailed) return ending.failure;
    if (ending.state == Response::State::kLetGo) continue;
    failures = ending.received >= kProgress ? 1 : failures + 1;
    const RetrySettings& retry = client_->settings().retry;
    if (failures > retry.limit) return ending.failure;
    HFLUSH_RETURN_IF_ERROR(env::pause(delay_of(failures, retry), interrupt));
  }
}

InputFile::Core::Stream InputFile::Core::open(Range range, MutableByteView out) {
  Call call;
  call.operation = "GetObject";
  call.method = "GET";
  call.bucket = options_->bucket;
  call.key = options_->key;
  if (!options_->version_id.empty()) call.query.emplace_back("versionId", options_->version_id);
  call.headers.reserve(2 + options_->request_headers.size());
  const bool is_whole = range.begin == 0 && range.end == options_->size;
  if (is_whole && client_->settings().checksums) {
    // Of ranges, even of the widest, stores tell no checksum.
    call.headers.push_back({"x-amz-checksum-mode", "ENABLED"});
  } else {
    call.headers.push_back(
        {"Range", "bytes=" + std::to_string(range.begin) + "-" + std::to_string(range.end - 1)});
  }
  if (!options_->etag.empty()) {
    call.headers.push_back({"If-Match", "\"" + std::string(bare_etag(options_->etag)) + "\""});
  }
  call.headers.insert(call.headers.end(), options_->request_headers.begin(),
                      options_->request_headers.end());

  Counters::add(counters_->opened, 1);
  Stream stream(client_, std::make_shared<Response>(options_, counters_, range));
  stream->expect(out);
  stream->call = client_->get(std::move(call), stream.response());
  return stream;
}

bool InputFile::Core::leads_to_locked(std::uint64_t position) const {
  return ahead_ && position >= ahead_->position() && position < ahead_->end() &&
         position - ahead_->position() <= options_->readahead_bytes;
}

void InputFile::Core::close() {
  Stream closing;
  const MutexLock lock(mutex_);
  closed_ = true;
  std::swap(closing, ahead_);
}

void InputFile::Core::unbuffer() {
  Counters::add(counters_->unbuffered, 1);
  Stream closing;
  const MutexLock lock(mutex_);
  std::swap(closing, ahead_);
}

void InputFile::Core::watch_for_idleness() {
  client_->loop().run_after(options_->idle_timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->idle_timer_fired();
  });
}

// As much of what has come stays as was last asked for, so that who reads slowly does not ask for
// everything twice; the rest is asked for again when it is wanted.
void InputFile::Core::idle_timer_fired() {
  std::shared_ptr<Response> idle;
  std::size_t kept = 0;
  bool watches = false;
  {
    const MutexLock lock(mutex_);
    watches = is_watched_ = ahead_ && reads_ != std::exchange(reads_seen_, reads_);
    if (!watches) idle = ahead_.response();
    kept = last_size_;
  }
  if (watches) return watch_for_idleness();
  if (idle == nullptr) return;
  if (idle->let_go()) client_->cancel(idle->call);
  idle->keep(kept);
}

void InputFile::Core::add_statistics(Statistics& statistics) const {
  statistics["stream_read_opened"] += counters_->opened;
  statistics["stream_aborted"] += counters_->aborted;
  statistics["stream_read_total_bytes"] += counters_->received;
  statistics["stream_read_seek_bytes_skipped"] += counters_->skipped;
  statistics["stream_read_version_mismatches"] += counters_->mismatches;
  statistics["stream_read_unbuffered"] += counters_->unbuffered;
  statistics["stream_read_corrupt_objects"] += counters_->corrupt;
  statistics["stream_read_bytes_discarded_in_abort"] += counters_->discarded;
}

Result<std::unique_ptr<InputFile>> InputFile::make(std::shared_ptr<Client> client,
                                                   ReadOptions options) {
  if (client->is_foreign()) {
    return Status(StatusCode::kForked, "open: the client was made before this process was forked",
                  options.path);
  }
  return std::unique_ptr<InputFile>(
      new InputFile(std::make_shared<Core>(std::move(client), std::move(options))));
}

InputFile::InputFile(std::shared_ptr<Core> core) : core_(std::move(core)) {}

InputFile::~InputFile() {
  if (core_->is_foreign()) {
    env::leave_to_parent(core_);
  } else {
    core_->close();
  }
}

Result<std::size_t> InputFile::read_at(std::uint64_t position, MutableByteView out,
                                       env::Interrupt& interrupt) {
  if (core_->is_foreign()) {
    return Status(StatusCode::kForked, "the file was opened before a fork, by the parent process",
                  core_->path());
  }
  return core_->read_at(position, out, interrupt);
}

std::uint64_t InputFile::length() const noexcept { return core_->length(); }

void InputFile::close() {
  if (!core_->is_foreign()) core_->close();
}

bool InputFile::closed() const { return !core_->is_foreign() && core_->closed(); }

void InputFile::unbuffer() {
  if (!core_->is_foreign()) core_->unbuffer();
}

void InputFile::add_statistics(Statistics& statistics) const { core_->add_statistics(statistics); }

}  // namespace hflush::s3
