// Opening against a NameNode that does as it is told: what create and append ask for, and what they
// do about what comes back.
#include "hflush/hdfs/open_for_write.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "hdfs/read_answers.h"
#include "hdfs/scripted_datanode.h"
#include "hdfs/scripted_name_node.h"
#include "hflush/hdfs/rpc/lease_renewer.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "testing/bytes.h"

namespace hflush::hdfs {
namespace {

using hflush::testing::length_delimited;
using hflush::testing::number;
using hflush::testing::ReceivedCall;

// An answer: a response, or an exception's class and message.
struct Told {
  std::string method;
  std::string response;
  std::string exception;
  std::string why = "refused";
};

Settings settings_for(const hflush::testing::ScriptedNameNode& node) {
  Settings settings;
  settings.user = "alice";
  settings.client_name = "C1";
  settings.service = "nn";
  settings.name_nodes = {node.endpoint()};
  return settings;
}

// Answers the calls of one connection in order, on a thread of its own.
class NameNode {
 public:
  explicit NameNode(std::vector<Told> script) {
    thread_ = std::thread([this, script = std::move(script)] {
      if (script.empty()) return;
      auto connection = node_.accept();
      for (const Told& told : script) {
        ReceivedCall call = connection.receive_call();
        CHECK(call.method == told.method);
        if (told.exception.empty()) {
          connection.answer(call, told.response);
        } else {
          connection.refuse(call, told.exception, told.why);
        }
        calls_.push_back(std::move(call));
      }
      // The client closes when it is gone; until then nothing more may come.
      CHECK(connection.at_end());
    });
  }
  ~NameNode() {
    if (thread_.joinable()) thread_.join();
  }
  NameNode(const NameNode&) = delete;
  NameNode& operator=(const NameNode&) = delete;

  Settings settings() const { return settings_for(node_); }
  bool is_called() const { return node_.is_called(); }
  // After the client is gone.
  const std::vector<ReceivedCall>& calls() {
    thread_.join();
    return calls_;
  }

 private:
  hflush::testing::ScriptedNameNode node_;
  std::vector<ReceivedCall> calls_;
  std::thread thread_;
};

struct StatusFields {
  std::uint64_t file_id = 77;
  std::uint64_t length = 0;
  std::uint64_t block_size = 1U << 20U;
  std::uint64_t storage_policy = 0;
  bool encrypted = false;
  bool erasure_coded = false;
  std::string name_space = {};  // a router's
};

std::string file_status(const StatusFields& fields = {}) {
  std::string status = number(1, 2) + length_delimited(2, "") + number(3, fields.length) +
                       length_delimited(4, number(1, 0644)) + length_delimited(5, "alice") +
                       length_delimited(6, "staff") + number(7, 1) + number(8, 1) + number(10, 3) +
                       number(11, fields.block_size) + number(13, fields.file_id) + number(14, 0);
  if (fields.encrypted) {
    status += length_delimited(15, number(1, 2) + number(2, 2) + length_delimited(3, "k") +
                                       length_delimited(4, "i") + length_delimited(5, "n") +
                                       length_delimited(6, "v"));
  }
  status += number(16, fields.storage_policy);
  if (fields.erasure_coded) status += length_delimited(17, number(4, 1));
  if (!fields.name_space.empty()) status += length_delimited(19, fields.name_space);
  return status;
}

Told created(const StatusFields& fields = {}) {
  return {"create", length_delimited(1, file_status(fields)), {}};
}
Told completed() { return {"complete", number(1, 1), {}}; }
Told defaults(bool encrypts = false) {
  const std::string fields = number(1, 64U << 20U) + number(2, 256) + number(3, 65536) +
                             number(4, 2) + number(5, 4096) + number(6, encrypts) + number(8, 2);
  return {"getServerDefaults", length_delimited(1, fields), {}};
}
Told refused(std::string method, std::string exception, std::string why = "refused") {
  return {std::move(method), {}, std::move(exception), std::move(why)};
}

// A block of 1000 bytes from `offset` on, at `node`.
LocatedBlock last_block(const DatanodeInfo& node, std::uint64_t offset) {
  LocatedBlock block;
  block.block = {"BP-1", 5, 50, 1000};
  block.offset = offset;
  block.replicas.push_back({node, StorageType::kDisk, "DS-1"});
  return block;
}

Told appended(const std::optional<LocatedBlock>& block, const std::optional<StatusFields>& status) {
  std::string body;
  wire::Writer response(body);
  if (block) wire::add_located_block(response, 1, *block);
  if (status) response.add_message(2, file_status(*status));
  return {"append", body, {}};
}

std::shared_ptr<Client> client_of(const NameNode& node) {
  Result<std::shared_ptr<Client>> client = Client::make(node.settings());
  REQUIRE(client.ok());
  return *std::move(client);
}

using Stream = Result<std::unique_ptr<stream::OutputStream>>;

// Holds a file of its own.
class Other final : public LeaseHolder {
  void lease_lost(const Status& /*failure*/) override {}
};

// Interrupts the first wait; says so to whoever waits for that.
class Stop final : public env::Interrupt {
 public:
  std::future<void> stopped() { return stopped_.get_future(); }

 private:
  Status check() override {
    stopped_.set_value();
    return Status(StatusCode::kInterrupted, "stopped");
  }
  std::promise<void> stopped_;
};

// Interrupts when that has happened.
class StopAfter final : public env::Interrupt {
 public:
  explicit StopAfter(std::future<void> happened) : happened_(std::move(happened)) {}

 private:
  Status check() override {
    happened_.wait();
    return Status(StatusCode::kInterrupted, "stopped");
  }
  std::future<void> happened_;
};

TEST_CASE("a client needs a NameNode") {
  Settings settings;
  settings.service = "nowhere";
  const Result<std::shared_ptr<Client>> client = Client::make(settings);
  CHECK(client.status().code() == StatusCode::kInvalidArgument);
  CHECK(client.status().message().find("'nowhere'") != std::string::npos);
}

TEST_CASE("create asks for what the options say, and else the settings") {
  NameNode node({created(), completed()});
  env::Uninterrupted none;
  {
    const auto client = client_of(node);
    CreateOptions options;
    options.overwrite = false;
    options.create_parent = false;
    options.masked = 0600;
    options.unmasked = 0640;
    options.block_size = 2048;
    options.lazy_persist = options.should_replicate = true;
    options.storage_policy = "HOT";
    options.ec_policy = "replication";
    Stream stream = create(*client, "/f", options, none);
    REQUIRE(stream.ok());
    CHECK((*stream)->path() == "/f");
    CHECK((*stream)->has_capability("hsync"));
    CHECK((*stream)->close(none).ok());
  }
  Create expected;
  expected.path = "/f";
  expected.masked = 0600;
  expected.unmasked = 0640;
  expected.client_name = "C1";
  expected.flags = kFlagCreate | kFlagLazyPersist | kFlagShouldReplicate;
  expected.create_parent = false;
  expected.replication = 3;
  expected.block_size = 2048;
  expected.storage_policy = "HOT";
  expected.ec_policy = "replication";
  const std::vector<ReceivedCall>& calls = node.calls();
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].request == expected.encode());
  CHECK(calls[1].request == Complete{"/f", "C1", std::nullopt, 77}.encode());
}

TEST_CASE("sizes that do not fit together are refused before anybody is asked") {
  NameNode node({});
  const auto client = client_of(node);
  env::Uninterrupted none;
  const auto refuses = [&](std::uint64_t block_size, std::uint32_t chunk, std::string_view what) {
    CreateOptions options;
    options.block_size = block_size;
    options.bytes_per_checksum = chunk;
    const Stream stream = create(*client, "/f", options, none);
    CHECK(stream.status().code() == StatusCode::kInvalidArgument);
    CHECK(stream.status().path() == "/f");
    CAPTURE(stream.status().message());
    CHECK(stream.status().message().find(what) != std::string::npos);
  };
  refuses(1000, 512, "block size 1000 is not a multiple of bytes per checksum 512");
  refuses(256, 512, "block size 256 is less than bytes per checksum 512");
  refuses(0, 512, "block size 0 is less than");
  refuses(512, 0, "bytes per checksum 0");
  refuses(64U << 20U, 32U << 20U, "do not fit into a packet");
  CHECK_FALSE(node.is_called());
}

TEST_CASE("RetryStartFileException is asked again, ten times") {
  const Told again = refused("create",
                             "org.apache.hadoop.hdfs.server.namenode."
                             "RetryStartFileException");
  env::Uninterrupted none;
  SUBCASE("and then it works") {
    NameNode node({again, again, created(), completed()});
    {
      const auto client = client_of(node);
      Stream stream = create(*client, "/f", {}, none);
      REQUIRE(stream.ok());
      CHECK((*stream)->close(none).ok());
    }
    const std::vector<ReceivedCall>& calls = node.calls();
    CHECK(calls[0].call_id != calls[1].call_id);  // another call, not a repeat of one
  }
  SUBCASE("and no more") {
    NameNode node(std::vector<Told>(11, again));
    const auto client = client_of(node);
    CHECK_FALSE(create(*client, "/f", {}, none).ok());
  }
}

Told found(const StatusFields& fields) {
  return {"getFileInfo", length_delimited(1, file_status(fields)), {}};
}

TEST_CASE("files that cannot be written are refused, and not left behind") {
  StatusFields fields;
  SUBCASE("erasure-coded") { fields.erasure_coded = true; }
  SUBCASE("encrypted") { fields.encrypted = true; }
  SUBCASE("behind a router") {
    fields.erasure_coded = true;
    fields.name_space = "ns1";
  }
  NameNode node({created(fields), found(fields), {"delete", number(1, 1), {}}});
  env::Uninterrupted none;
  {
    const auto client = client_of(node);
    const Stream stream = create(*client, "/f", {}, none);
    CHECK(stream.status().code() == StatusCode::kUnsupported);
    CHECK(stream.status().message().starts_with("create: "));
    CHECK(stream.status().message().find("may be left") == std::string::npos);
  }
  const std::vector<ReceivedCall>& calls = node.calls();
  CHECK(calls[1].request == GetFileInfo{"/f"}.encode());
  CHECK(calls[2].request == Delete{"/f", false}.encode());
}

TEST_CASE("a file that is not known to be the new one is not removed") {
  StatusFields fields;
  fields.erasure_coded = true;
  Told there = refused("getFileInfo", "java.io.IOException");
  SUBCASE("the NameNode does not say") {}
  SUBCASE("none is there") { there = {"getFileInfo", {}, {}}; }
  SUBCASE("another one is there") {
    StatusFields other = fields;
    other.file_id = 78;
    there = found(other);
  }
  NameNode node({created(fields), there});
  env::Uninterrupted none;
  const auto client = client_of(node);
  const Status failure = create(*client, "/f", {}, none).status();
  CHECK(failure.code() == StatusCode::kUnsupported);
  CHECK(failure.message().find("may be left") != std::string::npos);
  CHECK(failure.others().size() == 1);
}

Create creation(std::uint32_t flags) {
  Create request;
  request.path = "/d/f";
  request.client_name = "C1";
  request.flags = flags;
  request.block_size = 128U << 20U;
  return request;
}

TEST_CASE("CREATE-23: what is there is replaced only when its directory is known") {
  std::string taken = "org.apache.hadoop.fs.FileAlreadyExistsException";
  env::Uninterrupted none;
  SUBCASE("by a file with replicas, whatever becomes of the directory meanwhile") {
    SUBCASE("a closed file") {}
    SUBCASE("a file that is being written") {
      taken = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException";
    }
    NameNode node({refused("create", taken), found({}), defaults(), created(), completed()});
    {
      const auto client = client_of(node);
      Stream stream = create(*client, "/d/f", {}, none);
      REQUIRE(stream.ok());
      CHECK((*stream)->close(none).ok());
    }
    const std::vector<ReceivedCall>& calls = node.calls();
    CHECK(calls[0].request == creation(kFlagCreate).encode());
    CHECK(calls[1].request == GetFileInfo{"/d"}.encode());
    CHECK(calls[3].request ==
          creation(kFlagCreate | kFlagOverwrite | kFlagShouldReplicate).encode());
  }
  SUBCASE("not where it could not be written") {
    NameNode node({refused("create", taken), found({.erasure_coded = true})});
    const auto client = client_of(node);
    const Stream stream = create(*client, "/d/f", {}, none);
    CHECK(stream.status().code() == StatusCode::kUnsupported);
    CHECK(stream.status().path() == "/d/f");
  }
  SUBCASE("not where DataNodes want encryption") {
    NameNode node({refused("create", taken), found({}), defaults(true)});
    const auto client = client_of(node);
    const Stream stream = create(*client, "/d/f", {}, none);
    CHECK(stream.status().code() == StatusCode::kUnsupported);
    CHECK(stream.status().message().find("dfs.encrypt.data.transfer") != std::string::npos);
  }
  SUBCASE("in an encryption zone") {
    NameNode node(
        {refused("create", "org.apache.hadoop.hdfs.UnknownCryptoProtocolVersionException")});
    const auto client = client_of(node);
    CHECK(create(*client, "/d/f", {}, none).status().code() == StatusCode::kUnsupported);
  }
  SUBCASE("at once, if replicas were asked for") {
    NameNode node({defaults(), created(), completed()});
    const auto client = client_of(node);
    CreateOptions options;
    options.should_replicate = true;
    Stream stream = create(*client, "/d/f", options, none);
    REQUIRE(stream.ok());
    CHECK((*stream)->close(none).ok());
  }
  SUBCASE("not for a storage policy that nobody has") {
    const std::string hot = length_delimited(1, number(1, 7) + length_delimited(2, "HOT"));
    NameNode node({refused("create", taken), found({}), {"getStoragePolicies", hot, {}}});
    const auto client = client_of(node);
    CreateOptions options;
    options.storage_policy = "COLDER";
    const Stream stream = create(*client, "/d/f", options, none);
    CHECK(stream.status().code() == StatusCode::kInvalidArgument);
    CHECK(stream.status().message().find("'COLDER'") != std::string::npos);
  }
}

TEST_CASE("an erasure coding policy is refused before anybody is asked") {
  NameNode node({});
  const auto client = client_of(node);
  env::Uninterrupted none;
  CreateOptions options;
  options.ec_policy = "RS-6-3-1024k";
  const Stream stream = create(*client, "/f", options, none);
  CHECK(stream.status().code() == StatusCode::kUnsupported);
  CHECK(stream.status().message().find("RS-6-3-1024k") != std::string::npos);
  CHECK_FALSE(node.is_called());
}

TEST_CASE("a create whose answer was lost is asked about, when its caller has gone") {
  hflush::testing::ScriptedNameNode node;
  const Settings settings = settings_for(node);
  std::promise<void> asked;
  std::promise<void> gone;
  std::thread server([&] {
    ReceivedCall first;
    {
      auto connection = node.accept();
      first = connection.receive_call();
      asked.set_value();
      gone.get_future().wait();
    }
    auto connection = node.accept();
    const ReceivedCall question = connection.receive_call();
    CHECK(question.method == "create");
    CHECK(question.call_id == first.call_id);
    CHECK(question.client_id == first.client_id);
    CHECK(question.request == creation(0).encode());
    connection.answer(question, created().response);
    const ReceivedCall close = connection.receive_call();
    CHECK(close.request == Complete{"/d/f", "C1", std::nullopt, 77}.encode());
    connection.answer(close, number(1, 1));
  });
  Result<std::shared_ptr<Client>> client = Client::make(settings);
  REQUIRE(client.ok());
  StopAfter stop(asked.get_future());
  CHECK(create(**client, "/d/f", {}, stop).status().code() == StatusCode::kInterrupted);
  gone.set_value();
  server.join();
}

TEST_CASE("HDFS-2: the lease is renewed while append looks for the block's checksum") {
  hflush::testing::ScriptedNameNode node;
  testing::ScriptedDatanode datanode;
  datanode.store(5, testing::StoredReplica(hflush::testing::pattern(1000)));
  std::promise<void> renewed;
  datanode.follow([&](const testing::Operation&) -> std::optional<testing::Reply> {
    renewed.get_future().wait();
    return std::nullopt;
  });
  Settings settings = settings_for(node);
  settings.rpc.rpc_timeout = std::chrono::seconds(1);  // renews every half of that
  const LocatedBlock block = last_block(datanode.node(), 0);
  std::thread server([&] {
    auto connection = node.accept();
    connection.answer(connection.receive_call(),
                      appended(block, StatusFields{.length = 1000}).response);
    const ReceivedCall renewal = connection.receive_call();
    CHECK(renewal.method == "renewLease");
    connection.answer(renewal, {});
    renewed.set_value();
    while (true) {
      const ReceivedCall call = connection.receive_call();
      connection.answer(call, call.method == "complete" ? number(1, 1) : std::string());
      if (call.method == "complete") break;
    }
  });
  Result<std::shared_ptr<Client>> client = Client::make(settings);
  REQUIRE(client.ok());
  env::Uninterrupted none;
  Stream stream = append(**client, "/f", {}, none);
  REQUIRE(stream.ok());
  CHECK((*stream)->close(none).ok());
  server.join();
}

TEST_CASE("CREATE-11: a file that somebody writes is not created anew") {
  NameNode node(
      {refused("create", "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException")});
  const auto client = client_of(node);
  env::Uninterrupted none;
  CreateOptions options;
  options.overwrite = false;
  CHECK(create(*client, "/f", options, none).status().code() == StatusCode::kLeaseHeldExists);
}

TEST_CASE("a file that is opened for a caller who was interrupted is closed again, as it is") {
  hflush::testing::ScriptedNameNode node;
  const Settings settings = settings_for(node);
  Stop stop;
  std::future<void> stopped = stop.stopped();
  std::string completed_request;
  const auto serve = [&](const Told& told) {
    return std::thread([&, told] {
      auto connection = node.accept();
      const ReceivedCall call = connection.receive_call();
      stopped.wait();
      connection.answer(call, told.response);
      const ReceivedCall next = connection.receive_call();
      CHECK(next.method == "complete");
      completed_request = next.request;
      connection.answer(next, number(1, 1));
    });
  };
  Result<std::shared_ptr<Client>> client = Client::make(settings);
  REQUIRE(client.ok());
  SUBCASE("create") {
    std::thread server = serve(created());
    CHECK(create(**client, "/f", {}, stop).status().code() == StatusCode::kInterrupted);
    server.join();
    CHECK(completed_request == Complete{"/f", "C1", std::nullopt, 77}.encode());
  }
  SUBCASE("append") {
    testing::ScriptedDatanode datanode;
    const LocatedBlock block = last_block(datanode.node(), 0);
    std::thread server = serve(appended(block, StatusFields{.length = 1000}));
    CHECK(append(**client, "/f", {}, stop).status().code() == StatusCode::kInterrupted);
    server.join();
    CHECK(completed_request == Complete{"/f", "C1", block.block, 77}.encode());
  }
}

TEST_CASE("append goes on with the sums of the block, and completes it as it was if untouched") {
  testing::ScriptedDatanode datanode;
  datanode.store(5,
                 testing::StoredReplica(hflush::testing::pattern(1000), {crc::Kind::kCrc32, 256}));
  const LocatedBlock block = last_block(datanode.node(), 1U << 20U);
  StatusFields fields;
  fields.length = block.end();
  NameNode node({appended(block, fields), completed()});
  env::Uninterrupted none;
  {
    const auto client = client_of(node);
    Stream stream = append(*client, "/f", {}, none);
    REQUIRE(stream.ok());
    CHECK((*stream)->position() == block.end());
    CHECK((*stream)->close(none).ok());
  }
  const std::vector<ReceivedCall>& calls = node.calls();
  CHECK(calls[0].request == Append{"/f", "C1", kFlagAppend}.encode());
  CHECK(calls[1].request == Complete{"/f", "C1", block.block, 77}.encode());
  REQUIRE(datanode.operations().size() == 1);
  CHECK(datanode.operations()[0].code == testing::kReadBlock);
}

// What getBlockLocations answers about a file of so many bytes.
std::string locations_of(std::uint64_t length, const std::vector<LocatedBlock>& blocks) {
  std::string locations;
  wire::Writer response(locations);
  wire::Writer message(response, 1);
  message.add_uint64(1, length);
  for (const LocatedBlock& block : blocks) wire::add_located_block(message, 2, block);
  message.add_bool(3, true);
  message.add_bool(5, true);
  message.commit();
  return locations;
}

TEST_CASE("append goes on with chunks as configured where DataNodes may not say longer ones") {
  constexpr std::uint32_t kTenMiB = 10U << 20U;
  testing::ScriptedDatanode datanode;
  datanode.store(
      5, testing::StoredReplica(hflush::testing::pattern(1000), {crc::Kind::kCrc32, kTenMiB}));
  const LocatedBlock block = last_block(datanode.node(), 0);
  StatusFields fields{.length = 1000, .block_size = 32U << 20U};
  std::uint32_t configured = 16U << 20U;
  std::vector<Told> script{appended(block, fields), completed()};
  SUBCASE("in a partial block") {}
  SUBCASE("in a new one") {
    script = {appended(std::nullopt, fields),
              {"getBlockLocations", locations_of(1000, {block}), {}},
              completed()};
  }
  SUBCASE("unless those are shorter, and what they say divides a block") {
    configured = 1536;
    fields.block_size = 20U << 20U;
    script[0] = appended(block, fields);
  }
  NameNode node(script);
  Settings settings = node.settings();
  settings.write.bytes_per_checksum = configured;
  settings.write.max_packet_size = 20U << 20U;
  env::Uninterrupted none;
  const auto client = Client::make(settings);
  REQUIRE(client.ok());
  Stream stream = append(**client, "/f", {}, none);
  REQUIRE(stream.ok());  // sizes that do not divide the block are refused
  CHECK((*stream)->close(none).ok());
}

std::string token_to(std::string_view do_what) {
  return length_delimited(1, do_what) + length_delimited(2, "") + length_delimited(3, "") +
         length_delimited(4, "");
}

TEST_CASE("append asks for a token to read the block with, as its own is to write") {
  testing::ScriptedDatanode datanode;
  datanode.store(5, testing::StoredReplica(hflush::testing::pattern(1000)));
  LocatedBlock block = last_block(datanode.node(), 0);
  block.token.encoded = token_to("write");
  LocatedBlock readable = block;
  readable.token.encoded = token_to("read");
  NameNode node({appended(block, StatusFields{.length = 1000}),
                 {"getBlockLocations", locations_of(0, {readable}), {}},
                 completed()});
  env::Uninterrupted none;
  {
    const auto client = client_of(node);
    Stream stream = append(*client, "/f", {}, none);
    REQUIRE(stream.ok());
    CHECK((*stream)->close(none).ok());
  }
  REQUIRE(datanode.operations().size() == 1);
  CHECK(datanode.operations()[0].token == readable.token.encoded);
}

TEST_CASE("APPEND-10: append goes on with sums as configured if the file may not be read") {
  testing::ScriptedDatanode datanode;
  datanode.follow([](const testing::Operation&) {
    return testing::Reply{testing::refusing_reply(TransferStatus::kErrorAccessToken, ""),
                          testing::Reply::Then::kClose};
  });
  LocatedBlock block = last_block(datanode.node(), 0);
  std::size_t attempts = 1;
  SUBCASE("without a token") {}
  SUBCASE("with one to write") {
    block.token.encoded = token_to("write");
    attempts = 0;
  }
  NameNode node({appended(block, StatusFields{.length = 1000}),
                 refused("getBlockLocations", "org.apache.hadoop.security.AccessControlException"),
                 completed()});
  env::Uninterrupted none;
  {
    const auto client = client_of(node);
    Stream stream = append(*client, "/f", {}, none);
    REQUIRE(stream.ok());
    CHECK((*stream)->position() == 1000);
    CHECK((*stream)->close(none).ok());
  }
  CHECK(datanode.operations().size() == attempts);
}

TEST_CASE("a file that append cannot go on with is closed again") {
  testing::ScriptedDatanode datanode;
  datanode.store(5,
                 testing::StoredReplica(hflush::testing::pattern(1000), {crc::Kind::kCrc32, 300}));
  const LocatedBlock block = last_block(datanode.node(), 0);
  StatusFields fields;
  fields.length = 1000;
  StatusCode code = StatusCode::kUnsupported;
  SUBCASE("its chunks do not divide its blocks") { code = StatusCode::kInvalidArgument; }
  SUBCASE("it is erasure-coded") { fields.erasure_coded = true; }
  SUBCASE("it is encrypted") { fields.encrypted = true; }
  SUBCASE("its length and its last block do not agree") {
    fields.length = 1001;
    code = StatusCode::kIo;
  }
  NameNode node({appended(block, fields), completed()});
  env::Uninterrupted none;
  {
    const auto client = client_of(node);
    const Stream stream = append(*client, "/f", {}, none);
    CHECK(stream.status().code() == code);
    CHECK(stream.status().message().starts_with("append: "));
  }
  CHECK(node.calls()[1].method == "complete");
}

TEST_CASE("a file that could not be closed again is given back beside others") {
  hflush::testing::ScriptedNameNode node;
  Settings settings = settings_for(node);
  settings.rpc.rpc_timeout = std::chrono::seconds(1);  // and so long is the soft limit
  std::string refused_call;
  std::string refused_answer;  // empty: an exception
  std::function<Status(Client&)> open;
  env::Uninterrupted none;
  Stop stop;
  std::future<void> stopped = stop.stopped();
  bool is_interrupted = false;
  const auto appends = [&](Client& client) { return append(client, "/f", {}, none).status(); };
  SUBCASE("not enough replicas") {
    refused_call = "complete";
    refused_answer = number(1, 0);
    open = appends;
  }
  SUBCASE("complete is refused") {
    refused_call = "complete";
    open = appends;
  }
  SUBCASE("delete is refused") {
    refused_call = "delete";
    open = [&](Client& client) { return create(client, "/f", {}, none).status(); };
  }
  SUBCASE("nobody waits for it") {
    refused_call = "complete";
    refused_answer = number(1, 0);
    is_interrupted = true;
    open = [&](Client& client) { return append(client, "/f", {}, stop).status(); };
  }
  const StatusFields unusable{.length = 1000, .erasure_coded = true};
  std::promise<void> closed;
  std::string asked;
  std::thread server([&] {
    auto connection = node.accept();
    while (true) {
      const ReceivedCall call = connection.receive_call();
      if (call.method == "fsync") {
        asked = call.request;
        connection.refuse(call, "java.io.FileNotFoundException", "gone");
        return;
      }
      if (call.method == refused_call) {
        if (refused_answer.empty()) {
          connection.refuse(call, "java.io.IOException", "refused");
        } else {
          connection.answer(call, refused_answer);
        }
        closed.set_value();
      } else if (call.method == "getFileInfo") {
        connection.answer(call, found(unusable).response);
      } else if (call.method == "append" || call.method == "create") {
        if (is_interrupted) stopped.wait();
        connection.answer(call, call.method == "append" ? appended({}, unusable).response
                                                        : created(unusable).response);
      } else {
        CHECK(call.method == "renewLease");
        connection.answer(call, {});
      }
    }
  });
  Result<std::shared_ptr<Client>> client = Client::make(settings);
  REQUIRE(client.ok());
  const Status failure = open(**client);
  CHECK_FALSE(failure.ok());
  if (!is_interrupted && !refused_answer.empty()) {
    CHECK(failure.message().find("open still") != std::string::npos);
  }
  closed.get_future().wait();
  const auto other = std::make_shared<Other>();
  (*client)->leases().begin(78, "", other);
  server.join();
  CHECK(asked == Fsync{"/.reserved/.inodes/77", "C1", -1, 77}.encode());
}

// How opening a file fails whose first call ends like that.
Status failure_of(const std::function<Status(Client&)>& open, bool is_answered) {
  hflush::testing::ScriptedNameNode node;
  const Settings settings = settings_for(node);
  std::thread server([&] {
    auto connection = node.accept();
    const ReceivedCall call = connection.receive_call();
    if (!is_answered) return;  // closes it
    connection.refuse(call, "java.io.IOException", "refused");
    CHECK(connection.at_end());
  });
  Result<std::shared_ptr<Client>> client = Client::make(settings);
  REQUIRE(client.ok());
  const Status failure = open(**client);
  client->reset();
  server.join();
  return failure;
}

TEST_CASE("a create or append that nobody answers says that the file may be open") {
  env::Uninterrupted none;
  const auto creates = [&](Client& client) { return create(client, "/f", {}, none).status(); };
  const auto appends = [&](Client& client) { return append(client, "/f", {}, none).status(); };
  for (const std::function<Status(Client&)>& open :
       {std::function<Status(Client&)>(creates), std::function<Status(Client&)>(appends)}) {
    for (const bool is_answered : {false, true}) {
      CAPTURE(is_answered);
      const Status failure = failure_of(open, is_answered);
      CHECK_FALSE(failure.ok());
      CHECK(failure.path() == "/f");
      const bool says_so = failure.message().ends_with(
          "; the file may be open under this client's name: recover_lease frees it");
      CHECK(says_so == !is_answered);
    }
  }
}

TEST_CASE("APPEND-8: NEW_BLOCK leaves the last block short, and the status may come separately") {
  testing::ScriptedDatanode datanode;
  LocatedBlock block = last_block(datanode.node(), 0);
  block.replicas.clear();
  StatusFields fields;
  fields.length = 1000;
  const LocatedBlock there = last_block(datanode.node(), 0);
  datanode.store(5, testing::StoredReplica(hflush::testing::pattern(1000)));
  NameNode node({appended(block, std::nullopt),
                 found(fields),
                 {"getBlockLocations", locations_of(1000, {there}), {}},
                 completed()});
  env::Uninterrupted none;
  {
    const auto client = client_of(node);
    AppendOptions options;
    options.new_block = true;
    Stream stream = append(*client, "/f", options, none);
    REQUIRE(stream.ok());
    CHECK((*stream)->position() == 1000);
    CHECK((*stream)->close(none).ok());
  }
  const std::vector<ReceivedCall>& calls = node.calls();
  CHECK(calls[0].request == Append{"/f", "C1", kFlagAppend | kFlagNewBlock}.encode());
  CHECK(calls[3].request == Complete{"/f", "C1", block.block, 77}.encode());
}

TEST_CASE(
    "an append at a block's end names the last block, so that its first call can be repeated") {
  testing::ScriptedDatanode datanode;
  const LocatedBlock block = last_block(datanode.node(), 2000);
  StatusFields fields;
  fields.length = 3000;
  fields.block_size = 1024;
  LocatedBlock before = last_block(datanode.node(), 1000);
  before.block.id = 4;
  std::optional<ExtendedBlock> named = block.block;
  Told located{"getBlockLocations", locations_of(3000, {before, block}), {}};
  SUBCASE("with its sums as they are") {
    datanode.store(5, testing::StoredReplica(hflush::testing::pattern(1000)));
  }
  SUBCASE("unless the NameNode does not say") {
    located = refused("getBlockLocations", "org.apache.hadoop.security.AccessControlException");
    named.reset();
  }
  env::Uninterrupted none;
  for (const bool writes : {true, false}) {
    CAPTURE(writes);
    const Told next = writes ? refused("addBlock", "java.io.IOException") : completed();
    NameNode node({appended(std::nullopt, fields), located, next});
    {
      const auto client = client_of(node);
      AppendOptions options;
      options.no_local_write = options.ignore_client_locality = true;
      options.favored_nodes = {"a:1"};
      Stream stream = append(*client, "/f", options, none);
      REQUIRE(stream.ok());
      CHECK((*stream)->position() == 3000);
      if (writes) REQUIRE((*stream)->write(hflush::testing::pattern(10), none).ok());
      CHECK((*stream)->close(none).ok() == !writes);
    }
    AddBlock add;
    add.path = "/f";
    add.client_name = "C1";
    add.previous = named;
    add.file_id = 77;
    add.no_local_write = add.ignore_client_locality = true;
    add.favored_nodes = {"a:1"};
    CHECK(node.calls()[2].request ==
          (writes ? add.encode() : Complete{"/f", "C1", named, 77}.encode()));
  }
}

TEST_CASE("append waits for a block that is not reported yet") {
  Told not_yet = refused("append", "org.apache.hadoop.ipc.RetriableException");
  SUBCASE("the block is not complete") {}
  SUBCASE("it is, and the NameNode has restarted since") {
    not_yet = refused("append", "java.io.IOException",
                      "append: lastBlock=blk_1_1001 of src=/f is not sufficiently replicated yet.");
  }
  StatusFields empty;
  NameNode node({not_yet, appended(std::nullopt, empty), completed()});
  const auto start = std::chrono::steady_clock::now();
  env::Uninterrupted none;
  const auto client = client_of(node);
  Stream stream = append(*client, "/f", {}, none);
  REQUIRE(stream.ok());
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(500));
  CHECK((*stream)->close(none).ok());
}

TEST_CASE("the server's defaults are asked for once") {
  NameNode node({defaults()});
  const auto client = client_of(node);
  env::Uninterrupted none;
  for (int i = 0; i < 3; ++i) {
    const Result<ServerDefaults> known = client->server_defaults(none);
    REQUIRE(known.ok());
    CHECK(known->block_size == 64U << 20U);
    CHECK(known->bytes_per_checksum == 256);
    CHECK(known->replication == 2);
    CHECK(known->checksum == crc::Kind::kCrc32c);
  }
}

}  // namespace
}  // namespace hflush::hdfs
