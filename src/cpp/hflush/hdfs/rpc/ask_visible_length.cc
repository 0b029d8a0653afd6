#include "hflush/hdfs/rpc/ask_visible_length.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/sasl/token_file.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {
namespace {

// A connection to a DataNode; its end is that of the last question on it.
class Line {
 public:
  Line(std::shared_ptr<RpcClient> client, env::TimePoint made)
      : client_(std::move(client)), made_(made) {}
  ~Line() { client_->close(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  RpcClient& client() const noexcept { return *client_; }
  env::TimePoint made() const noexcept { return made_; }

 private:
  const std::shared_ptr<RpcClient> client_;
  const env::TimePoint made_;
};

// How DataNodes are asked. Questions without a token that come at about the same time share a
// connection: all the streams through a DataNode that stops ask at once. The second round of a
// probe has another one than its first: that may have been lost meanwhile, with the DataNode well.
class Asker {
 public:
  Asker(const Settings& settings, const env::Host& host)
      : host_(host),
        user_(settings.user),
        rpc_(settings.rpc),
        use_hostname_(settings.read.use_datanode_hostname),
        shared_for_(settings.write.silence_probe / 4) {
    rpc_.connect_timeout = settings.read.socket_timeout;
    rpc_.connect_retries = 0;
    rpc_.connect_retries_on_timeouts = 0;
    rpc_.rpc_timeout = settings.read.socket_timeout;
    rpc_.retry_policy_enabled = false;
  }

  std::shared_ptr<void> ask(const DatanodeInfo& node, const ExtendedBlock& block,
                            const Token& token, std::function<void(Result<std::int64_t>)> answered)
      HFLUSH_EXCLUDES(mutex_) {
    RpcTarget target;
    target.protocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
    target.servers = {node.rpc_endpoint(use_hostname_)};
    std::shared_ptr<Line> line;
    if (auto held = sasl::from_wire(token); held.ok() && token != Token()) {
      target.tokens =
          std::make_shared<sasl::TokenFile>(std::vector{*std::move(held)}, std::string());
      line = make_line(target);
    } else {
      line = shared_line(target);
    }
    const RpcClient::CallId call =
        line->client().start(GetReplicaVisibleLength{block}, {}, std::move(answered));
    return {line.get(), [line, call](void*) { line->client().cancel(call); }};
  }

 private:
  std::shared_ptr<Line> make_line(const RpcTarget& target) const {
    return std::make_shared<Line>(RpcClient::make(host_, target, user_, rpc_), now());
  }
  env::TimePoint now() const { return host_.loop.clock().now(); }

  std::shared_ptr<Line> shared_line(const RpcTarget& target) HFLUSH_EXCLUDES(mutex_) {
    const std::string address = target.servers.front().to_string();
    const MutexLock lock(mutex_);
    std::erase_if(lines_, [](const auto& known) { return known.second.expired(); });
    std::weak_ptr<Line>& known = lines_[address];
    std::shared_ptr<Line> line = known.lock();
    if (!line || now() - line->made() > shared_for_) known = line = make_line(target);
    return line;
  }

  const env::Host host_;
  const std::string user_;
  RpcSettings rpc_;  // no retries: the others are asked already
  const bool use_hostname_;
  const env::Duration shared_for_;  // half of a round of a probe

  // Innermost.
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<Line>> lines_ HFLUSH_GUARDED_BY(mutex_);  // by address
};

}  // namespace

AskVisibleLength ask_datanode(const Settings& settings, const env::Host& host) {
  return [asker = std::make_shared<Asker>(settings, host)](
             const DatanodeInfo& node, const ExtendedBlock& block, const Token& token,
             std::function<void(Result<std::int64_t>)> answered) {
    return asker->ask(node, block, token, std::move(answered));
  };
}

}  // namespace hflush::hdfs
