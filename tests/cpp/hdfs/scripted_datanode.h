// A DataNode on a loopback port that answers READ_BLOCK and BLOCK_CHECKSUM from replicas in memory,
// or as a test's script says. And the NameNode's side of reading, without a network.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "hdfs/loopback_node.h"
#include "hdfs/read_answers.h"
#include "hflush/base/mutex.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs::testing {

constexpr std::uint8_t kReadBlock = 81;
constexpr std::uint8_t kBlockChecksum = 85;

// An operation as it arrived.
struct Operation {
  int connection = 0;  // counted from 0, per DataNode
  int number = 0;      // on this connection, from 0
  std::uint8_t code = 0;
  std::uint64_t block_id = 0;
  std::string token;
  std::string client_name;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool send_checksums = true;
  std::optional<bool> drop_behind;
  std::optional<std::int64_t> readahead;
  std::optional<std::string> read_status;  // what the client sent after its read
};

struct Reply {
  enum class Then : std::uint8_t {
    kNextOperation,  // after the client's status, for a read
    kClose,
    kSilence,
  };
  std::string bytes;
  Then then = Then::kNextOperation;
};

class ScriptedDatanode {
 public:
  // nullopt: as a DataNode would.
  using Script = std::function<std::optional<Reply>(const Operation& operation)>;

  ScriptedDatanode() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 64) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~ScriptedDatanode() {
    stop();
    std::vector<std::thread> serving;
    {
      const MutexLock lock(mutex_);
      serving.swap(serving_);
    }
    for (std::thread& thread : serving) thread.join();
    for (const int connection : connections_) ::close(connection);
  }
  ScriptedDatanode(const ScriptedDatanode&) = delete;
  ScriptedDatanode& operator=(const ScriptedDatanode&) = delete;

  // Ends all connections and takes no more.
  void stop() {
    if (acceptor_.joinable()) {
      ::shutdown(listener_, SHUT_RDWR);
      acceptor_.join();
      ::close(listener_);
    }
    disconnect();
  }

  // Ends the connections that there are.
  void disconnect() {
    const MutexLock lock(mutex_);
    for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
  }

  std::uint16_t port() const { return port_; }

  DatanodeInfo node() const { return loopback_node(port_); }

  void store(std::uint64_t block_id, StoredReplica replica) {
    const MutexLock lock(mutex_);
    replicas_.insert_or_assign(block_id, std::move(replica));
  }

  void follow(Script script) {
    const MutexLock lock(mutex_);
    script_ = std::move(script);
  }

  std::vector<Operation> operations() const {
    const MutexLock lock(mutex_);
    return operations_;
  }
  int connections() const {
    const MutexLock lock(mutex_);
    return static_cast<int>(connections_.size());
  }

 private:
  void accept_all() {
    while (true) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const MutexLock lock(mutex_);
      const int number = static_cast<int>(connections_.size());
      connections_.push_back(connection);
      serving_.emplace_back([this, connection, number] {
        serve(connection, number);
        ::shutdown(connection, SHUT_RDWR);
      });
    }
  }

  void serve(int connection, int number) {
    for (int count = 0;; ++count) {
      Operation operation;
      operation.connection = number;
      operation.number = count;
      if (!receive_operation(connection, operation)) return;
      std::size_t index = 0;
      Script script;
      {
        const MutexLock lock(mutex_);
        index = operations_.size();
        operations_.push_back(operation);
        script = script_;
      }
      std::optional<Reply> reply = script ? script(operation) : std::nullopt;
      if (!reply) reply = usual(operation);
      if (!send_all(connection, reply->bytes)) return;
      if (reply->then == Reply::Then::kClose) return;
      if (reply->then == Reply::Then::kSilence) {
        std::byte ignored{};
        while (::recv(connection, &ignored, 1, 0) > 0) {
        }
        return;
      }
      if (operation.code != kReadBlock) continue;
      const auto status = receive_delimited(connection);
      if (!status) return;
      const MutexLock lock(mutex_);
      operations_[index].read_status = *status;
    }
  }

  static bool receive_operation(int connection, Operation& operation) {
    std::array<std::byte, 3> head{};
    if (!receive_exactly(connection, head)) return false;
    operation.code = static_cast<std::uint8_t>(head[2]);
    const auto message = receive_delimited(connection);
    if (!message) return false;
    const bool reads = operation.code == kReadBlock;
    const auto read =
        wire::read_whole<Operation>("operation", "Op", as_bytes(*message), [&](wire::Reader from) {
          Operation result = operation;
          while (from.next()) {
            switch (from.field()) {
              case 1:
                read_header(from.message("header"), reads, result);
                break;
              case 2:
                reads ? static_cast<void>(result.offset = from.uint64()) : from.skip();
                break;
              case 3:
                result.length = from.uint64();
                break;
              case 4:
                result.send_checksums = from.boolean();
                break;
              case 5:
                read_strategy(from.message("strategy"), result);
                break;
              default:
                from.skip();
            }
          }
          return result;
        });
    if (!read.ok()) return false;
    operation = *read;
    return true;
  }

  static void read_strategy(wire::Reader from, Operation& operation) {
    while (from.next()) {
      if (from.field() == 1)
        operation.drop_behind = from.boolean();
      else if (from.field() == 2)
        operation.readahead = from.int64();
      else
        from.skip();
    }
  }

  static void read_header(wire::Reader from, bool has_client, Operation& operation) {
    while (from.next()) {
      if (has_client && from.field() == 1) {
        read_header(from.message("base header"), false, operation);
      } else if (has_client && from.field() == 2) {
        operation.client_name = from.text();
      } else if (from.field() == 1) {
        wire::Reader block = from.message("block");
        while (block.next()) {
          if (block.field() == 2)
            operation.block_id = block.uint64();
          else if (block.field() == 4)
            operation.length = block.uint64();
          else
            block.skip();
        }
      } else if (from.field() == 2) {
        operation.token = from.text();
      } else {
        from.skip();
      }
    }
  }

  Reply usual(const Operation& operation) const {
    const MutexLock lock(mutex_);
    const auto found = replicas_.find(operation.block_id);
    if (found == replicas_.end()) {
      return {refusing_reply(TransferStatus::kError, "Replica not found"), Reply::Then::kClose};
    }
    if (operation.code == kReadBlock) {
      if (operation.offset + operation.length > found->second.bytes.size()) {
        return {refusing_reply(TransferStatus::kError, "beyond the replica"), Reply::Then::kClose};
      }
      return {answer_to_read(found->second, operation.offset, operation.length,
                             operation.send_checksums)};
    }
    return {refusing_reply(TransferStatus::kErrorUnsupported, "not scripted"), Reply::Then::kClose};
  }

  static bool receive_exactly(int connection, MutableByteView out) {
    while (!out.empty()) {
      const ssize_t got = ::recv(connection, out.data(), out.size(), 0);
      if (got <= 0) return false;
      out = out.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }

  static std::optional<std::string> receive_delimited(int connection) {
    std::size_t size = 0;
    for (int shift = 0; shift < 28; shift += 7) {
      std::array<std::byte, 1> one{};
      if (!receive_exactly(connection, one)) return std::nullopt;
      size |= (std::to_integer<std::size_t>(one[0]) & 0x7f) << shift;
      if ((one[0] & std::byte{0x80}) == std::byte{0}) break;
    }
    std::string message(size, '\0');
    if (!receive_exactly(connection, std::as_writable_bytes(std::span(message)))) {
      return std::nullopt;
    }
    return message;
  }

  static bool send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  const int listener_;
  std::uint16_t port_ = 0;
  std::thread acceptor_;

  mutable Mutex mutex_;
  std::map<std::uint64_t, StoredReplica> replicas_ HFLUSH_GUARDED_BY(mutex_);
  Script script_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<Operation> operations_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<int> connections_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<std::thread> serving_ HFLUSH_GUARDED_BY(mutex_);
};

// Answers the calls that reading makes, from `locate`.
class ScriptedNameNode final : public RpcClient {
 public:
  // What getBlockLocations says the n-th time it is asked, counted from 0.
  using Locate = std::function<Result<LocatedBlocks>(int call)>;

  explicit ScriptedNameNode(Locate locate) : locate_(std::move(locate)) {}
  using RpcClient::start;

  CallId start(std::string_view method, Repetition /*repetition*/, std::string body,
               std::string path, Done answer) override {
    if (method == GetBlockLocations::kMethod) {
      const auto located = locate_(next_call());
      if (!located.ok()) {
        answer(located.status());
      } else {
        answer(without_locations ? std::string() : encoded(*located));
      }
    } else if (method == ReportBadBlocks::kMethod) {
      {
        const MutexLock lock(mutex_);
        reports_.push_back(body);
      }
      answer(std::string());
    } else {
      answer(Status(StatusCode::kIo, "not scripted: " + std::string(method), path));
    }
    return kNoCall;
  }
  void cancel(CallId /*call*/) override {}
  void disown(CallId /*call*/, std::string /*question*/) override {}
  void close() override {}
  void add_statistics(Statistics& /*statistics*/) const override {}

  int location_calls() const {
    const MutexLock lock(mutex_);
    return calls_;
  }
  // The bodies of reportBadBlocks.
  std::vector<std::string> reports() const {
    const MutexLock lock(mutex_);
    return reports_;
  }

  bool without_locations = false;  // answers have none

 private:
  int next_call() {
    const MutexLock lock(mutex_);
    return calls_++;
  }

  static std::string encoded(const LocatedBlocks& located) {
    std::string body;
    wire::Writer response(body);
    wire::Writer message(response, 1);
    message.add_uint64(1, located.file_length);
    for (const LocatedBlock& block : located.blocks) wire::add_located_block(message, 2, block);
    message.add_bool(3, located.under_construction);
    if (located.last_block) wire::add_located_block(message, 4, *located.last_block);
    message.add_bool(5, located.last_block_complete);
    if (located.encrypted) add_encryption(message);
    if (located.erasure_coded) {
      wire::Writer policy(message, 7);
      policy.add_uint32(4, 2);
    }
    message.commit();
    return body;
  }

  static void add_encryption(wire::Writer& message) {
    wire::Writer info(message, 6);
    info.add_enum(1, 2);
    info.add_enum(2, 2);
    for (const std::uint32_t field : {3U, 4U, 5U, 6U}) info.add_string(field, "x");
  }

  const Locate locate_;
  mutable Mutex mutex_;
  int calls_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> reports_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::hdfs::testing
