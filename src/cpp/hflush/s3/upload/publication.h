// Publication: "was it published?". The one step that makes an object visible, PutObject or
// CompleteMultipartUpload, decided even if answers are lost on the way. A state machine without
// I/O: the caller makes the call that step() names and reports the answer; no other call of the
// publication is under way at the same time. docs/s3-client.md has the table.
//
//   Ask          PutObject or Complete. Answered: published, or refused. Not answered: look
//   LookAtKey    the object there has our token and length: published
//   LookAtUpload it is there, or hidden: ask again, while that may help; else fence, unless the
//                store has said that it is completing it. Gone: look at the key
//   Fence        Abort, which makes an end final; then look at the key once more
//
// Promises: published is reported only of what the store has confirmed or shown; not published only
// of what the store has refused, or of what cannot become visible any more (an upload that is not
// ours to abort: of what was not visible when the upload was seen). Everything else is unknown.
// Nothing is asked for again after stop_asking().
//
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "hflush/base/status.h"
#include "hflush/s3/call/outcome.h"

namespace hflush::s3 {

// How the object may be published.
struct Condition {
  bool if_absent = false;  // If-None-Match: *
  std::string if_match;    // an etag; empty: any
  bool any() const noexcept { return if_absent || !if_match.empty(); }
};

// A call that did not succeed.
struct CallFailure {
  FailureKind kind = FailureKind::kFinal;
  bool ambiguous = false;  // this or an earlier attempt may have been executed
  Status status;
};

// The object at the key.
struct Seen {
  enum class What : std::uint8_t {
    kOurs,
    kAnother,
    kNothing,
    kHidden,      // the store refuses to say, or does not say it clearly; it does not fail
    kCannotTell,  // it could not be asked
  };
  What what = What::kCannotTell;
  std::string etag;
  Status failure;         // kHidden, kCannotTell
  Status otherwise = {};  // kOurs: as BlockUpload::put_done() has it
};

// Whether the upload is still there; kHidden as of Seen.
enum class UploadSeen : std::uint8_t { kThere, kGone, kHidden, kCannotTell };

// Who may complete the upload: what NoSuchUpload means, and whether this client may abort it.
enum class Holders : std::uint8_t {
  kOne,    // NoSuchUpload may follow from our own Complete: in doubt. Fenced by an abort
  kEqual,  // a pending commit: fine if another holder has published it. The upload goes on
  kFirst,  // a multipart uploader: the first to complete it has ended it for the others. Goes on
};

class Publication {
 public:
  struct Options {
    std::string path;                 // for messages
    std::string operation = "close";  // for messages
    std::string upload_id;            // empty: PutObject
    Condition condition = {};
    Holders holders = Holders::kOne;
    // How often it is asked for again; not counted where the store says that it is completing it.
    std::uint32_t limit = kLimit;
  };
  enum class Step : std::uint8_t {
    kAsk,
    kLookAtKey,     // HEAD: token and length
    kLookAtUpload,  // ListParts
    kFence,         // Abort
    // The end:
    kPublished,
    kNotPublished,  // failure() says why
    kUnknown,       // the same
  };
  static constexpr std::uint32_t kLimit = 3;
  // How often it is asked for again after its time ran out.
  static constexpr std::uint32_t kSilenceLimit = 1;

  explicit Publication(Options options) : options_(std::move(options)) {}

  Step step() const noexcept { return step_; }
  bool is_over() const noexcept { return step_ >= Step::kPublished; }

  // --- answers. Requires: step() is what is answered.

  void succeeded(std::string etag);
  void failed(const CallFailure& failure);
  void key_seen(const Seen& seen);
  void upload_seen(UploadSeen seen);
  void fenced();
  void fence_failed();

  // From now on: the time is up, or the caller has gone.
  void stop_asking() noexcept { may_ask_ = false; }

  // --- what is known

  std::uint32_t asked_again() const noexcept { return asked_again_; }
  const std::string& etag() const noexcept { return etag_; }  // kPublished, if the store said it
  const std::string& reason() const noexcept { return reason_; }  // kUnknown: what was seen
  // It may have been executed, or still be; or it found an upload that had ended.
  bool is_in_doubt() const noexcept { return in_doubt_ || last_.kind == FailureKind::kGone; }
  Status failure() const;
  // The failure of an unknown outcome, for the caller.
  Status unknown_because(const std::string& reason, const Status& cause) const;

 private:
  // Why the key is looked at.
  enum class Look : std::uint8_t {
    kAfterRefusal,  // perhaps because of another holder's publication; or what a conflict left
    kInDoubt,
    kAfterFence,  // what was under way at the store cannot succeed any more
    kAfterEnd,    // the upload ended while it was looked for
  };

  bool is_put() const noexcept { return options_.upload_id.empty(); }
  bool is_condition_broken() const noexcept;
  bool is_undecided() const noexcept;
  bool is_in_progress() const noexcept { return last_.kind == FailureKind::kInProgress; }
  bool may_help() const noexcept;
  void look_at_key(Look why) noexcept;
  bool ask_again() noexcept;
  void end_in_doubt(Step otherwise);
  void put_not_found(const Seen& seen);
  void unknown(std::string reason);
  Status refusal() const;
  Status refused_by(StatusCode code, int error_number, const std::string& why) const;

  const Options options_;
  Step step_ = Step::kAsk;
  Look look_ = Look::kInDoubt;
  bool may_ask_ = true;
  bool in_doubt_ = false;  // an attempt may have been executed, or still be
  std::uint32_t asked_again_ = 0;
  std::uint32_t silences_ = 0;     // attempts whose time ran out
  std::uint32_t in_progress_ = 0;  // attempts that found another one being executed
  CallFailure last_;
  Seen::What key_ = Seen::What::kCannotTell;  // since the last call
  std::string etag_;
  std::string reason_;
};

std::string_view to_string(Publication::Step step) noexcept;

}  // namespace hflush::s3
