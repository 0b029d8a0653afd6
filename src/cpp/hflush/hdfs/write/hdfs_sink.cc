#include "hflush/hdfs/write/hdfs_sink.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/process.h"
#include "hflush/env/tcp_connection.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {
namespace {

// A reply or an ack: some hundred bytes, unless the DataNode explains itself.
constexpr std::size_t kMaxMessage = 64U << 10U;
// Acks take 13 bytes or so: this holds those of a whole window.
constexpr std::size_t kReceiveAtOnce = 4096;
// Sealed bytes that are handed over at once.
constexpr std::size_t kBatchBytes = 512U << 10U;

// What one receive has brought.
struct Received {
  std::optional<OperationReply> reply;
  std::vector<PipelineAck> acks;
  Status lost;
};

}  // namespace

stream::Geometry write_geometry(const WriteTarget& target, const WriteSettings& settings) noexcept {
  stream::Geometry geometry;
  geometry.checksum = target.checksum;
  geometry.bytes_per_checksum = target.bytes_per_checksum;  // DataNodes align NULL sums too
  const std::size_t chunk = target.bytes_per_checksum;
  const std::size_t packet =
      std::max<std::size_t>(std::min(settings.packet_size, settings.max_packet_size), 1);
  const std::size_t body = packet - std::min(packet, PacketHeader::kMaxSize);
  geometry.packet_bytes = std::max<std::size_t>(1, body / (chunk + crc::kSumSize)) * chunk;
  // At least two: the packet being filled and one on its way.
  const std::size_t packets = std::max<std::size_t>(2, settings.max_packets_in_flight);
  geometry.window_bytes = packets * geometry.packet_bytes;
  geometry.batch_bytes =
      std::min(std::max(kBatchBytes, geometry.packet_bytes), geometry.window_bytes);
  geometry.block_bytes = target.block_size;
  geometry.start = target.start;
  geometry.block_start = target.partial_block ? target.partial_block->offset : target.start;
  return geometry;
}

class HdfsSink::Core final : public LeaseHolder, public std::enable_shared_from_this<Core> {
 public:
  Core(WriteContext context, WriteTarget target, const std::string& name_space)
      : context_(std::move(context)),
        out_of_memory_(Status::from_errno(ENOMEM, "write", target.path)),
        location_path_(name_space.empty() ? inode_path(target.file_id) : target.path),
        machine_(std::move(target), context_.settings) {}

  void begin_lease(std::string name_space) {
    context_.leases.begin(machine_.target().file_id, std::move(name_space), weak_from_this());
  }

  env::EventLoop& loop() const noexcept { return context_.loop; }

  // Gives the machine an event, `feed(machine, now, actions)`, and does what it asks for; or leaves
  // that to the thread that is at it.
  template <typename Feed>
  void drive(Feed feed) HFLUSH_EXCLUDES(mutex_);
  // There was no memory for an event: the stream fails.
  void event_lost() noexcept HFLUSH_EXCLUDES(mutex_);
  // The same for the stream's own calls, which say where events go.
  template <typename Feed>
  void drive_for(stream::SinkEvents& events, Feed feed);

  void lease_lost(const Status& failure) override {
    drive([failure](WritePipeline& machine, env::TimePoint, Actions& actions) {
      machine.lease_lost(failure, actions);
    });
  }
  void abandon() noexcept HFLUSH_EXCLUDES(mutex_);
  void add_statistics(Statistics& statistics) const HFLUSH_EXCLUDES(mutex_);

 private:
  class Link;
  using Links = std::array<std::shared_ptr<Link>, 2>;

  // Whether this thread drives; if not, the event is in the inbox, or nobody takes it any more.
  template <typename Feed>
  bool takes_turn(Feed& feed) HFLUSH_EXCLUDES(mutex_);
  void run() HFLUSH_EXCLUDES(mutex_);
  void settle();
  void send_output(Link& link);
  void arm_timer();
  void timer_fired();
  void publish_links() HFLUSH_EXCLUDES(mutex_);
  void close_links() noexcept HFLUSH_EXCLUDES(mutex_);
  // The file is closed, or somebody else's.
  void end_lease() noexcept;
  // It stays open.
  void give_up_lease(LeaseRenewer::GiveBack when) noexcept;
  void publish_counters() HFLUSH_EXCLUDES(mutex_);
  void fail_without_memory() noexcept HFLUSH_EXCLUDES(mutex_);
  std::shared_ptr<Link>* link_of(ConnectionNumber connection);

  template <Request T, typename Feed>
  RpcClient::CallId call(const T& request, Feed feed);

  void perform(const action::AddBlock& add);
  void perform(const action::AbandonBlock& abandon);
  void perform(const action::UpdateBlockForPipeline& update);
  void perform(const action::UpdatePipeline& update);
  void perform(const action::Fsync& fsync);
  void perform(const action::Complete& complete);
  void perform(const action::GetBlockLocations& locate);
  void perform(const action::RecoverLease& recover);
  void perform(const action::Connect& connect);
  void perform(const action::Disconnect& disconnect);
  void perform(const action::Acknowledged& acknowledged);
  void perform(const action::Reached& reached);
  void perform(const action::NotReached& not_reached);
  void perform(const action::Finished& finished);
  void perform(const action::Failed& failed);

  const WriteContext context_;
  const Status out_of_memory_;  // made while there is memory
  // By which the NameNode is asked where the file's blocks are: one that a rename leaves as it is,
  // but routers know only names.
  const std::string location_path_;

  mutable Mutex mutex_;
  CondVar idle_;  // nobody drives
  bool driving_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool ended_ HFLUSH_GUARDED_BY(mutex_) = false;    // abandoned or failed: nothing more is taken
  bool starved_ HFLUSH_GUARDED_BY(mutex_) = false;  // there was no memory for an event
  stream::SinkEvents* stream_ HFLUSH_GUARDED_BY(mutex_) = nullptr;  // to be told of that
  std::vector<std::function<void()>> inbox_ HFLUSH_GUARDED_BY(mutex_);
  Links open_links_ HFLUSH_GUARDED_BY(mutex_);        // links_, for the loop thread
  WriteCounters counters_ HFLUSH_GUARDED_BY(mutex_);  // as the stream last heard, or later

  // Whoever drives has these to itself.
  WritePipeline machine_;
  Actions actions_;
  Actions performing_;  // in turn with actions_, for its memory
  Links links_;
  stream::SinkEvents* events_ = nullptr;       // none before the stream's first call
  std::optional<std::uint64_t> acknowledged_;  // to be told
  Status untold_;                              // a failure before the stream's first call
  RpcClient::CallId call_ = RpcClient::kNoCall;
  RpcClient::CallId locating_ = RpcClient::kNoCall;
  env::EventLoop::TimerId timer_ = 0;
  env::TimePoint timer_at_;
  bool has_lease_ = true;
};

// One connection to a DataNode. Events come on the loop thread.
class HdfsSink::Core::Link final : public env::TcpConnection::Events,
                                   public std::enable_shared_from_this<Link> {
 public:
  Link(std::shared_ptr<Core> core, ConnectionNumber its_number)
      : number(its_number), core_(std::move(core)) {}

  void open(const action::Connect& connect);
  void close() noexcept;
  // As TcpConnection has it.
  std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept;
  void want_writable();
  void sending_failed(int error_number);

  void on_connected() override;
  void on_readable() override;
  void on_writable() override;
  void on_connect_failed(Status failure) override;

  const ConnectionNumber number;
  bool can_send = false;  // the driver's

 private:
  std::shared_ptr<env::TcpConnection> connection() HFLUSH_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return connection_;
  }
  // Does `what` on the loop thread, where no failed allocation may get past this. Nothing else is
  // thrown: an action is never without a value.
  template <typename What>
  void or_lost(What what) noexcept {  // NOLINT(bugprone-exception-escape)
    try {
      what();
    } catch (const std::bad_alloc&) {
      core_->event_lost();
    }
  }
  Received receive(env::TcpConnection& connection);
  void parse(ByteView bytes, Received& received);
  void tell(Received received);

  const std::shared_ptr<Core> core_;

  Mutex mutex_;
  std::shared_ptr<env::TcpConnection> connection_ HFLUSH_GUARDED_BY(mutex_);

  // The loop thread's.
  bool replied_ = false;
  std::string partial_;  // the beginning of a message
};

// --- whose turn it is

template <typename Feed>
bool HdfsSink::Core::takes_turn(Feed& feed) {
  MutexLock lock(mutex_);
  if (ended_) return false;
  if (!driving_) return driving_ = true;
  inbox_.emplace_back([this, late = std::make_shared<Feed>(std::move(feed))] {
    (*late)(machine_, context_.loop.clock().now(), actions_);
  });
  return false;
}

template <typename Feed>
void HdfsSink::Core::drive(Feed feed) {
  try {
    if (!takes_turn(feed)) return;
  } catch (const std::bad_alloc&) {
    event_lost();
    return;
  }
  try {
    feed(machine_, context_.loop.clock().now(), actions_);
    run();
  } catch (const std::bad_alloc&) {
    fail_without_memory();
  }
}

void HdfsSink::Core::event_lost() noexcept {
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    starved_ = true;
    if (driving_) return;  // the driver sees to it
    driving_ = true;
  }
  fail_without_memory();
}

template <typename Feed>
void HdfsSink::Core::drive_for(stream::SinkEvents& events, Feed feed) {
  bool untold = false;
  {
    MutexLock lock(mutex_);
    untold = ended_ && starved_ && stream_ == nullptr;
    stream_ = &events;
  }
  if (untold) return events.failed(out_of_memory_);
  drive([this, &events, feed = std::move(feed)](WritePipeline& machine, env::TimePoint now,
                                                Actions& actions) mutable {
    events_ = &events;
    if (!untold_.ok()) events.failed(std::exchange(untold_, Status()));
    feed(machine, now, actions);
  });
}

void HdfsSink::Core::run() {
  std::vector<std::function<void()>> late;
  while (true) {
    settle();
    late.clear();
    {
      MutexLock lock(mutex_);
      if (starved_) break;
      if (inbox_.empty() || ended_) {
        counters_ = machine_.counters();
        driving_ = false;
        if (ended_) idle_.notify_all();
        return;
      }
      late.swap(inbox_);
    }
    for (const std::function<void()>& event : late) event();
  }
  fail_without_memory();
}

// Does what the machine asks for, until it asks for nothing more.
void HdfsSink::Core::settle() {
  do {
    performing_.swap(actions_);
    for (const Action& action : performing_) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
    performing_.clear();
    for (const std::shared_ptr<Link>& link : links_) {
      if (link) send_output(*link);
    }
  } while (!actions_.empty());
  if (acknowledged_ && events_ != nullptr) {
    events_->acknowledged(*std::exchange(acknowledged_, std::nullopt));
  }
  arm_timer();
}

void HdfsSink::Core::abandon() noexcept {
  std::vector<std::function<void()>> dropped;
  {
    MutexLock lock(mutex_);
    const bool has_ended = std::exchange(ended_, true);
    while (driving_) idle_.wait(mutex_);
    if (has_ended) return;
    dropped.swap(inbox_);
  }
  // Nobody comes any more: what the driver has is this thread's.
  events_ = nullptr;
  try {
    Actions last;
    machine_.abandon(last);
    for (const Action& action : last) {
      if (const auto* recover = std::get_if<action::RecoverLease>(&action)) perform(*recover);
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // What the machine holds is let go with it.
  }
  context_.name_node.cancel(call_);
  context_.name_node.cancel(locating_);
  context_.loop.cancel(timer_);
  close_links();
  give_up_lease(LeaseRenewer::GiveBack::kAfterSoftLimit);
}

void HdfsSink::Core::fail_without_memory() noexcept {
  stream::SinkEvents* told = nullptr;
  {
    MutexLock lock(mutex_);
    starved_ = ended_ = true;
    told = stream_;
  }
  if (told != nullptr) told->failed(out_of_memory_);
  close_links();
  give_up_lease(LeaseRenewer::GiveBack::kAfterSoftLimit);
  std::vector<std::function<void()>> dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  driving_ = false;
  dropped.swap(inbox_);
  idle_.notify_all();
}

void HdfsSink::Core::end_lease() noexcept {
  if (std::exchange(has_lease_, false)) {
    context_.leases.end(machine_.target().file_id, this);
  }
}

void HdfsSink::Core::give_up_lease(LeaseRenewer::GiveBack when) noexcept {
  if (std::exchange(has_lease_, false)) {
    context_.leases.give_up(machine_.target().file_id, this, when);
  }
}

void HdfsSink::Core::close_links() noexcept {
  for (std::shared_ptr<Link>& link : links_) {
    if (link) link->close();
    link.reset();
  }
  publish_links();
}

void HdfsSink::Core::publish_links() {
  Links open_links = links_;  // those before are destroyed without the lock
  MutexLock lock(mutex_);
  open_links_.swap(open_links);
}

// Before the stream is told of what they count.
void HdfsSink::Core::publish_counters() {
  MutexLock lock(mutex_);
  counters_ = machine_.counters();
}

void HdfsSink::Core::add_statistics(Statistics& statistics) const {
  WriteCounters counters;
  {
    MutexLock lock(mutex_);
    counters = counters_;
  }
  statistics["hdfs_packets_sent"] = counters.packets_sent;
  statistics["hdfs_bytes_sent"] = counters.bytes_sent;
  statistics["hdfs_heartbeats"] = counters.heartbeats;
  statistics["hdfs_acks"] = counters.acks;
  statistics["hdfs_blocks"] = counters.blocks;
  statistics["hdfs_pipelines"] = counters.pipelines;
  statistics["hdfs_block_retries"] = counters.block_retries;
  statistics["hdfs_allocate_retries"] = counters.allocate_retries;
  statistics["hdfs_complete_retries"] = counters.complete_retries;
  statistics["hdfs_namenode_fsyncs"] = counters.fsyncs;
  statistics["hdfs_replicas_synced_afterwards"] = counters.synced_afterwards;
  statistics["hdfs_replicas_left_unsynced"] = counters.left_unsynced;
  statistics["hdfs_congestion_delays"] = counters.congestion_delays;
  counters.ack_latency.add_to(statistics, "hdfs_ack_latency");
}

// --- time

// The timer may be early: what is due changes with every packet, and the machine knows.
void HdfsSink::Core::arm_timer() {
  const std::optional<env::TimePoint> deadline = machine_.deadline();
  if (!deadline || (timer_ != 0 && timer_at_ <= *deadline)) return;
  context_.loop.cancel(timer_);
  timer_at_ = *deadline;
  timer_ = context_.loop.run_at(*deadline, [self = weak_from_this()] {
    if (const std::shared_ptr<Core> core = self.lock()) core->timer_fired();
  });
}

// After the process was stopped for a while there may be answers that nobody has read yet: they
// come before the conclusion that nobody answers.
void HdfsSink::Core::timer_fired() {
  Links open_links;
  {
    MutexLock lock(mutex_);
    open_links = open_links_;
  }
  for (const std::shared_ptr<Link>& link : open_links) {
    if (link) link->on_readable();
  }
  drive([this](WritePipeline& machine, env::TimePoint now, Actions& actions) {
    timer_ = 0;
    machine.tick(now, actions);
  });
}

// --- the NameNode

template <Request T, typename Feed>
RpcClient::CallId HdfsSink::Core::call(const T& request, Feed feed) {
  return context_.name_node.start(
      request, machine_.target().path,
      [self = shared_from_this(), feed](Result<typename T::Response> answer) {
        self->drive([feed, answer = std::move(answer)](WritePipeline& machine, env::TimePoint now,
                                                       Actions& actions) mutable {
          feed(machine, std::move(answer), now, actions);
        });
      });
}

void HdfsSink::Core::perform(const action::AddBlock& add) {
  const WriteTarget& target = machine_.target();
  AddBlock request;
  request.path = target.path;
  request.client_name = target.client_name;
  request.previous = add.previous;
  request.excluded = add.excluded;
  request.file_id = target.file_id;
  request.favored_nodes = target.favored_nodes;
  request.no_local_write = target.no_local_write;
  request.ignore_client_locality = target.ignore_client_locality;
  call_ =
      call(request, [](WritePipeline& machine, Result<LocatedBlock> answer, env::TimePoint now,
                       Actions& actions) { machine.allocated(std::move(answer), now, actions); });
}

void HdfsSink::Core::perform(const action::AbandonBlock& abandon) {
  const WriteTarget& target = machine_.target();
  call_ = call(AbandonBlock{abandon.block, target.path, target.client_name, target.file_id},
               [](WritePipeline& machine, const Result<Nothing>& answer, env::TimePoint now,
                  Actions& actions) { machine.block_abandoned(answer.status(), now, actions); });
}

void HdfsSink::Core::perform(const action::UpdateBlockForPipeline& update) {
  call_ = call(UpdateBlockForPipeline{update.block, machine_.target().client_name},
               [](WritePipeline& machine, Result<LocatedBlock> answer, env::TimePoint,
                  Actions& actions) { machine.reserved(std::move(answer), actions); });
}

void HdfsSink::Core::perform(const action::UpdatePipeline& update) {
  call_ = call(UpdatePipeline{machine_.target().client_name, update.old_block, update.new_block,
                              update.replicas},
               [](WritePipeline& machine, const Result<Nothing>& answer, env::TimePoint now,
                  Actions& actions) { machine.registered(answer.status(), now, actions); });
}

void HdfsSink::Core::perform(const action::Fsync& fsync) {
  const WriteTarget& target = machine_.target();
  call_ = call(Fsync{target.path, target.client_name, static_cast<std::int64_t>(fsync.block_length),
                     target.file_id},
               [](WritePipeline& machine, const Result<Nothing>& answer, env::TimePoint now,
                  Actions& actions) { machine.fsynced(answer.status(), now, actions); });
}

void HdfsSink::Core::perform(const action::Complete& complete) {
  const WriteTarget& target = machine_.target();
  call_ = call(Complete{target.path, target.client_name, complete.last, target.file_id},
               [](WritePipeline& machine, const Result<bool>& answer, env::TimePoint now,
                  Actions& actions) { machine.completed(answer, now, actions); });
}

void HdfsSink::Core::perform(const action::GetBlockLocations& locate) {
  locating_ =
      call(GetBlockLocations{location_path_, locate.offset, locate.length},
           [](WritePipeline& machine, Result<std::optional<LocatedBlocks>> answer,
              env::TimePoint now, Actions& actions) {
             if (!answer.ok()) return machine.located(answer.status(), now, actions);
             if (*answer) return machine.located(**std::move(answer), now, actions);
             machine.located(Status(StatusCode::kNotFound, "the file is deleted"), now, actions);
           });
}

// Others need not wait for the lease to expire; whether it works is theirs to see.
void HdfsSink::Core::perform(const action::RecoverLease& /*recover*/) {
  give_up_lease(LeaseRenewer::GiveBack::kNow);
}

// --- the stream

void HdfsSink::Core::perform(const action::Acknowledged& acknowledged) {
  acknowledged_ = acknowledged.offset;
}

// One event for a flush, and its caller is woken once.
void HdfsSink::Core::perform(const action::Reached& reached) {
  publish_counters();
  if (reached.level != stream::Level::kHandedOver && acknowledged_ <= reached.offset) {
    acknowledged_.reset();
  }
  events_->reached(reached.level, reached.offset);
}

void HdfsSink::Core::perform(const action::NotReached& not_reached) {
  publish_counters();
  events_->not_reached(not_reached.level, not_reached.offset, not_reached.why);
}

void HdfsSink::Core::perform(const action::Finished& /*finished*/) {
  publish_counters();
  end_lease();
  acknowledged_.reset();
  events_->finished();
}

void HdfsSink::Core::perform(const action::Failed& failed) {
  publish_counters();
  if (failed.is_closed || failed.failure.code() == StatusCode::kLeaseLost) {
    end_lease();
  } else {
    give_up_lease(LeaseRenewer::GiveBack::kAfterSoftLimit);
  }
  acknowledged_.reset();
  if (events_ != nullptr) {
    events_->failed(failed.failure);
  } else {
    untold_ = failed.failure;
  }
}

// --- connections

void HdfsSink::Core::perform(const action::Connect& connect) {
  const auto free = std::ranges::find(links_, nullptr);
  *free = std::make_shared<Link>(shared_from_this(), connect.connection);
  publish_links();
  (*free)->open(connect);
}

void HdfsSink::Core::perform(const action::Disconnect& disconnect) {
  std::shared_ptr<Link>* const link = link_of(disconnect.connection);
  if (link == nullptr) return;
  (*link)->close();
  link->reset();
  publish_links();
}

std::shared_ptr<HdfsSink::Core::Link>* HdfsSink::Core::link_of(ConnectionNumber connection) {
  const auto found = std::ranges::find_if(links_, [connection](const std::shared_ptr<Link>& link) {
    return link && link->number == connection;
  });
  return found == links_.end() ? nullptr : &*found;
}

void HdfsSink::Core::send_output(Link& link) {
  std::array<ByteView, env::TcpConnection::kMaxPieces> pieces;
  while (link.can_send) {
    const std::size_t count = machine_.output(link.number, pieces);
    if (count == 0) return;
    const std::ptrdiff_t sent = link.send_some({pieces.data(), count});
    if (sent > 0) {
      machine_.sent(link.number, static_cast<std::size_t>(sent), context_.loop.clock().now());
      continue;
    }
    link.can_send = false;
    if (sent == 0) {
      link.want_writable();
    } else {
      link.sending_failed(static_cast<int>(-sent));
    }
  }
}

void HdfsSink::Core::Link::open(const action::Connect& connect) {
  const WriteSettings& settings = core_->context_.settings;
  env::TcpConnection::Options options;
  options.connect_timeout = connect.timeout;
  options.send_buffer_bytes = settings.send_buffer_bytes;
  options.no_delay = settings.tcp_no_delay;
  MutexLock lock(mutex_);
  connection_ = env::TcpConnection::connect(
      core_->context_.loop, core_->context_.resolver,
      connect.node.transfer_endpoint(settings.use_datanode_hostname), options, shared_from_this());
}

void HdfsSink::Core::Link::close() noexcept {
  std::shared_ptr<env::TcpConnection> ended;
  {
    MutexLock lock(mutex_);
    ended = std::move(connection_);
  }
  if (ended) ended->close();
}

std::ptrdiff_t HdfsSink::Core::Link::send_some(std::span<const ByteView> pieces) noexcept {
  const std::shared_ptr<env::TcpConnection> open = connection();
  return open ? open->send_some(pieces) : -ENOTCONN;
}

void HdfsSink::Core::Link::want_writable() {
  if (const std::shared_ptr<env::TcpConnection> open = connection()) open->want_writable();
}

// What the DataNode has said before it went is heard first: it may name the node that failed.
void HdfsSink::Core::Link::sending_failed(int error_number) {
  core_->context_.loop.post([self = shared_from_this(), error_number] {
    self->on_readable();
    self->or_lost([&] {
      Received received;
      received.lost = Status::from_errno(error_number, "send", {});
      self->tell(std::move(received));
    });
  });
}

void HdfsSink::Core::Link::on_connected() {
  core_->drive([self = shared_from_this()](WritePipeline& machine, env::TimePoint now, Actions&) {
    self->can_send = true;
    machine.connected(self->number, now);
  });
}

void HdfsSink::Core::Link::on_writable() {
  core_->drive([self = shared_from_this()](WritePipeline&, env::TimePoint, Actions&) {
    self->can_send = true;
  });
}

void HdfsSink::Core::Link::on_connect_failed(Status failure) {
  or_lost([&] {
    Received received;
    received.lost = std::move(failure);
    tell(std::move(received));
  });
}

// Once for each readiness: what is left is reported again.
void HdfsSink::Core::Link::on_readable() {
  const std::shared_ptr<env::TcpConnection> open = connection();
  if (!open) return;
  or_lost([&] {
    Received received = receive(*open);
    if (received.reply || !received.acks.empty() || !received.lost.ok()) tell(std::move(received));
  });
}

Received HdfsSink::Core::Link::receive(env::TcpConnection& connection) {
  Received received;
  std::array<std::byte, kReceiveAtOnce> buffer;
  const std::ptrdiff_t size = connection.receive_some(buffer);
  if (size > 0) {
    parse(ByteView(buffer).first(static_cast<std::size_t>(size)), received);
  } else if (size == 0) {
    received.lost =
        Status(StatusCode::kEndOfFile,
               "the DataNode " + connection.endpoint().to_string() + " closed the connection");
  } else if (size != -EAGAIN && size != -ENOTCONN) {
    received.lost = Status::from_errno(static_cast<int>(-size),
                                       "receive from " + connection.endpoint().to_string(), {});
  }
  return received;
}

void HdfsSink::Core::Link::parse(ByteView bytes, Received& received) {
  std::string joined;
  if (!partial_.empty()) {
    joined = std::move(partial_);
    joined += as_text(bytes);
    bytes = as_bytes(joined);
  }
  while (received.lost.ok()) {
    const Result<std::size_t> size = delimited_size(bytes, kMaxMessage);
    if (!size.ok()) {
      received.lost = size.status();
    } else if (*size == 0) {
      break;
    } else if (!std::exchange(replied_, true)) {
      Result<OperationReply> reply = decode_operation_reply(bytes.first(*size));
      received.lost = reply.status();
      if (reply.ok()) received.reply = *std::move(reply);
    } else {
      Result<PipelineAck> ack = decode_pipeline_ack(bytes.first(*size));
      received.lost = ack.status();
      if (ack.ok()) received.acks.push_back(*std::move(ack));
    }
    if (received.lost.ok()) bytes = bytes.subspan(*size);
  }
  partial_.assign(as_text(bytes));
}

void HdfsSink::Core::Link::tell(Received received) {
  core_->drive([number = number, received = std::move(received)](
                   WritePipeline& machine, env::TimePoint now, Actions& actions) {
    if (received.reply) machine.replied(number, *received.reply, now, actions);
    for (const PipelineAck& ack : received.acks) machine.acked(number, ack, now, actions);
    if (!received.lost.ok()) machine.connection_lost(number, received.lost, now, actions);
  });
}

// --- the sink

HdfsSink::HdfsSink(WriteContext context, WriteTarget target, std::string name_space)
    : geometry_(write_geometry(target, context.settings)),
      generation_(env::Process::generation()),
      core_(std::make_shared<Core>(std::move(context), std::move(target), name_space)) {
  core_->begin_lease(std::move(name_space));
}

HdfsSink::~HdfsSink() {
  if (generation_ == env::Process::generation()) {
    core_->abandon();
  } else {
    env::leave_to_parent(std::move(core_));
  }
}

stream::SinkTraits HdfsSink::traits() const {
  return {geometry_, {"hsync", "dropbehind"}, &core_->loop()};
}

// A packet stays until it is acknowledged: nothing is taken from the caller's memory.
std::size_t HdfsSink::put(stream::Batch batch, std::optional<stream::Level> level,
                          stream::SinkEvents& events) {
  std::vector<stream::Packet> taken(std::make_move_iterator(batch.packets.begin()),
                                    std::make_move_iterator(batch.packets.end()));
  core_->drive_for(events,
                   [level, taken = std::move(taken)](WritePipeline& machine, env::TimePoint now,
                                                     Actions& actions) mutable {
                     if (level) return machine.sync(*level, taken, now, actions);
                     machine.put(taken, now, actions);
                   });
  return 0;
}

void HdfsSink::finish(stream::SinkEvents& events) {
  core_->drive_for(events, [](WritePipeline& machine, env::TimePoint now, Actions& actions) {
    machine.finish(now, actions);
  });
}

Status HdfsSink::abandon() noexcept {
  core_->abandon();
  return {};
}

void HdfsSink::advise(std::optional<bool> drop_behind) {
  core_->drive([drop_behind](WritePipeline& machine, env::TimePoint, Actions&) {
    machine.set_drop_behind(drop_behind);
  });
}

void HdfsSink::add_statistics(Statistics& statistics) const { core_->add_statistics(statistics); }

}  // namespace hflush::hdfs
