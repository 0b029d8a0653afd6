// SilenceProbe: finds the DataNode that keeps a pipeline silent by asking, long before a timeout
// would. A state machine without I/O, part of BlockWriter.
//
//   kResting      nothing is asked
//   kAsking       all DataNodes of the pipeline are asked about their replicas
//                 (getReplicaVisibleLength, on a connection of its own to each)
//   kAskingAgain  the same, a second time
//
// docs/hdfs-client.md has the table of states and events, and those of who is to blame. The probe
// begins when a pipeline has been silent for a configured time, and again, after twice
// the time, while the silence goes on. A word of the pipeline itself ends it, a heartbeat's ack
// too.
//
// What an answer proves. A node may be slow, or collect garbage: so one is to blame only for what
// it did in both rounds, and for silence only while another one answered in both: else it may be
// this machine's link that is cut, or a firewall that is in the way. Where all answer, the oldest
// packet is looked for on its way: each node in turn receives it, and then, from the last one back,
// acknowledges it. A DataNode shows what it and all behind it have acknowledged (Hadoop's
// ReplicaBeingWritten). What it has received it says only when it is asked about a stamp that it
// does not have (replica_lengths.h), and notes that in its log: so that is asked afterwards, where
// none has acknowledged the packet. A set-up is looked for likewise, by the stamp that it brings to
// each node in turn. One verdict names one node; the next pipeline shows whether there is another.
//
// Where block tokens are on, a writer may not ask: a DataNode that refuses is there, which is all
// that is to be known of one that is stopped. Where that names none, and bytes or a stamp are
// looked for, they are asked once more as a reader would.
//
// Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/replica_lengths.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/write_actions.h"
#include "hflush/hdfs/write/write_stream.h"

namespace hflush::hdfs {

class SilenceProbe {
 public:
  enum class State : std::uint8_t { kResting, kAsking, kAskingAgain };

  // What the pipeline has to do, as far as its replicas show it.
  struct Expected {
    bool has_replicas = false;  // every node has one; not before a new block's pipeline stands
    // How long a replica is that has the oldest packet. None where that has no bytes, is not all
    // sent, or waits for a disk: a long sync is no fault. Nor where it is sent again: replicas may
    // have it from an earlier pipeline.
    std::optional<std::uint64_t> length = {};
    // The stamp of who has been reached by the set-up, which is on its way; none: it stands.
    std::optional<std::uint64_t> set_up = {};
  };
  // Who is to blame, and why: continues after the node's name.
  struct Verdict {
    std::size_t node = 0;
    Status why;
    bool is_link = false;  // the node has done its part, and its connection is lost
  };

  // Begins after a silence of `patience`; never if that is zero. `stream` outlives it.
  SilenceProbe(WriteStream& stream, env::Duration patience)
      : stream_(stream), patience_(patience), pause_(patience) {}

  State state() const noexcept { return state_; }
  // Of a pipeline that has been silent since `silent_since`; none: it owes nothing.
  std::optional<env::TimePoint> deadline(std::optional<env::TimePoint> silent_since) const noexcept;

  // The pipeline has said something.
  void heard(Actions& actions);
  // The answer of a node of `block`'s pipeline.
  void answered(QuestionNumber question, std::size_t node, const Result<std::int64_t>& length);
  // Time has passed. Requires: replicas.
  std::optional<Verdict> tick(std::optional<env::TimePoint> silent_since, const LocatedBlock& block,
                              const Expected& expected, env::TimePoint now, Actions& actions);
  // The pipeline has ended.
  void drop(Actions& actions) const;

 private:
  static constexpr std::size_t kRounds = 2;
  // What both rounds ask. Each begins where the ones before it could not tell who is to blame.
  enum class Asking : std::uint8_t { kLength, kLengthAsReader, kReceived };
  // What a DataNode said in a round; kNothing may be on its way.
  enum class Said : std::uint8_t { kNothing, kNoReplica, kOther, kLengths };
  struct Answer {
    Said said = Said::kNothing;
    ReplicaLengths lengths = {};
  };
  using Answers = std::array<Answer, kRounds>;

  static bool says(const Answers& node, Said what);
  static bool answers(const Answers& node);
  static std::optional<bool> reaches(const Answers& node, std::uint64_t length,
                                     std::uint64_t ReplicaLengths::* of);
  Answer answer_of(const Result<std::int64_t>& length) const;
  bool is_resting() const noexcept { return state_ == State::kResting; }
  void rest(Actions& actions);
  void begin(const LocatedBlock& block, const Expected& expected, Asking asking, env::TimePoint now,
             Actions& actions);
  void ask(const LocatedBlock& block, const Expected& expected, env::TimePoint now,
           Actions& actions);
  bool all_say(Said what) const;
  std::optional<Asking> next(const LocatedBlock& block, const Expected& expected) const;
  std::optional<Verdict> verdict(const Expected& expected, env::Duration silence) const;
  std::optional<bool> has_received(std::size_t node, std::uint64_t length) const;
  std::optional<bool> has_acknowledged(std::size_t node, std::uint64_t length) const;
  std::optional<Verdict> lost_on_its_way(std::uint64_t length) const;
  std::optional<Verdict> not_reached() const;

  WriteStream& stream_;
  const env::Duration patience_;
  env::Duration pause_;         // before the next probe
  env::TimePoint rested_at_{};  // the last one's end
  State state_ = State::kResting;
  env::TimePoint until_;             // of a round
  Asking asking_ = Asking::kLength;  // in this round and the other one
  QuestionNumber first_ = 0;         // of the first round; the second one's is the next
  std::vector<Answers> answers_{};   // by node
};

std::string_view to_string(SilenceProbe::State state) noexcept;

}  // namespace hflush::hdfs
