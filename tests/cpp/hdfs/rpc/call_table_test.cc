// CallTable: what each event makes of a call, and what the client does for it.
#include "hflush/hdfs/rpc/call_table.h"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hdfs/sasl_server.h"
#include "hdfs/scripted_name_node.h"

namespace hflush::hdfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::rpc_exception;
using testing::rpc_success;
using Actions = CallTable::Actions;
using CallId = CallTable::CallId;
using LinkId = CallTable::LinkId;
using Stage = CallTable::Stage;

constexpr std::string_view kStandby = "org.apache.hadoop.ipc.StandbyException";
constexpr std::string_view kSafeMode = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";
constexpr std::string_view kMissing = "java.io.FileNotFoundException";
constexpr env::Duration kPause = milliseconds(100);

RpcSettings settings() {
  RpcSettings settings;
  settings.connect_retries = 1;
  settings.connect_retry_interval = kPause;
  settings.rpc_timeout = seconds(120);
  settings.ping_interval = seconds(60);
  settings.idle_time = seconds(10);
  settings.failover_base = kPause;
  settings.random_order = false;
  return settings;
}

RpcTarget name_nodes(std::size_t count) {
  RpcTarget target;
  target.name = "ns1";
  for (std::size_t i = 0; i < count; ++i) {
    target.servers.push_back({"nn" + std::to_string(i), 8020});
  }
  return target;
}

// A table, the time, and what the last event asked for.
struct Table {
  explicit Table(std::size_t servers = 1, const RpcSettings& with = settings())
      : Table(name_nodes(servers), with) {}
  explicit Table(const RpcTarget& target, const RpcSettings& with = settings())
      : table(target, "alice", with, {}, 7) {}

  CallId start(Repeat repeat = Repeat::kIdempotent, env::Duration patience = {}) {
    return table.start("getFileInfo", {repeat, patience}, "body", "/path", now, next());
  }
  void connected(LinkId link, const sasl::HeldTokens& tokens = {}) {
    table.connected(link, "10.0.0.1", tokens, now, next());
  }
  void refused(LinkId link) {
    const Status why(StatusCode::kIo, "connect: Connection refused", {}, ECONNREFUSED);
    table.connect_failed(link, why, now, next());
  }
  void received(LinkId link, const std::string& bytes) {
    table.received(link, as_bytes(bytes), now, next());
  }
  void lost(LinkId link, int error_number = 0) { table.lost(link, error_number, now, next()); }
  // Until the table has something to do.
  void wait() {
    REQUIRE(table.due() != env::TimePoint::max());
    now = std::max(now, table.due());
    table.time_passed(now, next());
  }
  void close() { table.close(next()); }

  Actions& next() {
    actions.clear();
    return actions;
  }

  // The last actions, a line each: "connect 0.1", "send 0.1", "disconnect 0.1", "answer 0: ok".
  std::string did() const {
    std::string text;
    const auto name = [](LinkId link) {
      return std::to_string(link.server) + "." + std::to_string(link.serial);
    };
    for (const CallTable::Action& action : actions) {
      if (!text.empty()) text += ", ";
      if (const auto* connect = std::get_if<CallTable::Connect>(&action)) {
        text += "connect " + name(connect->link);
      } else if (const auto* send = std::get_if<CallTable::Send>(&action)) {
        text += "send " + name(send->link);
      } else if (const auto* ended = std::get_if<CallTable::Disconnect>(&action)) {
        text += "disconnect " + name(ended->link);
      } else if (const auto* answer = std::get_if<CallTable::Answer>(&action)) {
        text += "answer " + std::to_string(answer->call) + ": " +
                (answer->body.ok() ? *answer->body : "failed");
      }
    }
    return text;
  }
  Status failure() const {
    for (const CallTable::Action& action : actions) {
      const auto* answer = std::get_if<CallTable::Answer>(&action);
      if (answer != nullptr && !answer->body.ok()) return answer->body.status();
    }
    return {};
  }

  env::TimePoint now = env::TimePoint() + std::chrono::hours(1);
  CallTable table;
  Actions actions;
};

constexpr LinkId kFirst{0, 1};
constexpr LinkId kOther{1, 2};

// A call of a name service with two NameNodes, in each of its stages.
Table in_stage(Stage stage) {
  Table t(2);
  REQUIRE(t.start() == 0);
  if (stage == Stage::kConnecting) return t;
  t.connected(kFirst);
  if (stage == Stage::kSent) return t;
  if (stage == Stage::kFailoverPause) {
    t.received(kFirst, rpc_exception(0, kStandby, "standby"));
  } else {
    t.received(kFirst, rpc_exception(0, "org.apache.hadoop.ipc.RetriableException", "soon"));
  }
  REQUIRE(t.table.stage(0) == stage);
  return t;
}

struct Row {
  const char* event;
  void (*happens)(Table& t);
  // What follows in each stage: the actions, and the stage after them ("-": the call is over).
  std::array<const char*, 4> expected;
};

std::string name_of(const std::optional<Stage>& stage) {
  if (!stage) return "-";
  constexpr std::array kNames = {"connecting", "sent", "retry pause", "failover pause"};
  return kNames[static_cast<std::size_t>(*stage)];
}

// The table of the header: connecting, sent, retry pause, failover pause.
const std::vector<Row> kRows = {
    {"connected",
     [](Table& t) { t.connected(kFirst); },
     {"send 0.1, send 0.1; sent", "; sent", "; retry pause", "; failover pause"}},
    {"connect failed",
     [](Table& t) { t.refused(kFirst); },
     {"disconnect 0.1; failover pause", "; sent", "; retry pause", "; failover pause"}},
    {"response",
     [](Table& t) { t.received(kFirst, rpc_success(0, "done")); },
     {"; connecting", "answer 0: done; -", "; retry pause", "; failover pause"}},
    {"error of the file",
     [](Table& t) { t.received(kFirst, rpc_exception(0, kMissing, "none")); },
     {"; connecting", "answer 0: failed; -", "; retry pause", "; failover pause"}},
    {"error of the server",
     [](Table& t) { t.received(kFirst, rpc_exception(0, kStandby, "no")); },
     {"; connecting", "; failover pause", "; retry pause", "; failover pause"}},
    {"fatal",
     [](Table& t) { t.received(kFirst, rpc_exception(0, kStandby, "no", 2)); },
     {"; connecting", "disconnect 0.1; failover pause", "disconnect 0.1; retry pause",
      "disconnect 0.1; failover pause"}},
    {"garbage",
     [](Table& t) { t.received(kFirst, std::string(4, '\0')); },
     {"; connecting", "disconnect 0.1; failover pause", "disconnect 0.1; retry pause",
      "disconnect 0.1; failover pause"}},
    {"lost",
     [](Table& t) { t.lost(kFirst, ECONNRESET); },
     {"; connecting", "disconnect 0.1; failover pause", "disconnect 0.1; retry pause",
      "disconnect 0.1; failover pause"}},
    {"lost, an earlier connection",
     [](Table& t) { t.lost({0, 99}, ECONNRESET); },
     {"; connecting", "; sent", "; retry pause", "; failover pause"}},
    {"cancel", [](Table& t) { CHECK(t.table.cancel(0, t.now)); }, {"; -", "; -", "; -", "; -"}},
    {"disown",
     [](Table& t) { t.table.disown(0, "question", t.now); },
     {"; -", "; sent", "; retry pause", "; failover pause"}},
    {"close",
     [](Table& t) { t.close(); },
     {"disconnect 0.1, answer 0: failed; -", "disconnect 0.1, answer 0: failed; -",
      "disconnect 0.1, answer 0: failed; -", "disconnect 0.1, answer 0: failed; -"}},
};

TEST_CASE("call table: every event in every stage") {
  for (const Row& row : kRows) {
    for (std::size_t i = 0; i < row.expected.size(); ++i) {
      CAPTURE(row.event);
      CAPTURE(i);
      Table t = in_stage(static_cast<Stage>(i));
      t.next();
      row.happens(t);
      CHECK(t.did() + "; " + name_of(t.table.stage(0)) == row.expected[i]);
    }
  }
}

TEST_CASE("call table: a pause ends at its time, with the same server or the next one") {
  Table t = in_stage(Stage::kRetryPause);
  const env::TimePoint due = t.table.due();
  t.table.time_passed(due - milliseconds(1), t.next());
  CHECK(t.did().empty());
  t.wait();
  CHECK(t.did() == "send 0.1");
  CHECK(t.table.counts().failovers == 0);

  Table over = in_stage(Stage::kFailoverPause);
  over.wait();
  CHECK(over.did() == "connect 1.2");
  CHECK(over.table.counts().failovers == 1);
  CHECK(over.table.stage(0) == Stage::kConnecting);
  over.connected(kOther);
  CHECK(over.did() == "send 1.2, send 1.2");
  over.received(kOther, rpc_success(0, "done"));
  CHECK(over.did() == "answer 0: done");
  CHECK(over.table.counts().retries == 1);
  CHECK(over.table.counts().connections == 2);
  CHECK(over.table.counts().failures == 0);
}

TEST_CASE("call table: calls that fail over at once go to the same server, one failover") {
  Table t(2);
  for (const CallId call : {0, 1, 2}) REQUIRE(t.start() == call);
  CHECK(t.did().empty());  // the first one's connection is being made
  t.refused(kFirst);
  CHECK(t.did() == "disconnect 0.1");
  while (t.table.stage(2) != Stage::kConnecting) t.wait();
  t.connected(kOther);
  CHECK(t.did() == "send 1.2, send 1.2, send 1.2, send 1.2");
  CHECK(t.table.counts().failovers == 1);
  CHECK(t.table.counts().connections == 2);
}

TEST_CASE("call table: a refused connection is tried as configured, then told with numbers") {
  Table t;
  t.start();
  t.refused(kFirst);
  CHECK(t.did() == "disconnect 0.1");
  const env::TimePoint paused = t.now;
  t.wait();
  CHECK(t.now == paused + kPause);
  CHECK(t.did() == "connect 0.2");
  t.refused({0, 2});
  CHECK(t.did() == "disconnect 0.2, answer 0: failed");
  CHECK(t.failure().message() ==
        "getFileInfo: NameNode nn0:8020: connect: Connection refused (2 attempts in 0.1 s)");
  CHECK(t.failure().path() == "/path");
  CHECK(t.table.due() == env::TimePoint::max());
}

TEST_CASE("call table: a patient call outlives a restart of its only NameNode, with the same ids") {
  Table t;
  t.start(Repeat::kAtMostOnce, seconds(60));
  t.connected(kFirst);
  t.lost(kFirst, ECONNRESET);
  const env::TimePoint lost = t.now;
  std::uint64_t connections = 1;
  while (t.now < lost + seconds(30)) {  // it is down
    t.wait();
    REQUIRE(t.did() == "connect 0." + std::to_string(++connections));
    t.refused({0, connections});
    REQUIRE(t.table.stage(0) == Stage::kRetryPause);
  }
  t.wait();
  t.connected({0, ++connections});
  t.received({0, connections}, rpc_exception(0, kSafeMode, "it is starting"));
  CHECK(t.table.stage(0) == Stage::kRetryPause);
  t.wait();
  CHECK(t.did() == "send 0." + std::to_string(connections));
  t.received({0, connections}, rpc_success(0, "done"));
  CHECK(t.did() == "answer 0: done");
  CHECK(t.table.counts().failures == 0);
}

TEST_CASE("call table: patience counts from the first failure, and ends with what was seen last") {
  Table t;
  t.start(Repeat::kIdempotent, seconds(60));
  t.connected(kFirst);
  t.now += seconds(100);  // a call that takes long has failed at no time
  t.lost(kFirst);
  const env::TimePoint lost = t.now;
  std::uint64_t connections = 1;
  while (t.failure().ok()) {
    t.wait();
    if (!t.did().empty()) t.refused({0, ++connections});
  }
  CHECK(t.now > lost + seconds(60) - 2 * RetryPolicy::kLongestPatientPause);
  CHECK(t.now < lost + seconds(60) + kPause);
  CHECK(t.failure().message().starts_with(
      "getFileInfo: NameNode nn0:8020: connect: Connection refused ("));
}

TEST_CASE("call table: what cannot be sent is answered at once") {
  Table t;
  t.table.start("mkdirs", {}, std::string(settings().max_request_bytes, 'x'), "/path", t.now,
                t.next());
  CHECK(t.failure().code() == StatusCode::kInvalidArgument);
  CHECK(t.table.counts().calls == 0);
  t.close();
  CHECK(t.did().empty());
  const CallId call = t.start();
  CHECK(t.did() == "answer " + std::to_string(call) + ": failed");
  CHECK(t.failure().code() == StatusCode::kClosed);
  CHECK_FALSE(t.table.stage(call));
  CHECK(t.table.counts().calls == 1);
  CHECK(t.table.counts().failures == 1);
}

TEST_CASE("call table: time out, ping, and the end of an idle connection") {
  Table t;
  t.start();
  t.connected(kFirst);
  t.received(kFirst, rpc_success(0, "first"));
  t.start();
  const env::TimePoint sent = t.now;
  bool pinged = false;
  while (t.table.stage(1) == Stage::kSent) {
    t.wait();
    pinged = pinged || t.did() == "send 0.1";
    if (pinged && t.now < sent + seconds(100)) t.received(kFirst, rpc_success(999, "stray"));
  }
  CHECK(pinged);
  CHECK(t.now == sent + settings().rpc_timeout);
  CHECK(t.failure().code() == StatusCode::kTimedOut);
  const env::TimePoint idle = t.now;
  while (t.did() != "disconnect 0.1") t.wait();
  CHECK(t.now == idle + settings().idle_time);
  CHECK(t.table.due() == env::TimePoint::max());
}

TEST_CASE(
    "call table: without idle time a connection ends after its calls, and is not watched for it") {
  RpcSettings with = settings();
  with.idle_time = {};
  Table t(1, with);
  t.start();
  t.connected(kFirst);
  t.wait();
  CHECK(t.did().empty());
  CHECK(t.table.due() > t.now);
  t.received(kFirst, rpc_success(0, "first"));
  t.wait();
  CHECK(t.did() == "disconnect 0.1");
}

TEST_CASE("call table: a disowned call goes on with the question, one that was not sent does not") {
  Table t(2);
  t.start(Repeat::kAtMostOnce);
  t.connected(kFirst);
  CHECK(t.table.disown(0, "question", t.now));
  t.lost(kFirst);
  while (t.table.stage(0) != Stage::kConnecting) t.wait();
  t.connected(kOther);
  const auto& sent = std::get<CallTable::Send>(t.actions.back());
  CHECK(sent.bytes.ends_with("question"));
  CHECK_FALSE(t.table.disown(99, "", t.now));
  Table early;
  early.start();
  CHECK_FALSE(early.table.disown(0, "question", early.now));
  CHECK_FALSE(early.table.stage(0));
}

TEST_CASE("call table: ids come round, and none is given to two calls") {
  Table t;
  std::set<CallId> known;
  for (int i = 0; i < 1000; ++i) CHECK(known.insert(t.start()).second);
  for (const CallId call : known) CHECK(t.table.cancel(call, t.now));
  CHECK_FALSE(t.table.cancel(5, t.now));
}

// Servers and callers that do anything in any order: each call is answered once, unless it is
// cancelled, and no connection is used that the table has given up.
TEST_CASE("call table: a simulation answers every call once") {
  int answered_well = 0;
  int failed = 0;
  int failovers = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto dice = [&random](int sides) {
      return static_cast<int>(random() % static_cast<unsigned>(sides));
    };
    RpcSettings with = settings();
    with.max_failovers = 3;
    Table t(1 + static_cast<std::size_t>(dice(3)), with);
    std::set<CallId> open;
    std::map<std::size_t, std::pair<LinkId, bool>> links;  // whether they stand
    const auto follow = [&] {
      for (const CallTable::Action& action : t.actions) {
        if (const auto* connect = std::get_if<CallTable::Connect>(&action)) {
          REQUIRE(links.emplace(connect->link.server, std::pair(connect->link, false)).second);
        } else if (const auto* send = std::get_if<CallTable::Send>(&action)) {
          REQUIRE(links.contains(send->link.server));
          REQUIRE(links.at(send->link.server) == std::pair(send->link, true));
        } else if (const auto* ended = std::get_if<CallTable::Disconnect>(&action)) {
          REQUIRE(links.contains(ended->link.server));
          REQUIRE(links.at(ended->link.server).first == ended->link);
          links.erase(ended->link.server);
        } else if (const auto* answer = std::get_if<CallTable::Answer>(&action)) {
          REQUIRE(open.erase(answer->call) == 1);
          ++(answer->body.ok() ? answered_well : failed);
        }
      }
      t.next();
    };
    const auto any_call = [&] {
      auto found = open.begin();
      std::advance(found, dice(static_cast<int>(open.size())));
      return *found;
    };
    for (int step = 0; step < 200; ++step) {
      switch (dice(9)) {
        case 0:
        case 1:
          open.insert(t.start(dice(2) == 0 ? Repeat::kIdempotent : Repeat::kNever));
          break;
        case 2:
          if (t.table.due() != env::TimePoint::max()) t.wait();
          break;
        case 3:
          if (open.empty()) break;
          if (const CallId call = any_call(); dice(4) == 0) {
            REQUIRE(t.table.cancel(call, t.now));
            open.erase(call);
          } else if (dice(4) == 0 && !t.table.disown(call, "?", t.now)) {
            open.erase(call);
          }
          break;
        default: {
          if (links.empty()) break;
          auto& [link, stands] = links.begin()->second;
          const LinkId id = link;
          if (!stands) {
            stands = dice(3) > 0;
            stands ? t.connected(id) : t.refused(id);
          } else if (const int what = dice(8); what == 0) {
            t.lost(id, dice(2) == 0 ? 0 : ECONNRESET);
          } else if (!open.empty()) {
            const CallId call = any_call();
            t.received(id, what < 5    ? rpc_success(call, "ok")
                           : what == 5 ? rpc_exception(call, kMissing, "none")
                           : what == 6 ? rpc_exception(call, kStandby, "standby")
                                       : rpc_exception(call, kStandby, "go", dice(2) == 0 ? 2 : 1));
          }
        }
      }
      follow();
    }
    failovers += static_cast<int>(t.table.counts().failovers);
    t.close();
    follow();
    CHECK(open.empty());
    CHECK(links.empty());
  }
  CHECK(answered_well > 1000);
  CHECK(failed > 1000);
  CHECK(failovers > 100);
}

// --- who calls

sasl::HeldTokens held(std::string_view identifier, std::string_view service = "10.0.0.1:8020",
                      std::string_view kind = sasl::kDelegationToken) {
  const sasl::Token token{std::string(identifier), "pass", std::string(kind), std::string(service)};
  return {{token}, "/run/tokens"};
}

const std::string kOffer = testing::sasl_message(
    SaslState::kNegotiate, testing::token_auth(testing::challenge()) + testing::simple_auth());

// What the last event sends.
std::string sent(const Table& t) {
  std::string bytes;
  for (const CallTable::Action& action : t.actions) {
    if (const auto* send = std::get_if<CallTable::Send>(&action)) bytes += send->bytes;
  }
  return bytes;
}

// Until the server has proven that it knows the token.
void agree(Table& t, LinkId link, const sasl::Token& token) {
  t.received(link, kOffer);
  const std::string response = sent(t);
  CHECK(response.find("username=\"" + to_base64(as_bytes(token.identifier)) + '"') !=
        std::string::npos);
  t.received(link, testing::sasl_token(SaslState::kSuccess, testing::proof(response, token)));
}

TEST_CASE("who calls: calls wait for both sides to agree, and no name goes beside a token") {
  Table t;
  const auto tokens = held("olga");
  REQUIRE(t.start() == 0);
  t.connected(kFirst, tokens);
  CHECK(sent(t) == SaslHandshake::greeting());
  CHECK(t.table.stage(0) == Stage::kConnecting);
  REQUIRE(t.start() == 1);  // meanwhile
  CHECK(t.did().empty());
  agree(t, kFirst, tokens.tokens.front());
  CHECK(t.did() == "send 0.1, send 0.1, send 0.1");  // the context, and both calls
  CHECK(sent(t).find("alice") == std::string::npos);
  CHECK(t.table.stage(0) == Stage::kSent);
  CHECK(t.table.stage(1) == Stage::kSent);
  REQUIRE(t.start() == 2);
  CHECK(t.did() == "send 0.1");
  t.received(kFirst, rpc_success(1, "b") + rpc_success(0, "a"));
  CHECK(t.did() == "answer 1: b, answer 0: a");
}

TEST_CASE("who calls: answers that come with the end of the handshake are taken") {
  Table t;
  const auto tokens = held("olga");
  t.start();
  t.connected(kFirst, tokens);
  t.received(kFirst, kOffer);
  const std::string proof = testing::proof(sent(t), tokens.tokens.front());
  t.received(kFirst, testing::sasl_token(SaslState::kSuccess, proof) + rpc_success(0, "a"));
  CHECK(t.did() == "send 0.1, send 0.1, answer 0: a");
}

TEST_CASE("who calls: a token is for a kind and a service; else the connection goes without") {
  struct Service {
    std::size_t servers;
    std::string_view service;
    std::string_view kind;
    bool is_used;
  };
  const Service rows[] = {
      {1, "10.0.0.1:8020", sasl::kDelegationToken, true},
      {1, "nn0:8020", sasl::kDelegationToken, true},
      {1, "10.0.0.1:8021", sasl::kDelegationToken, false},
      {1, "10.0.0.11:8020", sasl::kDelegationToken, false},
      {1, "10.0.0.1:8020", "kms-dt", false},
      {1, "ha-hdfs:ns1", sasl::kDelegationToken, true},
      {1, "", sasl::kDelegationToken, false},
      {1, "", "HDFS_BLOCK_TOKEN", false},
      {2, "ha-hdfs:ns1", sasl::kDelegationToken, true},
      {2, "ha-hdfs:ns11", sasl::kDelegationToken, false},
      {2, "ha-hdfs:ns1", "HIVE_DELEGATION_TOKEN", false},
  };
  for (const Service& row : rows) {
    CAPTURE(row.service);
    CAPTURE(row.kind);
    Table t(row.servers);
    t.start();
    t.connected(kFirst, held("olga", row.service, row.kind));
    CHECK((sent(t) == SaslHandshake::greeting()) == row.is_used);
    CHECK((t.table.stage(0) == Stage::kConnecting) == row.is_used);
  }
}

TEST_CASE("who calls: a DataNode gets the token of the block, which is for no service") {
  RpcTarget datanode = name_nodes(1);
  datanode.protocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
  for (const std::string_view kind : {"HDFS_BLOCK_TOKEN", "HDFS_DELEGATION_TOKEN", ""}) {
    CAPTURE(kind);
    Table t(datanode);
    t.start();
    t.connected(kFirst, held("block", "", kind));
    CHECK((sent(t) == SaslHandshake::greeting()) == (kind == "HDFS_BLOCK_TOKEN"));
  }
}

TEST_CASE("who calls: every connection takes the tokens of its time") {
  Table t;
  t.start();
  t.connected(kFirst, held("old"));
  agree(t, kFirst, held("old").tokens.front());
  t.received(kFirst, rpc_success(0, "a"));
  t.wait();
  REQUIRE(t.did() == "disconnect 0.1");  // idle
  t.start();
  const LinkId second{0, 2};
  t.connected(second, held("new"));
  agree(t, second, held("new").tokens.front());
  t.received(second, rpc_success(1, "b"));
  CHECK(t.did() == "answer 1: b");
}

TEST_CASE("who calls: a refusal is final for the calls, and nothing is sent after it") {
  Table t(2);
  t.start();
  t.start();
  t.connected(kFirst, held("olga", "ha-hdfs:ns1"));
  t.received(kFirst, kOffer);
  SUBCASE("the server's") {
    t.received(kFirst, rpc_exception(-33, "javax.security.sasl.SaslException", "no", 2));
  }
  SUBCASE("this client's") {
    t.received(kFirst, testing::sasl_token(SaslState::kSuccess, "rspauth=0") + kOffer);
  }
  CHECK(t.did() == "disconnect 0.1, answer 0: failed, answer 1: failed");
  CHECK(t.failure().code() == StatusCode::kPermissionDenied);
  CHECK(t.failure().message().find("the token for ha-hdfs:ns1, of /run/tokens") !=
        std::string::npos);
  CHECK(t.failure().message().find("pass") == std::string::npos);
}

TEST_CASE("who calls: a standby that knows no token sends the call to the other NameNode") {
  Table t(2);
  const auto tokens = held("olga", "ha-hdfs:ns1");
  t.start();
  t.connected(kFirst, tokens);
  t.received(kFirst, kOffer);
  t.received(kFirst, rpc_exception(-33, kStandby, "standby", 2));
  CHECK(t.did() == "disconnect 0.1");
  t.wait();
  CHECK(t.did() == "connect 1.2");
  t.connected(kOther, tokens);
  agree(t, kOther, tokens.tokens.front());
  t.received(kOther, rpc_success(0, "a"));
  CHECK(t.did() == "answer 0: a");
}

TEST_CASE("who calls: silence in the handshake ends, with and without a limit for calls") {
  for (const env::Duration limit :
       {env::Duration::zero(), env::Duration(seconds(20)), env::Duration(seconds(120))}) {
    for (const bool has_offered : {false, true}) {
      RpcSettings with = settings();
      with.rpc_timeout = limit;
      Table t(1, with);
      const env::TimePoint begin = t.now;
      t.start();
      t.connected(kFirst, held("olga"));
      if (has_offered) t.received(kFirst, kOffer);
      t.wait();
      CHECK(t.did().starts_with("disconnect 0.1"));
      CHECK(t.now - begin == (limit == seconds(20) ? limit : env::Duration(seconds(60))));
    }
  }
}

TEST_CASE("who calls: a call that nobody waits for leaves a handshake that ends all the same") {
  Table t;
  const auto tokens = held("olga");
  t.start();
  t.connected(kFirst, tokens);
  CHECK(t.table.cancel(0, t.now));
  agree(t, kFirst, tokens.tokens.front());
  CHECK(t.did() == "send 0.1");
  t.wait();
  CHECK(t.did() == "disconnect 0.1");  // idle
}

TEST_CASE("who calls: where it has to be known, a server that does not ask is refused") {
  for (const bool falls_back : {false, true}) {
    RpcSettings with = settings();
    with.requires_authentication = true;
    with.fallback_to_simple = falls_back;
    Table t(1, with);
    t.start();
    t.connected(kFirst);
    CHECK(sent(t) == SaslHandshake::greeting());
    t.received(kFirst, testing::sasl_message(SaslState::kNegotiate, testing::simple_auth()));
    CHECK(t.failure().ok() == falls_back);
    CHECK((sent(t).find("alice") != std::string::npos) == falls_back);
  }
}

}  // namespace
}  // namespace hflush::hdfs
