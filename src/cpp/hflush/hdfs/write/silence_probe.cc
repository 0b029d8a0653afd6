#include "hflush/hdfs/write/silence_probe.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "hflush/hdfs/wire/remote_exception.h"
#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {
namespace {

// The DataNode's process, its machine or the way to it does not answer.
bool is_unreached(const Status& failure) noexcept {
  constexpr auto kErrors = std::to_array(
      {ECONNREFUSED, ECONNRESET, ECONNABORTED, EPIPE, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN});
  return failure.code() == StatusCode::kTimedOut ||
         std::ranges::find(kErrors, failure.error_number()) != kErrors.end();
}

Status fault(const std::string& what) {
  return Status(StatusCode::kIo, what + ", as it answered to getReplicaVisibleLength twice", {},
                EIO);
}

}  // namespace

std::optional<env::TimePoint> SilenceProbe::deadline(
    std::optional<env::TimePoint> silent_since) const noexcept {
  if (!is_resting()) return until_;
  if (!silent_since || patience_ == env::Duration::zero()) return std::nullopt;
  return env::deadline_after(std::max(*silent_since, rested_at_), pause_);
}

void SilenceProbe::heard(Actions& actions) {
  pause_ = patience_;
  if (!is_resting()) rest(actions);
}

void SilenceProbe::rest(Actions& actions) {
  drop(actions);
  state_ = State::kResting;
}

void SilenceProbe::drop(Actions& actions) const {
  if (!is_resting()) actions.emplace_back(action::DropQuestions{});
}

void SilenceProbe::answered(QuestionNumber question, std::size_t node,
                            const Result<std::int64_t>& length) {
  const std::size_t round = question - first_;
  if (is_resting() || round >= kRounds || node >= answers_.size()) return;
  answers_[node][round] = answer_of(length);
}

// One that refuses to answer is there; and what this process has run out of is no fault of the
// node.
SilenceProbe::Answer SilenceProbe::answer_of(const Result<std::int64_t>& length) const {
  if (length.ok() && *length >= 0) {
    if (asking_ == Asking::kReceived) return {Said::kOther};
    return {Said::kLengths, {.acknowledged = static_cast<std::uint64_t>(*length)}};
  }
  // -1: it restarted, and its replica waits to be recovered.
  if (length.ok()) return {Said::kNoReplica};
  const Status& failure = length.status();
  if (is_class(failure.remote_class(), "ReplicaNotFoundException")) return {Said::kNoReplica};
  const auto lengths = replica_lengths(failure.message());
  if (lengths && asking_ == Asking::kReceived) {
    return {Said::kLengths, *lengths};
  }
  const bool has_answered = !failure.remote_class().empty();
  return {has_answered || !is_unreached(failure) ? Said::kOther : Said::kNothing};
}

std::optional<SilenceProbe::Verdict> SilenceProbe::tick(std::optional<env::TimePoint> silent_since,
                                                        const LocatedBlock& block,
                                                        const Expected& expected,
                                                        env::TimePoint now, Actions& actions) {
  const std::optional<env::TimePoint> due = deadline(silent_since);
  if (!due || now < *due) return std::nullopt;
  // This process was stopped as well, or the machine: what has come meanwhile may be unread.
  const bool is_late = !is_resting() && now - until_ >= patience_;
  if (!is_late && is_resting()) {
    ++stream_.counters.silence_probes;
    begin(block, expected, Asking::kLength, now, actions);
    return std::nullopt;
  }
  if (!is_late && state_ == State::kAsking) {
    state_ = State::kAskingAgain;
    ask(block, expected, now, actions);
    return std::nullopt;
  }
  std::optional<Verdict> found;
  if (!is_late && silent_since) {
    found = verdict(expected, now - *silent_since);
    if (const auto more = found ? std::nullopt : next(block, expected)) {
      begin(block, expected, *more, now, actions);
      return std::nullopt;
    }
    pause_ *= 2;
  }
  rest(actions);
  rested_at_ = now;
  return found;
}

// What may tell more than what was asked, if anything may.
std::optional<SilenceProbe::Asking> SilenceProbe::next(const LocatedBlock& block,
                                                       const Expected& expected) const {
  if (asking_ == Asking::kReceived) return std::nullopt;
  if (all_say(Said::kLengths)) {
    return expected.length ? std::optional(Asking::kReceived) : std::nullopt;
  }
  const bool looks_for_something = expected.length || expected.set_up;
  const bool all_are_there = std::ranges::all_of(answers_, &answers);
  const bool may_ask_as_reader = asking_ == Asking::kLength && block.token != Token();
  if (!looks_for_something || !all_are_there || !may_ask_as_reader) return std::nullopt;
  return Asking::kLengthAsReader;
}

void SilenceProbe::begin(const LocatedBlock& block, const Expected& expected, Asking asking,
                         env::TimePoint now, Actions& actions) {
  asking_ = asking;
  first_ = stream_.last_question + 1;
  answers_.assign(block.replicas.size(), {});
  state_ = State::kAsking;
  ask(block, expected, now, actions);
}

void SilenceProbe::ask(const LocatedBlock& block, const Expected& expected, env::TimePoint now,
                       Actions& actions) {
  action::AskReplicas question{++stream_.last_question, block.block, {}};
  question.as_reader = asking_ != Asking::kLength && block.token != Token();
  if (expected.set_up) question.block.generation_stamp = *expected.set_up;
  if (asking_ == Asking::kReceived) question.block.generation_stamp = kNewerStamp;
  for (const Replica& replica : block.replicas) question.nodes.push_back(replica.node);
  actions.emplace_back(std::move(question));
  until_ = now + patience_ / 2;
}

// --- who is to blame

bool SilenceProbe::says(const Answers& node, Said what) {
  return std::ranges::all_of(node, [what](const Answer& one) { return one.said == what; });
}

bool SilenceProbe::all_say(Said what) const {
  return std::ranges::all_of(answers_, [what](const Answers& node) { return says(node, what); });
}

bool SilenceProbe::answers(const Answers& node) {
  return std::ranges::none_of(node, [](const Answer& one) { return one.said == Said::kNothing; });
}

std::optional<SilenceProbe::Verdict> SilenceProbe::verdict(const Expected& expected,
                                                           env::Duration silence) const {
  if (std::ranges::none_of(answers_, &answers)) return std::nullopt;
  // Of a reader's token there is no telling when it came: they have all answered just before.
  const bool may_be_silent = asking_ != Asking::kLengthAsReader;
  for (std::size_t i = 0; may_be_silent && i < answers_.size(); ++i) {
    if (!says(answers_[i], Said::kNothing)) continue;
    return Verdict{i, no_answer("did not answer getReplicaVisibleLength, twice, while others did; "
                                "the pipeline was silent",
                                silence)};
  }
  for (std::size_t i = 0; expected.has_replicas && i < answers_.size(); ++i) {
    if (!says(answers_[i], Said::kNoReplica)) continue;
    return Verdict{i, fault("has no replica of the block that can be written")};
  }
  if (expected.set_up) return not_reached();
  return expected.length ? lost_on_its_way(*expected.length) : std::nullopt;
}

// The first that has not the stamp, or the new block, which the one in front of it has. Where the
// first of all has it not, that may be this client's link, or a question that is not answered.
std::optional<SilenceProbe::Verdict> SilenceProbe::not_reached() const {
  const auto has_it = [](const Answers& node) { return says(node, Said::kLengths); };
  const auto first = std::ranges::find_if_not(answers_, has_it);
  if (first == answers_.begin() || first == answers_.end()) return std::nullopt;
  if (!says(*first, Said::kOther) && !says(*first, Said::kNoReplica)) return std::nullopt;
  return Verdict{static_cast<std::size_t>(first - answers_.begin()),
                 fault("was not reached by the set-up that the DataNode in front of it has")};
}

// Whether it is so in both rounds, or in neither; none where that is not known.
std::optional<bool> SilenceProbe::reaches(const Answers& node, std::uint64_t length,
                                          std::uint64_t ReplicaLengths::* of) {
  if (!says(node, Said::kLengths)) return std::nullopt;
  const auto is_there = [&](const Answer& one) { return one.lengths.*of >= length; };
  if (std::ranges::all_of(node, is_there)) return true;
  return std::ranges::none_of(node, is_there) ? std::optional(false) : std::nullopt;
}

std::optional<bool> SilenceProbe::has_received(std::size_t node, std::uint64_t length) const {
  if (has_acknowledged(node, length) == true) return true;
  if (asking_ != Asking::kReceived) return std::nullopt;
  return reaches(answers_[node], length, &ReplicaLengths::received);
}

std::optional<bool> SilenceProbe::has_acknowledged(std::size_t node, std::uint64_t length) const {
  return reaches(answers_[node], length, &ReplicaLengths::acknowledged);
}

// The farthest point that a packet has reached is where the next one is to blame: down the nodes as
// they receive it, and up again as they acknowledge it. Beyond that is this client: the first node
// has acknowledged the packet, so that the ack was lost. One node alone is to blame for no more.
std::optional<SilenceProbe::Verdict> SilenceProbe::lost_on_its_way(std::uint64_t length) const {
  const std::size_t nodes = answers_.size();
  if (has_acknowledged(0, length) == true) {
    return Verdict{0, fault("is lost: it has acknowledged what this client waits for"), true};
  }
  if (nodes == 1) return std::nullopt;
  for (std::size_t i = 1; i < nodes; ++i) {
    if (has_acknowledged(i, length) != true) continue;
    if (has_acknowledged(i - 1, length) != false) return std::nullopt;
    return Verdict{i - 1, fault("has not acknowledged what the DataNode behind it has")};
  }
  for (std::size_t i = nodes; i-- > 0;) {
    if (has_received(i, length) != true) continue;
    if (i + 1 == nodes) {
      if (has_acknowledged(i, length) != false) return std::nullopt;
      return Verdict{i, fault("has received what it does not acknowledge")};
    }
    if (has_received(i + 1, length) != false) return std::nullopt;
    return Verdict{i + 1, fault("has not received what the DataNode in front of it has")};
  }
  if (has_received(0, length) != false) return std::nullopt;
  return Verdict{0, fault("has not received what this client has sent")};
}

std::string_view to_string(SilenceProbe::State state) noexcept {
  constexpr auto kNames = std::to_array<std::string_view>({"resting", "asking", "asking again"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
