// DataNodeLink: one connection of a stream that is written to HDFS. It sends for the thread that
// drives the stream's pipeline; on the loop thread it receives, and cuts what has come into the
// operation's reply and acks.
//
// Thread-safe: the loop thread calls what begins with on_, the thread that drives all else, one
// at a time. The mutex guards the connection against its end; it is not held while bytes are sent
// or received.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/executor.h"
#include "hflush/env/tcp_connection.h"
#include "hflush/hdfs/rpc/retry_delays.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/write/write_actions.h"

namespace hflush::hdfs {

class DataNodeLink final : public env::TcpConnection::Events,
                           public std::enable_shared_from_this<DataNodeLink> {
 public:
  // What has come at once, and whether the connection is lost after it.
  struct Received {
    std::optional<OperationReply> reply;
    std::vector<PipelineAck> acks;
    Status lost;
  };

  // Implemented by the stream's shell; called on the loop thread, without a lock.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void connected(ConnectionNumber connection) = 0;
    virtual void writable(ConnectionNumber connection) = 0;
    virtual void received(ConnectionNumber connection, Received received) = 0;
    // There was no memory for one of these.
    virtual void event_lost() noexcept = 0;
  };

  // Where this process has no descriptor or memory for the connection, it tries again after each of
  // the `pauses`.
  DataNodeLink(ConnectionNumber number, env::EventLoop& loop, std::shared_ptr<Listener> listener,
               env::Executor& resolver, env::Endpoint node,
               const env::TcpConnection::Options& options, RetryDelays pauses)
      : number_(number),
        loop_(loop),
        listener_(std::move(listener)),
        resolver_(resolver),
        node_(std::move(node)),
        options_(options),
        pauses_(pauses) {}

  ConnectionNumber number() const noexcept { return number_; }

  // Once. Answered by connected(), or by received() with a loss.
  void open() HFLUSH_EXCLUDES(mutex_);
  void close() noexcept HFLUSH_EXCLUDES(mutex_);
  // As TcpConnection has them.
  std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept HFLUSH_EXCLUDES(mutex_);
  void want_writable() HFLUSH_EXCLUDES(mutex_);
  // Reports the loss, after what the DataNode has said before it: that may name the node that
  // failed.
  void sending_failed(int error_number);

  void on_connected(env::TcpConnection& /*connection*/) override { listener_->connected(number_); }
  void on_writable() override { listener_->writable(number_); }
  // Receives what is there, if anything is.
  void on_readable() override;
  void on_connect_failed(Status failure) override;

 private:
  std::shared_ptr<env::TcpConnection> connection() HFLUSH_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return connection_;
  }
  // Calls `what` on the loop thread, where no failed allocation may be thrown further.
  template <typename What>
  void or_lost(What what) noexcept;
  void try_again() HFLUSH_EXCLUDES(mutex_);
  void report_loss(Status failure);
  Received receive(env::TcpConnection& connection);
  void parse(ByteView bytes, Received& received);

  const ConnectionNumber number_;
  env::EventLoop& loop_;
  const std::shared_ptr<Listener> listener_;
  env::Executor& resolver_;
  const env::Endpoint node_;
  const env::TcpConnection::Options options_;

  // Before the connection's. Never held across sending or receiving.
  Mutex mutex_;
  std::shared_ptr<env::TcpConnection> connection_ HFLUSH_GUARDED_BY(mutex_);

  // The loop thread's.
  RetryDelays pauses_;
  bool replied_ = false;
  std::string partial_;  // the beginning of a message
};

}  // namespace hflush::hdfs
