// A cluster of one to write to, without Hadoop: a DataNode on a loopback port that stands for a
// whole pipeline, and the NameNode's side of writing as an RpcClient. What goes wrong is the test's
// to say.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hdfs/loopback_node.h"
#include "hflush/base/mutex.h"
#include "hflush/crc/checksum.h"
#include "hflush/env/event_loop.h"
#include "hflush/hdfs/rpc/lease_renewer.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/wire.h"
#include "testing/patience.h"

namespace hflush::hdfs::testing {

// Waits until `holds`; false after the deadline.
inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + hflush::testing::kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// What OpWriteBlock said.
struct WriteOperation {
  std::uint64_t block_id = 0;
  std::uint64_t block_size = 0;
  std::uint32_t stage = 0;
  std::uint32_t pipeline_size = 0;
  std::uint64_t min_bytes = 0;
  std::uint64_t latest_stamp = 0;
  std::optional<bool> drop_behind;

  static WriteOperation decode(ByteView bytes) {
    const auto decoded =
        wire::read_whole<WriteOperation>("operation", "OpWriteBlock", bytes, [](wire::Reader from) {
          WriteOperation operation;
          while (from.next()) {
            switch (from.field()) {
              case 1:
                operation.read_header(from.message("header"));
                break;
              case 4:
                operation.stage = from.uint32();
                break;
              case 5:
                operation.pipeline_size = from.uint32();
                break;
              case 6:
                operation.min_bytes = from.uint64();
                break;
              case 8:
                operation.latest_stamp = from.uint64();
                break;
              case 10:
                operation.read_strategy(from.message("strategy"));
                break;
              default:
                from.skip();
            }
          }
          return operation;
        });
    REQUIRE(decoded.ok());
    return *decoded;
  }

 private:
  void read_header(wire::Reader from) {
    while (from.next()) {
      if (from.field() != 1) {
        from.skip();
        continue;
      }
      wire::Reader base = from.message("base header");
      while (base.next()) {
        if (base.field() != 1) {
          base.skip();
          continue;
        }
        wire::Reader block = base.message("block");
        while (block.next()) {
          if (block.field() == 2) {
            block_id = block.uint64();
          } else if (block.field() == 4) {
            block_size = block.uint64();
          } else {
            block.skip();
          }
        }
      }
    }
  }
  void read_strategy(wire::Reader from) {
    while (from.next()) {
      if (from.field() == 1) {
        drop_behind = from.boolean();
      } else {
        from.skip();
      }
    }
  }
};

struct WrittenReplica {
  std::vector<std::byte> bytes;
  bool finalized = false;
  int syncs = 0;
};

class WritableDatanode {
 public:
  // What it does with a packet, before it acknowledges it.
  enum class Deed : std::uint8_t {
    kAcknowledge,
    kDie,           // the connection ends
    kComplain,      // an ack with an error, again and again
    kTalkNonsense,  // bytes that are no ack
    kSayNothing,    // to this packet and all that follow
  };
  using Script = std::function<Deed(const PacketHeader&)>;

  WritableDatanode() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 512) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~WritableDatanode() {
    hold_acks(false);
    hold_reading(false);
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    {
      MutexLock lock(mutex_);
      for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
    }
    for (std::thread& thread : serving_) thread.join();
    for (const int connection : connections_) ::close(connection);
  }
  WritableDatanode(const WritableDatanode&) = delete;
  WritableDatanode& operator=(const WritableDatanode&) = delete;

  DatanodeInfo node() const { return loopback_node(port_); }

  void follow(Script script) {
    MutexLock lock(mutex_);
    script_ = std::move(script);
  }
  void hold_acks(bool hold) { set(&WritableDatanode::acks_are_held_, hold); }
  void hold_reading(bool hold) { set(&WritableDatanode::reading_is_held_, hold); }

  WrittenReplica replica(std::uint64_t block_id) {
    MutexLock lock(mutex_);
    return replicas_[block_id];
  }
  std::vector<WriteOperation> operations() {
    MutexLock lock(mutex_);
    return operations_;
  }
  int packets() {
    MutexLock lock(mutex_);
    return packets_;
  }
  // Connections on which the client may still say something.
  int open_connections() {
    MutexLock lock(mutex_);
    return open_;
  }

 private:
  void set(bool WritableDatanode::* held, bool hold) {
    MutexLock lock(mutex_);
    this->*held = hold;
    changed_.notify_all();
  }
  void wait_while(bool WritableDatanode::* held) {
    MutexLock lock(mutex_);
    while (this->*held) changed_.wait(mutex_);
  }

  void accept_all() {
    while (true) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0 && errno == EMFILE) {  // the test has taken all descriptors
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      if (connection < 0) return;
      MutexLock lock(mutex_);
      connections_.push_back(connection);
      ++open_;
      serving_.emplace_back([this, connection] {
        serve(connection);
        ::shutdown(connection, SHUT_RDWR);
        MutexLock ending(mutex_);
        --open_;
      });
    }
  }

  bool receive(int connection, std::string& bytes, std::size_t size) {
    while (bytes.size() < size) {
      wait_while(&WritableDatanode::reading_is_held_);
      std::array<char, 65536> buffer;
      const ssize_t got =
          ::recv(connection, buffer.data(), std::min(buffer.size(), size - bytes.size()), 0);
      if (got <= 0) return false;
      bytes.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return true;
  }
  static bool send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  void serve(int connection) {
    std::string head;
    if (!receive(connection, head, 3)) return;
    std::string message;
    std::size_t size = 0;
    while (size == 0) {
      if (!receive(connection, message, message.size() + 1)) return;
      const Result<std::size_t> known = delimited_size(as_bytes(message), 1U << 20U);
      if (!known.ok()) return;
      size = *known;
    }
    const std::size_t prefix = size < 128 ? 1 : 2;
    const WriteOperation operation = WriteOperation::decode(as_bytes(message).subspan(prefix));
    {
      MutexLock lock(mutex_);
      operations_.push_back(operation);
    }
    if (!send_all(connection, std::string("\x04\x08\x00\x12\x00", 5))) return;
    while (serve_packet(connection, operation)) {
    }
  }

  bool serve_packet(int connection, const WriteOperation& operation) {
    std::string bytes;
    if (!receive(connection, bytes, 6)) return false;
    const std::size_t header_size = 6 + static_cast<unsigned char>(bytes[5]);
    if (!receive(connection, bytes, header_size)) return false;
    const auto decoded = decode_packet_header(as_bytes(bytes));
    if (!decoded.ok() || !*decoded) return false;
    const PacketHeader& header = (*decoded)->header;
    std::string sums;
    std::string data;
    if (!receive(connection, sums, header.sums_size)) return false;
    if (!receive(connection, data, header.data_size)) return false;
    Script script;
    {
      MutexLock lock(mutex_);
      script = script_;
    }
    const Deed deed = script ? script(header) : Deed::kAcknowledge;
    if (deed == Deed::kDie) return false;
    if (deed == Deed::kTalkNonsense) return send_all(connection, "\xff\xff\xff\xff\x7f nonsense");
    if (deed == Deed::kComplain) {
      const std::string complaint = ack(-2, {0, 1});  // to no packet
      while (send_all(connection, complaint)) {
      }
      return false;
    }
    store(operation, header, data);
    if (deed == Deed::kSayNothing) return true;
    wait_while(&WritableDatanode::acks_are_held_);
    std::vector<std::uint32_t> flags(std::max(1U, operation.pipeline_size), 0);
    if (!send_all(connection, ack(header.sequence_number, flags))) return false;
    return !header.last_in_block;
  }

  static std::string ack(std::int64_t sequence_number, const std::vector<std::uint32_t>& flags) {
    std::string message;
    wire::Writer writer(message);
    writer.add_sint64(1, sequence_number);
    for (const std::uint32_t flag : flags) writer.add_enum(2, static_cast<std::int32_t>(flag));
    writer.add_packed_uint32(4, flags.begin(), flags.end());
    return wire::delimited(message);
  }

  void store(const WriteOperation& operation, const PacketHeader& header, std::string_view data) {
    MutexLock lock(mutex_);
    if (header.sequence_number >= 0) ++packets_;
    WrittenReplica& replica = replicas_[operation.block_id];
    if (header.sync_block) ++replica.syncs;
    if (header.last_in_block) replica.finalized = true;
    const ByteView bytes = as_bytes(data);
    if (bytes.empty()) return;
    if (replica.bytes.size() < header.offset_in_block + bytes.size()) {
      replica.bytes.resize(header.offset_in_block + bytes.size());
    }
    std::copy(bytes.begin(), bytes.end(),
              replica.bytes.begin() + static_cast<std::ptrdiff_t>(header.offset_in_block));
  }

  const int listener_;
  std::uint16_t port_ = 0;
  std::thread acceptor_;

  Mutex mutex_;
  CondVar changed_;
  bool acks_are_held_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool reading_is_held_ HFLUSH_GUARDED_BY(mutex_) = false;
  Script script_ HFLUSH_GUARDED_BY(mutex_);
  std::map<std::uint64_t, WrittenReplica> replicas_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<WriteOperation> operations_ HFLUSH_GUARDED_BY(mutex_);
  int packets_ HFLUSH_GUARDED_BY(mutex_) = 0;
  int open_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::vector<int> connections_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<std::thread> serving_ HFLUSH_GUARDED_BY(mutex_);
};

// Answers the calls that writing makes, on the loop thread.
class WritableNameNode final : public RpcClient {
 public:
  explicit WritableNameNode(env::EventLoop& loop) : loop_(loop) {}
  using RpcClient::start;

  CallId start(std::string_view method, Repetition /*repetition*/, std::string body,
               std::string path, Done answer) override {
    MutexLock lock(mutex_);
    calls_.emplace_back(method);
    if (method == GetBlockLocations::kMethod) located_paths_.push_back(first_text(body));
    const CallId call = calls_.size();
    if (method == held_) {
      held_answers_.emplace(call, std::move(answer));
      return call;
    }
    loop_.post([answer = std::move(answer), reply = reply_locked(method, path)] { answer(reply); });
    return call;
  }
  void disown(CallId call, std::string /*question*/) override { cancel(call); }
  void cancel(CallId call) override {
    MutexLock lock(mutex_);
    held_answers_.erase(call);
  }
  void close() override {}
  void add_statistics(Statistics& /*statistics*/) const override {}

  // The nodes of the next pipelines, in turn; the last one stays.
  void offer(std::deque<DatanodeInfo> nodes) {
    MutexLock lock(mutex_);
    nodes_ = std::move(nodes);
  }
  // Where every block has its replicas from now on.
  void list(std::vector<DatanodeInfo> nodes) {
    MutexLock lock(mutex_);
    listed_ = std::move(nodes);
  }
  // Where the next question leads, as a router's default namespace: to a file of this pool.
  void lead_to(std::string pool) {
    MutexLock lock(mutex_);
    next_pool_ = std::move(pool);
  }
  // The paths of getBlockLocations.
  std::vector<std::string> located_paths() {
    MutexLock lock(mutex_);
    return located_paths_;
  }
  // The next answer to this method.
  void fail_once(std::string method, Status failure) {
    MutexLock lock(mutex_);
    failures_.emplace(std::move(method), std::move(failure));
  }
  // complete() says "not yet" that many times.
  void complete_later(int times) {
    MutexLock lock(mutex_);
    not_yet_ = times;
  }
  // This method is not answered.
  void hold(std::string method) {
    MutexLock lock(mutex_);
    held_ = std::move(method);
  }
  std::size_t held() {
    MutexLock lock(mutex_);
    return held_answers_.size();
  }
  std::vector<std::string> calls() {
    MutexLock lock(mutex_);
    return calls_;
  }
  int count(std::string_view method) {
    const std::vector<std::string> all = calls();
    return static_cast<int>(std::ranges::count(all, method));
  }
  std::vector<std::uint64_t> blocks() {
    MutexLock lock(mutex_);
    return blocks_;
  }

 private:
  // Field 1 of a request.
  static std::string first_text(const std::string& request) {
    const auto decoded =
        wire::read_whole<std::string>("test", "request", as_bytes(request), [](wire::Reader from) {
          std::string text;
          while (from.next()) {
            if (from.field() == 1) {
              text = from.text();
            } else {
              from.skip();
            }
          }
          return text;
        });
    REQUIRE(decoded.ok());
    return *decoded;
  }

  Result<std::string> reply_locked(std::string_view method, const std::string& path)
      HFLUSH_REQUIRES(mutex_) {
    if (const auto failure = failures_.find(method); failure != failures_.end()) {
      const Status status = failure->second.with_path(path);
      failures_.erase(failure);
      return status;
    }
    std::string body;
    wire::Writer response(body);
    if (method == AddBlock::kMethod) {
      LocatedBlock block;
      blocks_.push_back(100 + blocks_.size());
      block.block = {"BP-1", blocks_.back(), 1000 + blocks_.back(), 0};
      const DatanodeInfo& node = nodes_.front();
      block.replicas.push_back({node, StorageType::kDisk, "DS-" + node.uuid});
      if (nodes_.size() > 1) nodes_.pop_front();
      wire::add_located_block(response, 1, block);
    } else if (method == GetBlockLocations::kMethod) {
      wire::Writer located(response, 1);
      located.add_uint64(1, 0);
      const std::string pool = std::exchange(next_pool_, "BP-1");
      for (const std::uint64_t id : blocks_) {
        LocatedBlock block;
        block.block = {pool, id, 1000 + id, 0};
        for (const DatanodeInfo& node : listed_.empty() ? std::vector{nodes_.front()} : listed_) {
          block.replicas.push_back({node, StorageType::kDisk, "DS-" + node.uuid});
        }
        wire::add_located_block(located, 2, block);
      }
      located.add_bool(3, true);
      located.add_bool(5, false);
    } else if (method == AbandonBlock::kMethod) {
      blocks_.pop_back();
    } else if (method == Complete::kMethod) {
      response.add_bool(1, not_yet_ == 0);
      not_yet_ = std::max(0, not_yet_ - 1);
    } else if (method == RecoverLease::kMethod) {
      response.add_bool(1, true);
    }
    return body;
  }

  env::EventLoop& loop_;
  Mutex mutex_;
  std::vector<std::string> calls_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> blocks_ HFLUSH_GUARDED_BY(mutex_);
  std::deque<DatanodeInfo> nodes_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<DatanodeInfo> listed_ HFLUSH_GUARDED_BY(mutex_);
  std::string next_pool_ HFLUSH_GUARDED_BY(mutex_) = "BP-1";
  std::vector<std::string> located_paths_ HFLUSH_GUARDED_BY(mutex_);
  std::map<std::string, Status, std::less<>> failures_ HFLUSH_GUARDED_BY(mutex_);
  std::string held_ HFLUSH_GUARDED_BY(mutex_);
  std::map<CallId, Done> held_answers_ HFLUSH_GUARDED_BY(mutex_);
  int not_yet_ HFLUSH_GUARDED_BY(mutex_) = 0;
};

// Counts the files that are open.
class CountingRenewer final : public LeaseRenewer {
 public:
  void begin(std::uint64_t /*file_id*/, std::string /*name_space*/,
             std::weak_ptr<LeaseHolder> holder) override {
    MutexLock lock(mutex_);
    ++open_;
    holder_ = std::move(holder);
  }
  void end(std::uint64_t /*file_id*/, const LeaseHolder* /*holder*/) noexcept override {
    MutexLock lock(mutex_);
    --open_;
  }
  void give_up(std::uint64_t /*file_id*/, const LeaseHolder* /*holder*/,
               GiveBack /*when*/) noexcept override {
    MutexLock lock(mutex_);
    --open_;
    ++given_up_;
  }
  std::int64_t renewals() const override { return 0; }
  void close() override {}

  int open() {
    MutexLock lock(mutex_);
    return open_;
  }
  int given_up() {
    MutexLock lock(mutex_);
    return given_up_;
  }
  std::shared_ptr<LeaseHolder> holder() {
    MutexLock lock(mutex_);
    return holder_.lock();
  }

 private:
  Mutex mutex_;
  int open_ HFLUSH_GUARDED_BY(mutex_) = 0;
  int given_up_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::weak_ptr<LeaseHolder> holder_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::hdfs::testing
