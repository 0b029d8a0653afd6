#include "hflush/s3/read/s3_source.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "hflush/base/mutex.h"
#include "hflush/env/answer.h"
#include "hflush/s3/call/documents.h"
#include "hflush/s3/read/object_response.h"
#include "hflush/stream/ordered_reads.h"

namespace hflush::s3 {
namespace {

// A response that brought so much of what was wanted before it broke off starts the count of
// failures anew.
constexpr std::uint64_t kProgress = std::uint64_t{64} << 10U;

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

class S3Source::Reader final : public std::enable_shared_from_this<Reader> {
 public:
  Reader(std::shared_ptr<Client> client, ReadOptions options)
      : client_(std::move(client)),
        options_(std::make_shared<const ReadOptions>(std::move(options))) {}

  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt) HFLUSH_EXCLUDES(mutex_);
  Result<std::uint64_t> length() const HFLUSH_EXCLUDES(mutex_);
  void close() HFLUSH_EXCLUDES(mutex_);
  void unbuffer() HFLUSH_EXCLUDES(mutex_);
  void add_statistics(Statistics& statistics) const;
  const std::string& path() const noexcept { return options_->path; }

 private:
  // A response that is ended with its owner.
  class OpenResponse {
   public:
    OpenResponse() = default;
    OpenResponse(std::shared_ptr<Client> client, std::shared_ptr<ObjectResponse> response)
        : client_(std::move(client)), response_(std::move(response)) {}
    OpenResponse(OpenResponse&& other) noexcept = default;
    OpenResponse& operator=(OpenResponse&& other) noexcept {
      std::swap(client_, other.client_);
      std::swap(response_, other.response_);
      return *this;
    }
    ~OpenResponse() {
      if (response_ == nullptr || !response_->release()) return;
      client_->cancel(response_->call);
      response_->keep(0);
    }

    explicit operator bool() const noexcept { return response_ != nullptr; }
    ObjectResponse& operator*() const noexcept { return *response_; }
    ObjectResponse* operator->() const noexcept { return response_.get(); }
    const std::shared_ptr<ObjectResponse>& response() const noexcept { return response_; }
    stream::StreamAhead span() const noexcept {
      if (response_ == nullptr) return {};
      return {response_->position(), response_->remaining()};
    }

   private:
    std::shared_ptr<Client> client_;
    std::shared_ptr<ObjectResponse> response_;
  };

  // `response`: one that leads to the position, or none; then what is left of the last one.
  Status read_all(std::uint64_t position, MutableByteView out, bool in_order,
                  OpenResponse& response, env::Interrupt& interrupt);
  OpenResponse open(ByteRange range, MutableByteView out);
  Status closed_failure() const {
    return Status(StatusCode::kClosed, "file is closed", path(), EBADF);
  }
  void watch_for_idleness();
  void idle_timer_fired() HFLUSH_EXCLUDES(mutex_);

  const std::shared_ptr<Client> client_;
  const std::shared_ptr<const ReadOptions> options_;
  const std::shared_ptr<ReadCounters> counters_ = std::make_shared<ReadCounters>();

  // Never held while the store is waited for.
  mutable Mutex mutex_;
  bool closed_ HFLUSH_GUARDED_BY(mutex_) = false;
  stream::OrderedReads order_ HFLUSH_GUARDED_BY(mutex_){options_->readahead_bytes};
  std::size_t last_size_ HFLUSH_GUARDED_BY(mutex_) = 0;  // that was asked for
  OpenResponse ahead_ HFLUSH_GUARDED_BY(mutex_);         // none while a call uses it
  bool is_watched_ HFLUSH_GUARDED_BY(mutex_) = false;    // a timer looks whether it is read
  std::uint64_t reads_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::uint64_t reads_seen_ HFLUSH_GUARDED_BY(mutex_) = 0;  // by the timer
};

Result<std::size_t> S3Source::Reader::read_at(std::uint64_t position, MutableByteView out,
                                              env::Interrupt& interrupt) {
  OpenResponse response;
  bool in_order = false;
  {
    const MutexLock lock(mutex_);
    if (closed_) return closed_failure();
    if (position >= options_->size || out.empty()) return std::size_t{0};
    const stream::ReadStep step = order_.step(position, ahead_.span());
    if (step == stream::ReadStep::kGoOn) response = std::move(ahead_);
    in_order = step != stream::ReadStep::kRange;
    ++reads_;
  }
  const auto size =
      static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), options_->size - position));
  const Status status = read_all(position, out.first(size), in_order, response, interrupt);
  if (!status.ok()) return status.with_path(path());

  bool starts_watch = false;
  {
    const MutexLock lock(mutex_);
    order_.succeeded(position + size);
    last_size_ = out.size();
    if (!closed_ && response && response->remaining() > 0) {
      std::swap(ahead_, response);  // the one before it ends without the lock
      starts_watch = !std::exchange(is_watched_, true);
      if (starts_watch) reads_seen_ = reads_;
    }
  }
  if (starts_watch) watch_for_idleness();
  return size;
}

Status S3Source::Reader::read_all(std::uint64_t position, MutableByteView out, bool in_order,
                                  OpenResponse& response, env::Interrupt& interrupt) {
  const std::uint64_t begin = position;
  const MutableByteView whole = out;
  // What streams ahead comes while the program computes: that is not the caller's work.
  env::EventLoop* const loop = response ? nullptr : &client_->loop();
  const env::EventLoop::Guest guest(loop);
  bool is_second = false;
  int failures = 0;
  while (true) {
    if (response) {
      response->skip(position - response->position(), *client_);
    } else {
      response = open({position, in_order ? options_->size : position + out.size()}, out);
    }
    HFLUSH_ASSIGN_OR_RETURN(const std::size_t size, response->read(out, *client_, loop, interrupt));
    position += size;
    out = out.subspan(size);
    if (out.empty()) return {};

    const ObjectResponse::Ending ending = response->ending();
    response = OpenResponse();
    if (ending.failure.code() == StatusCode::kChecksum && begin == 0 && !is_second) {
      // No caller has seen a byte of it yet.
      is_second = true;
      position = begin;
      out = whole;
      continue;
    }
    if (ending.state == ObjectResponse::State::kFailed) return ending.failure;
    if (ending.state == ObjectResponse::State::kReleased) continue;
    // The store gives less at a time than was asked for: nothing is wrong.
    if (ending.state == ObjectResponse::State::kComplete && ending.received > 0) continue;
    failures = ending.received >= kProgress ? 1 : failures + 1;
    const RetrySettings& retry = client_->settings().retry;
    if (failures > retry.limit) return ending.failure;
    HFLUSH_RETURN_IF_ERROR(env::pause(delay_of(failures, retry), interrupt));
  }
}

S3Source::Reader::OpenResponse S3Source::Reader::open(ByteRange range, MutableByteView out) {
  Call call;
  call.operation = "GetObject";
  call.method = "GET";
  call.bucket = options_->bucket;
  call.key = options_->key;
  if (!options_->version_id.empty()) call.query.emplace_back("versionId", options_->version_id);
  call.is_awaited = range.end - range.begin <= out.size();
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
    call.expect = Expect::kHead;  // with a page in the place of the object nothing would differ
    call.headers.push_back({"If-Match", "\"" + std::string(bare_etag(options_->etag)) + "\""});
  }
  call.headers.insert(call.headers.end(), options_->request_headers.begin(),
                      options_->request_headers.end());

  ReadCounters::add(counters_->opened, 1);
  OpenResponse opened(client_, std::make_shared<ObjectResponse>(options_, counters_, range));
  opened->expect(out);
  opened->call = client_->get(std::move(call), opened.response());
  return opened;
}

Result<std::uint64_t> S3Source::Reader::length() const {
  const MutexLock lock(mutex_);
  if (closed_) return closed_failure();
  return options_->size;
}

void S3Source::Reader::close() {
  OpenResponse closing;
  const MutexLock lock(mutex_);
  closed_ = true;
  std::swap(closing, ahead_);
}

void S3Source::Reader::unbuffer() {
  ReadCounters::add(counters_->unbuffered, 1);
  OpenResponse closing;
  const MutexLock lock(mutex_);
  std::swap(closing, ahead_);
}

void S3Source::Reader::watch_for_idleness() {
  client_->loop().run_after(options_->idle_timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->idle_timer_fired();
  });
}

// Keeps as many of the received bytes as were last asked for, so that a slow reader does not
// request everything twice; the rest is requested again when it is needed.
void S3Source::Reader::idle_timer_fired() {
  std::shared_ptr<ObjectResponse> idle;
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
  if (idle->release()) client_->cancel(idle->call);
  idle->keep(kept);
}

void S3Source::Reader::add_statistics(Statistics& statistics) const {
  statistics["stream_read_opened"] += counters_->opened;
  statistics["stream_aborted"] += counters_->aborted;
  statistics["stream_read_total_bytes"] += counters_->received;
  statistics["stream_read_seek_bytes_skipped"] += counters_->skipped;
  statistics["stream_read_version_mismatches"] += counters_->mismatches;
  statistics["stream_read_unbuffered"] += counters_->unbuffered;
  statistics["stream_read_corrupt_objects"] += counters_->corrupt;
  statistics["stream_read_bytes_discarded_in_abort"] += counters_->discarded;
}

Result<std::unique_ptr<S3Source>> S3Source::open(std::shared_ptr<Client> client,
                                                 ReadOptions options) {
  if (client->is_foreign()) {
    return Status(StatusCode::kForked, "open: the client was made before this process was forked",
                  options.path);
  }
  return std::unique_ptr<S3Source>(
      new S3Source(std::make_shared<Reader>(std::move(client), std::move(options))));
}

S3Source::S3Source(std::shared_ptr<Reader> reader) : reader_(std::move(reader)) {}

S3Source::~S3Source() { close(); }

const std::string& S3Source::path() const noexcept { return reader_.anywhere().path(); }

Result<std::size_t> S3Source::read_at(std::uint64_t position, MutableByteView out,
                                      env::Interrupt& interrupt) {
  Reader* const reader = reader_.here();
  return reader == nullptr ? forked() : reader->read_at(position, out, interrupt);
}

Result<std::uint64_t> S3Source::length() const {
  const Reader* const reader = reader_.here();
  return reader == nullptr ? forked() : reader->length();
}

void S3Source::close() {
  if (Reader* const reader = reader_.here()) reader->close();
}

void S3Source::unbuffer() {
  if (Reader* const reader = reader_.here()) reader->unbuffer();
}

void S3Source::add_statistics(Statistics& statistics) const {
  reader_.anywhere().add_statistics(statistics);
}

Status S3Source::forked() const {
  return Status(StatusCode::kForked, "the file was opened before a fork, by the parent process",
                path());
}

}  // namespace hflush::s3
