// The upload machine against a simulated store, in random schedules: calls fail in every way, their
// answers are lost, what was given up is executed later, others write and purge, the stream writes,
// finishes, breaks and is dropped whenever it likes.
//
// HFLUSH_SIMULATION_SEEDS: how many schedules of each kind.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hflush/s3/upload/block_upload.h"
#include "s3/simulated_store.h"

namespace hflush::s3 {
namespace {

using testing::SimulatedStore;
using testing::StoreQuirks;

// One in so many; 0: never.
struct Faults {
  unsigned fail = 0;      // a call is refused, or not executed, or not yet
  unsigned lose = 0;      // its answer is lost
  unsigned doubt = 0;     // both, of PutObject and Complete
  unsigned disturb = 0;   // another writes or removes the object, or purges the upload
  unsigned abandon = 0;   // in each step of the stream
  unsigned breakage = 0;  // the same
  unsigned keep = 0;      // the same: others are to be able to go on
};

constexpr std::array kKinds{
    FailureKind::kNotSent,   FailureKind::kAmbiguous,    FailureKind::kThrottled,
    FailureKind::kTransient, FailureKind::kCredentials,  FailureKind::kTransit,
    FailureKind::kClock,     FailureKind::kAddress,      FailureKind::kConflict,
    FailureKind::kGone,      FailureKind::kPrecondition, FailureKind::kFinal};

// What the object is to be.
std::string written_bytes(std::uint64_t size) {
  std::string bytes;
  for (std::uint64_t i = 0; i < size; ++i) bytes += static_cast<char>('a' + (i * 7 + i / 26) % 26);
  return bytes;
}

Status failure_named(const char* name) { return Status(StatusCode::kIo, name, "s3a://b/k", EIO); }

class Simulation {
 public:
  Simulation(std::uint64_t seed, Faults faults)
      : random_(seed),
        faults_(faults),
        store_(StoreQuirks{one_in(2), one_in(2), one_in(4)}),
        upload_(random_options()),
        options_(upload_.options()) {
    const std::uint64_t block = options_.sizes.block_bytes();
    total_ = below(4) == 0 ? below(block + 1) : below(9 * block);
    bytes_ = written_bytes(total_);
    // On disk any window will do; in memory it holds as many parts as may be active.
    on_disk_ = !uniform_ || one_in(2);
    window_ = on_disk_ ? 1 + below(2 * block) : options_.active_parts * block;
  }

  // What went wrong; empty: nothing.
  const std::string& run() {
    for (int steps = 0; broken_.empty() && !is_settled(); ++steps) {
      expect(steps < 20000, "it ends");
      step();
    }
    if (has_ended()) {  // the stream lets go of it
      const UploadState state = upload_.state();
      upload_.abandon(actions_);
      expect(actions_.empty() && upload_.state() == state, "what has ended is let alone");
    }
    while (broken_.empty() && !late_.empty()) land(below(late_.size()));
    if (broken_.empty()) check_end();
    return broken_;
  }

  UploadState state() const { return upload_.state(); }
  bool is_reported() const { return !upload_.cleanup_failure().ok(); }
  bool was_dropped() const { return abandoned_ || broke_; }
  const SimulatedStore& store() const { return store_; }
  int fences = 0;       // aborts while it was being looked at
  int asked_again = 0;  // Complete or PutObject

 private:
  struct Call {
    enum class What : std::uint8_t { kCreate, kPart, kPut, kComplete, kKey, kUpload, kAbort };
    What what;
    std::uint32_t number = 0;
    std::string upload_id;
    std::string body;
    std::vector<PartReceipt> list;
    bool cancelled = false;
    // When the store has executed it.
    bool executed = false;
    SimulatedStore::Answer answer = SimulatedStore::Answer::kDone;
    std::string result;  // id or etag
    Seen key;
    bool upload_there = false;
  };
  using What = Call::What;

  // --- chance

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  bool one_in(unsigned count) { return count > 0 && below(count) == 0; }

  UploadOptions random_options() {
    uniform_ = one_in(2);
    const std::uint64_t block = 1 + below(9);
    const auto max_parts = static_cast<std::uint32_t>(6 + below(4));
    UploadOptions options{.path = "s3a://b/k",
                          .sizes = PartSizes(block, max_parts, uniform_),
                          .active_parts = 1 + below(4),
                          .condition = {}};
    options.delayed = one_in(6);
    options.always_multipart = one_in(6);
    options.reconcile_limit = static_cast<std::uint32_t>(below(4));
    if (one_in(2)) store_.overwrite();
    if (one_in(4)) {
      options.condition.if_absent = true;
    } else if (one_in(4)) {
      options.condition.if_match = store_.object() ? store_.object()->etag : "\"none\"";
    }
    return options;
  }

  void expect(bool holds, const char* what) {
    if (!holds && broken_.empty()) broken_ = what;
  }

  // --- a step

  bool is_settled() const { return (finish_asked_ || abandoned_ || failed_) && calls_.empty(); }

  void step() {
    const std::uint64_t what = below(16);
    if (what < 6) {
      use();
    } else if (what < 13) {
      if (!calls_.empty()) move_on(below(calls_.size()));
    } else if (what < 14) {
      if (!late_.empty()) land(below(late_.size()));
    } else if (what < 15) {
      disturb();
    } else {
      say_nonsense();
    }
    perform();
    check_now();
  }

  // The stream's thread.
  void use() {
    if (abandoned_ || finished_) return;
    if (one_in(failed_ ? 2 : faults_.abandon)) {
      if (is_publishing()) doubtful_ = true;
      abandoned_ = true;
      return upload_.abandon(actions_);
    }
    if (one_in(faults_.breakage)) {
      if (is_publishing()) doubtful_ = true;
      broke_ = broke_ || !failed_;
      return upload_.broke(failure_named("broken"), actions_);
    }
    if (finish_asked_ || failed_) return;
    if (one_in(faults_.keep)) {
      keeping_ = static_cast<std::uint32_t>(below(options_.sizes.at(written_)));
      return upload_.keep(keeping_, actions_);
    }
    if (written_ == total_) {
      finish_asked_ = true;
      return upload_.finish(actions_);
    }
    const std::uint64_t room = acknowledged_ + window_ - written_;
    if (room == 0) return;
    written_ = std::min({total_, written_ + room, written_ + 1 + below(20)});
    upload_.put(written_, actions_);
    if (on_disk_) upload_.stored(written_, actions_);
  }

  bool is_publishing() const {
    return std::ranges::any_of(calls_, [](const Call& call) {
      return call.what == What::kPut || call.what == What::kComplete;
    });
  }

  void disturb() {
    if (!one_in(faults_.disturb)) return;
    switch (below(3)) {
      case 0:
        disturbed_ = true;
        return store_.overwrite();
      case 1:
        disturbed_ = true;
        return store_.remove();
      default:
        if (upload_.upload_id().empty() || !store_.has_upload(upload_.upload_id())) return;
        purged_ = true;
        store_.abort(upload_.upload_id());
    }
  }

  // Something happens to a call.
  void move_on(std::size_t index) {
    Call call = std::move(calls_[index]);
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(index));
    const bool publishes = call.what == What::kPut || call.what == What::kComplete;
    const unsigned fail = publishes ? faults_.doubt : faults_.fail;
    const unsigned lose = publishes ? faults_.doubt : faults_.lose;
    if (call.cancelled && (!call.executed || one_in(2))) {
      report_cancelled(call);
      if (!call.executed && one_in(2)) late_.push_back(std::move(call));
      return;
    }
    if (!call.executed) {
      if (one_in(fail)) {
        if (one_in(publishes ? 4 : 2)) return report_failure(call, random_kind(), false);
        report_failure(call, random_kind(), true);
        if (one_in(2)) late_.push_back(std::move(call));
        return;
      }
      execute(call);
      // A connection that dies may make the transport repeat it by itself.
      if (call.what == What::kComplete && !options_.condition.any() && one_in(lose)) {
        execute(call);
      }
      if (one_in(2)) return calls_.push_back(std::move(call));
    }
    if (one_in(lose)) return report_failure(call, random_kind(), true);
    report(call);
  }

  // Something that was given up is executed nevertheless.
  void land(std::size_t index) {
    Call call = std::move(late_[index]);
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(index));
    if (call.what == What::kPart) {
      store_.land_part(call.upload_id, call.number, call.body);
    } else {
      execute(call);
    }
  }

  FailureKind random_kind() { return kKinds[below(kKinds.size())]; }

  // --- the store's side

  void execute(Call& call) {
    call.executed = true;
    switch (call.what) {
      case What::kCreate:
        call.result = store_.create();
        break;
      case What::kPart: {
        const auto etag = store_.upload_part(call.upload_id, call.number, call.body);
        call.answer = etag ? SimulatedStore::Answer::kDone : SimulatedStore::Answer::kNoSuchUpload;
        if (etag) call.result = *etag;
        break;
      }
      case What::kPut:
        call.answer = store_.put(call.body, options_.condition, call.result);
        break;
      case What::kComplete:
        call.answer = store_.complete(call.upload_id, call.list, options_.condition, call.result);
        break;
      case What::kKey:
        if (!store_.object()) {
          call.key = {Seen::What::kNothing, "", {}};
        } else {
          call.key = {store_.object()->ours ? Seen::What::kOurs : Seen::What::kAnother,
                      store_.object()->etag,
                      {}};
        }
        break;
      case What::kUpload:
        land_one_part();  // or nobody could ever be sure
        call.upload_there = store_.has_upload(call.upload_id);
        break;
      case What::kAbort:
        store_.abort(call.upload_id);
        break;
    }
    const auto& object = store_.object();
    if (object && object->ours) expect(object->bytes == bytes_, "what is published is whole");
  }

  void land_one_part() {
    for (std::size_t i = 0; i < late_.size(); ++i) {
      if (late_[i].what == What::kPart) return land(i);
    }
  }

  // --- answers

  void report(Call& call) {
    switch (call.what) {
      case What::kCreate:
        return upload_.created(call.result, actions_);
      case What::kPart:
        if (call.answer != SimulatedStore::Answer::kDone) {
          return upload_.part_failed(call.number, {FailureKind::kGone, false, failure_named("404")},
                                     actions_);
        }
        if (!has_ended()) receipts_.insert(call.number);
        return report_part(call);
      case What::kPut:
        if (call.answer == SimulatedStore::Answer::kDone) {
          return upload_.put_done(call.result, actions_);
        }
        return report_failure(call, FailureKind::kPrecondition, false);
      case What::kComplete:
        switch (call.answer) {
          case SimulatedStore::Answer::kDone:
            return upload_.completed(call.result, actions_);
          case SimulatedStore::Answer::kNoSuchUpload:  // of which radosgw says 500
            return report_failure(call, one_in(2) ? FailureKind::kGone : FailureKind::kAmbiguous,
                                  false);
          case SimulatedStore::Answer::kInvalidPart:
            return report_failure(call, FailureKind::kFinal, false);
          case SimulatedStore::Answer::kPrecondition:
            return report_failure(call, FailureKind::kPrecondition, false);
        }
        return;
      case What::kKey:
        return upload_.key_seen(call.key, actions_);
      case What::kUpload:
        return upload_.upload_seen(call.upload_there ? UploadSeen::kThere : UploadSeen::kGone,
                                   actions_);
      case What::kAbort:
        return upload_.aborted(actions_);
    }
  }

  // Perhaps after an attempt that was not answered, and is still under way.
  void report_part(const Call& call) {
    const bool was_repeated = one_in(faults_.lose);
    if (was_repeated) late_.push_back(call);
    upload_.part_done({call.number, call.result, call.body.size(), 0}, actions_, was_repeated);
  }

  void report_failure(const Call& call, FailureKind kind, bool ambiguous) {
    const bool is_lost = ambiguous || kind == FailureKind::kAmbiguous;
    CallFailure failure{kind, ambiguous, failure_named(is_lost ? "lost" : "refused")};
    switch (call.what) {
      case What::kCreate:
        // Without doubt it is refused: kAmbiguous is never without.
        return upload_.create_failed(std::move(failure), actions_);
      case What::kPart:
        return upload_.part_failed(call.number, std::move(failure), actions_);
      case What::kPut:
        doubtful_ = doubtful_ || is_lost || kind == FailureKind::kGone;
        return upload_.put_failed(std::move(failure), actions_);
      case What::kComplete:
        doubtful_ = doubtful_ || is_lost || kind == FailureKind::kGone;
        return upload_.complete_failed(std::move(failure), actions_);
      case What::kKey:
        return upload_.key_seen(
            {one_in(2) ? Seen::What::kHidden : Seen::What::kCannotTell, "", failure.status},
            actions_);
      case What::kUpload:
        return upload_.upload_seen(one_in(2) ? UploadSeen::kHidden : UploadSeen::kCannotTell,
                                   actions_);
      case What::kAbort:
        return upload_.abort_failed(failure.status, actions_);
    }
  }

  void report_cancelled(const Call& call) {
    if (call.what == What::kPart) return upload_.part_cancelled(call.number, actions_);
    doubtful_ = true;
    upload_.publication_cancelled(actions_);
  }

  // Answers to what nobody has asked, and a stream that goes on after the end.
  void say_nonsense() {
    if (has_ended() && one_in(4)) {
      upload_.put(written_ + below(20), actions_);
      upload_.stored(written_, actions_);
      upload_.finish(actions_);
      return expect(actions_.empty(), "the stream changes nothing after the end");
    }
    const auto none = [this](What what) {
      return std::ranges::none_of(calls_, [what](const Call& call) { return call.what == what; });
    };
    const auto number = static_cast<std::uint32_t>(below(12));
    const bool no_such_part = std::ranges::none_of(calls_, [number](const Call& call) {
      return call.what == What::kPart && call.number == number;
    });
    const CallFailure failure{random_kind(), one_in(2), failure_named("nonsense")};
    switch (below(8)) {
      case 0:
        if (none(What::kCreate)) upload_.created("X", actions_);
        break;
      case 1:
        if (none(What::kCreate)) upload_.create_failed(failure, actions_);
        break;
      case 2:
        if (no_such_part) upload_.part_done({number, "\"x\"", below(20), 0}, actions_);
        break;
      case 3:
        if (no_such_part) upload_.part_failed(number, failure, actions_);
        break;
      case 4:
        if (none(What::kPut)) upload_.put_done("\"x\"", actions_);
        if (none(What::kComplete)) upload_.complete_failed(failure, actions_);
        break;
      case 5:
        if (none(What::kComplete)) upload_.completed("\"x\"", actions_);
        if (none(What::kPut)) upload_.put_failed(failure, actions_);
        break;
      case 6:
        if (none(What::kKey)) upload_.key_seen({Seen::What::kOurs, "\"x\"", {}}, actions_);
        if (none(What::kUpload)) upload_.upload_seen(UploadSeen::kThere, actions_);
        break;
      default:
        if (none(What::kAbort)) upload_.aborted(actions_);
        if (none(What::kAbort)) upload_.abort_failed(failure.status, actions_);
    }
    expect(actions_.empty(), "an answer that nobody waits for changes nothing");
  }

  // --- what the machine asks for

  bool has_ended() const { return finished_ || failed_ || abandoned_; }

  void perform() {
    UploadActions actions;
    actions.swap(actions_);
    for (UploadAction& action : actions) {
      std::visit([this](auto& what) { perform(what); }, action);
    }
  }

  Call& call(What what) {
    Call& made = calls_.emplace_back();
    made.what = what;
    made.upload_id = upload_.upload_id();
    return made;
  }

  void perform(const upload_action::Create& /*unused*/) {
    expect(!has_ended(), "nothing is created after the end");
    expect(!std::exchange(created_, true), "one upload");
    call(What::kCreate);
  }

  void perform(const upload_action::UploadPart& part) {
    expect(!has_ended(), "no part after the end");
    expect(part.number == ++last_part_, "parts are asked for in order");
    const std::uint64_t begin = options_.sizes.begin(part.number);
    const std::uint64_t end = std::min(options_.sizes.end(part.number), total_);
    expect(end == options_.sizes.end(part.number) || finish_asked_, "only the last is shorter");
    expect(end <= written_, "a part is complete");
    expect(begin < end || total_ == 0, "no part is empty");
    expect(upload_.part_bytes(part.number) == end - begin, "the part's size");
    Call& made = call(What::kPart);
    made.number = part.number;
    made.body = bytes_.substr(begin, end - begin);
    const auto active =
        std::ranges::count_if(calls_, [](const Call& one) { return one.what == What::kPart; });
    expect(static_cast<std::size_t>(active) <= options_.active_parts, "as many as may be active");
  }

  void perform(const upload_action::PutObject& put) {
    check_publication(put.again);
    expect(!created_, "a PUT or an upload");
    expect(put.size == total_ && total_ < options_.sizes.end(1), "what is put is everything");
    call(What::kPut).body = bytes_;
  }

  void perform(const upload_action::Complete& complete) {
    check_publication(complete.again);
    expect(!options_.delayed, "a delayed one is completed by others");
    Call& made = call(What::kComplete);
    made.list = upload_.parts();
    std::uint64_t size = 0;
    std::uint32_t number = 0;
    for (const PartReceipt& receipt : made.list) {
      expect(receipt.number == ++number && receipts_.contains(number), "parts 1 to n");
      size += receipt.size;
    }
    expect(number == last_part_ && number > 0 && size == total_, "all parts");
  }

  void check_publication(std::uint32_t again) {
    expect(!has_ended(), "nothing is published after the end");
    expect(finish_asked_ && written_ == total_, "only what is finished is published");
    expect(calls_.empty(), "nothing else is under way then");
    expect(again == static_cast<std::uint32_t>(asked_again), "how often");
    expect(again <= options_.reconcile_limit, "not more often than that");
    ++asked_again;
  }

  void perform(const upload_action::LookAtKey& /*unused*/) {
    expect(upload_.state() == UploadState::kLooking, "looks while it looks");
    call(What::kKey);
  }
  void perform(const upload_action::LookAtUpload& /*unused*/) { call(What::kUpload); }

  void perform(const upload_action::Abort& abort) {
    expect(!abort.upload_id.empty() && abort.upload_id == upload_.upload_id(), "its own upload");
    expect(calls_.empty(), "nothing is under way when it is aborted");
    expect(!kept_, "what others may go on with is not aborted");
    if (upload_.state() == UploadState::kLooking) {
      ++fences;
    } else {
      expect(has_ended(), "aborted after the end");
    }
    call(What::kAbort);
  }

  void perform(const upload_action::Cancel& /*unused*/) {
    expect(has_ended(), "nothing is cancelled before the end");
    bool any = false;
    for (Call& one : calls_) {
      if (one.what != What::kPart && one.what != What::kPut && one.what != What::kComplete)
        continue;
      one.cancelled = any = true;
    }
    expect(any, "there is something to cancel");
  }

  void perform(const upload_action::Forget& forget) {
    expect(!has_ended(), "no bytes are named after the end");
    expect(receipts_.contains(forget.number), "the store has what is forgotten");
    expect(forgotten_.insert(forget.number).second, "a part is forgotten once");
  }

  void perform(const upload_action::Kept& kept) {
    expect(!has_ended(), "nothing is kept after the end");
    expect(kept.parts == keeping_, "what was to be kept last");
    const auto upload = store_.uploads().find(upload_.upload_id());
    for (std::uint32_t number = 1; number <= kept.parts; ++number) {
      expect(receipts_.contains(number), "the store has what is kept");
    }
    expect(purged_ || upload != store_.uploads().end(), "the upload is there");
    kept_ = true;
  }

  void perform(const upload_action::Acknowledge& acknowledge) {
    expect(!has_ended(), "no acknowledgement after the end");
    expect(acknowledge.offset > acknowledged_, "acknowledgements rise");
    acknowledged_ = acknowledge.offset;
  }

  void perform(const upload_action::Finished& /*unused*/) {
    expect(!has_ended(), "one end");
    finished_ = true;
    expect(acknowledged_ == total_, "everything is acknowledged in the end");
    if (options_.delayed) return check_pending();
    expect(upload_.state() == UploadState::kPublished, "finished is published");
    expect(store_.publications > 0, "finished is what the store has");
  }

  void perform(const upload_action::Failed& failed) {
    expect(!has_ended(), "one end");
    failed_ = true;
    expect(!failed.status.ok() && failed.status.path() == "s3a://b/k", "a failure says where");
  }

  // --- what must hold

  void check_now() {
    expect(upload_.busy() == !calls_.empty(), "it knows what is under way");
    if (!has_ended() && !options_.delayed && upload_.state() == UploadState::kWriting) {
      expect(acknowledged_ == expected_acknowledgement(), "what is acknowledged");
    }
    const bool is_ours = store_.object() && store_.object()->ours;
    const auto goes_on = [](const Call& call) {
      const bool may_be_cancelled =
          call.what == What::kPart || call.what == What::kPut || call.what == What::kComplete;
      return may_be_cancelled && !call.cancelled;
    };
    if (has_ended()) expect(std::ranges::none_of(calls_, goes_on), "nothing goes on after the end");
    if (is_ours) expect(asked_again > 0, "nothing is visible that was not to be published");
  }

  std::uint64_t expected_acknowledgement() const {
    const PartSizes& sizes = options_.sizes;
    std::uint32_t number = 1;
    while (receipts_.contains(number)) ++number;
    const std::uint64_t from_memory = sizes.begin(number);
    for (std::size_t unfinished = 0; number <= sizes.max_parts(); ++number) {
      if (!receipts_.contains(number) && ++unfinished > options_.active_parts) break;
    }
    const std::uint64_t from_disk = on_disk_ ? std::min(written_, sizes.begin(number)) : 0;
    return std::min(written_, std::max(from_memory, from_disk));
  }

  void check_pending() {
    expect(upload_.state() == UploadState::kPending, "delayed is handed over");
    if (purged_) return;
    const auto upload = store_.uploads().find(upload_.upload_id());
    expect(upload != store_.uploads().end(), "what is handed over is there");
    if (!broken_.empty()) return;
    std::string bytes;
    for (const PartReceipt& receipt : upload_.parts()) {
      const auto part = upload->second.find(receipt.number);
      expect(part != upload->second.end() && part->second.etag == receipt.etag, "its parts");
      if (part != upload->second.end()) bytes += part->second.bytes;
    }
    expect(bytes == bytes_, "what is handed over is whole");
  }

  void check_end() {
    const UploadState state = upload_.state();
    const bool is_ours = store_.object() && store_.object()->ours;
    expect(!upload_.busy(), "nothing is under way");
    expect(abandoned_ || finished_ || failed_, "the stream is told");
    if (is_ours) expect(store_.object()->bytes == bytes_, "whole");
    switch (state) {
      case UploadState::kPublished:
        expect(store_.publications > 0, "published is published");
        expect(is_ours || disturbed_, "and visible");
        expect(finished_ || was_dropped(), "and told");
        if (!disturbed_ && !upload_.etag().empty()) {
          expect(store_.object()->etag == upload_.etag(), "its etag");
        }
        break;
      case UploadState::kPending:
        expect(finished_ && options_.delayed, "pending is delayed");
        expect(store_.publications == 0, "and not published");
        break;
      case UploadState::kFailed:
        expect(failed_, "failed is told");
        expect(!is_ours, "failed is not visible");
        break;
      case UploadState::kAbandoned:
        expect(abandoned_ && !finished_ && !failed_, "abandoned");
        expect(!is_ours, "abandoned is not visible");
        break;
      case UploadState::kUnknown:
        expect(failed_ || abandoned_, "unknown is no success");
        expect(doubtful_, "there is a reason for doubt");
        break;
      default:
        expect(false, "it has come to an end");
    }
    if (finished_) expect(state == UploadState::kPublished || state == UploadState::kPending, "so");
    if (created_) expect(store_.publications <= 1, "an upload is published once");
    for (const auto& [id, parts] : store_.uploads()) {
      const bool is_handed_over =
          (state == UploadState::kPending || kept_) && id == upload_.upload_id();
      expect(is_handed_over || is_reported(), "an upload that is left is reported");
    }
    if (faults_.fail + faults_.lose + faults_.doubt + faults_.disturb + faults_.abandon +
            faults_.breakage ==
        0) {
      const Condition& condition = options_.condition;
      const bool is_refused =
          (condition.any() && store_.publications == 0) || total_ > options_.sizes.max_bytes();
      expect(finished_ || is_refused, "without faults there is no failure");
      expect(!is_reported() || store_.resurrections >= 4, "nor is anything left that can go");
    }
  }

  std::mt19937_64 random_;
  const Faults faults_;
  SimulatedStore store_;
  bool uniform_ = false;
  BlockUpload upload_;
  const UploadOptions options_;
  UploadActions actions_;
  std::vector<Call> calls_;  // under way
  std::vector<Call> late_;   // given up, but not by the store

  std::uint64_t total_ = 0;
  std::string bytes_;
  bool on_disk_ = false;
  std::uint64_t window_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t acknowledged_ = 0;
  bool finish_asked_ = false;
  bool abandoned_ = false;
  bool broke_ = false;
  bool finished_ = false;
  bool failed_ = false;

  bool created_ = false;
  std::uint32_t last_part_ = 0;
  std::set<std::uint32_t> receipts_;
  std::set<std::uint32_t> forgotten_;
  bool disturbed_ = false;  // somebody else wrote
  bool purged_ = false;
  std::uint32_t keeping_ = 0;
  bool kept_ = false;
  bool doubtful_ = false;

  std::string broken_;
};

struct Tally {
  std::map<UploadState, std::uint64_t> states;
  std::uint64_t reported = 0;
  std::uint64_t resurrections = 0;
  std::uint64_t fences = 0;
  std::uint64_t asked_again = 0;
  std::uint64_t seeds = 0;
};

std::uint64_t seeds_of_each_kind() {
  const char* set = std::getenv("HFLUSH_SIMULATION_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  // Fewer would not meet everything that is counted below.
  return set == nullptr ? 8000 : std::max(1000ULL, std::strtoull(set, nullptr, 10));
}

Tally simulate(Faults faults) {
  Tally tally;
  tally.seeds = seeds_of_each_kind();
  for (std::uint64_t seed = 1; seed <= tally.seeds; ++seed) {
    Simulation simulation(seed, faults);
    if (const std::string& broken = simulation.run(); !broken.empty()) {
      FAIL_CHECK("seed " << seed << ": " << broken);
      break;
    }
    ++tally.states[simulation.state()];
    tally.reported += simulation.is_reported() ? 1 : 0;
    tally.resurrections += static_cast<std::uint64_t>(simulation.store().resurrections);
    tally.fences += static_cast<std::uint64_t>(simulation.fences);
    tally.asked_again += simulation.asked_again > 1 ? 1 : 0;
  }
  std::string states;
  for (const auto& [state, count] : tally.states) {
    states += " " + std::string(to_string(state)) + "=" + std::to_string(count);
  }
  MESSAGE(tally.seeds << " schedules:" << states << " reported=" << tally.reported
                      << " resurrections=" << tally.resurrections << " fences=" << tally.fences
                      << " asked again=" << tally.asked_again);
  return tally;
}

TEST_CASE("simulation: without faults everything is published, or refused by its condition") {
  const Tally tally = simulate({});
  CHECK(tally.states.at(UploadState::kPublished) > tally.seeds / 2);
}

TEST_CASE("simulation: faults now and then") {
  const Tally tally = simulate({.fail = 40, .lose = 40, .doubt = 20, .disturb = 10});
  CHECK(tally.states.at(UploadState::kPublished) > tally.seeds / 3);
}

TEST_CASE("simulation: publications that are not answered") {
  Tally tally = simulate({.fail = 60, .lose = 60, .doubt = 2, .disturb = 8, .abandon = 100});
  CHECK(tally.states[UploadState::kPublished] > tally.seeds / 5);
  CHECK(tally.states[UploadState::kUnknown] > tally.seeds / 50);
  CHECK(tally.fences > tally.seeds / 50);
  CHECK(tally.asked_again > tally.seeds / 50);
}

TEST_CASE("simulation: whatever happens, what is visible is old or whole, and told as it is") {
  Tally tally =
      simulate({.fail = 12, .lose = 12, .doubt = 3, .disturb = 3, .abandon = 60, .breakage = 80});
  for (const UploadState state :
       {UploadState::kPublished, UploadState::kPending, UploadState::kFailed, UploadState::kUnknown,
        UploadState::kAbandoned}) {
    CAPTURE(to_string(state));
    CHECK(tally.states[state] > tally.seeds / 100);
  }
  CHECK(tally.reported > 0);
  CHECK(tally.resurrections > 0);
}

TEST_CASE("simulation: kept for others, whatever happens") {
  Tally tally = simulate(
      {.fail = 12, .lose = 12, .doubt = 3, .disturb = 6, .abandon = 60, .breakage = 80, .keep = 5});
  for (const UploadState state : {UploadState::kPublished, UploadState::kFailed,
                                  UploadState::kUnknown, UploadState::kAbandoned}) {
    CAPTURE(to_string(state));
    CHECK(tally.states[state] > tally.seeds / 100);
  }
}

TEST_CASE("simulation: dropped at any moment") {
  Tally tally = simulate({.abandon = 12});
  CHECK(tally.states[UploadState::kAbandoned] > tally.seeds / 4);
  CHECK(tally.states[UploadState::kPublished] > tally.seeds / 10);
  CHECK(tally.reported * 1000 < tally.seeds);  // only what comes back again and again
}

}  // namespace
}  // namespace hflush::s3
