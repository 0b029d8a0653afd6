#include "hflush/s3/upload/publication.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hflush::s3 {
namespace {

using Step = Publication::Step;
using What = Seen::What;

// Kinds of publications: the columns of the table.
enum class Of : std::uint8_t { kPut, kPutIfAbsent, kStream, kPending, kUploader };

Publication::Options options(Of of) {
  Publication::Options some{.path = "s3://b/k", .upload_id = "U", .limit = 2};
  if (of == Of::kPut || of == Of::kPutIfAbsent) some.upload_id.clear();
  if (of == Of::kPutIfAbsent) some.condition.if_absent = true;
  if (of == Of::kPending) some.holders = Holders::kEqual;
  if (of == Of::kUploader) some.holders = Holders::kFirst;
  if (of == Of::kPending || of == Of::kUploader) some.operation = "complete";
  return some;
}

Status io(std::string message) {
  return Status(StatusCode::kIo, std::move(message), "s3://b/k", EIO);
}

CallFailure failure(FailureKind kind, bool ambiguous = false) {
  return {kind, ambiguous, io(std::string(to_string(kind)))};
}

const CallFailure kSilent{FailureKind::kAmbiguous, true,
                          Status(StatusCode::kTimedOut, "silence", "s3://b/k", ETIMEDOUT)};

// Every answer, for the step that it answers.
struct Answer {
  std::string_view name;
  Step step;
  std::function<void(Publication&)> give;
};

const std::vector<Answer>& answers() {
  static const std::vector<Answer> all{
      {"done", Step::kAsk, [](Publication& p) { p.succeeded("\"o\""); }},
      {"refused", Step::kAsk, [](Publication& p) { p.failed(failure(FailureKind::kFinal)); }},
      {"lost", Step::kAsk, [](Publication& p) { p.failed(failure(FailureKind::kAmbiguous)); }},
      {"silent", Step::kAsk, [](Publication& p) { p.failed(kSilent); }},
      {"in progress", Step::kAsk,
       [](Publication& p) { p.failed(failure(FailureKind::kInProgress)); }},
      {"gone", Step::kAsk, [](Publication& p) { p.failed(failure(FailureKind::kGone)); }},
      {"precondition", Step::kAsk,
       [](Publication& p) { p.failed(failure(FailureKind::kPrecondition)); }},
      {"conflict", Step::kAsk, [](Publication& p) { p.failed(failure(FailureKind::kConflict)); }},
      {"ours", Step::kLookAtKey, [](Publication& p) { p.key_seen({What::kOurs, "\"o\"", {}}); }},
      {"another", Step::kLookAtKey,
       [](Publication& p) { p.key_seen({What::kAnother, "\"x\"", {}}); }},
      {"nothing", Step::kLookAtKey, [](Publication& p) { p.key_seen({What::kNothing, "", {}}); }},
      {"key forbidden", Step::kLookAtKey,
       [](Publication& p) { p.key_seen({What::kCannotTell, "", io("403")}); }},
      {"there", Step::kLookAtUpload, [](Publication& p) { p.upload_seen(UploadSeen::kThere); }},
      {"ended", Step::kLookAtUpload, [](Publication& p) { p.upload_seen(UploadSeen::kGone); }},
      {"upload forbidden", Step::kLookAtUpload,
       [](Publication& p) { p.upload_seen(UploadSeen::kCannotTell); }},
      {"key hidden", Step::kLookAtKey,
       [](Publication& p) { p.key_seen({What::kHidden, "", io("403")}); }},
      {"upload hidden", Step::kLookAtUpload,
       [](Publication& p) { p.upload_seen(UploadSeen::kHidden); }},
      {"fenced", Step::kFence, [](Publication& p) { p.fenced(); }},
      {"not fenced", Step::kFence, [](Publication& p) { p.fence_failed(); }},
  };
  return all;
}

// A publication that was given these answers, a comma between them.
Publication after(Of of, std::string_view path) {
  Publication publication(options(of));
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find(", "));
    path.remove_prefix(std::min(path.size(), name.size() + 2));
    const auto answer = std::ranges::find(answers(), name, &Answer::name);
    REQUIRE_MESSAGE(answer != answers().end(), "no answer ", name);
    REQUIRE_MESSAGE(answer->step == publication.step(), name, " answers nothing");
    answer->give(publication);
  }
  return publication;
}

struct Row {
  std::string_view path;
  // After it, for each kind of publication. Empty: it cannot be reached.
  std::string_view put, put_if_absent, stream, pending, uploader;
};

// docs/s3-client.md has these rows in words.
constexpr Row kRows[] = {
    {"", "ask", "ask", "ask", "ask", "ask"},
    {"done", "published", "published", "published", "published", "published"},
    {"refused", "not published", "not published", "not published", "look at the key",
     "not published"},
    {"lost", "look at the key", "look at the key", "look at the key", "look at the key",
     "look at the key"},
    {"gone", "look at the key", "look at the key", "look at the key", "look at the key",
     "not published"},
    {"precondition", "not published", "not published", "not published", "look at the key",
     "not published"},
    {"conflict", "not published", "look at the key", "not published", "look at the key",
     "not published"},
    // The store has not decided: an object that another request has put, or removed.
    {"conflict, another", "", "not published", "", "not published", ""},
    {"conflict, nothing", "", "not published", "", "not published", ""},
    {"conflict, key hidden", "", "not published", "", "unknown", ""},
    {"conflict, key forbidden", "", "not published", "", "unknown", ""},
    // Another holder has published it, or nobody.
    {"gone, ours", "published", "published", "published", "published", ""},
    {"gone, nothing", "unknown", "ask", "look at the upload", "not published", ""},
    {"gone, another", "unknown", "ask", "look at the upload", "not published", ""},
    {"refused, ours", "", "", "", "published", ""},
    {"refused, nothing", "", "", "", "not published", ""},
    {"precondition, ours", "", "", "", "published", ""},
    {"precondition, another", "", "", "", "not published", ""},
    {"precondition, key forbidden", "", "", "", "unknown", ""},
    {"gone, key forbidden", "unknown", "unknown", "unknown", "unknown", ""},
    {"refused, key forbidden", "", "", "", "not published", ""},
    // In doubt.
    {"lost, ours", "published", "published", "published", "published", "published"},
    {"lost, nothing", "unknown", "ask", "look at the upload", "look at the upload",
     "look at the upload"},
    {"lost, another", "unknown", "ask", "look at the upload", "look at the upload",
     "look at the upload"},
    {"lost, key forbidden", "unknown", "unknown", "unknown", "unknown", "unknown"},
    {"lost, nothing, there", "", "", "ask", "ask", "ask"},
    {"lost, nothing, upload forbidden", "", "", "unknown", "unknown", "unknown"},
    {"lost, nothing, ended", "", "", "look at the key", "look at the key", "look at the key"},
    {"lost, nothing, ended, ours", "", "", "published", "published", "published"},
    {"lost, nothing, ended, nothing", "", "", "unknown", "unknown", "unknown"},
    {"lost, nothing, ended, another", "", "", "unknown", "unknown", "unknown"},
    {"lost, nothing, ended, key forbidden", "", "", "unknown", "unknown", "unknown"},
    // Who may not look at the key looks at the upload; who may not do that either asks again.
    {"lost, key hidden", "unknown", "ask", "look at the upload", "look at the upload",
     "look at the upload"},
    {"lost, key hidden, there", "", "", "ask", "ask", "ask"},
    {"lost, key hidden, ended, key hidden", "", "", "unknown", "unknown", "unknown"},
    {"lost, key hidden, precondition, key hidden", "", "unknown", "", "", ""},
    {"lost, nothing, upload hidden", "", "", "ask", "ask", "ask"},
    {"lost, nothing, upload hidden, refused, nothing, upload hidden", "", "", "fence", "unknown",
     "unknown"},
    {"lost, key hidden, upload hidden, refused, key hidden, upload hidden, fenced, key hidden", "",
     "", "unknown", "", ""},
    {"gone, key hidden", "unknown", "ask", "look at the upload", "unknown", ""},
    {"gone, nothing, upload hidden", "", "", "look at the key", "", ""},
    {"refused, key hidden", "", "", "", "not published", ""},
    // Asked for again, and refused: the first may still be executed.
    {"lost, nothing, there, done", "", "", "published", "published", "published"},
    {"lost, nothing, there, gone", "", "", "look at the key", "look at the key", "look at the key"},
    {"lost, nothing, there, gone, nothing", "", "", "look at the upload", "look at the upload",
     "look at the upload"},
    {"lost, nothing, there, refused", "", "", "look at the key", "look at the key",
     "look at the key"},
    {"lost, nothing, there, refused, nothing, there", "", "", "fence", "not published",
     "not published"},
    {"lost, nothing, there, refused, nothing, there, fenced", "", "", "look at the key", "", ""},
    {"lost, nothing, there, refused, nothing, there, not fenced", "", "", "unknown", "", ""},
    {"lost, nothing, there, refused, nothing, there, fenced, ours", "", "", "published", "", ""},
    {"lost, nothing, there, refused, nothing, there, fenced, nothing", "", "", "not published", "",
     ""},
    {"lost, nothing, there, refused, nothing, there, fenced, another", "", "", "not published", "",
     ""},
    {"lost, nothing, there, refused, nothing, there, fenced, key forbidden", "", "", "unknown", "",
     ""},
    // A conditional PutObject is asked for again: the store says whether its condition holds.
    {"lost, nothing, precondition", "", "look at the key", "", "", ""},
    {"lost, nothing, precondition, ours", "", "published", "", "", ""},
    {"lost, nothing, precondition, another", "", "unknown", "", "", ""},
    {"lost, nothing, precondition, nothing", "", "unknown", "", "", ""},
    // As often as it may, and once after silence.
    {"lost, nothing, there, lost, nothing, there", "", "", "ask", "ask", "ask"},
    {"lost, nothing, there, lost, nothing, there, lost, nothing, there", "", "", "fence",
     "not published", "not published"},
    {"lost, nothing, lost, nothing", "", "ask", "", "", ""},
    {"lost, nothing, lost, nothing, lost, nothing", "", "unknown", "", "", ""},
    {"silent, nothing, there", "", "", "ask", "ask", "ask"},
    {"silent, nothing, there, silent, nothing, there", "", "", "fence", "not published",
     "not published"},
    {"silent, nothing, there, lost, nothing, there", "", "", "ask", "ask", "ask"},
    // As long as the store says that it is completing it.
    {"lost, nothing, there, in progress, nothing, there, in progress, nothing, there, in progress, "
     "nothing, there",
     "", "", "ask", "ask", "ask"},
    {"lost, nothing, there, in progress, nothing, there, in progress, nothing, there, gone, ours",
     "", "", "published", "published", "published"},
    {"silent, nothing, there, silent, nothing, upload hidden", "", "", "fence", "unknown",
     "unknown"},
    {"silent, nothing, there, in progress, nothing, upload hidden", "", "", "ask", "ask", "ask"},
};

TEST_CASE("publication: the table") {
  for (const Row& row : kRows) {
    const std::pair<Of, std::string_view> cells[] = {{Of::kPut, row.put},
                                                     {Of::kPutIfAbsent, row.put_if_absent},
                                                     {Of::kStream, row.stream},
                                                     {Of::kPending, row.pending},
                                                     {Of::kUploader, row.uploader}};
    for (const auto& [of, expected] : cells) {
      if (expected.empty()) continue;
      CAPTURE(row.path);
      const int kind = static_cast<int>(of);
      CAPTURE(kind);
      const Publication publication = after(of, row.path);
      CHECK(to_string(publication.step()) == expected);
      CHECK(publication.is_over() ==
            (publication.step() == Step::kPublished || publication.step() == Step::kNotPublished ||
             publication.step() == Step::kUnknown));
    }
  }
}

// Whatever the answers are, in any order: it ends, and what it reports is what was shown.
TEST_CASE("publication: every sequence of answers") {
  for (const Of of : {Of::kPut, Of::kPutIfAbsent, Of::kStream, Of::kPending, Of::kUploader}) {
    CAPTURE(static_cast<int>(of));
    std::vector<std::string> paths{""};
    std::size_t ends = 0;
    for (int depth = 0; !paths.empty(); ++depth) {
      REQUIRE(depth < 16);
      std::vector<std::string> longer;
      for (const std::string& path : paths) {
        const Publication publication = after(of, path);
        CHECK(publication.asked_again() <= 2);
        if (!publication.is_over()) {
          for (const Answer& answer : answers()) {
            // What is in progress is asked for until the time is up.
            if (answer.step != publication.step() || answer.name == "in progress") continue;
            longer.push_back(path + (path.empty() ? "" : ", ") + std::string(answer.name));
          }
          continue;
        }
        ++ends;
        CAPTURE(path);
        const bool is_shown = path.ends_with("done") || path.ends_with("ours");
        CHECK((publication.step() == Step::kPublished) == is_shown);
        if (is_shown) continue;
        CHECK_FALSE(publication.failure().ok());
        CHECK(publication.failure().path() == "s3://b/k");
        const bool in_doubt =
            path.find("lost") != std::string::npos || path.find("silent") != std::string::npos;
        if (publication.step() == Step::kNotPublished && in_doubt) {
          CHECK((path.find("fenced") != std::string::npos || path.ends_with("there")));
        }
        if (publication.step() == Step::kNotPublished && of == Of::kPut) CHECK_FALSE(in_doubt);
      }
      paths = std::move(longer);
      if (paths.size() > 5000) paths.resize(5000);
    }
    CHECK(ends > 5);
  }
}

TEST_CASE("publication: after stop_asking() what is in doubt is looked at and fenced") {
  Publication stream = after(Of::kStream, "lost");
  stream.stop_asking();
  stream.key_seen({What::kNothing, "", {}});
  stream.upload_seen(UploadSeen::kThere);
  CHECK(stream.step() == Step::kFence);
  CHECK(stream.asked_again() == 0);

  Publication pending = after(Of::kPending, "lost, nothing");
  pending.stop_asking();
  pending.upload_seen(UploadSeen::kThere);
  CHECK(pending.step() == Step::kNotPublished);
  CHECK(pending.failure().message() == "ambiguous");

  for (const Of of : {Of::kStream, Of::kPending}) {
    Publication completing = after(of, "lost, nothing, there, in progress, nothing");
    completing.stop_asking();
    completing.upload_seen(UploadSeen::kThere);
    CHECK(completing.step() == Step::kUnknown);
    CHECK(completing.reason() == "the store may still be completing upload U");
  }
  Publication interrupted = after(Of::kStream, "lost, nothing, there, in progress, nothing, there");
  interrupted.stop_asking();
  interrupted.failed(failure(FailureKind::kAmbiguous));
  interrupted.key_seen({What::kNothing, "", {}});
  interrupted.upload_seen(UploadSeen::kThere);
  CHECK(interrupted.step() == Step::kUnknown);

  Publication put = after(Of::kPutIfAbsent, "lost");
  put.stop_asking();
  put.key_seen({What::kNothing, "", {}});
  CHECK(put.step() == Step::kUnknown);
}

TEST_CASE("publication: which failures are looked at, and asked for again") {
  const auto next = [](FailureKind kind, bool ambiguous) {
    Publication publication(options(Of::kStream));
    publication.failed(failure(kind, ambiguous));
    if (publication.is_over()) return publication.step();
    publication.key_seen({What::kNothing, "", {}});
    publication.upload_seen(UploadSeen::kThere);
    return publication.step();
  };
  for (const FailureKind kind :
       {FailureKind::kNotSent, FailureKind::kThrottled, FailureKind::kTransient,
        FailureKind::kCredentials, FailureKind::kTransit, FailureKind::kClock,
        FailureKind::kAddress}) {
    CHECK(next(kind, false) == Step::kNotPublished);
    CHECK(next(kind, true) == Step::kAsk);
  }
  for (const bool ambiguous : {false, true}) {
    CHECK(next(FailureKind::kAmbiguous, ambiguous) == Step::kAsk);
    CHECK(next(FailureKind::kGone, ambiguous) == Step::kAsk);
  }
  for (const FailureKind kind :
       {FailureKind::kConflict, FailureKind::kPrecondition, FailureKind::kFinal}) {
    CHECK(next(kind, false) == Step::kNotPublished);
    CHECK(next(kind, true) == Step::kFence);
  }
}

TEST_CASE("publication: what the caller is told") {
  SUBCASE("an outcome that cannot be told, with what was seen") {
    const Publication lost = after(Of::kPending, "lost, another, ended, another");
    CHECK(lost.failure().message() ==
          "complete: outcome unknown: upload U is gone and the key holds another object: "
          "ambiguous");
    CHECK(lost.failure().code() == StatusCode::kIo);
    REQUIRE(lost.failure().cause() != nullptr);
    CHECK(lost.failure().cause()->message() == "ambiguous");
    const Publication silent = after(Of::kStream, "silent, key forbidden");
    CHECK(silent.failure().message() ==
          "close: outcome unknown: the key cannot be looked at: 403: silence");
    CHECK(silent.failure().code() == StatusCode::kTimedOut);
    CHECK(silent.reason() == "the key cannot be looked at: 403");
  }
  SUBCASE("an upload that had ended") {
    for (const Publication& ended :
         {after(Of::kPending, "gone, nothing"), after(Of::kUploader, "gone")}) {
      CHECK(ended.failure().code() == StatusCode::kNotFound);
      CHECK(ended.failure().error_number() == ENOENT);
      CHECK(ended.failure().message() == "complete: no such upload: U");
      REQUIRE(ended.failure().cause() != nullptr);
      CHECK(ended.failure().cause()->message() == "gone");
    }
  }
  SUBCASE("a condition that does not hold") {
    for (const FailureKind kind : {FailureKind::kPrecondition, FailureKind::kConflict}) {
      CallFailure refused = failure(kind);
      refused.status = refused.status.with_remote_class("PreconditionFailed");
      Publication absent(options(Of::kPutIfAbsent));
      absent.failed(refused);
      if (kind == FailureKind::kConflict) absent.key_seen({What::kAnother, "\"x\"", {}});
      CHECK(absent.failure().code() == StatusCode::kAlreadyExists);
      CHECK(absent.failure().error_number() == EEXIST);
      CHECK(absent.failure().remote_class() == "PreconditionFailed");
      Publication::Options matching = options(Of::kStream);
      matching.condition.if_match = "\"e0\"";
      Publication match(matching);
      match.failed(refused);
      CHECK(match.failure().code() == StatusCode::kPreconditionFailed);
      CHECK(match.failure().error_number() == ESTALE);
      CHECK(match.failure().message() ==
            "close: the object is not \"e0\": " + std::string(to_string(kind)));
      Publication without(options(Of::kStream));
      without.failed(refused);
      CHECK(without.failure().message() == to_string(kind));
    }
  }
  SUBCASE("a conflict without an object: undecided") {
    const Publication put = after(Of::kPutIfAbsent, "conflict, nothing");
    CHECK(put.failure().code() == StatusCode::kIo);
    CHECK(put.failure().error_number() == EBUSY);
    CHECK(put.failure().message() ==
          "close: the store has not decided between this object and another request, and the key "
          "holds no object. Write it again: conflict");
    Publication::Options absent = options(Of::kStream);
    absent.condition.if_absent = true;
    Publication stream(absent);
    stream.failed(failure(FailureKind::kAmbiguous));
    stream.key_seen({What::kNothing, "", {}});
    stream.upload_seen(UploadSeen::kThere);
    stream.failed(failure(FailureKind::kConflict));
    stream.key_seen({What::kNothing, "", {}});
    stream.upload_seen(UploadSeen::kThere);
    stream.fenced();
    stream.key_seen({What::kNothing, "", {}});
    CHECK(stream.step() == Step::kNotPublished);
    CHECK(stream.failure().error_number() == EBUSY);
  }
  SUBCASE("a race that was lost: ours may have been there for a moment") {
    const Publication lost = after(Of::kPutIfAbsent, "lost, another, precondition, another");
    CHECK(lost.step() == Step::kUnknown);
    CHECK(lost.failure().code() == StatusCode::kAlreadyExists);
    const Publication nothing = after(Of::kPutIfAbsent, "lost, another, precondition, nothing");
    CHECK(nothing.failure().message() ==
          "close: outcome unknown: the key holds no object: close: an object exists: "
          "precondition");
  }
  SUBCASE("the etag, from the answer or the look") {
    CHECK(after(Of::kPut, "done").etag() == "\"o\"");
    CHECK(after(Of::kStream, "lost, ours").etag() == "\"o\"");
    CHECK(after(Of::kStream, "lost, another, ended, ours").etag() == "\"o\"");
  }
}

}  // namespace
}  // namespace hflush::s3
