// PipelineShell: does what the FileWriter of one stream decides. It reports to it the events of the
// stream, the NameNode, the DataNodes, the lease and the clock. PipelineDriver: what only the
// thread that drives may touch (stream/driven.h).
//
// The caller's thread sends, as much as the kernel takes; the loop thread sends what is left when
// there is room again, reads the acknowledgements, and is where answers and timers arrive.
//
// Thread-safe. The mutex guards what others than the driver read; no lock is held across a system
// call, a call to the NameNode or a report to the stream. Where an allocation fails the stream
// fails: nothing is thrown on the loop thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/executor.h"
#include "hflush/env/timer.h"
#include "hflush/hdfs/rpc/ask_visible_length.h"
#include "hflush/hdfs/rpc/lease_renewer.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/write/datanode_link.h"
#include "hflush/hdfs/write/file_writer.h"
#include "hflush/hdfs/write/history.h"
#include "hflush/stream/driven.h"

namespace hflush::hdfs {

// What a sink needs of its client.
struct WriteContext {
  std::shared_ptr<void> owner;  // keeps the rest alive
  env::EventLoop& loop;
  env::Executor& resolver;
  RpcClient& name_node;
  LeaseRenewer& leases;
  const WriteSettings& settings;
  const AskVisibleLength& ask_visible_length;
};

class PipelineShell;

class PipelineDriver {
 public:
  PipelineDriver(stream::Reports& reports, PipelineShell& shell, const WriteContext& context,
                 WriteTarget target, const std::string& name_space);

  env::TimePoint now() const { return context_.loop.clock().now(); }
  void connected(ConnectionNumber connection);
  void writable(ConnectionNumber connection);
  void received(ConnectionNumber connection, const DataNodeLink::Received& received);
  void tick(env::Timer::Arming arming);
  void abandon();

  void perform(const action::AddBlock& add);
  void perform(const action::AbandonBlock& abandon);
  void perform(const action::UpdateBlockForPipeline& update);
  void perform(const action::UpdatePipeline& update);
  void perform(const action::GetAdditionalDatanode& find);
  void perform(const action::Fsync& fsync);
  void perform(const action::Complete& complete);
  void perform(const action::GetBlockLocations& locate);
  void perform(const action::RecoverLease& recover);
  void perform(const action::AskReplicas& ask);
  void perform(const action::DropQuestions& drop);
  void perform(const action::Connect& connect);
  void perform(const action::Disconnect& disconnect);
  void perform(const action::Acknowledged& acknowledged);
  void perform(const action::Reached& reached);
  void perform(const action::NotReached& not_reached);
  void perform(const action::Finished& finished);
  void perform(const action::Failed& failed);
  void settled();
  void release() noexcept;

  FileWriter machine;
  Actions actions;

 private:
  struct Open {
    std::shared_ptr<DataNodeLink> link;
    bool can_send = false;
  };
  // What a DataNode is asked beside its pipeline.
  struct Question {
    QuestionNumber number;
    std::size_t node;  // its place in the question
    std::shared_ptr<void> under_way;
  };

  template <Request T, typename Feed>
  RpcClient::CallId call(const T& request, const Feed& feed);
  using Locations = Result<std::optional<LocatedBlocks>>;
  void locate(const std::string& path, const action::GetBlockLocations& what,
              RpcClient::CallId PipelineDriver::* under_way,
              void (PipelineDriver::*answered)(Locations));
  void located(Locations answer);
  void found_token(Locations answer);
  void ask_nodes(const Token& token);
  void drop_questions() noexcept;
  void replica_answered(QuestionNumber question, std::size_t node,
                        const Result<std::int64_t>& length);
  void note_state();
  void note_failed_nodes();
  Open* link_of(ConnectionNumber connection);
  void publish_links();
  void send_output(Open& open);
  // The file is closed, or another client's.
  void end_lease() noexcept;
  // It stays open.
  void give_up_lease(LeaseRenewer::GiveBack when) noexcept;

  stream::Reports& reports_;
  PipelineShell& shell_;
  const WriteContext& context_;
  // By which the NameNode is asked where the file's blocks are: one that a rename leaves as it is,
  // but routers know only names. A router need not say that it is one: where the id leads
  // elsewhere, it is asked by the name, too.
  const std::string location_path_;

  std::array<Open, 2> links_;
  std::optional<std::uint64_t> acknowledged_;  // to be reported
  RpcClient::CallId call_ = RpcClient::kNoCall;
  RpcClient::CallId locating_ = RpcClient::kNoCall;
  std::optional<action::AskReplicas> asking_;  // what is asked now
  std::optional<Token> reader_token_;          // for it
  RpcClient::CallId finding_token_ = RpcClient::kNoCall;
  std::vector<Question> questions_;  // without an answer yet
  env::Timer timer_;
  bool has_lease_ = true;
  std::optional<FileWriter::State> noted_state_;
  std::string_view noted_step_;     // of a block or its recovery
  std::uint64_t noted_failed_ = 0;  // DataNodes
};

class PipelineShell final : public LeaseHolder,
                            public DataNodeLink::Listener,
                            public std::enable_shared_from_this<PipelineShell> {
 public:
  using Links = std::array<std::shared_ptr<DataNodeLink>, 2>;

  // Begins to renew the lease.
  static std::shared_ptr<PipelineShell> make(WriteContext context, WriteTarget target,
                                             std::string name_space);
  // As make() calls it.
  PipelineShell(WriteContext context, WriteTarget target, const std::string& name_space);

  env::EventLoop& loop() const noexcept { return context_.loop; }

  // `feed(driver)`, as Driven has it.
  template <typename Feed>
  void drive(Feed feed) {
    driven_.drive(std::move(feed));
  }
  template <typename Feed>
  void drive_for(stream::SinkEvents& events, Feed feed) {
    driven_.drive_for(events, std::move(feed));
  }
  void abandon() noexcept;
  void timer_fired(env::Timer::Arming arming) HFLUSH_EXCLUDES(mutex_);
  void lease_lost(const Status& failure) override;
  void connected(ConnectionNumber connection) override;
  void writable(ConnectionNumber connection) override;
  void received(ConnectionNumber connection, DataNodeLink::Received received) override;
  void event_lost() noexcept override { driven_.event_lost(); }

  // By the driver: what others may read from now on.
  void publish(const WriteCounters& counters) HFLUSH_EXCLUDES(mutex_);
  void publish(Links links) HFLUSH_EXCLUDES(mutex_);
  // As the stream last heard, or later.
  WriteCounters counters() const HFLUSH_EXCLUDES(mutex_);
  void note(std::string_view what) noexcept HFLUSH_EXCLUDES(mutex_);
  stream::PastEvents history() const HFLUSH_EXCLUDES(mutex_);

 private:
  const WriteContext context_;

  // Innermost.
  mutable Mutex mutex_;
  Links links_ HFLUSH_GUARDED_BY(mutex_);  // for the loop thread
  WriteCounters counters_ HFLUSH_GUARDED_BY(mutex_);
  History history_ HFLUSH_GUARDED_BY(mutex_);

  stream::Driven<PipelineDriver> driven_;  // last: its driver uses the others
};

}  // namespace hflush::hdfs
