// NameNodeLink: one connection of an RPC client: bytes go out in the order in which they were
// queued, and what comes in goes to the owner.
//
// One thread at a time sends, without a lock; others that queue meanwhile leave their bytes to it.
// What the kernel does not take is sent by the loop thread when there is room. Thread-safe, but for
// receive(): the loop thread. The connection keeps the link alive until close().
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/executor.h"
#include "hflush/env/tcp_connection.h"
#include "hflush/hdfs/rpc/call_table.h"

namespace hflush::hdfs {

class NameNodeLink final : public env::TcpConnection::Events,
                           public std::enable_shared_from_this<NameNodeLink> {
 public:
  // Called on the loop thread, without any lock held.
  class Owner {
   public:
    // `peer_address`: the server's, as a number.
    virtual void connected(CallTable::LinkId link, const std::string& peer_address) = 0;
    virtual void connect_failed(CallTable::LinkId link, const Status& why) = 0;
    virtual void received(CallTable::LinkId link, ByteView bytes) = 0;
    // `error_number`: 0 if the server has closed the connection.
    virtual void lost(CallTable::LinkId link, int error_number) = 0;

   protected:
    ~Owner() = default;
  };

  // `loop` outlives the link.
  NameNodeLink(env::EventLoop& loop, std::weak_ptr<Owner> owner, CallTable::LinkId id)
      : loop_(loop), owner_(std::move(owner)), id_(id) {}

  // Once. A name's lookup may start a thread.
  void connect(env::Executor& resolver, env::Endpoint endpoint,
               const env::TcpConnection::Options& options) HFLUSH_EXCLUDES(mutex_);
  void queue(std::string bytes) HFLUSH_EXCLUDES(mutex_);
  // Sends what is queued, as much as the kernel takes.
  void flush() HFLUSH_EXCLUDES(mutex_);
  // Takes what has arrived.
  void receive() HFLUSH_EXCLUDES(mutex_);
  // Ends the connection, before or after connect(). Idempotent.
  void close() HFLUSH_EXCLUDES(mutex_);

  void on_connected(env::TcpConnection& connection) override;
  void on_readable() override { receive(); }
  void on_writable() override { flush(); }
  void on_connect_failed(Status failure) override;

 private:
  std::shared_ptr<env::TcpConnection> connection() HFLUSH_EXCLUDES(mutex_);
  int send_error() HFLUSH_EXCLUDES(mutex_);
  // The turn to send `bytes`; null: another thread has it, or there is nothing to send now.
  std::shared_ptr<env::TcpConnection> take_turn(std::string& bytes) HFLUSH_EXCLUDES(mutex_);
  // Gives the turn back, with what was not sent.
  void give_turn_back(std::string rest, int error_number) HFLUSH_EXCLUDES(mutex_);

  env::EventLoop& loop_;
  const std::weak_ptr<Owner> owner_;
  const CallTable::LinkId id_;

  // Before the connection's. Never held across sending, receiving or a function of the client.
  Mutex mutex_;
  std::shared_ptr<env::TcpConnection> tcp_ HFLUSH_GUARDED_BY(mutex_);  // null before connect()
  std::string queued_ HFLUSH_GUARDED_BY(mutex_);
  bool is_sending_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool is_closed_ HFLUSH_GUARDED_BY(mutex_) = false;
  int send_error_ HFLUSH_GUARDED_BY(mutex_) = 0;  // reported when all that arrived is received
};

}  // namespace hflush::hdfs
