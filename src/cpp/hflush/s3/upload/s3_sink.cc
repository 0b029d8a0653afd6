#include "hflush/s3/upload/s3_sink.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "hflush/base/mutex.h"
#include "hflush/env/process.h"
#include "hflush/s3/call/digest.h"
#include "hflush/s3/call/xml.h"
#include "hflush/s3/memory_budget.h"
#include "hflush/s3/packets.h"
#include "hflush/stream/duration_statistic.h"

namespace hflush::s3 {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20U;
// What the writer may always have beyond what was acknowledged; further it goes as the budgets of
// the stream and of the process let it. It asks for up to half of this at once.
constexpr std::uint64_t kFirstWindow = std::uint64_t{4} << 20U;

PartSizes sizes_of(const ObjectOptions& options) noexcept {
  const std::uint64_t limited =
      std::clamp<std::uint64_t>(options.block_bytes, kChunkBytes, PartSizes::kMaxPart);
  const std::uint64_t block = (limited + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  return PartSizes(block, std::clamp<std::uint32_t>(options.max_parts, 1, PartSizes::kMaxParts),
                   options.uniform_parts);
}

std::uint64_t memory_of(const ObjectOptions& options, const PartSizes& sizes) noexcept {
  if (options.memory_bytes != 0) return options.memory_bytes;
  return std::max<std::uint64_t>(options.active_blocks, 1) * sizes.block_bytes();
}

std::string path_of(const ObjectOptions& options) {
  return options.path.empty() ? "s3://" + options.bucket + "/" + options.key : options.path;
}

// 128 random bits.
Status make_token(std::string& token) {
  std::array<std::byte, 16> bits{};
  ssize_t count = -1;
  do {
    count = ::getrandom(bits.data(), bits.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return Status::from_errno(errno, "getrandom", {});
  token = to_hex(bits);
  return {};
}

// Uploads of this process that failed or were abandoned, and have calls under way. A forked child
// has its own: the parent's lock may be taken.
struct Cleanups {
  const std::uint32_t generation = env::Process::generation();
  Mutex mutex;
  CondVar changed;
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

Cleanups& cleanups() {
  static std::atomic<Cleanups*> current{nullptr};
  Cleanups* existing = current.load();
  while (existing == nullptr || existing->generation != env::Process::generation()) {
    auto fresh = std::make_unique<Cleanups>();
    if (current.compare_exchange_strong(existing, fresh.get())) existing = fresh.release();
  }
  return *existing;
}

// Waits a while for `changed`. kTimedOut after `deadline`, or what ended the wait.
Status wait_for(Mutex& mutex, CondVar& changed, env::TimePoint deadline, env::Interrupt& interrupt)
    HFLUSH_REQUIRES(mutex) {
  const env::TimePoint now = CondVar::Clock::now();
  if (now >= deadline) return Status(StatusCode::kTimedOut, "wait for clean-up: time is up");
  if (now >= interrupt.next_check()) {
    const MutexUnlock unlock(mutex);
    return interrupt.check_now();
  }
  changed.wait_until(mutex, std::min(deadline, interrupt.next_check()));
  return {};
}

struct Counters {
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
};

// Of an upload that is looked at or aborted; not of a bucket, and not what something else says.
bool is_gone(const Failure& failure) {
  return failure.http_status == 404 &&
         (failure.code == "NoSuchUpload" || failure.code == "NoSuchKey");
}

}  // namespace

std::uint64_t upload_window(const ObjectOptions& options) noexcept {
  const PartSizes sizes = sizes_of(options);
  const std::uint64_t window = std::max(memory_of(options, sizes), 2 * kBatchBytes);
  return options.buffering == Buffering::kMemory ? std::max(window, 2 * sizes.size(1)) : window;
}

stream::Geometry upload_geometry(const ObjectOptions& options) noexcept {
  const PartSizes sizes = sizes_of(options);
  stream::Geometry geometry;
  geometry.checksum = crc::Kind::kCrc32c;
  geometry.bytes_per_checksum = kChunkBytes;
  geometry.packet_bytes = kPacketBytes;
  geometry.batch_bytes = std::min(kBatchBytes, sizes.block_bytes());
  geometry.window_bytes = std::min(upload_window(options), kFirstWindow);
  geometry.block_bytes = sizes.block_bytes();
  return geometry;
}

Status wait_for_cleanups(env::Duration timeout, env::Interrupt& interrupt) {
  const env::TimePoint deadline = env::deadline_after(CondVar::Clock::now(), timeout);
  Cleanups& all = cleanups();
  MutexLock lock(all.mutex);
  while (all.under_way != 0) {
    HFLUSH_RETURN_IF_ERROR(wait_for(all.mutex, all.changed, deadline, interrupt));
  }
  return {};
}

class S3Sink::Core final : public S3Upload, public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<Client> client, ObjectOptions options)
      : client_(std::move(client)),
        options_(std::move(options)),
        path_(path_of(options_)),
        cleanups_(cleanups()),
        out_of_memory_(Status::from_errno(ENOMEM, "write", path_)),
        prepared_(prepare()),
        asking_(client_->settings(), options_, token_, client_->new_stream()),
        window_(upload_window(options_)),
        store_(store_options()),
        limit_(first_window()),
        machine_(upload_options()) {
    reservation_.emplace(env::Process::current().buffers(), window_);
    outcome_.token = token_;
  }

  // S3Upload
  UploadOutcome outcome() const override HFLUSH_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return outcome_;
  }
  Status wait_cleaned_up(env::Duration timeout, env::Interrupt& interrupt) override
      HFLUSH_EXCLUDES(mutex_) {
    const env::TimePoint deadline = env::deadline_after(CondVar::Clock::now(), timeout);
    MutexLock lock(mutex_);
    while (!outcome_.cleaned_up) {
      HFLUSH_RETURN_IF_ERROR(wait_for(mutex_, changed_, deadline, interrupt));
    }
    return {};
  }

  void put(std::span<stream::Packet> packets, stream::SinkEvents& events);
  void sync(stream::Level level, stream::SinkEvents& events);
  void finish(stream::SinkEvents& events);
  void abandon() noexcept HFLUSH_EXCLUDES(mutex_);
  void add_statistics(Statistics& statistics) const HFLUSH_EXCLUDES(mutex_);
  bool is_delayed() const noexcept { return options_.delayed; }
  env::EventLoop& loop() const noexcept { return client_->loop(); }

 private:
  // A call that was asked for and has not been answered to the machine.
  enum class Kind : std::uint8_t { kCreate, kPart, kPublication, kLook, kAbort };
  struct UnderWay {
    Kind kind = Kind::kCreate;
    std::uint32_t number = 0;  // of a part
    bool is_block = false;     // its body is the stream's
    std::uint64_t bytes = 0;   // of that
    env::TimePoint since;
    Client::CallId id = 0;              // 0: not started yet; the driver's
    std::atomic<bool> answered{false};  // by its result, or as cancelled
  };
  using Ticket = std::shared_ptr<UnderWay>;

  Status prepare();
  PartStoreOptions store_options() const;
  UploadOptions upload_options() const;

  // Gives the machine an event, `feed(machine, actions)`, and does what it asks for; or leaves that
  // to the thread that is at it.
  template <typename Feed>
  void drive(Feed feed) HFLUSH_EXCLUDES(mutex_);
  // The same for the stream's own calls, which say where events go.
  template <typename Feed>
  void drive_for(stream::SinkEvents& events, Feed feed) HFLUSH_EXCLUDES(mutex_);
  // Whether this thread drives; if not, the event is in the inbox, or nobody takes it any more.
  template <typename Feed>
  bool takes_turn(Feed& feed) HFLUSH_EXCLUDES(mutex_);
  void run() HFLUSH_EXCLUDES(mutex_);
  void settle();
  void move_window();
  std::uint64_t first_window() const noexcept { return std::min(window_, kFirstWindow); }
  void let_go() noexcept;
  void event_lost() noexcept HFLUSH_EXCLUDES(mutex_);
  void fail_without_memory() noexcept HFLUSH_EXCLUDES(mutex_);
  void publish() HFLUSH_EXCLUDES(mutex_);
  void publish_locked() HFLUSH_REQUIRES(mutex_);
  void set_cleaning_locked(bool cleaning) HFLUSH_REQUIRES(mutex_);
  template <typename Event>
  void tell(Event event) HFLUSH_EXCLUDES(mutex_);

  Ticket ticket(Kind kind, std::uint32_t number = 0);
  void begin_block(UnderWay& block, std::uint64_t bytes);
  // Makes the call; its result is fed with `feed(result, machine, actions)`.
  template <typename Feed>
  void start(const Ticket& ticket, Call call, const Feed& feed);
  void cancel(const Ticket& ticket);
  void feed_cancelled(const Ticket& ticket);
  void ended(const Ticket& ticket);

  CallFailure failure_of(const CallResult& result, const std::string& detail) const;
  Status explain(const Status& failure, const std::string& detail) const;
  std::string describe_upload() const;
  Status encryption_refused(const char* operation, const env::HttpHead& head) const;

  template <typename Ask>
  void ask_publication(std::uint32_t again, Ask ask);
  void put_object(const Ticket& ticket);
  void complete(const Ticket& ticket);
  Seen seen(const CallResult& result);

  void publication_unanswered(const Ticket& publication, std::int64_t Counters::* counts_as,
                              std::optional<env::TimePoint> ends = {});
  void watch_time();
  env::Duration pause_before(std::uint32_t again) const;
  std::optional<env::TimePoint> end_of_look() const;
  void publication_done(const UnderWay& publication);
  void publication_found();

  void perform(const upload_action::Create& create);
  void perform(const upload_action::PutObject& put);
  void perform(const upload_action::UploadPart& part);
  void perform(const upload_action::Complete& complete);
  void perform(const upload_action::LookAtKey& look);
  void perform(const upload_action::LookAtUpload& look);
  void perform(const upload_action::Abort& abort);
  void perform(const upload_action::Cancel& cancel);
  void perform(const upload_action::Forget& forget);
  void perform(const upload_action::Acknowledge& acknowledge);
  void perform(const upload_action::Finished& finished);
  void perform(const upload_action::Failed& failed);

  const std::shared_ptr<Client> client_;
  const ObjectOptions options_;
  const std::string path_;
  Cleanups& cleanups_;
  const Status out_of_memory_;  // made while there is memory
  std::string token_;           // prepare()'s, constant after construction
  const Status prepared_;       // a failure is the stream's, as soon as it does something
  const UploadCalls asking_;
  const std::uint64_t window_;  // from what is acknowledged to where the writer may be
  PartStore store_;             // thread-safe

  mutable Mutex mutex_;
  CondVar changed_;  // outcome_, or nobody tells the stream anything any more
  bool driving_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool starved_ HFLUSH_GUARDED_BY(mutex_) = false;  // there was no memory for an event: the end
  bool ended_ HFLUSH_GUARDED_BY(mutex_) = false;    // by that: nothing more is taken
  bool telling_ HFLUSH_GUARDED_BY(mutex_) = false;  // an event of the stream is under way
  bool abandoned_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool cleaning_ HFLUSH_GUARDED_BY(mutex_) = false;  // counted in cleanups_
  stream::SinkEvents* stream_ HFLUSH_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::function<void()>> inbox_ HFLUSH_GUARDED_BY(mutex_);
  UploadOutcome outcome_ HFLUSH_GUARDED_BY(mutex_);
  Counters counters_ HFLUSH_GUARDED_BY(mutex_);  // as the stream last heard, or later

  // Whoever drives has these to itself.
  std::uint64_t limit_;                                 // where the writer may be
  std::uint64_t granted_ = 0;                           // of that, by the budget of the process
  std::uint64_t base_ = 0;                              // what was acknowledged
  std::optional<MemoryBudget::Share> share_;            // from the first bytes to the end
  std::optional<BufferPool::Reservation> reservation_;  // until the stream's end
  BlockUpload machine_;
  UploadActions actions_;
  UploadActions performing_;  // in turn with actions_, for its memory
  std::vector<Ticket> calls_;
  Counters counted_;
  std::optional<std::uint64_t> acknowledged_;  // to be told
  bool is_told_ = false;                       // the stream, of its end
  std::string version_id_;
  Checksums checksums_;
  bool compares_parts_ = false;  // Create was answered without a word about encryption
  // The last publication that failed or was cancelled, and what it counts as unless it is found.
  Ticket unanswered_;
  std::optional<env::TimePoint> publishing_ends_;  // since one was not answered
  std::uint32_t asked_again_ = 0;
  std::int64_t Counters::* unanswered_is_ = nullptr;
};

// --- what it is made of

Status S3Sink::Core::prepare() {
  const Settings& settings = client_->settings();
  if (settings.signs_payload()) HFLUSH_RETURN_IF_ERROR(load_digests());
  if (settings.content_md5) HFLUSH_RETURN_IF_ERROR(load_md5());
  return make_token(token_);
}

PartStoreOptions S3Sink::Core::store_options() const {
  const Settings& settings = client_->settings();
  return {.sizes = sizes_of(options_),
          .buffering = options_.buffering,
          .memory_bytes = window_,
          .directory = options_.buffer_directory,
          .chunk_bytes = kChunkBytes,
          .packet_bytes = kPacketBytes,
          .sha256 = prepared_.ok() && settings.signs_payload(),
          .md5 = prepared_.ok() && settings.content_md5,
          .path = path_};
}

UploadOptions S3Sink::Core::upload_options() const {
  return {.path = path_,
          .sizes = sizes_of(options_),
          .active_parts = std::max<std::size_t>(options_.active_blocks, 1),
          .delayed = options_.delayed,
          .always_multipart = options_.delayed,
          .condition = options_.condition};
}

// --- whose turn it is

template <typename Feed>
bool S3Sink::Core::takes_turn(Feed& feed) {
  MutexLock lock(mutex_);
  if (ended_) return false;
  if (!driving_) return driving_ = true;
  inbox_.emplace_back(
      [this, late = std::make_shared<Feed>(std::move(feed))] { (*late)(machine_, actions_); });
  return false;
}

template <typename Feed>
void S3Sink::Core::drive(Feed feed) {
  try {
    if (!takes_turn(feed)) return;
  } catch (const std::bad_alloc&) {
    event_lost();
    return;
  }
  try {
    feed(machine_, actions_);
    run();
  } catch (const std::bad_alloc&) {
    fail_without_memory();
  }
}

// Of the bytes, and of the right to keep their memory at hand: a stream may be kept long after its
// end.
void S3Sink::Core::let_go() noexcept {
  store_.clear();
  reservation_.reset();
  share_.reset();
}

void S3Sink::Core::event_lost() noexcept {
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    starved_ = true;
    if (driving_) return;  // the driver sees to it
    driving_ = true;
  }
  fail_without_memory();
}

template <typename Feed>
void S3Sink::Core::drive_for(stream::SinkEvents& events, Feed feed) {
  bool untold = false;
  {
    MutexLock lock(mutex_);
    untold = ended_ && stream_ == nullptr;
    if (!abandoned_) stream_ = &events;
  }
  if (untold) return events.failed(out_of_memory_);
  drive(std::move(feed));
}

void S3Sink::Core::run() {
  std::vector<std::function<void()>> late;
  while (true) {
    settle();
    late.clear();
    {
      MutexLock lock(mutex_);
      if (starved_) break;
      if (inbox_.empty()) {
        publish_locked();
        driving_ = false;
        return;
      }
      late.swap(inbox_);
    }
    for (const std::function<void()>& event : late) event();
  }
  fail_without_memory();
}

// Does what the machine asks for, until it asks for nothing more.
void S3Sink::Core::settle() {
  while (!actions_.empty()) {
    performing_.swap(actions_);
    for (const UploadAction& action : performing_) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
    performing_.clear();
  }
  if (acknowledged_) base_ = *std::exchange(acknowledged_, std::nullopt);
  move_window();
}

// The stream counts its small window from what it is told to be acknowledged: it is told so much
// that the window ends where the writer may be. That is always the end of the part that is wanted
// next, and a little more, or no part would ever be full; and, as far as the process has memory, a
// little ahead of the writer, up to the stream's own budget.
void S3Sink::Core::move_window() {
  const std::uint64_t end = machine_.size();
  const bool is_writing = machine_.state() == UploadState::kWriting;
  if (!share_) {
    if (!is_writing || end == 0) return;
    share_.emplace(MemoryBudget::of_process(), [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      const auto go_on = [self] { self->drive([](BlockUpload&, UploadActions&) {}); };
      try {
        self->loop().post(go_on);
      } catch (const std::bad_alloc&) {
        go_on();
      }
    });
  }
  const std::uint64_t in_memory_from = std::max(base_, std::min(end, store_.stored_end()));
  if (!is_writing) return share_->hold(end - std::min(end, in_memory_from));

  const PartSizes& sizes = machine_.options().sizes;
  const std::uint64_t most = base_ + window_;
  const std::uint32_t next_part = std::min(sizes.at(base_), sizes.max_parts());
  const std::uint64_t least =
      std::max(base_ + first_window(), sizes.end(next_part) + first_window() / 2);
  std::uint64_t limit = std::max(limit_, std::min(most, least));
  const std::uint64_t at_most = in_memory_from + MemoryBudget::of_process().total();
  const std::uint64_t wanted = std::min({most, end + first_window(), at_most});
  if (wanted > limit && share_->try_hold(wanted - in_memory_from, true)) {
    limit = granted_ = wanted;
  } else {
    share_->hold(std::max(end, granted_) - std::min(std::max(end, granted_), in_memory_from));
  }
  if (limit == limit_) return;
  limit_ = limit;
  tell([offset = limit - first_window()](stream::SinkEvents& events) {
    events.acknowledged(offset);
  });
}

// What is left at the store stays there: the machine has missed something, and decides nothing any
// more.
void S3Sink::Core::fail_without_memory() noexcept {
  bool was_sent = false;
  for (const Ticket& call : calls_) {
    was_sent = was_sent || call->kind == Kind::kPublication;
  }
  was_sent = was_sent || machine_.state() == UploadState::kLooking;
  try {
    for (const Ticket& call : calls_) client_->cancel(call->id);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // Their answers are not taken.
  }
  let_go();
  bool is_over = false;
  {
    MutexLock lock(mutex_);
    starved_ = ended_ = true;
    const UploadState before = outcome_.state;
    is_over = before == UploadState::kPublished || before == UploadState::kPending;
    if (!is_over) {
      outcome_.state = was_sent ? UploadState::kUnknown : UploadState::kFailed;
      outcome_.cleanup = out_of_memory_;
    }
  }
  if (!is_over) {
    try {
      tell([this](stream::SinkEvents& events) { events.failed(out_of_memory_); });
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
      // The stream has taken the failure before it could fail at anything.
    }
  }
  calls_.clear();
  std::vector<std::function<void()>> dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  driving_ = false;
  dropped.swap(inbox_);
  outcome_.cleaned_up = true;
  set_cleaning_locked(false);
  changed_.notify_all();
}

// Before the stream is told of what happened.
void S3Sink::Core::publish() {
  MutexLock lock(mutex_);
  publish_locked();
}

void S3Sink::Core::publish_locked() {
  counters_ = counted_;
  outcome_.state = machine_.state();
  outcome_.size = machine_.size();
  if (outcome_.upload_id.empty()) outcome_.upload_id = machine_.upload_id();
  if (outcome_.state == UploadState::kPublished && outcome_.etag.empty()) {
    outcome_.etag = machine_.etag();
    outcome_.version_id = version_id_;
  }
  if (!machine_.failure().ok()) outcome_.others = machine_.failure().others();
  outcome_.cleaned_up = inbox_.empty() && !machine_.busy();
  if (outcome_.cleaned_up) outcome_.cleanup = machine_.cleanup_failure();
  set_cleaning_locked((abandoned_ || is_told_) && !outcome_.cleaned_up);
  if (outcome_.cleaned_up) changed_.notify_all();
}

void S3Sink::Core::set_cleaning_locked(bool cleaning) {
  if (cleaning == std::exchange(cleaning_, cleaning)) return;
  if (cleaning) {
    cleanups_.add();
  } else {
    cleanups_.remove();
  }
}

// An event of the stream, unless it is gone.
template <typename Event>
void S3Sink::Core::tell(Event event) {
  // Whoever abandons the stream waits for the end of this.
  class Telling {
   public:
    explicit Telling(Core& core) HFLUSH_EXCLUDES(core.mutex_) : core_(core) {
      MutexLock lock(core.mutex_);
      stream = core.stream_;
      core.telling_ = stream != nullptr;
    }
    ~Telling() HFLUSH_EXCLUDES(core_.mutex_) {
      MutexLock lock(core_.mutex_);
      core_.telling_ = false;
      if (core_.abandoned_) core_.changed_.notify_all();
    }
    Telling(const Telling&) = delete;
    Telling& operator=(const Telling&) = delete;

    stream::SinkEvents* stream = nullptr;

   private:
    Core& core_;
  };
  const Telling telling(*this);
  if (telling.stream != nullptr) event(*telling.stream);
}

// --- from the stream

void S3Sink::Core::put(std::span<stream::Packet> packets, stream::SinkEvents& events) {
  Status added = prepared_.ok() ? store_.add(packets) : prepared_;
  drive_for(events, [this, added = std::move(added), end = store_.end(),
                     stored = store_.stored_end()](BlockUpload& machine, UploadActions& actions) {
    if (!added.ok()) return machine.broke(added, actions);
    machine.put(end, actions);
    machine.stored(stored, actions);
    if (machine.state() != UploadState::kWriting) store_.clear();  // it has failed meanwhile
  });
}

// The bytes are out of the stream's hands as soon as they are put.
void S3Sink::Core::sync(stream::Level level, stream::SinkEvents& events) {
  events.reached(level, store_.end());
}

void S3Sink::Core::finish(stream::SinkEvents& events) {
  drive_for(events, [this](BlockUpload& machine, UploadActions& actions) {
    if (!prepared_.ok()) return machine.broke(prepared_, actions);
    machine.finish(actions);
  });
}

// NOLINTNEXTLINE(bugprone-exception-escape): what can be thrown is caught in drive()
void S3Sink::Core::abandon() noexcept {
  {
    MutexLock lock(mutex_);
    stream_ = nullptr;
    if (!std::exchange(abandoned_, true) && !ended_) {
      outcome_.cleaned_up = false;  // until the machine has seen it
      set_cleaning_locked(true);
    }
    while (telling_) changed_.wait(mutex_);
  }
  drive([this](BlockUpload& machine, UploadActions& actions) {
    machine.abandon(actions);
    let_go();
  });
}

// --- calls

CallFailure S3Sink::Core::failure_of(const CallResult& result, const std::string& detail) const {
  return {result.failure->kind, result.ambiguous, explain(result.status, detail)};
}

// The client's message says the operation, the endpoint and what was answered.
Status S3Sink::Core::explain(const Status& failure, const std::string& detail) const {
  Status explained(failure.code(), failure.message() + " (" + detail + ")", path_,
                   failure.error_number());
  if (!failure.remote_class().empty()) {
    explained = explained.with_remote_class(failure.remote_class());
  }
  if (const Status* cause = failure.cause()) explained = explained.with_cause(*cause);
  return explained;
}

// Fine unless the store was asked to encrypt, and does not say that it does.
Status S3Sink::Core::encryption_refused(const char* operation, const env::HttpHead& head) const {
  if (!options_.verify_encryption) return {};
  std::vector<env::HttpHeader> asked = options_.headers;
  asked.insert(asked.end(), options_.request_headers.begin(), options_.request_headers.end());
  const std::string difference = encryption_difference(asked, head);
  if (difference.empty()) return {};
  return Status(StatusCode::kIo,
                std::string(operation) + ": " + client_->endpoint() + ": " + difference, path_,
                EIO);
}

std::string S3Sink::Core::describe_upload() const { return "upload " + machine_.upload_id(); }

S3Sink::Core::Ticket S3Sink::Core::ticket(Kind kind, std::uint32_t number) {
  auto ticket = std::make_shared<UnderWay>();
  ticket->kind = kind;
  ticket->number = number;
  calls_.push_back(ticket);
  return ticket;
}

template <typename Feed>
void S3Sink::Core::start(const Ticket& ticket, Call call, const Feed& feed) {
  ticket->since = client_->loop().clock().now();
  ticket->id =
      client_->call(std::move(call), [self = shared_from_this(), ticket, feed](CallResult result) {
        if (ticket->answered.exchange(true)) return;
        self->drive([core = self.get(), ticket, feed, result = std::move(result)](
                        BlockUpload& machine, UploadActions& actions) {
          core->ended(ticket);
          feed(result, machine, actions);
        });
      });
}

void S3Sink::Core::cancel(const Ticket& ticket) {
  if (ticket->id == 0) {  // it still waits for its time
    if (!ticket->answered.exchange(true)) feed_cancelled(ticket);
    return;
  }
  client_->cancel(ticket->id, [self = shared_from_this(), ticket] {
    if (ticket->answered.exchange(true)) return;
    self->drive([core = self.get(), ticket](BlockUpload& /*machine*/, UploadActions& /*actions*/) {
      core->feed_cancelled(ticket);
    });
  });
}

void S3Sink::Core::feed_cancelled(const Ticket& ticket) {
  ended(ticket);
  if (ticket->kind == Kind::kPart) {
    ++counted_.cancelled;
    machine_.part_cancelled(ticket->number, actions_);
  } else {
    // One that still waits for its time was not asked for.
    if (ticket->id != 0) {
      publication_unanswered(ticket, ticket->is_block ? &Counters::cancelled : nullptr);
    }
    machine_.publication_cancelled(actions_);
  }
}

void S3Sink::Core::ended(const Ticket& ticket) {
  std::erase(calls_, ticket);
  if (!ticket->is_block) return;
  --counted_.active;
  counted_.bytes_active -= static_cast<std::int64_t>(ticket->bytes);
  counted_.uploads.add(client_->loop().clock().now() - ticket->since);
}

void S3Sink::Core::begin_block(UnderWay& block, std::uint64_t bytes) {
  block.is_block = true;
  block.bytes = bytes;
  ++counted_.block_uploads;
  ++counted_.active;
  counted_.bytes_put += static_cast<std::int64_t>(bytes);
  counted_.bytes_active += static_cast<std::int64_t>(bytes);
}

// `counts_as`: what it was, as far as is known; a Complete that is cancelled is nothing. `ends`: of
// its attempts.
void S3Sink::Core::publication_unanswered(const Ticket& publication,
                                          std::int64_t Counters::* counts_as,
                                          std::optional<env::TimePoint> ends) {
  if (counts_as != nullptr) ++(counted_.*counts_as);
  unanswered_ = publication;
  unanswered_is_ = counts_as;
  if (publishing_ends_) return;
  publishing_ends_ = ends.value_or(
      env::deadline_after(client_->loop().clock().now(), client_->settings().retry.deadline));
}

// Before the machine decides whether to ask again.
void S3Sink::Core::watch_time() {
  if (!publishing_ends_) return;
  const env::TimePoint now = client_->loop().clock().now();
  if (env::deadline_after(now, pause_before(asked_again_ + 1)) >= *publishing_ends_) {
    machine_.time_is_up();
  }
}

// However late it is, there is time for one look, and for the abort that makes an end final.
std::optional<env::TimePoint> S3Sink::Core::end_of_look() const {
  if (!publishing_ends_) return std::nullopt;
  const env::TimePoint now = client_->loop().clock().now();
  return std::max(*publishing_ends_, env::deadline_after(now, client_->settings().stall_timeout));
}

env::Duration S3Sink::Core::pause_before(std::uint32_t again) const {
  const RetrySettings& retry = client_->settings().retry;
  return doubled(retry.interval, again, retry.max_interval);
}

void S3Sink::Core::publication_done(const UnderWay& publication) {
  if (!publication.is_block) {
    ++counted_.completed;
    return;
  }
  ++counted_.committed;
  counted_.bytes_committed += static_cast<std::int64_t>(publication.bytes);
}

// The one that was not answered took place.
void S3Sink::Core::publication_found() {
  const Ticket publication = std::exchange(unanswered_, nullptr);
  if (publication == nullptr) return;
  if (unanswered_is_ != nullptr) --(counted_.*unanswered_is_);
  publication_done(*publication);
}

// --- what the machine asks for

void S3Sink::Core::perform(const upload_action::Create& /*create*/) {
  ++counted_.creates;
  start(ticket(Kind::kCreate), asking_.create(),
        [this](const CallResult& result, BlockUpload& machine, UploadActions& actions) {
          if (result.failure) {
            return machine.create_failed(
                failure_of(result, "after " + std::to_string(machine.size()) + " bytes"), actions);
          }
          const Result<XmlElement> document = parse_xml(result.body);
          if (!document.ok()) {
            return machine.create_failed(
                {FailureKind::kAmbiguous, true, document.status().with_path(path_)}, actions);
          }
          checksums_ = asking_.checksums(result.head);
          compares_parts_ = !tells_encryption(result.head);
          if (!compares_parts_) {
            if (const Status refusal = encryption_refused("CreateMultipartUpload", result.head);
                !refusal.ok()) {
              machine.broke(refusal, actions);  // before a byte of it is sent
            }
          }
          machine.created(std::string(document->value("UploadId")), actions, result.ambiguous);
        });
}

void S3Sink::Core::perform(const upload_action::UploadPart& part) {
  const std::uint32_t number = part.number;
  Result<PartBody> body = store_.body(number);
  if (!body.ok()) {
    return machine_.part_failed(number, {FailureKind::kFinal, false, body.status()}, actions_);
  }
  PartReceipt receipt;
  receipt.number = number;
  receipt.size = body->size;
  receipt.crc32c = body->crc32c;

  Call upload = asking_.upload_part(machine_.upload_id(), number, *std::move(body), checksums_);
  const Ticket under_way = ticket(Kind::kPart, number);
  begin_block(*under_way, receipt.size);
  ++counted_.parts_put;
  counted_.part_bytes_put += static_cast<std::int64_t>(receipt.size);
  start(under_way, std::move(upload),
        [this, receipt](const CallResult& result, BlockUpload& machine, UploadActions& actions) {
          if (result.failure) {
            ++counted_.failed;
            const std::uint64_t begin = machine.options().sizes.begin(receipt.number);
            return machine.part_failed(
                receipt.number,
                failure_of(result, "part " + std::to_string(receipt.number) + " of " +
                                       std::to_string(receipt.size) + " bytes from offset " +
                                       std::to_string(begin) + ", " + describe_upload()),
                actions);
          }
          ++counted_.committed;
          counted_.bytes_committed += static_cast<std::int64_t>(receipt.size);
          PartReceipt done = receipt;
          done.etag = strong_etag(result.head.header("etag"));
          if (compares_parts_) {
            if (const Status refusal = encryption_refused("UploadPart", result.head);
                !refusal.ok()) {
              machine.broke(refusal, actions);
            }
          }
          machine.part_done(std::move(done), actions);
        });
}

// Calls `ask` with the ticket of a publication: at once, or later if it was asked for before and
// looked for in vain.
template <typename Ask>
void S3Sink::Core::ask_publication(std::uint32_t again, Ask ask) {
  const Ticket publication = ticket(Kind::kPublication);
  asked_again_ = again;
  if (again == 0) return ask(publication);
  client_->loop().run_after(pause_before(again), [self = shared_from_this(), publication, ask] {
    self->drive([publication, ask](BlockUpload& /*machine*/, UploadActions& /*actions*/) {
      if (!publication->answered) ask(publication);
    });
  });
}

void S3Sink::Core::perform(const upload_action::PutObject& put) {
  ask_publication(put.again, [this](const Ticket& ticket) { put_object(ticket); });
}

void S3Sink::Core::put_object(const Ticket& ticket) {
  Result<PartBody> body = store_.body(1);
  if (!body.ok()) {
    ended(ticket);
    return machine_.put_failed({FailureKind::kFinal, false, body.status()}, actions_);
  }
  const std::uint64_t size = body->size;
  begin_block(*ticket, size);
  Call put = asking_.put_object(*std::move(body));
  put.ends = publishing_ends_;
  start(
      ticket, std::move(put),
      [this, ticket, size](const CallResult& result, BlockUpload& machine, UploadActions& actions) {
        if (result.failure) {
          publication_unanswered(ticket, &Counters::failed, result.deadline);
          return machine.put_failed(failure_of(result, std::to_string(size) + " bytes"), actions);
        }
        publication_done(*ticket);
        version_id_ = result.head.header("x-amz-version-id");
        machine.put_done(std::string(result.head.header("etag")), actions,
                         encryption_refused("PutObject (published)", result.head));
      });
}

void S3Sink::Core::perform(const upload_action::Complete& complete_again) {
  ask_publication(complete_again.again, [this](const Ticket& ticket) { complete(ticket); });
}

void S3Sink::Core::complete(const Ticket& ticket) {
  const std::vector<PartReceipt> parts = machine_.parts();
  Call complete =
      asking_.complete(machine_.upload_id(), parts, machine_.size(), store_.crc32c(), checksums_);
  complete.ends = publishing_ends_;
  start(ticket, std::move(complete),
        [this, ticket, count = parts.size()](const CallResult& result, BlockUpload& machine,
                                             UploadActions& actions) {
          if (result.failure) {
            publication_unanswered(ticket, &Counters::complete_failures, result.deadline);
            return machine.complete_failed(failure_of(result, std::to_string(count) + " parts of " +
                                                                  std::to_string(machine.size()) +
                                                                  " bytes, " + describe_upload()),
                                           actions);
          }
          publication_done(*ticket);
          version_id_ = result.head.header("x-amz-version-id");
          const Result<XmlElement> document = parse_xml(result.body);
          machine.completed(document.ok() ? std::string(document->value("ETag")) : std::string(),
                            actions);
        });
}

void S3Sink::Core::perform(const upload_action::LookAtKey& /*look*/) {
  ++counted_.looks;
  Call head = asking_.head_object();
  head.ends = end_of_look();
  start(ticket(Kind::kLook), std::move(head),
        [this](const CallResult& result, BlockUpload& machine, UploadActions& actions) {
          watch_time();
          machine.key_seen(seen(result), actions);
        });
}

// Of ours are token and length.
Seen S3Sink::Core::seen(const CallResult& result) {
  Seen seen;
  if (!result.failure) {
    const bool is_ours = asking_.is_ours(result.head, machine_.size());
    seen.what = is_ours ? Seen::What::kOurs : Seen::What::kAnother;
    if (is_ours) {
      publication_found();
      seen.etag = result.head.header("etag");
      version_id_ = result.head.header("x-amz-version-id");
      if (machine_.upload_id().empty()) {  // else it was compared before
        seen.otherwise = encryption_refused("PutObject (published)", result.head);
      }
    }
  } else if (result.failure->http_status == 404) {
    seen.what = Seen::What::kNothing;
  } else {
    seen.failure = result.status;
  }
  return seen;
}

void S3Sink::Core::perform(const upload_action::LookAtUpload& /*look*/) {
  ++counted_.lists;
  Call list = asking_.list_parts(machine_.upload_id());
  list.ends = end_of_look();
  start(ticket(Kind::kLook), std::move(list),
        [this](const CallResult& result, BlockUpload& machine, UploadActions& actions) {
          UploadSeen seen = UploadSeen::kThere;
          if (result.failure) {
            seen = is_gone(*result.failure) ? UploadSeen::kGone : UploadSeen::kCannotTell;
          }
          watch_time();
          machine.upload_seen(seen, actions);
        });
}

void S3Sink::Core::perform(const upload_action::Abort& abort) {
  ++counted_.aborts;
  Call call = asking_.abort(abort.upload_id);
  if (!is_told_) call.ends = end_of_look();  // somebody waits for it
  start(ticket(Kind::kAbort), std::move(call),
        [this](const CallResult& result, BlockUpload& machine, UploadActions& actions) {
          if (!result.failure || is_gone(*result.failure)) {
            return machine.aborted(actions);
          }
          ++counted_.abort_failures;
          machine.abort_failed(explain(result.status, describe_upload()), actions);
        });
}

void S3Sink::Core::perform(const upload_action::Cancel& /*cancel*/) {
  const std::vector<Ticket> calls = calls_;
  for (const Ticket& under_way : calls) {
    if (under_way->kind == Kind::kPart || under_way->kind == Kind::kPublication) cancel(under_way);
  }
}

// --- bytes, and the stream

void S3Sink::Core::perform(const upload_action::Forget& forget) {
  store_.forget(forget.number);
  machine_.stored(store_.stored_end(), actions_);
}

void S3Sink::Core::perform(const upload_action::Acknowledge& acknowledge) {
  acknowledged_ = acknowledge.offset;
}

void S3Sink::Core::perform(const upload_action::Finished& /*finished*/) {
  is_told_ = true;
  std::vector<PartReceipt> parts;
  if (machine_.state() == UploadState::kPending) parts = machine_.parts();
  {
    MutexLock lock(mutex_);
    outcome_.parts = std::move(parts);
    outcome_.crc32c = store_.crc32c();
    outcome_.has_checksums = checksums_.of_parts;
    outcome_.full_object_checksum = checksums_.of_full_object;
    publish_locked();
  }
  let_go();
  acknowledged_.reset();
  tell([](stream::SinkEvents& events) { events.finished(); });
}

void S3Sink::Core::perform(const upload_action::Failed& failed) {
  is_told_ = true;
  publish();
  let_go();
  acknowledged_.reset();
  tell([&failed](stream::SinkEvents& events) { events.failed(failed.status); });
}

void S3Sink::Core::add_statistics(Statistics& statistics) const {
  Counters counters;
  std::int64_t blocks = 0;
  std::int64_t size = 0;
  {
    MutexLock lock(mutex_);
    counters = counters_;
    size = static_cast<std::int64_t>(outcome_.size);
  }
  if (size > 0) blocks = sizes_of(options_).at(static_cast<std::uint64_t>(size) - 1);
  const std::int64_t ended = counters.committed + counters.failed + counters.cancelled;
  statistics["stream_write_total_data"] = counters.bytes_committed;
  counters.uploads.add_to(statistics, "stream_write_total_time");
  statistics["stream_write_block_uploads"] = counters.block_uploads;
  statistics["stream_write_block_uploads_active"] = counters.active;
  statistics["stream_write_block_uploads_pending"] =
      std::max<std::int64_t>(0, blocks - ended - counters.active);
  statistics["stream_write_block_uploads_data_pending"] = size - counters.bytes_committed;
  statistics["stream_write_block_uploads_committed"] = counters.committed;
  statistics["stream_write_block_uploads_aborted"] = counters.cancelled;
  statistics["stream_write_exceptions_completing_upload"] = counters.complete_failures;
  statistics["object_put_request"] = counters.block_uploads;
  statistics["object_put_request_completed"] = ended;
  statistics["object_put_request_active"] = counters.active;
  statistics["object_put_bytes"] = counters.bytes_put;
  statistics["object_put_bytes_pending"] = counters.bytes_active;
  statistics["object_multipart_initiated"] = counters.creates;
  statistics["object_multipart_aborted"] = counters.aborts;
  statistics["object_multipart_aborted.failures"] = counters.abort_failures;
  statistics["multipart_upload_completed"] = counters.completed;
  statistics["multipart_upload_part_put"] = counters.parts_put;
  statistics["multipart_upload_part_put_bytes"] = counters.part_bytes_put;
  statistics["multipart_upload_list"] = counters.lists;
  statistics["object_metadata_request"] = counters.looks;
}

// --- the sink

S3Sink::S3Sink(std::shared_ptr<Client> client, ObjectOptions options)
    : geometry_(upload_geometry(options)),
      generation_(env::Process::generation()),
      core_(std::make_shared<Core>(std::move(client), std::move(options))) {}

S3Sink::~S3Sink() {
  if (generation_ == env::Process::generation()) {
    core_->abandon();
  } else {
    env::leave_to_parent(std::move(core_));
  }
}

std::shared_ptr<S3Upload> S3Sink::upload() const { return core_; }

stream::SinkTraits S3Sink::traits() const {
  stream::SinkTraits traits;
  traits.geometry = geometry_;
  traits.capabilities = {"fs.capability.outputstream.abortable", "abortable"};
  if (core_->is_delayed()) {
    traits.capabilities.insert(traits.capabilities.end(), {"fs.s3a.capability.magic.output.stream",
                                                           "s3a:magic.output.stream"});
  }
  traits.loop = &core_->loop();
  return traits;
}

// A part stays until it is acknowledged: nothing is taken from the caller's memory.
std::size_t S3Sink::put(stream::Batch batch, std::optional<stream::Level> level,
                        stream::SinkEvents& events) {
  if (!batch.packets.empty()) core_->put(batch.packets, events);
  if (level) core_->sync(*level, events);
  return 0;
}

void S3Sink::finish(stream::SinkEvents& events) { core_->finish(events); }

Status S3Sink::abandon() noexcept {
  core_->abandon();
  return {};
}

void S3Sink::add_statistics(Statistics& statistics) const { core_->add_statistics(statistics); }

}  // namespace hflush::s3
