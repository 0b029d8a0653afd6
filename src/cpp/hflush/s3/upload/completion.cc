#include "hflush/s3/upload/completion.h"

#include <utility>

#include "hflush/env/answer.h"
#include "hflush/s3/upload/publication_time.h"

namespace hflush::s3 {
namespace {

// One publication, step by step; ends early where a call is interrupted.
class Completing {
 public:
  Completing(Client& client, const UploadCalls& calls, const Completion& what,
             env::Interrupt& interrupt)
      : client_(client),
        calls_(calls),
        what_(what),
        size_(total_size(what.parts)),
        interrupt_(interrupt),
        time_(client.settings()),
        publication_({.path = calls.options().path,
                      .operation = "complete",
                      .upload_id = what.upload_id,
                      .condition = calls.options().condition,
                      .holders = what.holders}) {}

  Completed run() {
    while (!publication_.is_over() && interrupted_.ok()) take_step();
    Completed done{publication_.step(), publication_.etag(), {}, kind_};
    if (publication_.step() == Publication::Step::kPublished) {
      if (done.etag.empty()) done.etag = etag_at_key();
    } else {
      done.failure = publication_.failure();
    }
    if (!interrupted_.ok()) {
      done.outcome = Publication::Step::kUnknown;
      done.failure = interrupted_;
    }
    return done;
  }

 private:
  void take_step() {
    switch (publication_.step()) {
      case Publication::Step::kAsk:
        return ask();
      case Publication::Step::kLookAtKey: {
        const CallResult result = look(calls_.head_object());
        if (interrupted_.ok()) publication_.key_seen(calls_.key_seen(result, size_));
        return;
      }
      case Publication::Step::kLookAtUpload: {
        const CallResult result = look(calls_.list_parts(what_.upload_id));
        if (interrupted_.ok()) publication_.upload_seen(UploadCalls::upload_seen(result));
        return;
      }
      case Publication::Step::kFence: {
        const CallResult result = look(calls_.abort(what_.upload_id));
        if (!interrupted_.ok()) return;
        if (UploadCalls::has_ended(result)) return publication_.fenced();
        return publication_.fence_failed();
      }
      default:
        return;
    }
  }

  void ask() {
    const std::uint32_t again = publication_.asked_again();
    if (again != 0) interrupted_ = env::pause(time_.pause_before(again), interrupt_);
    if (!interrupted_.ok()) return;
    Call call = what_.upload_id.empty() ? calls_.put_object(body_of({}, /*with_md5=*/true))
                                        : calls_.complete(what_.upload_id, what_.parts, size_,
                                                          what_.crc32c, what_.checksums);
    call.ends = time_.end();
    const CallResult result = make(std::move(call));
    if (!interrupted_.ok()) return;
    if (!result.failure)
      return publication_.succeeded(what_.upload_id.empty()
                                        ? std::string(result.head.header("etag"))
                                        : UploadCalls::completed_etag(result));
    kind_ = result.failure->kind;
    time_.failed(now(), result.deadline);
    publication_.failed({kind_, result.ambiguous, result.status.with_path(calls_.options().path)});
  }

  CallResult look(Call call) {
    call.ends = time_.end_of_look(now());
    CallResult result = make(std::move(call));
    if (time_.is_up(now(), publication_.asked_again() + 1)) publication_.stop_asking();
    return result;
  }

  env::TimePoint now() { return client_.loop().clock().now(); }

  CallResult make(Call call) {
    CallResult result = client_.call_and_wait(std::move(call), interrupt_);
    if (result.status.code() == StatusCode::kInterrupted) interrupted_ = result.status;
    return result;
  }

  // Of what is published already; empty if the store does not say it there either.
  std::string etag_at_key() {
    const Seen seen = calls_.key_seen(make(calls_.head_object()), size_);
    return seen.what == Seen::What::kOurs ? seen.etag : std::string();
  }

  Client& client_;
  const UploadCalls& calls_;
  const Completion& what_;
  const std::uint64_t size_;
  env::Interrupt& interrupt_;
  PublicationTime time_;
  Publication publication_;
  FailureKind kind_ = FailureKind::kFinal;
  Status interrupted_;
};

}  // namespace

Completed complete(Client& client, const UploadCalls& calls, const Completion& what,
                   env::Interrupt& interrupt) {
  return Completing(client, calls, what, interrupt).run();
}

}  // namespace hflush::s3
