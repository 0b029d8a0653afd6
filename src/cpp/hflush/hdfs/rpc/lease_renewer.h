// LeaseRenewer: the lease that all files of one client share. One timer and one RPC per NameNode
// however many files are open; LeaseRenewal (lease_renewal.h) says when.
//
// A lease is renewed every half of the soft limit (60 s; less if the rpc timeout is less) while a
// file is open for writing, by the loop thread: neither a busy Python program nor its GIL can keep
// it from that. When renewal has failed for longer than the hard limit, or the server says that the
// lease is lost, every open file learns it; any other failure is tried again.
//
// A file whose stream has failed or was dropped is open at the NameNode, under the one lease that
// the other files keep fresh: no other client could get it while one of those is written. So
// it is given back: a soft limit later, when another is opened or the lease of others was renewed,
// the NameNode is asked whether it still is this client's (fsync, which only the holder may), and
// then to recover it for a holder whose lease is not renewed (recoverLease). By its id, for what is
// at its path may be another file; so not behind a router, which knows no ids. Recovery keeps all
// that was acknowledged. recoverLease takes a file from anybody, so it is never repeated: if its
// answer is lost, the question comes first again. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"
#include "hflush/hdfs/rpc/lease_renewal.h"
#include "hflush/hdfs/rpc/rpc_client.h"

namespace hflush::hdfs {

// Implemented by a stream's sink: the lease is gone for good.
class LeaseHolder {
 public:
  virtual ~LeaseHolder() = default;
  virtual void lease_lost(const Status& failure) = 0;  // loop thread, no lock held
};

// The holder of files that are to be free for others.
inline std::string recovery_name(const std::string& client_name) {
  return client_name + "_recovery";
}

class LeaseRenewer : public std::enable_shared_from_this<LeaseRenewer> {
 public:
  static std::shared_ptr<LeaseRenewer> make(env::EventLoop& loop, std::shared_ptr<RpcClient> rpc,
                                            std::string client_name, env::Duration rpc_timeout,
                                            env::Duration hard_limit);
  virtual ~LeaseRenewer() = default;

  // Right after create or append succeeded, and in every way that a stream ends: end() if the file
  // is closed or somebody else's, give_up() if it stays open. A file is known by its id and its
  // holder. No effect after close(), or in a forked child.
  virtual void begin(std::uint64_t file_id, std::string name_space,
                     std::weak_ptr<LeaseHolder> holder) = 0;
  virtual void end(std::uint64_t file_id, const LeaseHolder* holder) noexcept = 0;
  enum class GiveBack : std::uint8_t { kAfterSoftLimit, kNow };
  virtual void give_up(std::uint64_t file_id, const LeaseHolder* holder,
                       GiveBack when) noexcept = 0;
  // Renewals that were sent, for statistics and tests.
  virtual std::int64_t renewals() const = 0;
  // Renews no more; reports nothing. Idempotent.
  virtual void close() = 0;
};

}  // namespace hflush::hdfs
