// What hdfs/write does in a run: FileWriter, and BlockWriter, SilenceProbe, BlockRecovery and
// Promises, whose events happen inside those of a file. See observed.h.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "hflush/hdfs/wire/remote_exception.h"
#include "hflush/hdfs/write/file_writer.h"
#include "hflush/hdfs/write/silence_probe.h"
#include "sim/observed.h"
#include "sim/transitions.h"

namespace hflush::sim {

using namespace hdfs;  // NOLINT(google-build-using-namespace)
using env::TimePoint;

namespace {

constexpr std::string_view kStays = Transitions::kStays;
constexpr std::string_view kBlockHasEnded = "the block has ended";
constexpr std::string_view kIdleAppend = "idle, append";

// What a file does not say of itself.
struct Known {
  WriteStream* stream = nullptr;
  WriteStage stage = WriteStage::kSetupCreate;  // of the block that is written
  bool is_synced = false;                       // what hsync has promised of it
  bool is_closed = false;                       // its connection, while it is registered
  bool is_ending = false;                       // it broke when its last packet was sent
};

// A file whose event happens now. What it means to each machine is recorded at the end.
class Happening {
 public:
  // An event without a name is not in the file's table.
  Happening(FileWriter& file, std::string_view event)
      : file_(file), event_(event), before_(column()), outer_(std::exchange(now_, this)) {}
  Happening(const Happening&) = delete;
  Happening& operator=(const Happening&) = delete;
  ~Happening() {
    now_ = outer_;
    if (!event_.empty()) add("FileWriter", before_, event_, after());
    if (!meaning_.empty()) add("FileWriter", meant_in_, meaning_, meant());
    if (!promised_.empty()) add_promised();
  }

  static Happening& now() { return *now_; }
  static Known& known() { return all_known()[&now().file_]; }
  static void knows_nothing_of(const FileWriter& file) { all_known().erase(&file); }
  // No block was written yet: what recovers is the block of an append, where nothing has failed.
  static bool is_before_blocks() { return known().stream == nullptr; }

  void call(std::string_view event) { event_ = event; }
  // As the table has it. Nothing at an end, and while an idle file makes no call before fsync is
  // answered.
  std::string_view before() const { return before_; }
  std::string_view after() const {
    // The page's table leaves out that an append may find too few replicas.
    const bool is_append = before_ == kIdleAppend;
    if (is_append && file_.state() == FileWriter::State::kRecovering) return "writing";
    return file_.state() == state_ ? kStays : to_string(file_.state());
  }

  // What an event meant to the block, in `state` of the file.
  void means(std::string_view state, std::string_view meaning) {
    meant_in_ = state;
    meaning_ = meaning;
  }
  // What happened to the sync of finished blocks.
  void promises(std::string_view state, std::string_view event) {
    promised_in_ = state;
    promised_ = event;
  }

 private:
  static void add(std::string_view machine, std::string_view state, std::string_view event,
                  std::string_view after) {
    if (!state.empty()) Transitions::seen().add(machine, state, event, after);
  }

  std::string_view column() const {
    if (file_.state() >= FileWriter::State::kDone) return {};
    if (file_.state() != FileWriter::State::kIdle) return to_string(file_.state());
    if (file_.promises().is_recording()) return {};
    const bool is_append = file_.target().partial_block && file_.counters().pipelines == 0;
    return is_append ? kIdleAppend : "idle";
  }

  // From idle it goes on at once where something waits.
  std::string_view meant() const {
    const FileWriter::State state = file_.state();
    const bool has_been_idle =
        state == FileWriter::State::kAllocating || state == FileWriter::State::kCompleting;
    if (meaning_ == kBlockHasEnded && has_been_idle) return "idle";
    return to_string(state) == meant_in_ ? kStays : to_string(state);
  }

  // The page's table leaves out what follows the last replica.
  void add_promised() const {
    const std::string_view after = to_string(file_.promises().state());
    const bool is_over = after == "resting" || after == "locating";
    const bool has_replica = promised_in_ == "connecting" || promised_in_ == "syncing";
    if (is_over && has_replica) return;
    const bool is_taken = promised_in_ == after && after != "connecting";
    add("Promises", promised_in_, promised_, is_taken ? kStays : after);
  }

  static std::map<const FileWriter*, Known>& all_known() {
    static std::map<const FileWriter*, Known> known;
    return known;
  }

  static inline Happening* now_ = nullptr;

  FileWriter& file_;
  std::string_view event_;
  const FileWriter::State state_ = file_.state();
  const std::string_view before_;
  Happening* const outer_;
  std::string_view meant_in_;
  std::string_view meaning_;
  std::string_view promised_in_;
  std::string_view promised_;
};

std::string_view column_of(const BlockWriter& block, const Known& known) {
  const bool is_new = known.stage == WriteStage::kSetupCreate;
  const bool is_close = known.stage == WriteStage::kCloseRecovery;
  switch (block.state()) {
    case BlockWriter::State::kConnecting:
      return is_new ? "connecting, new" : "connecting, again";
    case BlockWriter::State::kSettingUp:
      return is_new            ? "setting up, new"
             : is_close        ? "setting up, close"
             : known.is_synced ? "setting up, synced"
                               : "setting up, again";
    case BlockWriter::State::kRegistering:
      return is_close ? "registering, close" : "registering";
    default:
      return to_string(block.state());
  }
}

// Packets come to a block whose state remains: what it does with them is seen in release().
class Putting {
 public:
  Putting(const FileWriter& file, std::span<const stream::Packet> packets, bool is_end)
      : file_(file) {
    const BlockWriter* const block = file.block();
    if (block == nullptr) return;
    column_ = column_of(*block, Happening::known());
    has_packet_ = !packets.empty();
    const std::uint64_t end = block->located().offset + file.target().block_size;
    has_last_ = is_end || std::ranges::any_of(packets, [end](const stream::Packet& packet) {
                  return packet.end() == end;
                });
  }
  Putting(const Putting&) = delete;
  Putting& operator=(const Putting&) = delete;

  void end() const {
    const BlockWriter* const block = file_.block();
    const bool remains =
        !column_.empty() && block != nullptr && column_of(*block, Happening::known()) == column_;
    if (!remains) return;
    if (has_packet_) add("a packet is put");
    if (has_last_ && column_ != "streaming") add("the block's last packet is put");
  }

 private:
  void add(std::string_view event) const {
    Transitions::seen().add("BlockWriter", column_, event, kStays);
  }

  const FileWriter& file_;
  std::string_view column_;
  bool has_packet_ = false;
  bool has_last_ = false;
};

}  // namespace

// --- FileWriter

HFLUSH_CONSTRUCTOR(FileWriter, constructor, FileWriter* file, WriteTarget target,
                   const WriteSettings& settings) {
  Happening::knows_nothing_of(*file);
  observed_FileWriter_constructor(file, std::move(target), settings);
}

HFLUSH_EVENT(FileWriter, put, void, FileWriter* file, std::span<stream::Packet> packets,
             TimePoint now, Actions& actions) {
  const Happening happening(*file, packets.empty() ? "" : "put");
  const Putting putting(*file, packets, false);
  observed_FileWriter_put(file, packets, now, actions);
  putting.end();
}

HFLUSH_EVENT(FileWriter, sync, void, FileWriter* file, stream::Level level,
             std::span<stream::Packet> packets, TimePoint now, Actions& actions) {
  static constexpr std::string_view kNames[] = {"flush", "hflush", "hsync",
                                                "hsync that ends the block"};
  Happening happening(*file, kNames[static_cast<std::size_t>(level)]);
  const bool is_durable = level >= stream::Level::kDurable;
  // A sync of a block that is there is a packet by itself.
  const bool has_sync = is_durable && happening.before() != "idle";
  if (packets.empty() && !has_sync) happening.call("hflush of nothing");
  const Putting putting(*file, packets, level == stream::Level::kBlockEnded);
  const Promises::State before = file->promises().state();
  observed_FileWriter_sync(file, level, packets, now, actions);
  putting.end();
  const Promises::State after = file->promises().state();
  // Only where there are finished blocks to sync.
  const bool is_their_event = before != Promises::State::kResting || after != before;
  if (is_durable && is_their_event) {
    Transitions::seen().add("Promises", to_string(before), "hsync",
                            after == before ? kStays : to_string(after));
  }
}

HFLUSH_EVENT(FileWriter, finish, void, FileWriter* file, TimePoint now, Actions& actions) {
  // What waits for finished blocks is answered first.
  const bool is_held = file->state() == FileWriter::State::kIdle && file->promises().has_waiters();
  const Happening happening(*file, is_held ? "" : "finish");
  const Putting putting(*file, {}, true);
  observed_FileWriter_finish(file, now, actions);
  putting.end();
}

HFLUSH_EVENT(FileWriter, abandon, void, FileWriter* file, TimePoint now, Actions& actions) {
  const Happening happening(*file, "abandon");
  observed_FileWriter_abandon(file, now, actions);
}

HFLUSH_EVENT(FileWriter, lease_lost, void, FileWriter* file, const Status& failure, TimePoint now,
             Actions& actions) {
  const Happening happening(*file, "the lease is lost");
  observed_FileWriter_lease_lost(file, failure, now, actions);
}

namespace {

std::string_view allocation(const Result<LocatedBlock>& answer) {
  if (answer.ok()) {
    return answer->replicas.empty() ? "addBlock: a block without DataNodes" : "addBlock: a block";
  }
  const std::string& failure = answer.status().remote_class();
  if (is_class(failure, "NotReplicatedYetException")) return "addBlock: NotReplicatedYet";
  if (answer.status().message().find(" could only be ") != std::string::npos) {
    return "addBlock: no DataNode can take it";
  }
  const bool is_over_quota = is_class(failure, "DSQuotaExceededException") ||
                             is_class(failure, "QuotaByStorageTypeExceededException");
  return is_over_quota ? "addBlock: over quota" : "addBlock: refused";
}

}  // namespace

HFLUSH_EVENT(FileWriter, allocated, void, FileWriter* file, Result<LocatedBlock> answer,
             TimePoint now, Actions& actions) {
  Happening happening(*file, allocation(answer));
  const bool is_refused = allocation(answer) == "addBlock: refused";
  const bool is_delay = allocation(answer) == "addBlock: NotReplicatedYet" ||
                        allocation(answer) == "addBlock: no DataNode can take it";
  observed_FileWriter_allocated(file, std::move(answer), now, actions);
  const bool has_failed = file->state() == FileWriter::State::kFailed;
  const bool waits = file->state() == FileWriter::State::kAllocateDelay;
  if (is_delay && has_failed) happening.call("addBlock: refused");  // patience is over
  // In whatever words, while DataNodes are excluded.
  if (is_refused && waits) happening.call("addBlock: no DataNode can take it");
}

HFLUSH_EVENT(FileWriter, block_abandoned, void, FileWriter* file, const Status& answer,
             TimePoint now, Actions& actions) {
  Happening happening(*file, answer.ok() ? "abandonBlock: done" : "abandonBlock: refused");
  observed_FileWriter_block_abandoned(file, answer, now, actions);
  const bool has_failed = file->state() == FileWriter::State::kFailed;
  if (answer.ok() && has_failed) happening.call("abandonBlock: done without attempts left");
}

HFLUSH_EVENT(FileWriter, completed, void, FileWriter* file, const Result<bool>& answer,
             TimePoint now, Actions& actions) {
  const bool is_true = answer.ok() && *answer;
  const bool is_false = answer.ok() && !*answer;
  Happening happening(*file, is_true    ? "complete: true"
                             : is_false ? "complete: false"
                                        : "complete: refused");
  observed_FileWriter_completed(file, answer, now, actions);
  if (file->state() == FileWriter::State::kChecking) {
    happening.call("complete: the lease of an empty file is lost");
  }
  if (file->state() != FileWriter::State::kFailed) return;
  if (is_false) happening.call("complete: refused");  // patience is over
  if (is_true) happening.call("");                    // of a file that is over quota
}

HFLUSH_EVENT(FileWriter, tick, void, FileWriter* file, TimePoint now, Actions& actions) {
  Happening happening(*file, "");
  observed_FileWriter_tick(file, now, actions);
  const bool was_delayed = happening.before().ends_with(" delay");
  if (was_delayed && happening.after() != kStays) happening.call("the delay is over");
}

// Those of a block have no names of their own here.

HFLUSH_EVENT(FileWriter, reserved, void, FileWriter* file, Result<LocatedBlock> answer,
             TimePoint now, Actions& actions) {
  const Happening happening(*file, "");
  observed_FileWriter_reserved(file, std::move(answer), now, actions);
}

HFLUSH_EVENT(FileWriter, registered, void, FileWriter* file, const Status& answer, TimePoint now,
             Actions& actions) {
  const Happening happening(*file, "");
  observed_FileWriter_registered(file, answer, now, actions);
}

HFLUSH_EVENT(FileWriter, found, void, FileWriter* file, Result<LocatedBlock> answer, TimePoint now,
             Actions& actions) {
  const Happening happening(*file, "");
  observed_FileWriter_found(file, std::move(answer), now, actions);
}

HFLUSH_EVENT(FileWriter, fsynced, void, FileWriter* file, const Status& answer, TimePoint now,
             Actions& actions) {
  const Happening happening(*file, "");
  observed_FileWriter_fsynced(file, answer, now, actions);
}

HFLUSH_EVENT(FileWriter, connected, void, FileWriter* file, ConnectionNumber connection,
             TimePoint now) {
  const Happening happening(*file, "");
  observed_FileWriter_connected(file, connection, now);
}

HFLUSH_EVENT(FileWriter, located, void, FileWriter* file, const Result<LocatedBlocks>& answer,
             TimePoint now, Actions& actions) {
  const bool is_open = answer.ok() && file->state() == FileWriter::State::kChecking;
  Happening happening(*file, is_open ? "getBlockLocations: it is open" : "");
  if (!answer.ok() && file->state() == FileWriter::State::kChecking) happening.call("refused");
  observed_FileWriter_located(file, answer, now, actions);
  if (is_open && file->state() == FileWriter::State::kDone) {
    happening.call("getBlockLocations: it is closed");
  }
}

HFLUSH_EVENT(FileWriter, replied, void, FileWriter* file, ConnectionNumber connection,
             const OperationReply& reply, TimePoint now, Actions& actions) {
  const Happening happening(*file, "");
  observed_FileWriter_replied(file, connection, reply, now, actions);
}

HFLUSH_EVENT(FileWriter, acked, void, FileWriter* file, ConnectionNumber connection,
             const PipelineAck& ack, TimePoint now, Actions& actions) {
  const Happening happening(*file, "");
  observed_FileWriter_acked(file, connection, ack, now, actions);
}

HFLUSH_EVENT(FileWriter, connection_lost, void, FileWriter* file, ConnectionNumber connection,
             const Status& failure, TimePoint now, Actions& actions) {
  const Happening happening(*file, "");
  observed_FileWriter_connection_lost(file, connection, failure, now, actions);
}

// --- BlockWriter

namespace {

// An event of a block.
class BlockEvent {
 public:
  BlockEvent(const BlockWriter& block, const Actions& actions)
      : block_(block), actions_(actions), count_(actions.size()), column_(column()) {}

  std::string_view column() const { return column_of(block_, Happening::known()); }
  std::string_view before() const { return column_; }

  // Of that name, with its outcome.
  void add(std::string_view event, const BlockWriter::Outcome& outcome) const {
    static constexpr std::string_view kEnds[] = {"", "ended", "not built", "broken", "refused"};
    static constexpr std::string_view kMeanings[] = {
        "", kBlockHasEnded, "its first pipeline was not built", "", "it is refused"};
    Known& known = Happening::known();
    const auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
    if (broken != nullptr) known.is_ending = broken->block.is_ending;
    const std::size_t end = outcome.index();
    std::string after(end == 0 ? to_string(block_.state()) : kEnds[end]);
    if (end == 0) {
      const bool was_closed = known.is_closed;
      known.is_closed = known.is_closed || has_closed();
      if (after == to_string(state_)) {
        if (was_closed) return;  // an event of the connection that is closed
        after = kStays;
      }
      if (has_closed()) after = "closed; " + after;
    }
    Transitions::seen().add("BlockWriter", column_, event, after);
    if (!kMeanings[end].empty()) Happening::now().means("writing", kMeanings[end]);
  }

 private:
  bool has_closed() const {
    return std::any_of(
        actions_.begin() + static_cast<std::ptrdiff_t>(count_), actions_.end(),
        [](const Action& action) { return std::holds_alternative<action::Disconnect>(action); });
  }

  const BlockWriter& block_;
  const BlockWriter::State state_ = block_.state();
  const Actions& actions_;
  const std::size_t count_;
  const std::string_view column_;
};

std::string_view name_of(const PipelineAck& ack, const BlockWriter& block) {
  const auto& replies = ack.replies;
  bool is_good = true;
  for (std::size_t i = replies.size(); i-- > 0 && is_good;) {
    is_good = replies[i] == TransferStatus::kSuccess;
    if (replies[i] == TransferStatus::kOobRestart) return "of a restart";
  }
  if (!is_good) return "ack with an error";
  if (ack.sequence_number == PipelineAck::kHeartbeat) return "ack of a heartbeat";
  if (replies.size() < block.located().replicas.size()) return "of fewer nodes";
  const PacketQueue& packets = Happening::known().stream->packets;
  if (block.state() == BlockWriter::State::kSyncing) {
    const std::int64_t acknowledged = packets.acknowledged_sequence_number();
    const bool is_sync = ack.sequence_number == std::max<std::int64_t>(0, acknowledged);
    return is_sync ? "ack of the sync" : "of another packet";
  }
  const bool is_expected =
      packets.oldest_is_sent() && packets.oldest().sequence_number == ack.sequence_number;
  return is_expected ? "ack of the oldest packet" : "of another packet";
}

}  // namespace

HFLUSH_CONSTRUCTOR(BlockWriter, constructor, BlockWriter* block, WriteStream& stream,
                   ConnectionNumber number, BlockWriter::Block what, Actions& actions) {
  Happening::known() = {&stream, what.stage, what.is_synced, false, what.is_ending};
  observed_BlockWriter_constructor(block, stream, number, std::move(what), actions);
}

HFLUSH_EVENT(BlockWriter, release, void, BlockWriter* block, TimePoint now) {
  const BlockWriter::State before = block->state();
  observed_BlockWriter_release(block, now);
  const BlockWriter::State after = block->state();
  if (after == before) return;
  const bool was_draining = before == BlockWriter::State::kDraining;
  const bool is_ending = after == BlockWriter::State::kEnding;
  Transitions::seen().add("BlockWriter", to_string(before),
                          was_draining ? "ack of the oldest packet"
                          : is_ending
                              ? "the block's last packet is put: all others are acknowledged"
                              : "the block's last packet is put",
                          to_string(after));
}

HFLUSH_EVENT(BlockWriter, reserved, BlockWriter::Outcome, BlockWriter* block,
             Result<LocatedBlock> answer, Actions& actions) {
  const BlockEvent event(*block, actions);
  const bool has_nodes = !block->located().replicas.empty();
  const std::string_view name = !answer.ok() ? "updateBlockForPipeline: refused"
                                : has_nodes  ? "updateBlockForPipeline: a stamp"
                                             : "updateBlockForPipeline: a stamp for no node";
  BlockWriter::Outcome outcome = observed_BlockWriter_reserved(block, std::move(answer), actions);
  event.add(name, outcome);
  return outcome;
}

HFLUSH_EVENT(BlockWriter, registered, BlockWriter::Outcome, BlockWriter* block,
             const Status& answer, TimePoint now, Actions& actions) {
  const BlockEvent event(*block, actions);
  const bool has_fault = Happening::known().is_closed && event.before() == "registering";
  BlockWriter::Outcome outcome = observed_BlockWriter_registered(block, answer, now, actions);
  event.add(!answer.ok() ? "updatePipeline: refused"
            : has_fault  ? "updatePipeline: done after a fault"
                         : "updatePipeline: done",
            outcome);
  return outcome;
}

HFLUSH_EVENT(BlockWriter, connected, void, BlockWriter* block, TimePoint now) {
  static const Actions kNone;
  const BlockEvent event(*block, kNone);
  observed_BlockWriter_connected(block, now);
  event.add("connected", BlockWriter::Continues{});
}

HFLUSH_EVENT(BlockWriter, replied, BlockWriter::Outcome, BlockWriter* block,
             const OperationReply& reply, TimePoint now, Actions& actions) {
  const BlockEvent event(*block, actions);
  BlockWriter::Outcome outcome = observed_BlockWriter_replied(block, reply, now, actions);
  const bool accepts = reply.status == TransferStatus::kSuccess;
  event.add(accepts ? "the DataNode accepts" : "the DataNode refuses", outcome);
  return outcome;
}

HFLUSH_EVENT(BlockWriter, acked, BlockWriter::Outcome, BlockWriter* block, const PipelineAck& ack,
             TimePoint now, Actions& actions) {
  const BlockEvent event(*block, actions);
  const std::string_view name = name_of(ack, *block);
  BlockWriter::Outcome outcome = observed_BlockWriter_acked(block, ack, now, actions);
  // Where the block drains, release() says that it was the last one.
  const bool is_good = name == "ack of the oldest packet";
  const bool goes_on = std::holds_alternative<BlockWriter::Continues>(outcome);
  const bool drains = block->state() == BlockWriter::State::kDraining && is_good && goes_on;
  // A node that was slow too often leaves, whatever the ack is for.
  const bool is_slow = is_good && std::holds_alternative<BlockWriter::Broken>(outcome);
  if (!drains) event.add(is_slow ? "ack with an error" : name, outcome);
  return outcome;
}

HFLUSH_EVENT(BlockWriter, connection_lost, BlockWriter::Outcome, BlockWriter* block,
             const Status& failure, Actions& actions) {
  const BlockEvent event(*block, actions);
  BlockWriter::Outcome outcome = observed_BlockWriter_connection_lost(block, failure, actions);
  event.add("the connection is lost", outcome);
  return outcome;
}

namespace {

bool is_found_by_asking(const BlockWriter::Outcome& outcome) {
  const auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
  const auto* const not_built = std::get_if<BlockWriter::NotBuilt>(&outcome);
  const Status& fault = broken != nullptr ? broken->fault : not_built->fault;
  return fault.message().find("getReplicaVisibleLength") != std::string::npos;
}

}  // namespace

HFLUSH_EVENT(BlockWriter, tick, BlockWriter::Outcome, BlockWriter* block, TimePoint now,
             Actions& actions) {
  const BlockEvent event(*block, actions);
  BlockWriter::Outcome outcome = observed_BlockWriter_tick(block, now, actions);
  if (std::holds_alternative<BlockWriter::Continues>(outcome)) return outcome;
  event.add(is_found_by_asking(outcome) ? "a silent DataNode is found" : "silence", outcome);
  return outcome;
}

// --- SilenceProbe

namespace {

void probe_has(const SilenceProbe& probe, SilenceProbe::State before, std::string_view event) {
  Transitions::seen().add("SilenceProbe", to_string(before), event,
                          probe.state() == before ? kStays : to_string(probe.state()));
}

}  // namespace

HFLUSH_EVENT(SilenceProbe, heard, void, SilenceProbe* probe, Actions& actions) {
  const SilenceProbe::State before = probe->state();
  observed_SilenceProbe_heard(probe, actions);
  probe_has(*probe, before, "the pipeline says something");
}

HFLUSH_EVENT(SilenceProbe, answered, void, SilenceProbe* probe, QuestionNumber question,
             std::size_t node, const Result<std::int64_t>& length) {
  const SilenceProbe::State before = probe->state();
  observed_SilenceProbe_answered(probe, question, node, length);
  probe_has(*probe, before, "a DataNode answers");
}

HFLUSH_EVENT(SilenceProbe, tick, std::optional<SilenceProbe::Verdict>, SilenceProbe* probe,
             std::optional<TimePoint> silent_since, const LocatedBlock& block,
             const SilenceProbe::Expected& expected, TimePoint now, Actions& actions) {
  using State = SilenceProbe::State;
  const State before = probe->state();
  const std::optional<TimePoint> due = probe->deadline(silent_since);
  auto verdict = observed_SilenceProbe_tick(probe, silent_since, block, expected, now, actions);
  if (!due || now < *due) return verdict;
  const bool is_late =
      probe->state() == State::kResting &&
      (before == State::kAsking || now - *due >= Happening::known().stream->settings.silence_probe);
  const bool asks_more = before == State::kAskingAgain && probe->state() == State::kAsking;
  if (verdict) {
    Transitions::seen().add("SilenceProbe", to_string(before),
                            "the round is over: a DataNode is to blame", "found");
  } else {
    probe_has(*probe, before,
              before == State::kResting ? "the pipeline is silent for too long"
              : asks_more               ? "the round is over: all have answered with lengths"
              : is_late                 ? "the round was over long ago"
                                        : "the round is over");
  }
  return verdict;
}

// --- BlockRecovery

namespace {

class RecoveryEvent {
 public:
  explicit RecoveryEvent(const BlockRecovery& recovery)
      : recovery_(recovery), before_(recovery.state()), is_extra_(looks_for_extra()) {}

  BlockRecovery::State before() const { return before_; }

  // Of that name, with its outcome. `fails`: that no other DataNode came in.
  void add(std::string_view event, const BlockRecovery::Outcome& outcome, bool fails) const {
    const bool is_ready = std::holds_alternative<BlockRecovery::Ready>(outcome);
    const bool continues = std::holds_alternative<BlockRecovery::Continues>(outcome);
    const bool is_discarded = std::holds_alternative<BlockRecovery::Discarded>(outcome);
    std::string_view after = is_ready ? "ready" : is_discarded ? "discarded" : "given up";
    if (fails && goes_without(outcome)) after = "given up";
    if (continues) after = recovery_.state() == before_ ? kStays : to_string(recovery_.state());
    Transitions::seen().add("BlockRecovery", to_string(before_), event, after);
    if (before_ == BlockRecovery::State::kHeld || continues) return;
    Happening::now().means("recovering",
                           is_ready ? "its recovery is ready" : "its recovery has failed");
  }

 private:
  // Whether a DataNode is looked for although none has left.
  static bool looks_for_extra() {
    if (Happening::is_before_blocks()) return true;
    const Recoveries& known = Happening::known().stream->recoveries;
    return known.replacement && known.replacement->is_extra;
  }

  // With the others, as best-effort, min-replication and the block's end allow, or since none of
  // them has left.
  bool goes_without(const BlockRecovery::Outcome& outcome) const {
    if (!std::holds_alternative<BlockRecovery::Ready>(outcome)) return false;
    if (is_extra_) return true;
    const Known& known = Happening::known();
    const WriteSettings& settings = known.stream->settings;
    return known.is_ending || settings.replacement_best_effort ||
           settings.replacement_min_replication > 0;
  }

  const BlockRecovery& recovery_;
  const BlockRecovery::State before_;
  const bool is_extra_;
};

int failed_copies() {
  if (Happening::is_before_blocks()) return 0;
  const Recoveries& known = Happening::known().stream->recoveries;
  return known.replacement ? known.replacement->tries() : 0;
}

bool is_third_try() { return failed_copies() >= 2; }

// A copy has failed. In the beginning of an append it is the outcome that tells which one it was.
bool was_third(bool is_third, const BlockRecovery::Outcome& outcome) {
  return is_third ||
         (Happening::is_before_blocks() && std::holds_alternative<BlockRecovery::Ready>(outcome));
}

std::string_view third_fails(const BlockRecovery& recovery) {
  const bool waits = recovery.state() == BlockRecovery::State::kPausing;
  return waits ? "the third copy fails while one can be waited for" : "the third copy fails";
}

// --- what a recovery begins with

struct Beginning {
  std::string_view event;
  std::string_view meaning;  // to the file
};

// The search that has just begun is one although no node has left.
bool tries_the_last_again() {
  const Recoveries& known = Happening::known().stream->recoveries;
  return known.replacement && known.replacement->is_extra && known.replacement->targets.empty() &&
         known.replacement->uncopied.empty() && !known.awaited;
}

Beginning beginning(const BlockRecovery& recovery, const BlockRecovery::Outcome& outcome) {
  const bool is_ready = std::holds_alternative<BlockRecovery::Ready>(outcome);
  if (Happening::is_before_blocks()) {
    if (is_ready) return {"an append finds enough replicas", ""};
    return {"an append finds too few replicas", "it is broken: another DataNode is wanted"};
  }
  if (is_ready) return {"a node fails: the others go on", "it is broken: the others go on"};
  if (const auto* const given_up = std::get_if<BlockRecovery::GivenUp>(&outcome)) {
    const std::string& why = given_up->why.message();
    if (why.find("broke again after") != std::string::npos) {
      return {"one recovery too many", "it is broken: none is left"};
    }
    return {"the last node fails", "it is broken: none is left"};
  }
  if (std::holds_alternative<BlockRecovery::Discarded>(outcome)) {
    return {"a node fails before a new block's first acknowledgement",
            "it is broken before its first acknowledgement: another DataNode is wanted"};
  }
  if (recovery.state() == BlockRecovery::State::kPausing) {
    return {"a node restarts that is waited for", "it is broken: a DataNode restarts"};
  }
  return {tries_the_last_again() ? "the last node's connection is lost: another one is wanted"
                                 : "a node fails: another one is wanted",
          "it is broken: another DataNode is wanted"};
}

}  // namespace

HFLUSH_EVENT(BlockRecovery, begin, BlockRecovery::Outcome, BlockRecovery* recovery,
             bool is_hflushed, bool may_discard, TimePoint now, Actions& actions) {
  const RecoveryEvent event(*recovery);
  BlockRecovery::Outcome outcome =
      observed_BlockRecovery_begin(recovery, is_hflushed, may_discard, now, actions);
  const Beginning begun = beginning(*recovery, outcome);
  event.add(begun.event, outcome, false);
  Happening::now().means("writing", begun.meaning);
  return outcome;
}

HFLUSH_EVENT(BlockRecovery, found, BlockRecovery::Outcome, BlockRecovery* recovery,
             Result<LocatedBlock> answer, TimePoint now, Actions& actions) {
  const RecoveryEvent event(*recovery);
  const bool was_refused = !answer.ok();
  const bool have_failed = failed_copies() >= 3;
  BlockRecovery::Outcome outcome =
      observed_BlockRecovery_found(recovery, std::move(answer), now, actions);
  using State = BlockRecovery::State;
  const State after = recovery->state();
  const bool continues = std::holds_alternative<BlockRecovery::Continues>(outcome);
  event.add(after == State::kConnecting ? "getAdditionalDatanode: another node"
            : after == State::kPausing  ? "getAdditionalDatanode: none while one can be waited for"
            : after == State::kFindingLater ? "getAdditionalDatanode: none"
            : continues                     ? "getAdditionalDatanode: none after one was waited for"
            : was_refused                   ? "refused"
            : have_failed ? "getAdditionalDatanode: none after three failed copies"
                          : "getAdditionalDatanode: none for too long",
            outcome, true);
  return outcome;
}

HFLUSH_EVENT(BlockRecovery, connected, void, BlockRecovery* recovery, TimePoint now) {
  const RecoveryEvent event(*recovery);
  observed_BlockRecovery_connected(recovery, now);
  event.add("connected", BlockRecovery::Continues{}, false);
}

HFLUSH_EVENT(BlockRecovery, replied, BlockRecovery::Outcome, BlockRecovery* recovery,
             const OperationReply& reply, TimePoint now, Actions& actions) {
  const RecoveryEvent event(*recovery);
  const bool is_third = is_third_try();
  const bool is_made = reply.status == TransferStatus::kSuccess;
  BlockRecovery::Outcome outcome = observed_BlockRecovery_replied(recovery, reply, now, actions);
  const bool goes_on = std::holds_alternative<BlockRecovery::Continues>(outcome);
  event.add(is_made && goes_on             ? "the copy is made: an append has too few still"
            : is_made                      ? "the copy is made"
            : was_third(is_third, outcome) ? third_fails(*recovery)
                                           : "the copy is refused",
            outcome, !is_made);
  return outcome;
}

HFLUSH_EVENT(BlockRecovery, connection_lost, BlockRecovery::Outcome, BlockRecovery* recovery,
             const Status& failure, TimePoint now, Actions& actions) {
  const RecoveryEvent event(*recovery);
  const bool is_third = is_third_try();
  BlockRecovery::Outcome outcome =
      observed_BlockRecovery_connection_lost(recovery, failure, now, actions);
  event.add(was_third(is_third, outcome) ? third_fails(*recovery) : "the connection is lost",
            outcome, true);
  return outcome;
}

HFLUSH_EVENT(BlockRecovery, tick, BlockRecovery::Outcome, BlockRecovery* recovery, TimePoint now,
             Actions& actions) {
  const RecoveryEvent event(*recovery);
  const bool was_pausing = event.before() == BlockRecovery::State::kPausing;
  const bool was_transferring = event.before() == BlockRecovery::State::kTransferring;
  const bool is_third = was_transferring && is_third_try();
  BlockRecovery::Outcome outcome = observed_BlockRecovery_tick(recovery, now, actions);
  const bool continues = std::holds_alternative<BlockRecovery::Continues>(outcome);
  if (continues && recovery->state() == event.before()) return outcome;
  // As in the table, the block of a wait for a restart has acknowledged bytes.
  if (std::holds_alternative<BlockRecovery::Discarded>(outcome)) return outcome;
  event.add(was_pausing && continues ? "the time is over: another one is wanted"
            : was_transferring && was_third(is_third, outcome) ? third_fails(*recovery)
                                                               : "the time is over",
            outcome, was_transferring);
  return outcome;
}

// --- Promises

namespace {

// An event of the sync of finished blocks: how it goes on shows at the end of the file's event.
void happens(const Promises& promises, std::string_view event) {
  Happening::now().promises(to_string(promises.state()), event);
}

}  // namespace

HFLUSH_EVENT(Promises, located, void, Promises* promises, const Result<LocatedBlocks>& answer) {
  const auto is_empty = [](const LocatedBlock& block) { return block.replicas.empty(); };
  const bool is_none = answer.ok() && std::ranges::all_of(answer->blocks, is_empty) &&
                       (!answer->last_block || is_empty(*answer->last_block));
  happens(*promises, !answer.ok() ? "refused" : is_none ? "none" : "getBlockLocations: replicas");
  observed_Promises_located(promises, answer);
}

HFLUSH_EVENT(Promises, connected, void, Promises* promises, TimePoint now) {
  happens(*promises, "connected");
  observed_Promises_connected(promises, now);
}

HFLUSH_EVENT(Promises, replied, void, Promises* promises, const OperationReply& reply,
             TimePoint now, Actions& actions) {
  const bool accepts = reply.status == TransferStatus::kSuccess;
  happens(*promises, accepts ? "the DataNode accepts" : "the DataNode refuses");
  observed_Promises_replied(promises, reply, now, actions);
}

HFLUSH_EVENT(Promises, acked, void, Promises* promises, const PipelineAck& ack, Actions& actions) {
  happens(*promises, FinishedBlocks::is_durable(ack) ? "ack of the sync" : "ack with an error");
  observed_Promises_acked(promises, ack, actions);
}

HFLUSH_EVENT(Promises, connection_lost, void, Promises* promises, const Status& failure,
             Actions& actions) {
  happens(*promises, "the connection is lost");
  observed_Promises_connection_lost(promises, failure, actions);
}

HFLUSH_EVENT(Promises, tick, void, Promises* promises, TimePoint now, Actions& actions) {
  const Promises::State before = promises->state();
  observed_Promises_tick(promises, now, actions);
  if (promises->state() != before) Happening::now().promises(to_string(before), "silence");
}

HFLUSH_EVENT(Promises, drop, void, Promises* promises, Actions& actions) {
  const std::string_view before = to_string(promises->state());
  observed_Promises_drop(promises, actions);
  Transitions::seen().add("Promises", before, "the stream ends", to_string(promises->state()));
}

}  // namespace hflush::sim
