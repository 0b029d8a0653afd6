#include "hflush/s3/upload/block_upload.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hflush::s3 {
namespace {

using What = Seen::What;

UploadOptions options() {
  return {.path = "s3a://b/k",
          .sizes = PartSizes(10, 100, /*uniform=*/true),
          .active_parts = 2,
          .condition = {},
          .reconcile_limit = 2};
}

UploadOptions delayed() {
  UploadOptions some = options();
  some.delayed = true;
  return some;
}

UploadOptions if_absent() {
  UploadOptions some = options();
  some.condition.if_absent = true;
  return some;
}

UploadOptions if_match() {
  UploadOptions some = options();
  some.condition.if_match = "\"e0\"";
  return some;
}

Status io(std::string message) {
  return Status(StatusCode::kIo, std::move(message), "s3a://b/k", EIO);
}

CallFailure refused(std::string message) { return {FailureKind::kFinal, false, io(message)}; }
CallFailure lost(std::string message) { return {FailureKind::kAmbiguous, true, io(message)}; }

// Feeds a machine and writes down what it asks for.
class Harness {
 public:
  explicit Harness(UploadOptions its_options = options()) : upload(std::move(its_options)) {}

  // Since the last time; words in order.
  std::string did() {
    std::string words;
    for (const UploadAction& action : actions) {
      if (!words.empty()) words += ", ";
      words += std::visit([](const auto& what) { return word(what); }, action);
    }
    actions.clear();
    return words;
  }

  void part_done(std::uint32_t number) {
    upload.part_done({number, "\"p" + std::to_string(number) + "\"", upload.part_bytes(number), 7},
                     actions);
  }

  BlockUpload upload;
  UploadActions actions;

 private:
  static std::string word(const upload_action::Create& /*unused*/) { return "create"; }
  static std::string word(const upload_action::PutObject& put) {
    return "put " + std::to_string(put.size) + times(put.again);
  }
  static std::string word(const upload_action::UploadPart& part) {
    return "part " + std::to_string(part.number);
  }
  static std::string word(const upload_action::Complete& complete) {
    return "complete" + times(complete.again);
  }
  static std::string word(const upload_action::LookAtKey& /*unused*/) { return "key?"; }
  static std::string word(const upload_action::LookAtUpload& /*unused*/) { return "upload?"; }
  static std::string word(const upload_action::Abort& abort) { return "abort " + abort.upload_id; }
  static std::string word(const upload_action::Cancel& /*unused*/) { return "cancel"; }
  static std::string word(const upload_action::Forget& forget) {
    return "forget " + std::to_string(forget.number);
  }
  static std::string word(const upload_action::Kept& kept) {
    return "kept " + std::to_string(kept.parts);
  }
  static std::string word(const upload_action::Acknowledge& acknowledge) {
    return "ack " + std::to_string(acknowledge.offset);
  }
  static std::string word(const upload_action::Finished& /*unused*/) { return "finished"; }
  static std::string word(const upload_action::Failed& failed) {
    return "failed(" + failed.status.message() + ")";
  }
  static std::string times(std::uint32_t again) {
    return again == 0 ? "" : " again " + std::to_string(again);
  }
};

// Everything that can be seen of a machine.
std::string snapshot(const BlockUpload& upload) {
  const auto with_others = [](const Status& status) {
    std::string text = status.message();
    for (const Status& other : status.others()) text += " & " + other.message();
    return text;
  };
  std::string text = std::string(to_string(upload.state())) + (upload.busy() ? " busy" : "") +
                     " id=" + upload.upload_id() + " etag=" + std::string(upload.etag()) +
                     " size=" + std::to_string(upload.size()) + " parts=";
  for (const PartReceipt& part : upload.parts()) text += part.etag;
  return text + " failure=" + with_others(upload.failure()) +
         " cleanup=" + with_others(upload.cleanup_failure());
}

// --- the whole table

using Steps = std::function<void(Harness&)>;

// Every event, with and without success. Those of a part are part 1's.
const std::vector<std::pair<std::string, Steps>>& events() {
  static const std::vector<std::pair<std::string, Steps>> all{
      {"put", [](Harness& h) { h.upload.put(h.upload.size() + 10, h.actions); }},
      {"stored", [](Harness& h) { h.upload.stored(h.upload.size(), h.actions); }},
      {"keep", [](Harness& h) { h.upload.keep(1, h.actions); }},
      {"finish", [](Harness& h) { h.upload.finish(h.actions); }},
      {"abandon", [](Harness& h) { h.upload.abandon(h.actions); }},
      {"broke", [](Harness& h) { h.upload.broke(io("broken"), h.actions); }},
      {"created", [](Harness& h) { h.upload.created("V", h.actions); }},
      {"create refused", [](Harness& h) { h.upload.create_failed(refused("403"), h.actions); }},
      {"create lost", [](Harness& h) { h.upload.create_failed(lost("reset"), h.actions); }},
      {"create cancelled", [](Harness& h) { h.upload.create_cancelled(h.actions); }},
      {"put done", [](Harness& h) { h.upload.put_done("\"o\"", h.actions); }},
      {"put refused", [](Harness& h) { h.upload.put_failed(refused("403"), h.actions); }},
      {"put lost", [](Harness& h) { h.upload.put_failed(lost("reset"), h.actions); }},
      {"part done", [](Harness& h) { h.part_done(1); }},
      {"part refused", [](Harness& h) { h.upload.part_failed(1, refused("403"), h.actions); }},
      {"part lost", [](Harness& h) { h.upload.part_failed(1, lost("reset"), h.actions); }},
      {"part cancelled", [](Harness& h) { h.upload.part_cancelled(1, h.actions); }},
      {"completed", [](Harness& h) { h.upload.completed("\"o-2\"", h.actions); }},
      {"complete refused", [](Harness& h) { h.upload.complete_failed(refused("403"), h.actions); }},
      {"complete lost", [](Harness& h) { h.upload.complete_failed(lost("reset"), h.actions); }},
      {"complete gone",
       [](Harness& h) {
         h.upload.complete_failed({FailureKind::kGone, false, io("404")}, h.actions);
       }},
      {"publication cancelled", [](Harness& h) { h.upload.publication_cancelled(h.actions); }},
      {"key ours", [](Harness& h) { h.upload.key_seen({What::kOurs, "\"o\"", {}}, h.actions); }},
      {"key another",
       [](Harness& h) { h.upload.key_seen({What::kAnother, "\"x\"", {}}, h.actions); }},
      {"key nothing", [](Harness& h) { h.upload.key_seen({What::kNothing, "", {}}, h.actions); }},
      {"key forbidden",
       [](Harness& h) { h.upload.key_seen({What::kCannotTell, "", io("403")}, h.actions); }},
      {"upload there", [](Harness& h) { h.upload.upload_seen(UploadSeen::kThere, h.actions); }},
      {"upload gone", [](Harness& h) { h.upload.upload_seen(UploadSeen::kGone, h.actions); }},
      {"upload forbidden",
       [](Harness& h) { h.upload.upload_seen(UploadSeen::kCannotTell, h.actions); }},
      {"aborted", [](Harness& h) { h.upload.aborted(h.actions); }},
      {"abort failed", [](Harness& h) { h.upload.abort_failed(io("500"), h.actions); }},
  };
  return all;
}

void feed(Harness& harness, const std::string& event) {
  for (const auto& [name, step] : events()) {
    if (name == event) return step(harness);
  }
  FAIL("no event " << event);
}

// How to get somewhere: events, a comma between them. "U" stands for created with that id.
Harness at(UploadOptions its_options, const std::string& path) {
  Harness harness(std::move(its_options));
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find(", ", begin), path.size());
    const std::string event = path.substr(begin, end - begin);
    if (event == "U") {
      harness.upload.created("U", harness.actions);
    } else if (event == "put 5") {
      harness.upload.put(5, harness.actions);
    } else if (event == "part 2 done") {
      harness.part_done(2);
    } else if (event == "part 2 refused") {
      harness.upload.part_failed(2, refused("2: 403"), harness.actions);
    } else if (event == "part 2 cancelled") {
      harness.upload.part_cancelled(2, harness.actions);
    } else {
      feed(harness, event);
    }
    begin = end + 2;
  }
  harness.actions.clear();
  return harness;
}

struct Row {
  std::string where;
  UploadOptions with;
  std::string path;
  // Event -> "state: what is asked for". What is not here changes nothing and asks for nothing.
  std::map<std::string, std::string> cells;
};

const std::string kTwoParts = "put, U, put, finish";
const std::string kCompleting = kTwoParts + ", part done, part 2 done";
const std::string kUnknown = "close: outcome unknown: ";

const std::vector<Row>& table() {
  static const std::vector<Row> rows{
      {"nothing written",
       options(),
       "",
       {{"put", "writing: create"},
        {"keep", "writing: create"},
        {"finish", "finishing: put 0"},
        {"abandon", "abandoned: "},
        {"broke", "failed: failed(broken)"}}},
      {"less than a part",
       options(),
       "put 5",
       {{"put", "writing: create"},
        {"keep", "writing: create"},
        {"stored", "writing: ack 5"},
        {"finish", "finishing: put 5"},
        {"abandon", "abandoned: "},
        {"broke", "failed: failed(broken)"}}},
      {"creating",
       options(),
       "put",
       {{"put", "writing: "},
        {"stored", "writing: ack 10"},
        {"finish", "finishing: "},
        {"abandon", "abandoned: "},
        {"broke", "failed: failed(broken)"},
        {"created", "writing: part 1"},
        {"create refused", "failed: failed(403)"},
        {"create lost", "failed: failed(reset)"},
        {"create cancelled", "failed: failed(create multipart upload: cancelled)"}}},
      {"creating, finishing",
       options(),
       "put, finish",
       {{"stored", "finishing: ack 10"},
        {"abandon", "abandoned: "},
        {"broke", "failed: failed(broken)"},
        {"created", "finishing: part 1"},
        {"create refused", "failed: failed(403)"},
        {"create lost", "failed: failed(reset)"},
        {"create cancelled", "failed: failed(create multipart upload: cancelled)"}}},
      {"creating, failed",
       options(),
       "put, broke",
       {{"broke", "failed: "},
        {"created", "failed: abort V"},
        {"create refused", "failed: "},
        {"create lost", "failed: "},
        {"create cancelled", "failed: "}}},
      {"creating, abandoned",
       options(),
       "put, abandon",
       {{"created", "abandoned: abort V"},
        {"create refused", "abandoned: "},
        {"create lost", "abandoned: "},
        {"create cancelled", "abandoned: "}}},
      {"a part under way, writing",
       options(),
       "put, U",
       {{"put", "writing: part 2"},
        {"stored", "writing: ack 10"},
        {"finish", "finishing: "},
        {"abandon", "abandoned: cancel"},
        {"broke", "failed: failed(broken), cancel"},
        {"part done", "writing: forget 1, ack 10"},
        {"part refused", "failed: failed(403), abort U"},
        {"part lost", "failed: failed(reset), abort U"},
        {"part cancelled", "failed: failed(upload part 1: cancelled), abort U"}}},
      {"two parts under way, finishing",
       options(),
       kTwoParts,
       {{"stored", "finishing: ack 20"},
        {"abandon", "abandoned: cancel"},
        {"broke", "failed: failed(broken), cancel"},
        {"part done", "finishing: forget 1, ack 10"},
        {"part refused", "failed: failed(403), cancel"},
        {"part lost", "failed: failed(reset), cancel"},
        {"part cancelled", "failed: failed(upload part 1: cancelled), cancel"}}},
      {"parts under way, failed",
       options(),
       kTwoParts + ", part 2 refused",
       {{"broke", "failed: "},
        {"part done", "failed: abort U"},
        {"part refused", "failed: abort U"},
        {"part lost", "failed: abort U"},
        {"part cancelled", "failed: abort U"}}},
      {"parts under way, abandoned",
       options(),
       kTwoParts + ", abandon, part 2 cancelled",
       {{"part done", "abandoned: abort U"},
        {"part refused", "abandoned: abort U"},
        {"part lost", "abandoned: abort U"},
        {"part cancelled", "abandoned: abort U"}}},
      {"put",
       options(),
       "put 5, finish",
       {{"stored", "finishing: ack 5"},
        {"abandon", "looking: cancel"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken), cancel"},
        {"put done", "published: ack 5, finished"},
        {"put refused", "failed: failed(403)"},
        {"put lost", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"put, empty",
       options(),
       "finish",
       {{"abandon", "looking: cancel"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken), cancel"},
        {"put done", "published: finished"},
        {"put refused", "failed: failed(403)"},
        {"put lost", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"put if absent",
       if_absent(),
       "put 5, finish",
       {{"stored", "finishing: ack 5"},
        {"abandon", "looking: cancel"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken), cancel"},
        {"put done", "published: ack 5, finished"},
        {"put refused", "failed: failed(403)"},
        {"put lost", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"put, abandoned",
       options(),
       "put 5, finish, abandon",
       {{"put done", "published: "},
        {"put refused", "abandoned: "},
        {"put lost", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"put, failed",
       options(),
       "put 5, finish, broke",
       {{"broke", "looking: "},
        {"put done", "published: "},
        {"put refused", "failed: "},
        {"put lost", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"put, looking",
       options(),
       "put 5, finish, put lost",
       {{"stored", "looking: ack 5"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: cancelled: reset)"},
        {"key ours", "published: ack 5, finished"},
        {"key another", "unknown: failed(" + kUnknown + "the key holds another object: reset)"},
        {"key nothing", "unknown: failed(" + kUnknown + "the key holds no object: reset)"},
        {"key forbidden",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: 403: reset)"}}},
      {"put if absent, looking",
       if_absent(),
       "put 5, finish, put lost",
       {{"stored", "looking: ack 5"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: cancelled: reset)"},
        {"key ours", "published: ack 5, finished"},
        {"key another", "finishing: put 5 again 1"},
        {"key nothing", "finishing: put 5 again 1"},
        {"key forbidden",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: 403: reset)"}}},
      {"put if match, looking",
       if_match(),
       "put 5, finish, put lost",
       {{"stored", "looking: ack 5"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: cancelled: reset)"},
        {"key ours", "published: ack 5, finished"},
        {"key another", "finishing: put 5 again 1"},
        {"key nothing", "unknown: failed(" + kUnknown + "the key holds no object: reset)"},
        {"key forbidden",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: 403: reset)"}}},
      {"put if absent, refused, looking",
       if_absent(),
       "put 5, finish, put lost, key nothing, put refused",
       {{"stored", "looking: ack 5"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: cancelled: 403)"},
        {"key ours", "published: ack 5, finished"},
        {"key another", "unknown: failed(" + kUnknown + "the key holds another object: 403)"},
        {"key nothing", "unknown: failed(" + kUnknown + "the key holds no object: 403)"},
        {"key forbidden",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: 403: 403)"}}},
      {"completing",
       options(),
       kCompleting,
       {{"abandon", "looking: cancel"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken), cancel"},
        {"completed", "published: finished"},
        {"complete refused", "failed: failed(403), abort U"},
        {"complete lost", "looking: key?"},
        {"complete gone", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"completing, abandoned",
       options(),
       kCompleting + ", abandon",
       {{"completed", "published: "},
        {"complete refused", "abandoned: abort U"},
        {"complete lost", "looking: key?"},
        {"complete gone", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"completing, failed",
       options(),
       kCompleting + ", broke",
       {{"broke", "looking: "},
        {"completed", "published: "},
        {"complete refused", "failed: abort U"},
        {"complete lost", "looking: key?"},
        {"complete gone", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"looking at the key",
       options(),
       kCompleting + ", complete lost",
       {{"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: cancelled: reset)"},
        {"key ours", "published: finished"},
        {"key another", "looking: upload?"},
        {"key nothing", "looking: upload?"},
        {"key forbidden",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: 403: reset)"}}},
      {"looking at the key, abandoned",
       options(),
       kCompleting + ", complete lost, abandon",
       {{"publication cancelled", "unknown: "},
        {"key ours", "published: "},
        {"key another", "looking: upload?"},
        {"key nothing", "looking: upload?"},
        {"key forbidden", "unknown: "}}},
      {"looking at the upload",
       options(),
       kCompleting + ", complete lost, key nothing",
       {{"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "upload U cannot be looked at: reset)"},
        {"upload there", "finishing: complete again 1"},
        {"upload gone", "looking: key?"},
        {"upload forbidden",
         "unknown: failed(" + kUnknown + "upload U cannot be looked at: reset)"}}},
      {"looking at the upload, abandoned",
       options(),
       kCompleting + ", complete lost, key nothing, abandon",
       {{"publication cancelled", "unknown: "},
        {"upload there", "looking: abort U"},
        {"upload gone", "looking: key?"},
        {"upload forbidden", "unknown: "}}},
      {"looking after the upload has ended",
       options(),
       kCompleting + ", complete lost, key nothing, upload gone",
       {{"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: cancelled: reset)"},
        {"key ours", "published: finished"},
        {"key another", "unknown: failed(" + kUnknown +
                            "upload U is gone and the key holds another object: reset)"},
        {"key nothing",
         "unknown: failed(" + kUnknown + "upload U is gone and the key holds no object: reset)"},
        {"key forbidden",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: 403: reset)"}}},
      {"completing again",
       options(),
       kCompleting + ", complete lost, key nothing, upload there",
       {{"abandon", "looking: cancel"},
        {"broke", "looking: failed(" + kUnknown + "the publication was under way: broken), cancel"},
        {"completed", "published: finished"},
        {"complete refused", "looking: key?"},
        {"complete lost", "looking: key?"},
        {"complete gone", "looking: key?"},
        {"publication cancelled", "looking: key?"}}},
      {"looking after a refusal",
       options(),
       kCompleting + ", complete lost, key nothing, upload there, complete refused, key nothing",
       {{"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "upload U cannot be looked at: 403)"},
        {"upload there", "looking: abort U"},
        {"upload gone", "looking: key?"},
        {"upload forbidden",
         "unknown: failed(" + kUnknown + "upload U cannot be looked at: 403)"}}},
      {"aborting to be sure",
       options(),
       kCompleting + ", complete lost, key nothing, upload there, complete refused, key nothing, "
                     "upload there",
       {{"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"aborted", "looking: key?"},
        {"abort failed", "unknown: failed(" + kUnknown + "upload U could not be aborted: 403)"}}},
      {"aborting to be sure, abandoned",
       options(),
       kCompleting + ", abandon, publication cancelled, key nothing, upload there",
       {{"aborted", "looking: key?"}, {"abort failed", "unknown: "}}},
      {"looking after the abort",
       options(),
       kCompleting + ", complete lost, key nothing, upload there, complete refused, key nothing, "
                     "upload there, aborted",
       {{"broke", "looking: failed(" + kUnknown + "the publication was under way: broken)"},
        {"publication cancelled",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: cancelled: 403)"},
        {"key ours", "published: finished"},
        {"key another", "failed: failed(403)"},
        {"key nothing", "failed: failed(403)"},
        {"key forbidden",
         "unknown: failed(" + kUnknown + "the key cannot be looked at: 403: 403)"}}},
      {"looking after the abort, abandoned",
       options(),
       kCompleting + ", abandon, publication cancelled, key nothing, upload there, aborted",
       {{"publication cancelled", "unknown: "},
        {"key ours", "published: "},
        {"key another", "abandoned: "},
        {"key nothing", "abandoned: "},
        {"key forbidden", "unknown: "}}},
      {"failed, aborting",
       options(),
       kCompleting + ", complete refused",
       {{"broke", "failed: "}, {"aborted", "failed: "}, {"abort failed", "failed: "}}},
      {"failed, aborting, a part may land",
       options(),
       "put, U, part lost",
       {{"broke", "failed: "}, {"aborted", "failed: upload?"}, {"abort failed", "failed: "}}},
      {"failed, confirming",
       options(),
       "put, U, part lost, aborted",
       {{"broke", "failed: "},
        {"publication cancelled", "failed: "},
        {"upload there", "failed: abort U"},
        {"upload gone", "failed: "},
        {"upload forbidden", "failed: "}}},
      {"failed, left", options(), "put, U, part refused, abort failed", {{"broke", "failed: "}}},
      {"failed, gone", options(), "put, U, part refused, aborted", {{"broke", "failed: "}}},
      {"failed, no upload", options(), "broke", {{"broke", "failed: "}}},
      {"abandoned, aborting",
       options(),
       "put, U, part done, abandon",
       {{"aborted", "abandoned: "}, {"abort failed", "abandoned: "}}},
      {"abandoned, no upload", options(), "abandon", {}},
      {"published by put", options(), "put 5, finish, put done", {}},
      {"published", options(), kCompleting + ", completed", {}},
      {"pending", delayed(), kCompleting, {}},
      {"delayed, a part under way",
       delayed(),
       "put 5, finish, U",
       {{"stored", "finishing: ack 5"},
        {"abandon", "abandoned: cancel"},
        {"broke", "failed: failed(broken), cancel"},
        {"part done", "pending: forget 1, ack 5, finished"},
        {"part refused", "failed: failed(403), abort U"},
        {"part lost", "failed: failed(reset), abort U"},
        {"part cancelled", "failed: failed(upload part 1: cancelled), abort U"}}},
      {"unknown",
       options(),
       kCompleting + ", complete lost, key forbidden",
       {{"broke", "unknown: "}}},
  };
  return rows;
}

TEST_CASE("table: every event in every state") {
  for (const Row& row : table()) {
    for (const auto& [event, expected] : row.cells) {
      CHECK(std::ranges::count(events(), event, [](const auto& one) { return one.first; }) == 1);
    }
    for (const auto& one : events()) {
      const std::string& event = one.first;
      CAPTURE(row.where);
      CAPTURE(event);
      Harness harness = at(row.with, row.path);
      const std::string before = snapshot(harness.upload);
      one.second(harness);
      const auto cell = row.cells.find(event);
      if (cell == row.cells.end()) {
        CHECK(harness.did().empty());
        CHECK(snapshot(harness.upload) == before);
      } else {
        const std::string state(to_string(harness.upload.state()));
        CHECK(state + ": " + harness.did() == cell->second);
      }
    }
  }
}

// --- writing

TEST_CASE("less than a part is one PUT, also nothing at all") {
  Harness h;
  h.upload.put(9, h.actions);
  CHECK(h.did().empty());
  h.upload.finish(h.actions);
  CHECK(h.did() == "put 9");
  h.upload.put_done("\"o\"", h.actions);
  CHECK(h.did() == "ack 9, finished");
  CHECK(h.upload.state() == UploadState::kPublished);
  CHECK(h.upload.etag() == "\"o\"");
  CHECK_FALSE(h.upload.busy());
}

TEST_CASE("where an object has one part it is one PUT, also a full one") {
  UploadOptions some = options();
  some.sizes = PartSizes(10, 1, /*uniform=*/true);
  Harness h(some);
  h.upload.put(10, h.actions);
  h.upload.finish(h.actions);
  CHECK(h.did() == "put 10");
}

TEST_CASE("a part is sent as soon as it is complete, the last one at the end") {
  Harness h;
  h.upload.put(7, h.actions);
  h.upload.put(13, h.actions);
  CHECK(h.did() == "create");
  h.upload.put(25, h.actions);  // the writer goes on
  CHECK(h.did().empty());
  h.upload.created("U", h.actions);
  CHECK(h.did() == "part 1, part 2");
  h.upload.put(38, h.actions);
  CHECK(h.did().empty());  // two at a time
  h.part_done(2);
  CHECK(h.did() == "forget 2, part 3");
  h.part_done(1);
  CHECK(h.did() == "forget 1, ack 20");
  h.upload.finish(h.actions);
  CHECK(h.did() == "part 4");
  CHECK(h.upload.part_bytes(3) == 10);
  CHECK(h.upload.part_bytes(4) == 8);
  CHECK(h.upload.part_bytes(5) == 0);
  h.part_done(4);
  CHECK(h.did() == "forget 4");
  h.part_done(3);
  CHECK(h.did() == "forget 3, ack 38, complete");
  std::string etags;
  for (const PartReceipt& part : h.upload.parts()) etags += part.etag;
  CHECK(etags == "\"p1\"\"p2\"\"p3\"\"p4\"");
  h.upload.completed("", h.actions);  // radosgw 16 leaves the etag out
  CHECK(h.did() == "finished");
  CHECK(h.upload.size() == 38);
}

TEST_CASE("many parts at once: as many as may be active") {
  UploadOptions some = options();
  some.active_parts = 3;
  Harness h(some);
  h.upload.put(100, h.actions);
  h.upload.created("U", h.actions);
  CHECK(h.did() == "create, part 1, part 2, part 3");
  h.part_done(2);
  CHECK(h.did() == "forget 2, part 4");
  h.upload.finish(h.actions);
  CHECK(h.did().empty());
}

TEST_CASE("no part may be active: one is, or nothing would ever be sent") {
  UploadOptions some = options();
  some.active_parts = 0;
  Harness h(some);
  h.upload.put(30, h.actions);
  h.upload.created("U", h.actions);
  CHECK(h.did() == "create, part 1");
}

TEST_CASE("whole parts only: no empty part at the end") {
  Harness h = at(options(), "put, U, put, part done, part 2 done, finish");
  CHECK(h.upload.state() == UploadState::kFinishing);
  CHECK(h.upload.parts().size() == 2);
  h.upload.completed("\"o\"", h.actions);
  CHECK(h.did() == "finished");

  Harness one(options());  // and no single PUT: the part is on its way
  one.upload.put(10, one.actions);
  one.upload.finish(one.actions);
  one.upload.created("U", one.actions);
  CHECK(one.did() == "create, part 1");
  one.part_done(1);
  CHECK(one.did() == "forget 1, ack 10, complete");
}

TEST_CASE("parts that grow") {
  UploadOptions some = options();
  some.sizes = PartSizes(1 << 20, 10, /*uniform=*/false);
  Harness h(some);
  const PartSizes& sizes = some.sizes;
  h.upload.put(sizes.end(7), h.actions);
  h.upload.created("U", h.actions);
  for (std::uint32_t part = 1; part <= 7; ++part) {
    CHECK(h.upload.part_bytes(part) == sizes.size(part));
    h.part_done(part);
  }
  CHECK(h.upload.part_bytes(7) > h.upload.part_bytes(1));
  CHECK(h.did().ends_with("ack " + std::to_string(sizes.end(7))));
}

TEST_CASE("an upload can be forced, also of nothing: one empty part") {
  UploadOptions some = options();
  some.always_multipart = true;
  for (const bool hand_over : {false, true}) {
    some.delayed = hand_over;
    Harness h(some);
    h.upload.finish(h.actions);
    CHECK(h.did() == "create");
    h.upload.created("U", h.actions);
    CHECK(h.did() == "part 1");
    CHECK(h.upload.part_bytes(1) == 0);
    h.part_done(1);
    CHECK(h.did() == (hand_over ? "forget 1, finished" : "forget 1, complete"));
  }
}

TEST_CASE("delayed: handed over, and left alone") {
  Harness h = at(delayed(), "put 5");
  h.upload.put(15, h.actions);
  h.upload.created("U", h.actions);
  h.upload.finish(h.actions);
  CHECK(h.did() == "create, part 1, part 2");
  h.part_done(2);
  h.part_done(1);
  CHECK(h.did() == "forget 2, forget 1, ack 15, finished");
  CHECK(h.upload.state() == UploadState::kPending);
  CHECK(h.upload.upload_id() == "U");
  CHECK(h.upload.parts().size() == 2);
  CHECK_FALSE(h.upload.busy());
  h.upload.abandon(h.actions);
  h.upload.broke(io("late"), h.actions);
  CHECK(h.did().empty());
  CHECK(h.upload.state() == UploadState::kPending);
}

TEST_CASE("too large: said at once, with the numbers") {
  UploadOptions some = options();
  some.sizes = PartSizes(10, 3, /*uniform=*/true);
  Harness h(some);
  h.upload.put(30, h.actions);  // just fits
  h.upload.created("U", h.actions);
  CHECK(h.did() == "create, part 1, part 2");
  h.upload.put(31, h.actions);
  CHECK(h.upload.state() == UploadState::kFailed);
  CHECK(h.upload.failure().error_number() == EFBIG);
  CHECK(h.upload.failure().path() == "s3a://b/k");
  CHECK(h.did() ==
        "failed(write: an object of 31 bytes is too large: at most 30 fit in 3 parts), cancel");

  Harness full(some);
  full.upload.put(30, full.actions);
  full.upload.finish(full.actions);
  full.upload.created("U", full.actions);
  full.part_done(1);
  full.part_done(2);
  full.part_done(3);
  CHECK(full.did() ==
        "create, part 1, part 2, forget 1, ack 10, part 3, forget 2, ack 20, forget 3, ack 30, "
        "complete");
}

TEST_CASE("acknowledged from memory: what lies before the lowest unfinished part") {
  Harness h;
  h.upload.put(45, h.actions);
  h.upload.created("U", h.actions);
  h.part_done(2);
  h.part_done(3);
  CHECK(h.did() == "create, part 1, part 2, forget 2, part 3, forget 3, part 4");
  h.part_done(1);
  CHECK(h.did() == "forget 1, ack 30");
}

TEST_CASE("acknowledged from disk: up to as many unfinished parts as may be active") {
  Harness h;
  h.upload.put(5, h.actions);
  h.upload.stored(5, h.actions);
  CHECK(h.did() == "ack 5");
  h.upload.put(45, h.actions);
  h.upload.stored(45, h.actions);
  CHECK(h.did() == "create, ack 20");
  h.upload.created("U", h.actions);
  h.part_done(2);  // unfinished are 1 and 3
  CHECK(h.did() == "part 1, part 2, forget 2, ack 30, part 3");
  h.part_done(1);
  CHECK(h.did() == "forget 1, ack 40, part 4");
  h.part_done(3);
  CHECK(h.did() == "forget 3, ack 45");
}

TEST_CASE("an answer that comes twice, or to nobody, changes nothing") {
  Harness h = at(options(), "put, U, put");
  h.part_done(1);
  CHECK(h.did() == "forget 1, ack 10");
  const std::string before = snapshot(h.upload);
  h.part_done(1);
  h.upload.part_failed(1, refused("late"), h.actions);
  h.part_done(9);
  h.upload.part_cancelled(9, h.actions);
  h.upload.created("W", h.actions);
  CHECK(h.did().empty());
  CHECK(snapshot(h.upload) == before);
}

// --- failures

TEST_CASE("the first failure is told once, the others are attached") {
  Harness h = at(options(), "put, U, put");
  h.upload.part_failed(2, refused("2: 403"), h.actions);
  h.upload.part_failed(1, refused("1: 403"), h.actions);  // before the stream was told
  REQUIRE(h.actions.size() == 3);
  const auto& told = std::get<upload_action::Failed>(h.actions[0]).status;
  CHECK(told.message() == "2: 403");
  REQUIRE(told.others().size() == 1);
  CHECK(told.others()[0].message() == "1: 403");
  CHECK(h.did() == "failed(2: 403), cancel, abort U");
  h.upload.broke(io("later"), h.actions);  // and after
  CHECK(h.did().empty());
  CHECK(h.upload.failure().others().size() == 2);
}

TEST_CASE("nothing is asked for after a failure but to clean up") {
  Harness h = at(options(), "put, U, put, part refused");
  h.upload.put(50, h.actions);
  h.upload.stored(20, h.actions);
  h.upload.finish(h.actions);
  CHECK(h.did().empty());
  h.part_done(2);
  CHECK(h.did() == "abort U");
  h.upload.finish(h.actions);
  h.upload.aborted(h.actions);
  CHECK(h.did().empty());
  CHECK(h.upload.state() == UploadState::kFailed);
  CHECK(h.upload.cleanup_failure().ok());
}

TEST_CASE("a part that may land after the abort: again until the upload is gone") {
  Harness h = at(options(), "put, U, put, part refused");
  h.upload.part_cancelled(2, h.actions);
  CHECK(h.did() == "abort U");
  h.upload.aborted(h.actions);
  CHECK(h.did() == "upload?");
  h.upload.upload_seen(UploadSeen::kThere, h.actions);
  CHECK(h.did() == "abort U");
  h.upload.aborted(h.actions);
  h.upload.upload_seen(UploadSeen::kGone, h.actions);
  CHECK(h.did() == "upload?");
  CHECK_FALSE(h.upload.busy());
  CHECK(h.upload.cleanup_failure().ok());
}

TEST_CASE("an upload that does not go away is reported") {
  Harness h = at(options(), "put, U, part lost");
  int aborts = 1;
  while (h.upload.busy()) {
    REQUIRE(aborts < 10);
    h.upload.aborted(h.actions);
    CHECK(h.did() == "upload?");
    h.upload.upload_seen(UploadSeen::kThere, h.actions);
    if (h.did() == "abort U") ++aborts;
  }
  CHECK(aborts == 4);
  CHECK(h.upload.cleanup_failure().message() == "upload U is still there after aborts: 4");
}

TEST_CASE("an upload whose id nobody knows is reported") {
  for (const char* event : {"create lost", "create cancelled"}) {
    const Harness h = at(options(), std::string("put, ") + event);
    CHECK(h.upload.state() == UploadState::kFailed);
    CHECK(h.upload.cleanup_failure().message() == "an upload may be left whose id is not known");
  }
  CHECK(at(options(), "put, create refused").upload.cleanup_failure().ok());
}

TEST_CASE("an upload without an id is none: an abort of it would delete the object") {
  Harness h = at(options(), "put");
  h.upload.created("", h.actions);
  CHECK(h.did() == "failed(create multipart upload: empty upload id)");
  CHECK_FALSE(h.upload.cleanup_failure().ok());
}

TEST_CASE("a receipt for other bytes than the part's is not taken") {
  Harness h = at(options(), "put, U");
  h.upload.part_done({1, "\"p1\"", 9, 0}, h.actions);
  CHECK(h.did() == "failed(upload part 1: 9 bytes sent of 10), abort U");
  CHECK(h.upload.failure().code() == StatusCode::kInternal);
}

// --- conditions

TEST_CASE("a condition that does not hold") {
  const auto failure_of = [](const UploadOptions& some, FailureKind kind, bool multipart) {
    Harness h = at(some, multipart ? kCompleting : "put 5, finish");
    const CallFailure failure{kind, false, io("412 pre").with_remote_class("PreconditionFailed")};
    if (multipart) {
      h.upload.complete_failed(failure, h.actions);
    } else {
      h.upload.put_failed(failure, h.actions);
    }
    if (h.upload.state() == UploadState::kLooking) {  // a conflict says nothing of the object
      h.upload.key_seen({Seen::What::kAnother, "\"x\"", {}}, h.actions);
    }
    CHECK(h.did().ends_with(", abort U") == multipart);
    CHECK(h.upload.state() == UploadState::kFailed);
    return h.upload.failure();
  };
  for (const FailureKind kind : {FailureKind::kPrecondition, FailureKind::kConflict}) {
    for (const bool multipart : {false, true}) {
      const Status exists = failure_of(if_absent(), kind, multipart);
      CHECK(exists.code() == StatusCode::kAlreadyExists);
      CHECK(exists.error_number() == EEXIST);
      CHECK(exists.path() == "s3a://b/k");
      CHECK(exists.message() == "close: an object exists: 412 pre");
      CHECK(exists.remote_class() == "PreconditionFailed");
      const Status changed = failure_of(if_match(), kind, multipart);
      CHECK(changed.code() == StatusCode::kPreconditionFailed);
      CHECK(changed.error_number() == ESTALE);
      CHECK(changed.message() == "close: the object is not \"e0\": 412 pre");
      CHECK(failure_of(options(), kind, multipart).message() == "412 pre");
    }
  }
}

TEST_CASE("a condition that our own object has broken") {
  Harness h = at(if_absent(), "put 5, finish, put lost, key nothing");  // not there yet
  h.upload.put_failed({FailureKind::kPrecondition, false, io("412")}, h.actions);
  CHECK(h.did() == "key?");
  h.upload.key_seen({What::kOurs, "\"o\"", {}}, h.actions);
  CHECK(h.did() == "ack 5, finished");
  CHECK(h.upload.etag() == "\"o\"");
}

TEST_CASE("a condition broken after doubt: aborted, looked at again, then told as that") {
  Harness h = at(if_absent(), kCompleting + ", complete lost, key nothing, upload there");
  h.upload.complete_failed({FailureKind::kPrecondition, false, io("412")}, h.actions);
  h.upload.key_seen({What::kAnother, "\"x\"", {}}, h.actions);
  h.upload.upload_seen(UploadSeen::kThere, h.actions);
  CHECK(h.did() == "key?, upload?, abort U");
  h.upload.aborted(h.actions);
  CHECK(h.did() == "key?");
  h.upload.key_seen({What::kAnother, "\"x\"", {}}, h.actions);
  CHECK(h.did() == "failed(close: an object exists: 412)");
  CHECK(h.upload.failure().code() == StatusCode::kAlreadyExists);
}

// --- doubt

TEST_CASE("complete is asked for again as often as it may") {
  Harness h = at(options(), kCompleting);
  for (const char* expected : {"key?, upload?, complete again 1", "key?, upload?, complete again 2",
                               "key?, upload?, abort U"}) {
    h.upload.complete_failed(lost("500"), h.actions);
    h.upload.key_seen({What::kNothing, "", {}}, h.actions);
    h.upload.upload_seen(UploadSeen::kThere, h.actions);
    CHECK(h.did() == expected);
  }
  SUBCASE("not published") {
    h.upload.aborted(h.actions);
    h.upload.key_seen({What::kNothing, "", {}}, h.actions);
    CHECK(h.did() == "key?, failed(500)");
    CHECK(h.upload.state() == UploadState::kFailed);
  }
  SUBCASE("published after all") {
    h.upload.aborted(h.actions);
    h.upload.key_seen({What::kOurs, "\"o-2\"", {}}, h.actions);
    CHECK(h.did() == "key?, finished");
    CHECK(h.upload.state() == UploadState::kPublished);
  }
  CHECK_FALSE(h.upload.busy());
}

TEST_CASE("another was first, and the answer to ours was lost: asked again, the store says so") {
  for (const bool if_match_wanted : {false, true}) {
    CAPTURE(if_match_wanted);
    Harness h = at(if_match_wanted ? if_match() : if_absent(), "put 5, finish, put lost");
    h.upload.key_seen({What::kAnother, "\"x\"", {}}, h.actions);
    CHECK(h.did() == "put 5 again 1");
    h.upload.put_failed({FailureKind::kPrecondition, false, io("412")}, h.actions);
    h.upload.key_seen({What::kAnother, "\"x\"", {}}, h.actions);
    if (if_match_wanted) {
      CHECK(h.did() == "key?, failed(close: the object is not \"e0\": 412)");
      CHECK(h.upload.failure().code() == StatusCode::kPreconditionFailed);
    } else {
      CHECK(h.did() == "key?, failed(close: an object exists: 412)");
      CHECK(h.upload.failure().code() == StatusCode::kAlreadyExists);
    }
    // Ours may have been there for a moment, or may land when theirs is removed.
    CHECK(h.upload.state() == UploadState::kUnknown);
    CHECK_FALSE(h.upload.busy());
  }
}

TEST_CASE("a Create that was repeated may have left another upload: reported, published or not") {
  Harness h;
  h.upload.put(13, h.actions);
  h.upload.created("U", h.actions, true);
  CHECK(h.upload.cleanup_failure().message() ==
        "another upload may be left whose id is not known: the first request to create it was not "
        "answered");
  h.upload.abandon(h.actions);
  h.upload.part_cancelled(1, h.actions);
  h.upload.aborted(h.actions);
  h.upload.upload_seen(UploadSeen::kGone, h.actions);
  CHECK_FALSE(h.upload.busy());
  CHECK_FALSE(h.upload.cleanup_failure().ok());
}

TEST_CASE("published, but not as it was to be: told as a failure, and known to be there") {
  Harness h = at(options(), "put 5, finish");
  h.upload.put_done("\"o\"", h.actions, io("in clear"));
  CHECK(h.did() == "failed(in clear)");
  CHECK(h.upload.state() == UploadState::kPublished);
  CHECK_FALSE(h.upload.busy());
}

TEST_CASE("found, but not as it was to be: told as if the store had answered") {
  for (const bool listens : {true, false}) {
    CAPTURE(listens);
    Harness h = at(options(), "put 5, finish, put lost");
    if (!listens) h.upload.abandon(h.actions);
    h.actions.clear();
    h.upload.key_seen({What::kOurs, "\"o\"", {}, io("in clear")}, h.actions);
    CHECK(h.did() == (listens ? "failed(in clear)" : ""));
    CHECK(h.upload.state() == UploadState::kPublished);
    CHECK(h.upload.etag() == "\"o\"");
    CHECK_FALSE(h.upload.busy());
  }
}

TEST_CASE("a publication whose time runs out is asked for again once") {
  const CallFailure silent{FailureKind::kAmbiguous, true,
                           Status(StatusCode::kTimedOut, "silence", "s3a://b/k", ETIMEDOUT)};
  Harness h = at(options(), kCompleting);
  for (const char* expected : {"key?, upload?, complete again 1", "key?, upload?, abort U"}) {
    h.upload.complete_failed(silent, h.actions);
    h.upload.key_seen({What::kNothing, "", {}}, h.actions);
    h.upload.upload_seen(UploadSeen::kThere, h.actions);
    CHECK(h.did() == expected);
  }
  h.upload.aborted(h.actions);
  h.upload.key_seen({What::kNothing, "", {}}, h.actions);
  CHECK(h.did() == "key?, failed(silence)");
  CHECK(h.upload.state() == UploadState::kFailed);
  CHECK(h.upload.failure().code() == StatusCode::kTimedOut);
}

TEST_CASE("when the time is up nothing is asked for again, but looked at and ended") {
  Harness h = at(options(), kCompleting + ", complete lost");
  h.upload.time_is_up();
  h.upload.key_seen({What::kNothing, "", {}}, h.actions);
  h.upload.upload_seen(UploadSeen::kThere, h.actions);
  CHECK(h.did() == "upload?, abort U");
  h.upload.aborted(h.actions);
  h.upload.key_seen({What::kOurs, "\"o-2\"", {}}, h.actions);
  CHECK(h.did() == "key?, finished");

  Harness put = at(if_absent(), "put 5, finish, put lost");
  put.upload.time_is_up();
  put.upload.key_seen({What::kNothing, "", {}}, put.actions);
  CHECK(put.upload.state() == UploadState::kUnknown);
}

TEST_CASE("a conditional PUT is asked for again as often as it may") {
  Harness h = at(if_absent(), "put 5, finish");
  for (const char* expected :
       {"key?, put 5 again 1", "key?, put 5 again 2",
        "key?, failed(close: outcome unknown: the key holds no object: 500)"}) {
    h.upload.put_failed(lost("500"), h.actions);
    h.upload.key_seen({What::kNothing, "", {}}, h.actions);
    CHECK(h.did() == expected);
  }
  CHECK(h.upload.state() == UploadState::kUnknown);
}

TEST_CASE("the kinds of failure after which a completion is looked at, and asked for again") {
  const auto after = [](FailureKind kind, bool ambiguous) {
    Harness h = at(options(), kCompleting);
    h.upload.complete_failed({kind, ambiguous, io("x")}, h.actions);
    if (h.upload.state() == UploadState::kFailed) return std::string("failed");
    h.upload.key_seen({What::kNothing, "", {}}, h.actions);
    h.upload.upload_seen(UploadSeen::kThere, h.actions);
    return h.did();
  };
  const std::string again = "key?, upload?, complete again 1";
  const std::string final = "key?, upload?, abort U";
  for (const FailureKind kind :
       {FailureKind::kNotSent, FailureKind::kThrottled, FailureKind::kTransient,
        FailureKind::kCredentials, FailureKind::kTransit, FailureKind::kClock,
        FailureKind::kAddress}) {
    CHECK(after(kind, false) == "failed");
    CHECK(after(kind, true) == again);
  }
  for (const bool ambiguous : {false, true}) {
    CHECK(after(FailureKind::kAmbiguous, ambiguous) == again);
    CHECK(after(FailureKind::kGone, ambiguous) == again);
  }
  for (const FailureKind kind :
       {FailureKind::kConflict, FailureKind::kPrecondition, FailureKind::kFinal}) {
    CHECK(after(kind, false) == "failed");
    CHECK(after(kind, true) == final);
  }
}

TEST_CASE("an outcome that cannot be told says so, with what was seen") {
  Harness h = at(options(), kCompleting + ", complete lost, key another, upload gone, key another");
  CHECK(h.upload.state() == UploadState::kUnknown);
  CHECK(h.upload.failure().message() ==
        "close: outcome unknown: upload U is gone and the key holds another object: reset");
  REQUIRE(h.upload.failure().cause() != nullptr);
  CHECK(h.upload.failure().cause()->message() == "reset");
  CHECK(h.upload.cleanup_failure().ok());  // there is nothing to abort

  Harness blind = at(options(), kCompleting + ", complete lost, key forbidden");
  CHECK(blind.upload.cleanup_failure().message() ==
        "upload U may be left: the key cannot be looked at: 403");
  CHECK(blind.did().empty());  // no abort: the store may be at it
}

TEST_CASE("abandoned while it is published: nothing is told, the truth is found out") {
  Harness h = at(options(), kCompleting + ", abandon");
  CHECK(h.upload.state() == UploadState::kLooking);
  h.upload.publication_cancelled(h.actions);
  h.upload.key_seen({What::kOurs, "\"o\"", {}}, h.actions);
  CHECK(h.did() == "key?");
  CHECK(h.upload.state() == UploadState::kPublished);

  Harness put = at(options(), "put 5, finish, abandon, publication cancelled, key nothing");
  CHECK(put.upload.state() == UploadState::kUnknown);  // it may still arrive
  CHECK(put.upload.failure().ok());

  Harness gone = at(options(), kCompleting +
                                   ", abandon, publication cancelled, key nothing, "
                                   "upload there, aborted, key nothing");
  CHECK(gone.upload.state() == UploadState::kAbandoned);  // and cannot any more
  CHECK_FALSE(gone.upload.busy());
}

// --- uploads that others can go on with

TEST_CASE("kept: told when the store has the parts, and not aborted any more") {
  Harness h;
  h.upload.put(25, h.actions);
  h.upload.created("U", h.actions);
  CHECK(h.did() == "create, part 1, part 2");
  h.upload.keep(2, h.actions);
  h.part_done(2);
  CHECK(h.did() == "forget 2");  // part 1 is under way
  h.part_done(1);
  CHECK(h.did() == "forget 1, ack 20, kept 2");
  h.upload.keep(2, h.actions);
  CHECK(h.did() == "kept 2");  // at once

  h.upload.abandon(h.actions);
  CHECK(h.did().empty());
  CHECK(h.upload.state() == UploadState::kAbandoned);
  CHECK_FALSE(h.upload.busy());
  CHECK(h.upload.cleanup_failure().ok());
}

TEST_CASE("kept without a full part: an upload is created, and the object ends as a part of it") {
  Harness h;
  h.upload.put(5, h.actions);
  h.upload.keep(0, h.actions);
  CHECK(h.did() == "create");
  h.upload.created("U", h.actions);
  CHECK(h.did() == "kept 0");
  h.upload.finish(h.actions);
  CHECK(h.did() == "part 1");
  h.part_done(1);
  CHECK(h.did() == "forget 1, ack 5, complete");
}

TEST_CASE("an upload that fails before it is kept is aborted") {
  Harness h;
  h.upload.put(10, h.actions);
  h.upload.keep(1, h.actions);
  h.upload.created("U", h.actions);
  h.upload.part_failed(1, refused("403"), h.actions);
  CHECK(h.did() == "create, part 1, failed(403), abort U");
}

TEST_CASE("begun before: goes on behind its parts") {
  UploadOptions some = options();
  some.begun = BegunUpload{"U", {{1, "\"p1\"", 10, 7}, {2, "\"p2\"", 10, 7}}};
  Harness h(some);
  CHECK(h.upload.size() == 20);
  CHECK(h.upload.upload_id() == "U");
  h.upload.put(34, h.actions);
  CHECK(h.did() == "part 3");
  h.upload.keep(3, h.actions);
  h.part_done(3);
  CHECK(h.did() == "forget 3, ack 30, kept 3");
  h.upload.finish(h.actions);
  h.part_done(4);
  CHECK(h.did() == "part 4, forget 4, ack 34, complete");
  CHECK(h.upload.parts().size() == 4);
  h.upload.completed("\"o-4\"", h.actions);
  CHECK(h.did() == "finished");
  CHECK(h.upload.state() == UploadState::kPublished);
}

TEST_CASE("begun before, and nothing follows: what there is, is completed") {
  UploadOptions some = options();
  some.begun = BegunUpload{"U", {{1, "\"p1\"", 10, 7}}};
  Harness h(some);
  h.upload.finish(h.actions);
  CHECK(h.did() == "complete");
}

TEST_CASE(
    "a publication that others may have been faster with, or that may come late, is unknown") {
  for (const CallFailure& failure :
       {CallFailure{FailureKind::kGone, false, io("404")}, refused("403")}) {
    UploadOptions some = options();
    some.begun = BegunUpload{"U", {{1, "\"p1\"", 10, 7}}};
    Harness h(some);
    h.upload.finish(h.actions);
    h.upload.complete_failed(failure, h.actions);
    const bool is_gone = failure.kind == FailureKind::kGone;
    CHECK(h.upload.state() == (is_gone ? UploadState::kUnknown : UploadState::kFailed));
    CHECK_FALSE(h.upload.busy());
  }
  UploadOptions some = options();
  some.begun = BegunUpload{"U", {{1, "\"p1\"", 10, 7}}};
  some.reconcile_limit = 0;
  Harness h(some);
  h.upload.finish(h.actions);
  h.upload.complete_failed(lost("reset"), h.actions);
  h.upload.key_seen({What::kNothing, "", {}}, h.actions);
  h.upload.upload_seen(UploadSeen::kThere, h.actions);
  CHECK(h.did() ==
        "complete, key?, upload?, "
        "failed(close: outcome unknown: others may go on with the upload: reset)");
  CHECK(h.upload.state() == UploadState::kUnknown);
}

TEST_CASE("an upload cannot have begun with parts that are not whole, or with none of its own") {
  const PartSizes sizes(10, 3, /*uniform=*/true);
  const auto why = [&](BegunUpload begun) { return check_begun(begun, sizes).message(); };
  CHECK(why({"U", {}}).empty());
  CHECK(why({"U", {{1, "e", 10, 7}, {2, "e", 10, 7}}}).empty());
  CHECK(why({"", {}}).find("no id") != std::string::npos);
  CHECK(why({"U", {{2, "e", 10, 7}}}).find("in the place of part 1") != std::string::npos);
  CHECK(why({"U", {{1, "e", 9, 7}}}).find("9 bytes of 10") != std::string::npos);
  CHECK(why({"U", {{1, "", 10, 7}}}).find("the etag ''") != std::string::npos);
  const PartReceipt part{1, "e", 10, 7};
  CHECK(why({"U", {part, part, part, part}}).find("4 parts of 3") != std::string::npos);
}

TEST_CASE("every state has a name of its own") {
  std::vector<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(UploadState::kAbandoned); ++i) {
    names.push_back(to_string(static_cast<UploadState>(i)));
  }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
  CHECK(std::ranges::count(names, "?") == 0);
}

}  // namespace
}  // namespace hflush::s3
