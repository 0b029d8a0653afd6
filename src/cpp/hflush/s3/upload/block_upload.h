// BlockUpload: what an upload does next. A state machine without I/O: no clock, socket or thread.
//
// It knows offsets, part numbers and the answers of the store, not bytes. The shell
// (upload_shell.h) keeps the bytes of each part, makes the calls that are asked for (each with its
// retries: an outcome here is a call's last) and feeds what happened. Events come in any order that
// the calls under way allow; one that no call under way explains changes nothing. docs/s3-client.md
// has the table.
//
// Promises: at most one publication (publication.h decides whether it took place), and none after
// the first failure or after abandon(). Complete is asked for only when every part 1..n is
// acknowledged. An upload that is not published is aborted when none of its calls is under way,
// again until the store says that it is gone, and its id is reported if that fails. A publication
// that was handed over (delayed), and an upload that was kept or had begun before, are never
// aborted here: others may hold what goes on with them.
//
// The bytes of a part are needed until Forget names it, all of them until Finished, Failed or
// abandon(): after that no Forget comes, and nothing is read any more.
//
// Thread-compatible: the shell serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/s3/upload/part_sizes.h"
#include "hflush/s3/upload/publication.h"

namespace hflush::s3 {

// What is known of a part that the store has.
struct PartReceipt {
  std::uint32_t number = 0;
  std::string etag;  // as the store has it, quotes included
  std::uint64_t size = 0;
  std::uint32_t crc32c = 0;
};

// An upload that was begun before, by this process or another one, and goes on behind these parts.
struct BegunUpload {
  std::string upload_id;
  std::vector<PartReceipt> parts;  // 1..n, each of its whole size

  std::uint64_t bytes() const noexcept;
};

struct UploadOptions {
  std::string path;  // for messages
  PartSizes sizes;
  std::size_t active_parts = 4;   // uploading, or waiting to
  bool delayed = false;           // finish() hands the publication over instead of completing
  bool always_multipart = false;  // also of what would fit into one PUT (delayed implies it)
  Condition condition;
  // How often Complete, or a conditional PutObject, is repeated after a look.
  std::uint32_t reconcile_limit = Publication::kLimit;
  std::optional<BegunUpload> begun = {};  // Requires: check_begun() is fine
};

// kInvalidArgument unless an upload in these sizes can have begun like that.
Status check_begun(const BegunUpload& begun, const PartSizes& sizes);

enum class UploadState : std::uint8_t {
  kWriting,    // bytes come
  kFinishing,  // all bytes are there; parts, then Complete or Put
  kLooking,    // whether an unanswered publication took place
  kPublished,
  kPending,    // delayed: handed over
  kFailed,     // nothing of it is visible, nor will be
  kUnknown,    // it is not known whether it was published, or still will be
  kAbandoned,  // as kFailed, by abandon()
};
std::string_view to_string(UploadState state) noexcept;

namespace upload_action {

// --- calls

// CreateMultipartUpload.
struct Create {};
// The whole object in one request. `again`: how often it was asked for before; the shell waits
// longer each time.
struct PutObject {
  std::uint64_t size = 0;
  std::uint32_t again = 0;
};
struct UploadPart {
  std::uint32_t number = 0;
};
// CompleteMultipartUpload with parts(). `again`: how often it was asked for before.
struct Complete {
  std::uint32_t again = 0;
};
// HEAD, and compare token and length.
struct LookAtKey {};
// ListParts; also to see whether Abort has worked.
struct LookAtUpload {};
struct Abort {
  std::string upload_id;
};
// Every UploadPart, PutObject and Complete under way. Each still reports: as cancelled, or, if that
// was faster, with its answer. A Create is never cancelled: its upload would be lost.
struct Cancel {};

// --- bytes

// The bytes of a part are no longer needed.
struct Forget {
  std::uint32_t number = 0;
};

// --- to those who go on with it

// The store has the parts 1..n that keep() asked for. From now on the upload is not ours alone.
struct Kept {
  std::uint32_t parts = 0;
};

// --- to the stream

// The stream may fill as much again.
struct Acknowledge {
  std::uint64_t offset = 0;
};
// Published, or handed over.
struct Finished {};
// Reported once.
struct Failed {
  Status status;
};

}  // namespace upload_action

using UploadAction =
    std::variant<upload_action::Create, upload_action::PutObject, upload_action::UploadPart,
                 upload_action::Complete, upload_action::LookAtKey, upload_action::LookAtUpload,
                 upload_action::Abort, upload_action::Cancel, upload_action::Forget,
                 upload_action::Kept, upload_action::Acknowledge, upload_action::Finished,
                 upload_action::Failed>;
using UploadActions = std::vector<UploadAction>;

class BlockUpload {
 public:
  explicit BlockUpload(UploadOptions options);

  // --- from the stream

  // Every byte below `end` is there. Where a part is complete, its upload may be asked for. Beyond
  // what the parts can hold: fails, with the numbers.
  void put(std::uint64_t end, UploadActions& actions);
  // The bytes below `offset` are out of the stream's memory (on disk): they are acknowledged as
  // soon as no more than active_parts unfinished parts lie before that.
  void stored(std::uint64_t offset, UploadActions& actions);
  // Others are to be able to go on behind the first `parts`, also if this process dies: asks for
  // an upload if there is none, and says Kept when the store has them. A later call replaces one
  // that was not answered.
  void keep(std::uint32_t parts, UploadActions& actions);
  void finish(UploadActions& actions);
  void abandon(UploadActions& actions);
  // Something in this process failed: the upload cannot go on. (A call that could not even be
  // started is answered by the event of its failure instead.)
  void broke(Status failure, UploadActions& actions);

  // --- from the store; each answers one action of that kind. A Status is a failed one.

  // `maybe_another`: it was repeated after an attempt that was not answered.
  void created(std::string upload_id, UploadActions& actions, bool maybe_another = false);
  void create_failed(CallFailure failure, UploadActions& actions);
  // `otherwise`: it is published, but not as it was to be, which is reported.
  void put_done(std::string etag, UploadActions& actions, const Status& otherwise = {});
  void put_failed(const CallFailure& failure, UploadActions& actions);
  // `maybe_twice`: it was repeated after an attempt that was not answered, and may still land.
  void part_done(PartReceipt receipt, UploadActions& actions, bool maybe_twice = false);
  void part_failed(std::uint32_t number, CallFailure failure, UploadActions& actions);
  void completed(std::string etag, UploadActions& actions);
  void complete_failed(const CallFailure& failure, UploadActions& actions);
  void key_seen(const Seen& seen, UploadActions& actions);
  void upload_seen(UploadSeen seen, UploadActions& actions);
  void aborted(UploadActions& actions);                       // 204 or 404
  void abort_failed(Status failure, UploadActions& actions);  // after its retries
  // A call that Cancel ended, or the end of the process, is out of the network.
  void create_cancelled(UploadActions& actions);  // an upload may be left whose id is not known
  void part_cancelled(std::uint32_t number, UploadActions& actions);
  void publication_cancelled(UploadActions& actions);  // Put, Complete or a look
  // From now on an unanswered call is not repeated, but looked at, aborted, and reported.
  void time_is_up();

  // --- what is known

  UploadState state() const noexcept { return state_; }
  const std::string& upload_id() const noexcept { return upload_id_; }
  std::string_view etag() const noexcept;  // of the published object
  std::uint64_t size() const noexcept { return end_; }
  // In order. The whole list from Complete on, and when kPending.
  std::vector<PartReceipt> parts() const;
  std::uint64_t part_bytes(std::uint32_t number) const noexcept;  // the last may be shorter
  bool busy() const noexcept;  // a call is under way, clean-up included
  // The first failure, with those that came after it as its others. Fine after abandon().
  const Status& failure() const noexcept { return failure_; }
  // When not busy() any more: an upload is left at the store, as far as is known, and why.
  const Status& cleanup_failure() const noexcept { return cleanup_failure_; }
  const UploadOptions& options() const noexcept { return options_; }

 private:
  // The upload at the store.
  enum class UploadIs : std::uint8_t {
    kNone,  // not asked for
    kCreating,
    kOpen,
    kAborting,
    kConfirming,  // a part may have landed after the abort: whether it is gone is looked at
    kGone,        // completed, aborted, or never made
    kLeft,        // as far as is known; cleanup_failure_ says why
  };

  bool is_over() const noexcept;
  std::uint32_t ready_parts() const noexcept;
  std::uint64_t begin_of(std::uint32_t number) const noexcept;

  void advance(UploadActions& actions);
  void ask_for_parts(UploadActions& actions);
  void tell_kept(UploadActions& actions);
  std::uint32_t lowest_unfinished() const noexcept;
  void acknowledge(UploadActions& actions);

  void publish(UploadActions& actions);
  bool awaits(Publication::Step step) const noexcept;
  bool awaits_put() const noexcept;
  bool awaits_complete() const noexcept;
  void go_on(UploadActions& actions, const Status& otherwise = {});
  void published(const Status& otherwise, UploadActions& actions);
  void not_published(UploadActions& actions);
  void unknown(UploadActions& actions);

  void fail(Status failure, UploadActions& actions);
  void tell_failed(Status failure, UploadActions& actions);
  void give_up(UploadState otherwise, UploadActions& actions);
  void clean_up(UploadActions& actions);
  void abort(UploadActions& actions);
  void confirm_abort(UploadActions& actions);
  void abort_confirmed(UploadSeen seen, UploadActions& actions);
  void leave(Status why);

  UploadOptions options_;
  UploadState state_ = UploadState::kWriting;
  UploadIs upload_ = UploadIs::kNone;
  bool listening_ = true;  // the stream: no end was reported to it, and it is not gone

  std::uint64_t end_ = 0;
  std::uint64_t stored_ = 0;
  std::uint64_t acknowledged_ = 0;

  std::string upload_id_;
  std::uint32_t next_part_ = 1;     // to be asked for
  std::set<std::uint32_t> active_;  // asked for
  std::map<std::uint32_t, PartReceipt> receipts_;
  std::optional<std::uint32_t> keeping_;  // how many parts, until Kept says so
  Holders holders_ = Holders::kOne;       // kFirst: kept, or begun before
  bool parts_may_land_ = false;           // although none of their calls is under way

  std::optional<Publication> publication_;        // from the first PutObject or Complete on
  UploadState otherwise_ = UploadState::kFailed;  // if nothing turns out to be published

  std::uint32_t aborts_ = 0;
  Status failure_;
  Status cleanup_failure_;
};

}  // namespace hflush::s3
