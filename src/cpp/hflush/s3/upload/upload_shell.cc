#include "hflush/s3/upload/upload_shell.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string_view>

#include "hflush/env/process.h"
#include "hflush/s3/call/documents.h"

namespace hflush::s3 {

UploadDriver::UploadDriver(stream::Reports& reports, UploadShell& shell, const UploadTarget& target,
                           PartStore& store, UploadLedger& ledger)
    : reports_(reports),
      shell_(shell),
      target_(target),
      store_(store),
      ledger_(ledger),
      asking_(target.client->settings(), target.options, target.token_or_empty(),
              target.client->new_stream()),
      machine_(target.upload_options()),
      window_(target.window, target.sizes, MemoryBudget::of_process(), begun_bytes(target.options)),
      publishing_{.time = PublicationTime(target.client->settings())} {
  if (const std::optional<BegunObject>& begun = target.options.begun) {
    checksums_ = begun->checksums;
    compares_parts_ = true;  // what Create was answered is not known here
  }
}

// --- from the stream

void UploadDriver::put(const Status& added, std::uint64_t end, std::uint64_t stored) {
  if (!added.ok()) return machine_.broke(added, actions);
  machine_.put(end, actions);
  machine_.stored(stored, actions);
  if (machine_.state() != UploadState::kWriting) store_.clear();  // it has failed meanwhile
}

void UploadDriver::keep(std::uint32_t parts) { machine_.keep(parts, actions); }

void UploadDriver::finish() {
  if (!target_.token.ok()) return machine_.broke(target_.token.status(), actions);
  machine_.finish(actions);
}

void UploadDriver::abandon() {
  if (stream_ == Stream::kListens) stream_ = Stream::kAbandoned;
  machine_.abandon(actions);
  let_go();
}

// --- whatever has happened

void UploadDriver::settled() {
  publish();
  move_window();
}

void UploadDriver::publish() {
  ledger_.publish(machine_, version_id_, counters_, stream_ != Stream::kListens);
}

void UploadDriver::move_window() {
  const std::uint64_t end = machine_.size();
  const std::uint64_t stored = store_.stored_end();
  if (machine_.state() != UploadState::kWriting) return window_.hold(end, stored);
  if (end == 0) return;
  if (!window_.is_open()) {
    window_.open([weak = shell_.weak_from_this()] {
      if (const std::shared_ptr<UploadShell> shell = weak.lock()) shell->room_came();
    });
  }
  if (const std::optional<std::uint64_t> offset = window_.move(end, stored)) {
    reports_.acknowledged(*offset);
  }
}

// The bytes, and the right to keep their memory at hand: a stream may be kept long after its end.
void UploadDriver::let_go() noexcept {
  store_.clear();
  reservation_.reset();
  window_.release();
}

// What is left at the store stays there: the machine has missed something, and decides nothing any
// more.
void UploadDriver::release() noexcept {
  bool was_sent = machine_.state() == UploadState::kLooking;
  for (const UnderWay& call : calls_) was_sent = was_sent || call.kind == Kind::kPublication;
  try {
    for (const UnderWay& call : calls_) target_.client->cancel(call.id);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // Their answers are not taken.
  }
  calls_.clear();
  let_go();
  ledger_.lost(target_.out_of_memory, was_sent);
}

// --- calls

env::TimePoint UploadDriver::now() const { return target_.client->loop().clock().now(); }

UploadDriver::Ticket UploadDriver::begin(Kind kind, std::uint32_t number) {
  UnderWay& call = calls_.emplace_back();
  call.ticket = ++last_ticket_;
  call.kind = kind;
  call.number = number;
  return last_ticket_;
}

UploadDriver::UnderWay* UploadDriver::under_way(Ticket ticket) noexcept {
  const auto found = std::ranges::find(calls_, ticket, &UnderWay::ticket);
  return found == calls_.end() ? nullptr : &*found;
}

std::optional<UploadDriver::UnderWay> UploadDriver::end(Ticket ticket) {
  const auto found = std::ranges::find(calls_, ticket, &UnderWay::ticket);
  if (found == calls_.end()) return std::nullopt;
  const UnderWay ended = *found;
  calls_.erase(found);
  if (ended.block) counters_.block_ends(*ended.block, now() - ended.since);
  return ended;
}

void UploadDriver::begin_block(Ticket ticket, std::uint64_t bytes) {
  under_way(ticket)->block = bytes;
  counters_.block_begins(bytes);
}

// Makes the call, and calls `feed(driver, call, result)` with its result.
template <typename Feed>
void UploadDriver::start(Ticket ticket, Call call, const Feed& feed) {
  under_way(ticket)->since = now();
  call.is_counted = false;
  const Client::CallId id = target_.client->call(
      std::move(call), [shell = shell_.shared_from_this(), ticket, feed](CallResult result) {
        shell->drive([ticket, feed, result = std::move(result)](UploadDriver& driver) {
          if (const std::optional<UnderWay> ended = driver.end(ticket)) {
            feed(driver, *ended, result);
          }
        });
      });
  under_way(ticket)->id = id;
}

void UploadDriver::cancel(Ticket ticket) {
  const Client::CallId id = under_way(ticket)->id;
  if (id == 0) return cancelled(ticket);  // it still waits for its time
  target_.client->cancel(id, [shell = shell_.shared_from_this(), ticket] {
    shell->drive([ticket](UploadDriver& driver) { driver.cancelled(ticket); });
  });
}

void UploadDriver::cancelled(Ticket ticket) {
  const std::optional<UnderWay> call = end(ticket);
  if (!call) return;
  if (call->kind == Kind::kPart) {
    ++counters_.cancelled;
    return machine_.part_cancelled(call->number, actions);
  }
  // One that still waits for its time was not asked for.
  if (call->id != 0) {
    publication_unanswered(*call, call->block ? &UploadCounters::cancelled : nullptr);
  }
  machine_.publication_cancelled(actions);
}

CallFailure UploadDriver::failure_of(const CallResult& result, const std::string& detail) const {
  return {result.failure->kind, result.ambiguous, explain(result.status, detail)};
}

// The client's message says the operation, the endpoint and the answer.
Status UploadDriver::explain(const Status& failure, const std::string& detail) const {
  Status explained(failure.code(), failure.message() + " (" + detail + ")", target_.path,
                   failure.error_number());
  if (!failure.remote_class().empty()) {
    explained = explained.with_remote_class(failure.remote_class());
  }
  if (const Status* cause = failure.cause()) explained = explained.with_cause(*cause);
  return explained;
}

std::string UploadDriver::describe_upload() const { return "upload " + machine_.upload_id(); }

// --- parts

void UploadDriver::perform(const upload_action::Create& /*create*/) {
  ++counters_.creates;
  const bool declares = !target_.client->does_without(kDeclaredChecksums);
  start(begin(Kind::kCreate), declares ? asking_.create() : asking_.create({}),
        [](UploadDriver& driver, const UnderWay& /*call*/, const CallResult& result) {
          driver.create_answered(result);
        });
}

// The machine hears of the upload that stays.
void UploadDriver::create_answered(const CallResult& result) {
  maybe_another_ = maybe_another_ || result.ambiguous;
  const std::string unechoed = asking_.unechoed_upload(result);
  if (unechoed.empty()) return created(result);
  target_.client->do_without(kDeclaredChecksums);
  if (stream_ != Stream::kListens) return created(result);  // it is aborted anyway
  ++counters_.aborts;
  start(begin(Kind::kCreate), asking_.abort(unechoed),
        [first = result](UploadDriver& driver, const UnderWay& /*call*/, const CallResult& abort) {
          const bool has_ended = UploadCalls::has_ended(abort);
          if (has_ended && driver.stream_ == Stream::kListens) {
            return driver.perform(upload_action::Create{});
          }
          if (!has_ended) ++driver.counters_.abort_failures;
          driver.created(first);
        });
}

void UploadDriver::created(const CallResult& result) {
  if (result.failure) {
    CallFailure failure = failure_of(result, "after " + std::to_string(machine_.size()) + " bytes");
    failure.ambiguous = maybe_another_;
    return machine_.create_failed(std::move(failure), actions);
  }
  Result<std::string> id = parse_upload_id(result.body);
  if (!id.ok()) {
    const Status failure(StatusCode::kIo, "create multipart upload: " + id.status().message(),
                         target_.path, EBADMSG);
    return machine_.create_failed({FailureKind::kAmbiguous, true, failure}, actions);
  }
  checksums_ = asking_.checksums(result.head);
  compares_parts_ = !tells_encryption(result.head);
  if (!compares_parts_) {
    if (const Status refusal = target_.encryption_refused("CreateMultipartUpload", result.head);
        !refusal.ok()) {
      machine_.broke(refusal, actions);  // before a byte of it is sent
    }
  }
  machine_.created(*std::move(id), actions, maybe_another_);
}

void UploadDriver::perform(const upload_action::UploadPart& part) {
  if (!reservation_) reservation_.emplace(env::Process::current().buffers(), window_.whole());
  const std::uint32_t number = part.number;
  Result<PartBody> body = store_.body(number);
  if (!body.ok()) {
    return machine_.part_failed(number, {FailureKind::kFinal, false, body.status()}, actions);
  }
  PartReceipt receipt;
  receipt.number = number;
  receipt.size = body->size;
  receipt.crc32c = body->crc32c;

  Call upload = asking_.upload_part(machine_.upload_id(), number, *std::move(body), checksums_);
  const Ticket ticket = begin(Kind::kPart, number);
  begin_block(ticket, receipt.size);
  ++counters_.parts_put;
  counters_.part_bytes_put += static_cast<std::int64_t>(receipt.size);
  start(ticket, std::move(upload),
        [receipt](UploadDriver& driver, const UnderWay& /*call*/, const CallResult& result) {
          driver.part_answered(receipt, result);
        });
}

void UploadDriver::part_answered(PartReceipt receipt, const CallResult& result) {
  if (result.failure) {
    ++counters_.failed;
    const std::uint64_t begin = machine_.options().sizes.begin(receipt.number);
    return machine_.part_failed(
        receipt.number,
        failure_of(result, "part " + std::to_string(receipt.number) + " of " +
                               std::to_string(receipt.size) + " bytes from offset " +
                               std::to_string(begin) + ", " + describe_upload()),
        actions);
  }
  counters_.block_committed(receipt.size);
  receipt.etag = strong_etag(result.head.header("etag"));
  if (compares_parts_) {
    if (const Status refusal = target_.encryption_refused("UploadPart", result.head);
        !refusal.ok()) {
      machine_.broke(refusal, actions);
    }
  }
  machine_.part_done(std::move(receipt), actions, result.ambiguous);
}

// --- publication

// Calls `ask`: at once, or later if it was asked for before and looked for in vain.
void UploadDriver::ask_publication(std::uint32_t again, void (UploadDriver::*ask)(Ticket)) {
  const Ticket publication = begin(Kind::kPublication);
  publishing_.again = again;
  if (again == 0) return (this->*ask)(publication);
  shell_.loop().run_after(publishing_.time.pause_before(again),
                          [shell = shell_.shared_from_this(), publication, ask] {
                            shell->drive([publication, ask](UploadDriver& driver) {
                              if (driver.under_way(publication) != nullptr)
                                (driver.*ask)(publication);
                            });
                          });
}

void UploadDriver::perform(const upload_action::PutObject& put) {
  ask_publication(put.again, &UploadDriver::put_object);
}

void UploadDriver::put_object(Ticket ticket) {
  Result<PartBody> body = store_.body(1);
  if (!body.ok()) {
    end(ticket);
    return machine_.put_failed({FailureKind::kFinal, false, body.status()}, actions);
  }
  begin_block(ticket, body->size);
  Call put = asking_.put_object(*std::move(body));
  if (put.repeat == Repeat::kFreely) put.repeat = Repeat::kUntilDone;
  put.ends = publishing_.time.end();
  start(ticket, std::move(put),
        [](UploadDriver& driver, const UnderWay& publication, const CallResult& result) {
          driver.put_answered(publication, result);
        });
}

void UploadDriver::put_answered(const UnderWay& publication, const CallResult& result) {
  if (result.failure) {
    publication_unanswered(publication, &UploadCounters::failed, result.deadline);
    return machine_.put_failed(
        failure_of(result, std::to_string(publication.block.value_or(0)) + " bytes"), actions);
  }
  publication_done(publication);
  version_id_ = result.head.header("x-amz-version-id");
  machine_.put_done(std::string(result.head.header("etag")), actions,
                    target_.encryption_refused("PutObject (published)", result.head));
}

void UploadDriver::perform(const upload_action::Complete& complete_again) {
  ask_publication(complete_again.again, &UploadDriver::complete);
}

void UploadDriver::complete(Ticket ticket) {
  const std::vector<PartReceipt> parts = machine_.parts();
  Call complete =
      asking_.complete(machine_.upload_id(), parts, machine_.size(), store_.crc32c(), checksums_);
  complete.ends = publishing_.time.end();
  start(ticket, std::move(complete),
        [count = parts.size()](UploadDriver& driver, const UnderWay& publication,
                               const CallResult& result) {
          driver.complete_answered(publication, count, result);
        });
}

void UploadDriver::complete_answered(const UnderWay& publication, std::size_t parts,
                                     const CallResult& result) {
  if (result.failure) {
    publication_unanswered(publication, &UploadCounters::complete_failures, result.deadline);
    return machine_.complete_failed(
        failure_of(result, std::to_string(parts) + " parts of " + std::to_string(machine_.size()) +
                               " bytes, " + describe_upload()),
        actions);
  }
  publication_done(publication);
  version_id_ = result.head.header("x-amz-version-id");
  machine_.completed(UploadCalls::completed_etag(result), actions);
}

// `counts_as`: what it was, as far as is known; a Complete that is cancelled is nothing.
// `deadline`: of its attempts.
void UploadDriver::publication_unanswered(UnderWay publication,
                                          std::int64_t UploadCounters::* counts_as,
                                          std::optional<env::TimePoint> deadline) {
  if (counts_as != nullptr) ++(counters_.*counts_as);
  publishing_.unanswered = publication;
  publishing_.counted_as = counts_as;
  publishing_.time.failed(now(), deadline);
}

void UploadDriver::publication_done(const UnderWay& publication) {
  if (publication.block) {
    counters_.block_committed(*publication.block);
  } else {
    ++counters_.completed;
  }
}

// The one that was not answered took place.
void UploadDriver::publication_found() {
  const std::optional<UnderWay> publication = std::exchange(publishing_.unanswered, std::nullopt);
  if (!publication) return;
  if (publishing_.counted_as != nullptr) --(counters_.*publishing_.counted_as);
  publication_done(*publication);
}

// Before the machine decides whether to ask again.
void UploadDriver::watch_time() {
  if (publishing_.time.is_up(now(), publishing_.again + 1)) machine_.time_is_up();
}

void UploadDriver::perform(const upload_action::LookAtKey& /*look*/) {
  ++counters_.looks;
  Call head = asking_.head_object();
  head.ends = publishing_.time.end_of_look(now());
  start(begin(Kind::kLook), std::move(head),
        [](UploadDriver& driver, const UnderWay& /*call*/, const CallResult& result) {
          driver.watch_time();
          driver.machine_.key_seen(driver.seen(result), driver.actions);
        });
}

// The object is ours if it has our token and length.
Seen UploadDriver::seen(const CallResult& result) {
  Seen seen = asking_.key_seen(result, machine_.size());
  if (seen.what != Seen::What::kOurs) return seen;
  publication_found();
  version_id_ = result.head.header("x-amz-version-id");
  if (machine_.upload_id().empty()) {  // else it was compared before
    seen.otherwise = target_.encryption_refused("PutObject (published)", result.head);
  }
  return seen;
}

void UploadDriver::perform(const upload_action::LookAtUpload& /*look*/) {
  ++counters_.lists;
  Call list = asking_.list_parts(machine_.upload_id());
  list.ends = publishing_.time.end_of_look(now());
  start(begin(Kind::kLook), std::move(list),
        [](UploadDriver& driver, const UnderWay& /*call*/, const CallResult& result) {
          driver.watch_time();
          driver.machine_.upload_seen(UploadCalls::upload_seen(result), driver.actions);
        });
}

void UploadDriver::perform(const upload_action::Abort& abort) {
  ++counters_.aborts;
  Call call = asking_.abort(abort.upload_id);
  if (stream_ != Stream::kHasEnded)
    call.ends = publishing_.time.end_of_look(now());  // a caller waits for it
  start(begin(Kind::kAbort), std::move(call),
        [](UploadDriver& driver, const UnderWay& /*call*/, const CallResult& result) {
          driver.abort_answered(result);
        });
}

void UploadDriver::abort_answered(const CallResult& result) {
  if (UploadCalls::has_ended(result)) return machine_.aborted(actions);
  ++counters_.abort_failures;
  machine_.abort_failed(explain(result.status, describe_upload()), actions);
}

void UploadDriver::perform(const upload_action::Cancel& /*cancel*/) {
  const std::vector<UnderWay> calls = calls_;
  for (const UnderWay& call : calls) {
    if (call.kind == Kind::kPart || call.kind == Kind::kPublication) cancel(call.ticket);
  }
}

// --- bytes, and the stream

void UploadDriver::perform(const upload_action::Forget& forget) {
  store_.forget(forget.number);
  machine_.stored(store_.stored_end(), actions);
}

void UploadDriver::perform(const upload_action::Kept& kept) {
  std::vector<PartReceipt> parts = machine_.parts();
  parts.resize(kept.parts);
  ledger_.kept({{machine_.upload_id(), std::move(parts)}, target_.token_or_empty(), checksums_});
}

void UploadDriver::perform(const upload_action::Acknowledge& acknowledge) {
  window_.acknowledged(acknowledge.offset);
}

void UploadDriver::perform(const upload_action::Finished& /*finished*/) {
  stream_ = Stream::kHasEnded;
  std::vector<PartReceipt> parts;
  if (machine_.state() == UploadState::kPending) parts = machine_.parts();
  ledger_.contents(std::move(parts), store_.crc32c(), checksums_);
  publish();
  let_go();
  reports_.finished();
}

void UploadDriver::perform(const upload_action::Failed& failed) {
  stream_ = Stream::kHasEnded;
  publish();
  let_go();
  reports_.failed(failed.status);
}

// --- the shell

UploadShell::UploadShell(std::shared_ptr<Client> client, ObjectOptions options)
    : target_(std::move(client), std::move(options)),
      store_(target_.store_options()),
      ledger_(std::make_shared<UploadLedger>(target_.token_or_empty(), target_.sizes,
                                             target_.options.begun)),
      driven_(target_.out_of_memory, *this, target_, store_, *ledger_) {}

void UploadShell::put(std::span<stream::Packet> packets, stream::SinkEvents& events) {
  Status added = target_.token.ok() ? store_.add(packets) : target_.token.status();
  driven_.drive_for(events,
                    [added = std::move(added), end = store_.end(), stored = store_.stored_end()](
                        UploadDriver& driver) { driver.put(added, end, stored); });
}

void UploadShell::sync(stream::Level level, stream::SinkEvents& events) {
  events.reached(level, store_.end());
}

void UploadShell::finish(stream::SinkEvents& events) {
  driven_.drive_for(events, [](UploadDriver& driver) { driver.finish(); });
}

void UploadShell::abandon() noexcept {
  driven_.abandon([](UploadDriver& driver) { driver.abandon(); });
}

Result<KeptUpload> UploadShell::keep(std::uint64_t offset, env::Interrupt& interrupt) {
  HFLUSH_ASSIGN_OR_RETURN(PartTail tail, store_.tail(offset));
  const std::uint32_t parts = target_.sizes.at(tail.begin) - 1;
  drive([parts](UploadDriver& driver) { driver.keep(parts); });
  HFLUSH_ASSIGN_OR_RETURN(BegunObject object, ledger_->wait_kept(parts, interrupt, loop()));
  return KeptUpload{std::move(object), std::move(tail)};
}

// On the loop; here if there is no memory to post it.
void UploadShell::room_came() {
  const auto go_on = [self = shared_from_this()] { self->drive([](UploadDriver&) {}); };
  try {
    loop().post(go_on);
  } catch (const std::bad_alloc&) {
    go_on();
  }
}

}  // namespace hflush::s3
