#include "hflush/hdfs/write/pipeline_shell.h"

#include <algorithm>
#include <cerrno>

#include "hflush/env/tcp_connection.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/remote_exception.h"
#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {
namespace {

bool complains(const PipelineAck& ack) noexcept {
  for (std::size_t i = 0; i < ack.replies.size(); ++i) {
    if (ack.replies[i] != TransferStatus::kSuccess) return true;
  }
  return false;
}

// Whether a question by the file's id led elsewhere: a router knows no ids, and may ask another
// namespace for one.
bool is_of_another(const Result<std::optional<LocatedBlocks>>& answer, const ExtendedBlock& block) {
  if (answer.ok()) return !*answer || FinishedBlocks::find(**answer, block) == nullptr;
  const Status& refusal = answer.status();
  return refusal.code() == StatusCode::kNotFound ||
         is_class(refusal.remote_class(), "NoLocationException") ||
         is_class(refusal.remote_class(), "RouterResolveException");
}

}  // namespace

PipelineDriver::PipelineDriver(stream::Reports& reports, PipelineShell& shell,
                               const WriteContext& context, WriteTarget target,
                               const std::string& name_space)
    : machine(std::move(target), context.settings),
      reports_(reports),
      shell_(shell),
      context_(context),
      location_path_(name_space.empty() ? inode_path(machine.target().file_id)
                                        : machine.target().path),
      timer_(context.loop) {}

// --- whatever has happened

void PipelineDriver::settled() {
  for (Open& open : links_) {
    if (open.link) send_output(open);
  }
  shell_.publish(machine.counters());
  note_state();
  if (acknowledged_) reports_.acknowledged(*std::exchange(acknowledged_, std::nullopt));
  const env::TimePoint due = machine.deadline().value_or(env::TimePoint::max());
  timer_.arm_by(due, shell_, &PipelineShell::timer_fired);
}

void PipelineDriver::abandon() {
  machine.abandon(now(), actions);
  shell_.publish(machine.counters());
  for (const Action& action : actions) {
    if (const auto* recover = std::get_if<action::RecoverLease>(&action)) perform(*recover);
  }
  release();
}

void PipelineDriver::release() noexcept {
  context_.name_node.cancel(call_);
  context_.name_node.cancel(locating_);
  timer_.cancel();
  drop_questions();
  for (Open& open : links_) {
    if (open.link) open.link->close();
    open = {};
  }
  publish_links();
  give_up_lease(LeaseRenewer::GiveBack::kAfterSoftLimit);
}

void PipelineDriver::end_lease() noexcept {
  if (std::exchange(has_lease_, false)) {
    context_.leases.end(machine.target().file_id, &shell_);
  }
}

void PipelineDriver::give_up_lease(LeaseRenewer::GiveBack when) noexcept {
  if (std::exchange(has_lease_, false)) {
    context_.leases.give_up(machine.target().file_id, &shell_, when);
  }
}

// It may be early: what is due changes with every packet, and the machine knows.
void PipelineDriver::tick(env::Timer::Arming arming) {
  if (timer_.fired(arming)) machine.tick(now(), actions);
}

// --- the NameNode

template <Request T, typename Feed>
RpcClient::CallId PipelineDriver::call(const T& request, const Feed& feed) {
  return context_.name_node.start(
      request, machine.target().path,
      [shell = shell_.shared_from_this(), feed](Result<typename T::Response> answer) {
        if (!answer.ok()) shell->note(answer.status().message());
        shell->drive([feed, answer = std::move(answer)](PipelineDriver& driver) mutable {
          feed(driver, std::move(answer));
        });
      },
      context_.settings.name_node_patience);
}

void PipelineDriver::perform(const action::AddBlock& add) {
  const WriteTarget& target = machine.target();
  AddBlock request;
  request.path = target.path;
  request.client_name = target.client_name;
  request.previous = add.previous;
  request.excluded = add.excluded;
  request.file_id = target.file_id;
  request.favored_nodes = target.favored_nodes;
  request.no_local_write = target.no_local_write;
  request.ignore_client_locality = target.ignore_client_locality;
  call_ = call(request, [](PipelineDriver& driver, Result<LocatedBlock> answer) {
    driver.machine.allocated(std::move(answer), driver.now(), driver.actions);
  });
}

void PipelineDriver::perform(const action::AbandonBlock& abandon) {
  const WriteTarget& target = machine.target();
  call_ = call(AbandonBlock{abandon.block, target.path, target.client_name, target.file_id},
               [](PipelineDriver& driver, const Result<Nothing>& answer) {
                 driver.machine.block_abandoned(answer.status(), driver.now(), driver.actions);
               });
}

void PipelineDriver::perform(const action::UpdateBlockForPipeline& update) {
  call_ = call(UpdateBlockForPipeline{update.block, machine.target().client_name},
               [](PipelineDriver& driver, Result<LocatedBlock> answer) {
                 driver.machine.reserved(std::move(answer), driver.now(), driver.actions);
               });
}

void PipelineDriver::perform(const action::UpdatePipeline& update) {
  call_ = call(UpdatePipeline{machine.target().client_name, update.old_block, update.new_block,
                              update.replicas},
               [](PipelineDriver& driver, const Result<Nothing>& answer) {
                 driver.machine.registered(answer.status(), driver.now(), driver.actions);
               });
}

void PipelineDriver::perform(const action::GetAdditionalDatanode& find) {
  const WriteTarget& target = machine.target();
  GetAdditionalDatanode request;
  request.path = target.path;
  request.block = find.block;
  request.existing = find.replicas;
  request.excluded = find.excluded;
  request.client_name = target.client_name;
  request.file_id = target.file_id;
  call_ = call(request, [](PipelineDriver& driver, Result<LocatedBlock> answer) {
    driver.machine.found(std::move(answer), driver.now(), driver.actions);
  });
}

void PipelineDriver::perform(const action::Fsync& fsync) {
  const WriteTarget& target = machine.target();
  call_ = call(Fsync{target.path, target.client_name, static_cast<std::int64_t>(fsync.block_length),
                     target.file_id},
               [](PipelineDriver& driver, const Result<Nothing>& answer) {
                 driver.machine.fsynced(answer.status(), driver.now(), driver.actions);
               });
}

void PipelineDriver::perform(const action::Complete& complete) {
  const WriteTarget& target = machine.target();
  call_ = call(Complete{target.path, target.client_name, complete.last, target.file_id},
               [](PipelineDriver& driver, const Result<bool>& answer) {
                 driver.machine.completed(answer, driver.now(), driver.actions);
               });
}

void PipelineDriver::perform(const action::GetBlockLocations& locate) {
  this->locate(location_path_, locate, &PipelineDriver::locating_, &PipelineDriver::located);
}

void PipelineDriver::locate(const std::string& path, const action::GetBlockLocations& what,
                            RpcClient::CallId PipelineDriver::* under_way,
                            void (PipelineDriver::*answered)(Locations)) {
  const bool is_last = path == machine.target().path || !what.block;
  this->*under_way = call(GetBlockLocations{path, what.offset, what.length},
                          [=](PipelineDriver& driver, Locations answer) {
                            if (is_last || !is_of_another(answer, *what.block)) {
                              return (driver.*answered)(std::move(answer));
                            }
                            driver.locate(driver.machine.target().path, what, under_way, answered);
                          });
}

void PipelineDriver::located(Locations answer) {
  if (!answer.ok()) return machine.located(answer.status(), now(), actions);
  if (*answer) return machine.located(**std::move(answer), now(), actions);
  machine.located(Status(StatusCode::kNotFound, "the file is deleted"), now(), actions);
}

// Other clients need not wait for the lease to expire; whether it works is seen by them.
void PipelineDriver::perform(const action::RecoverLease& /*recover*/) {
  give_up_lease(LeaseRenewer::GiveBack::kNow);
}

// --- DataNodes beside their pipeline

void PipelineDriver::perform(const action::AskReplicas& ask) {
  HistoryLine line;
  line << "asking DataNodes about ";
  if (const ExtendedBlock* const block = machine.failures().block()) line << *block;
  line << ", as their pipeline is silent";
  shell_.note(line.text());
  asking_ = ask;
  if (!ask.as_reader) return ask_nodes({});
  if (reader_token_) return ask_nodes(*reader_token_);
  if (finding_token_ != RpcClient::kNoCall) return;
  locate(location_path_, {0, 1, ask.block}, &PipelineDriver::finding_token_,
         &PipelineDriver::found_token);
}

// The token of a writer does not allow to ask.
void PipelineDriver::found_token(Locations answer) {
  finding_token_ = RpcClient::kNoCall;
  if (!asking_ || !asking_->as_reader || !answer.ok() || !*answer) return;
  const LocatedBlock* const found = FinishedBlocks::find(**answer, asking_->block);
  if (found == nullptr) return;
  reader_token_ = found->token;
  ask_nodes(*reader_token_);
}

// Answers of those that are dropped meanwhile, or of a stream that has ended, mean nothing.
void PipelineDriver::ask_nodes(const Token& token) {
  const action::AskReplicas& ask = *asking_;
  for (std::size_t node = 0; node < ask.nodes.size(); ++node) {
    const auto answered = [weak = shell_.weak_from_this(), question = ask.question,
                           node](Result<std::int64_t> length) {
      const std::shared_ptr<PipelineShell> shell = weak.lock();
      if (!shell) return;
      shell->drive([question, node, length = std::move(length)](PipelineDriver& driver) {
        driver.replica_answered(question, node, length);
      });
    };
    questions_.push_back(
        {ask.question, node,
         context_.ask_visible_length(ask.nodes[node], ask.block, token, answered)});
  }
}

void PipelineDriver::replica_answered(QuestionNumber question, std::size_t node,
                                      const Result<std::int64_t>& length) {
  machine.replica_answered(question, node, length);
  std::erase_if(questions_,
                [&](const Question& one) { return one.number == question && one.node == node; });
}

void PipelineDriver::perform(const action::DropQuestions& /*drop*/) { drop_questions(); }

void PipelineDriver::drop_questions() noexcept {
  context_.name_node.cancel(std::exchange(finding_token_, RpcClient::kNoCall));
  asking_.reset();
  reader_token_.reset();
  questions_.clear();
}

// --- the stream

void PipelineDriver::perform(const action::Acknowledged& acknowledged) {
  acknowledged_ = acknowledged.offset;
}

// One event for a flush, and its caller is woken once.
void PipelineDriver::perform(const action::Reached& reached) {
  shell_.publish(machine.counters());
  if (reached.level != stream::Level::kHandedOver && acknowledged_ <= reached.offset) {
    acknowledged_.reset();
  }
  reports_.reached(reached.level, reached.offset);
}

void PipelineDriver::perform(const action::NotReached& not_reached) {
  shell_.publish(machine.counters());
  shell_.note(not_reached.why.message());
  reports_.not_reached(not_reached.level, not_reached.offset, not_reached.why);
}

void PipelineDriver::perform(const action::Finished& /*finished*/) {
  shell_.publish(machine.counters());
  note_state();
  end_lease();
  reports_.finished();
}

void PipelineDriver::perform(const action::Failed& failed) {
  shell_.publish(machine.counters());
  if (failed.is_closed || failed.failure.code() == StatusCode::kLeaseLost) {
    end_lease();
  } else {
    give_up_lease(LeaseRenewer::GiveBack::kAfterSoftLimit);
  }
  note_state();
  shell_.note(failed.failure.message());
  reports_.failed(failed.failure.with_detail(
      machine.failures().failure(machine.acknowledged_offset(), shell_.history())));
}

// --- connections

void PipelineDriver::perform(const action::Connect& connect) {
  const WriteSettings& settings = context_.settings;
  env::TcpConnection::Options options;
  options.connect_timeout = connect.timeout;
  options.send_buffer_bytes = settings.send_buffer_bytes;
  options.no_delay = settings.tcp_no_delay;
  shell_.note("connecting to DataNode " + connect.node.transfer_address());
  const auto free = std::ranges::find(links_, nullptr, &Open::link);
  *free = {std::make_shared<DataNodeLink>(
      connect.connection, context_.loop, shell_.shared_from_this(), context_.resolver,
      connect.node.transfer_endpoint(settings.use_datanode_hostname), options,
      delays_of(settings))};
  publish_links();
  free->link->open();
}

void PipelineDriver::perform(const action::Disconnect& disconnect) {
  Open* const open = link_of(disconnect.connection);
  if (open == nullptr) return;
  open->link->close();
  *open = {};
  publish_links();
}

// --- the history

// What the machine does now, if that is not what it did.
void PipelineDriver::note_state() {
  note_failed_nodes();
  const FileWriter::State state = machine.state();
  std::string_view step;
  if (const BlockWriter* const block = machine.block()) step = to_string(block->state());
  if (const BlockRecovery* const held = machine.recovery()) step = to_string(held->state());
  if (noted_state_ == state && noted_step_ == step) return;
  noted_state_ = state;
  noted_step_ = step;
  HistoryLine line;
  line << to_string(state);
  if (!step.empty()) {
    line << " ";
    if (const ExtendedBlock* const block = machine.failures().block()) line << *block;
    line << ": " << step;
  }
  line << "; " << machine.acknowledged_offset() << " bytes acknowledged";
  shell_.note(line.text());
}

// Those that are not in the history yet.
void PipelineDriver::note_failed_nodes() {
  const FailureRecord& record = machine.failures();
  const std::vector<FailedNode>& nodes = record.nodes();
  auto left = std::min<std::uint64_t>(record.failed() - noted_failed_, nodes.size());
  for (noted_failed_ = record.failed(); left > 0; --left) {
    const FailedNode& node = nodes[nodes.size() - left];
    shell_.note("DataNode " + node.address + " (number " + std::to_string(node.place + 1) +
                " of its pipeline) " + node.reason);
  }
}

PipelineDriver::Open* PipelineDriver::link_of(ConnectionNumber connection) {
  const auto found = std::ranges::find_if(links_, [connection](const Open& open) {
    return open.link && open.link->number() == connection;
  });
  return found == links_.end() ? nullptr : &*found;
}

void PipelineDriver::publish_links() { shell_.publish({links_[0].link, links_[1].link}); }

void PipelineDriver::connected(ConnectionNumber connection) {
  if (Open* const open = link_of(connection)) open->can_send = true;
  machine.connected(connection, now());
}

void PipelineDriver::writable(ConnectionNumber connection) {
  if (Open* const open = link_of(connection)) open->can_send = true;
}

void PipelineDriver::received(ConnectionNumber connection, const DataNodeLink::Received& received) {
  if (received.reply && received.reply->status != TransferStatus::kSuccess) {
    shell_.note("DataNode " + bad_answer(*received.reply).message());
  }
  const auto bad = std::ranges::find_if(received.acks, complains);  // many may follow
  if (bad != received.acks.end()) shell_.note("DataNodes " + bad_answer(*bad).message());
  if (!received.lost.ok()) shell_.note("connection to DataNode: " + received.lost.message());

  const env::TimePoint time = now();
  if (received.reply) machine.replied(connection, *received.reply, time, actions);
  for (const PipelineAck& ack : received.acks) machine.acked(connection, ack, time, actions);
  if (!received.lost.ok()) machine.connection_lost(connection, received.lost, time, actions);
}

void PipelineDriver::send_output(Open& open) {
  std::array<ByteView, env::TcpConnection::kMaxPieces> pieces;
  while (open.can_send) {
    const std::size_t count = machine.output(open.link->number(), pieces);
    if (count == 0) return;
    const std::ptrdiff_t sent = open.link->send_some({pieces.data(), count});
    if (sent > 0) {
      machine.sent(open.link->number(), static_cast<std::size_t>(sent), now());
      continue;
    }
    open.can_send = false;
    if (sent == 0) {
      open.link->want_writable();
    } else {
      open.link->sending_failed(static_cast<int>(-sent));
    }
  }
}

// --- the shell

std::shared_ptr<PipelineShell> PipelineShell::make(WriteContext context, WriteTarget target,
                                                   std::string name_space) {
  const std::uint64_t file_id = target.file_id;
  auto shell = std::make_shared<PipelineShell>(std::move(context), std::move(target), name_space);
  shell->context_.leases.begin(file_id, std::move(name_space), shell);
  return shell;
}

PipelineShell::PipelineShell(WriteContext context, WriteTarget target,
                             const std::string& name_space)
    : context_(std::move(context)),
      driven_(Status::from_errno(ENOMEM, "write", target.path), *this, context_, std::move(target),
              name_space) {}

void PipelineShell::abandon() noexcept {
  driven_.abandon([](PipelineDriver& driver) { driver.abandon(); });
}

void PipelineShell::lease_lost(const Status& failure) {
  drive([failure](PipelineDriver& driver) {
    driver.machine.lease_lost(failure, driver.now(), driver.actions);
  });
}

// After the process was stopped for a while there may be answers that no thread has read yet: they
// come before the conclusion that there is none.
void PipelineShell::timer_fired(env::Timer::Arming arming) {
  Links links;
  {
    MutexLock lock(mutex_);
    links = links_;
  }
  for (const std::shared_ptr<DataNodeLink>& link : links) {
    if (link) link->on_readable();
  }
  drive([arming](PipelineDriver& driver) { driver.tick(arming); });
}

void PipelineShell::connected(ConnectionNumber connection) {
  drive([connection](PipelineDriver& driver) { driver.connected(connection); });
}

void PipelineShell::writable(ConnectionNumber connection) {
  drive([connection](PipelineDriver& driver) { driver.writable(connection); });
}

void PipelineShell::received(ConnectionNumber connection, DataNodeLink::Received received) {
  drive([connection, received = std::move(received)](PipelineDriver& driver) {
    driver.received(connection, received);
  });
}

void PipelineShell::publish(const WriteCounters& counters) {
  MutexLock lock(mutex_);
  counters_ = counters;
}

void PipelineShell::publish(Links links) {  // those before are destroyed without the lock
  MutexLock lock(mutex_);
  links_.swap(links);
}

WriteCounters PipelineShell::counters() const {
  MutexLock lock(mutex_);
  return counters_;
}

void PipelineShell::note(std::string_view what) noexcept {
  const env::TimePoint now = loop().clock().now();
  MutexLock lock(mutex_);
  history_.note(now, what);
}

stream::PastEvents PipelineShell::history() const {
  MutexLock lock(mutex_);
  return history_.events();
}

}  // namespace hflush::hdfs
