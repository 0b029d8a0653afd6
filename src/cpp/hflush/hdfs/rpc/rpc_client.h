// RpcClient: calls to one NameNode, or to the NameNodes of one nameservice, as one user.
//
// The shell around CallTable (call_table.h: which call goes where, and what follows from a failed
// attempt). One multiplexed connection per NameNode (name_node_link.h); calls are sent from the
// caller's thread and answered on the loop thread. Thread-safe. A call is answered exactly once,
// unless it is cancelled: with its response, with what the server said (remote_exception.h turns it
// into a Status), or with why no server could be asked; `path` goes into every failure, with
// method, host, port and the time it took. A client that is destroyed answers what is under way as
// if it were closed. In a forked child every call is refused (kForked): connections, ids and the
// loop are the parent's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/env/answer.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/host.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/rpc/retry_policy.h"
#include "hflush/hdfs/rpc/rpc_target.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {

class RpcClient : public std::enable_shared_from_this<RpcClient> {
 public:
  // Connects on the first call.
  static std::shared_ptr<RpcClient> make(const env::Host& host, const RpcTarget& target,
                                         std::string user, const RpcSettings& settings);
  virtual ~RpcClient() = default;

  using CallId = std::uint64_t;
  static constexpr CallId kNoCall = 0;  // of a call that was answered before start() returned
  using Done = std::function<void(Result<std::string> body)>;  // with the response message

  // Starts a call; `done` runs on the loop thread, or on this one before start() returns, without
  // any lock held.
  virtual CallId start(std::string_view method, Repetition repetition, std::string body,
                       std::string path, Done done) = 0;
  // `done` is not run any more, unless it is running now.
  virtual void cancel(CallId call) = 0;
  // No thread waits for the call any more. One that was never sent is cancelled. Any other may have
  // been carried out, whether or not its answer arrives: it goes on, for as long as the NameNode
  // remembers, until `done` has run. Attempts from now on send `question`, a body that changes
  // nothing by itself: the retry cache knows the call by its ids, and answers as the attempt that
  // worked.
  virtual void disown(CallId call, std::string question) = 0;
  // Fails what is under way and closes the connections. Idempotent.
  virtual void close() = 0;
  // The loop that brings the answers; null: start() does.
  virtual env::EventLoop* loop() const noexcept { return nullptr; }
  // Adds "rpc_calls", "rpc_retries", "rpc_failovers", "rpc_connections", "rpc_failures".
  virtual void add_statistics(Statistics& statistics) const = 0;

  template <Request T>
  CallId start(const T& request, const std::string& path,
               std::function<void(Result<typename T::Response>)> done,
               env::Duration patience = {}) {
    return start(T::kMethod, {T::kRepeat, patience}, request.encode(), path,
                 [done = std::move(done), path](const Result<std::string>& body) {
                   if (!body.ok()) return done(body.status());
                   done(decode<T>(*body, path));
                 });
  }

  // Waits for the answer, on any thread but the loop's. An interrupt ends the wait; the call may
  // still be carried out, if it was sent.
  template <Request T>
  Result<typename T::Response> call(const T& request, const std::string& path,
                                    env::Interrupt& interrupt, env::Duration patience = {}) {
    return wait_for<T>(
        request, path, interrupt, [this](CallId id, BodyAnswer&) { cancel(id); }, patience);
  }

  // The same, and the response of an interrupted call goes to `unclaimed`, on the loop thread or
  // this one: it is the only one to know that the call was carried out. `question`: see disown().
  template <Request T>
  Result<typename T::Response> call(const T& request, const std::string& path,
                                    env::Interrupt& interrupt, const T& question,
                                    std::function<void(typename T::Response)> unclaimed) {
    return wait_for<T>(request, path, interrupt, [&](CallId id, BodyAnswer& answer) {
      answer.leave_to([path, unclaimed = std::move(unclaimed)](const Result<std::string>& body) {
        if (!body.ok()) return;
        if (auto response = decode<T>(*body, path); response.ok()) unclaimed(*std::move(response));
      });
      disown(id, question.encode());
    });
  }

  // The same, but an interrupt ends only the wait: the call goes on as if it were waited for.
  template <Request T>
  Result<typename T::Response> call_through(const T& request, const std::string& path,
                                            env::Interrupt& interrupt) {
    return wait_for<T>(request, path, interrupt, [](CallId, BodyAnswer&) {});
  }

 protected:
  using BodyAnswer = env::Answer<Result<std::string>>;
  // What is done about a call that is interrupted.
  using Leave = std::function<void(CallId, BodyAnswer&)>;
  Result<std::string> call(std::string_view method, Repetition repetition, std::string body,
                           const std::string& path, env::Interrupt& interrupt, const Leave& leave);

 private:
  template <Request T>
  Result<typename T::Response> wait_for(const T& request, const std::string& path,
                                        env::Interrupt& interrupt, const Leave& leave,
                                        env::Duration patience = {}) {
    HFLUSH_ASSIGN_OR_RETURN(const std::string body, call(T::kMethod, {T::kRepeat, patience},
                                                         request.encode(), path, interrupt, leave));
    return decode<T>(body, path);
  }

  template <Request T>
  static Result<typename T::Response> decode(const std::string& body, const std::string& path) {
    Result<typename T::Response> response = T::decode(as_bytes(body));
    if (!response.ok()) return response.status().with_path(path);
    return response;
  }
};

}  // namespace hflush::hdfs
