// Settings: every key is read where it says, every bad value is refused by name, and authorities
// become the right NameNodes.
#include "hflush/hdfs/settings.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <set>

namespace hflush::hdfs {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Settings read(const ConfigurationMap& map, const std::string& authority = "nn:8020") {
  Result<Settings> settings = Settings::from_map(map, authority, "alice");
  CAPTURE(settings.status().to_string());
  REQUIRE(settings.ok());
  return *std::move(settings);
}

std::string refusal(const ConfigurationMap& map, const std::string& authority = "nn:8020") {
  const Result<Settings> settings = Settings::from_map(map, authority, "alice");
  REQUIRE_FALSE(settings.ok());
  CHECK(settings.status().code() == StatusCode::kInvalidArgument);
  return settings.status().message();
}

std::string servers(const Settings& settings) {
  std::string text;
  for (const env::Endpoint& endpoint : settings.name_nodes) text += endpoint.to_string() + " ";
  return text;
}

struct Key {
  std::string_view type;
  std::string key;
  std::string fallback;
};

std::vector<Key> all_keys() {
  return {
#define HFLUSH_HDFS_NAME(constant, key, fallback, effect)
#define HFLUSH_HDFS_KEY(type, key, fallback, member, effect) Key{#type, key, fallback},
#include "hflush/hdfs/keys.inc"
#undef HFLUSH_HDFS_KEY
#undef HFLUSH_HDFS_NAME
  };
}

TEST_CASE("without a configuration each member has the default of its key") {
  const Settings fresh;
  const Settings settings = read({});
#define HFLUSH_HDFS_NAME(constant, key, fallback, effect)
#define HFLUSH_HDFS_KEY(type, key, fallback, member, effect) \
  {                                                          \
    CAPTURE(key);                                            \
    CHECK((settings.member == fresh.member));                \
  }
#include "hflush/hdfs/keys.inc"
#undef HFLUSH_HDFS_KEY
#undef HFLUSH_HDFS_NAME
  CHECK(settings.read.prefetch_bytes == 10 * settings.write.block_size);
  CHECK(settings.user == "alice");
  CHECK(settings.service == "nn:8020");
}

TEST_CASE("each key changes its own member, and no other") {
  const std::map<std::string_view, std::string> values = {
      {"Milliseconds", "77s"}, {"Seconds", "77"},      {"Timeout", "77s"},
      {"Count", "77"},         {"AtLeastOne", "77"},   {"Size", "77k"},
      {"BufferSize", "77k"},   {"Limit", "77k"},       {"ChecksumType", "crc32"},
      {"RetrySpec", "5,7"},    {"OptionalSize", "77"}, {"OptionalBoolean", "true"}};
  const Settings usual = read({});
  std::set<std::string> seen;
  for (const Key& key : all_keys()) {
    CAPTURE(key.key);
    CHECK(seen.insert(key.key).second);
    const std::string value =
        key.type == "Boolean" ? (key.fallback == "true" ? "false" : "TRUE") : values.at(key.type);
    const Settings changed = read({{key.key, value}});
    int differences = 0;
#define HFLUSH_HDFS_NAME(constant, name, fallback, effect)
#define HFLUSH_HDFS_KEY(type, name, fallback, member, effect)                                    \
  if (!(changed.member == usual.member)) {                                                       \
    const bool follows =                                                                         \
        key.key == "dfs.blocksize" && std::string_view(name) == "dfs.client.read.prefetch.size"; \
    CHECK((follows || key.key == name));                                                         \
    differences += follows ? 0 : 1;                                                              \
  }
#include "hflush/hdfs/keys.inc"
#undef HFLUSH_HDFS_KEY
#undef HFLUSH_HDFS_NAME
    CHECK(differences == 1);
  }
  CHECK(seen.size() > 40);
}

TEST_CASE("a bad value is refused with its key, itself and what is allowed") {
  const std::map<std::string_view, std::vector<std::string>> bad = {
      {"Milliseconds", {"x", "-1", "5w", "1.5s", "s", "5 5"}},
      {"Seconds", {"x", "-1"}},
      {"Timeout", {"x", "-1"}},
      {"Count", {"x", "-1", "99999999999999999999", "4294967296", "1.0", "1k"}},
      {"AtLeastOne", {"0", "-3", "x"}},
      {"Size", {"0", "-1", "k", "1q", "9223372036854775807k", "8e8e", "--1"}},
      {"BufferSize", {"-1", "3g", "x"}},
      {"Limit", {"-1", "2147483648", "x"}},
      {"Boolean", {"yes", "1", "truee"}},
      {"ChecksumType", {"NULL", "md5"}},
      {"RetrySpec", {"5", "5,", "x,1", "5,0", "5,-1", "1,2,3"}},
      {"OptionalSize", {"-1", "x"}},
      {"OptionalBoolean", {"maybe"}}};
  for (const Key& key : all_keys()) {
    for (const std::string& value : bad.at(key.type)) {
      CAPTURE(key.key);
      CAPTURE(value);
      const std::string message = refusal({{key.key, value}});
      CHECK(message.starts_with(key.key + " must be "));
      CHECK(message.ends_with(", not '" + value + "'"));
    }
  }
  CHECK(refusal({{"dfs.replication", "0"}}) ==
        "dfs.replication must be a whole number from 1 to 4294967295, not '0'");
}

TEST_CASE("times have units, sizes have prefixes, in any case and with blanks around") {
  const auto time = [](const std::string& text) {
    return read({{"dfs.client.socket-timeout", text}}).write.socket_timeout;
  };
  CHECK(time("500") == milliseconds(500));
  CHECK(time(" 30s ") == seconds(30));
  CHECK(time("2 M") == minutes(2));
  CHECK(time("1H") == hours(1));
  CHECK(time("1d") == hours(24));
  CHECK(time("1500us") == std::chrono::microseconds(1500));
  CHECK(time("70ns") == std::chrono::nanoseconds(70));
  CHECK(time("0x10") == milliseconds(16));
  CHECK(time("9223372036854775807") == kUnlimited);
  CHECK(time("9223372036854775807d") == kUnlimited);
  CHECK(time("0") == kUnlimited);  // none
  CHECK(read({{"dfs.client.socket-timeout", "7"}}).read.socket_timeout == milliseconds(7));
  CHECK(read({{"dfs.namenode.lease-hard-limit-sec", "90"}}).lease_hard_limit == seconds(90));
  CHECK(read({{"ipc.client.rpc-timeout.ms", "0"}}).rpc.rpc_timeout == env::Duration::zero());

  const auto size = [](const std::string& text) {
    return read({{"dfs.blocksize", text}}).write.block_size;
  };
  CHECK(size("1048576") == 1U << 20U);
  CHECK(size("0x400") == 1024);
  CHECK(size("64k") == 65536);
  CHECK(size(" 128 M ") == 128U << 20U);
  CHECK(size("1g") == 1U << 30U);
  CHECK(size("1T") == 1ULL << 40U);
  CHECK(size("2p") == 2ULL << 50U);
  CHECK(size("7e") == 7ULL << 60U);
  CHECK(read({{"dfs.blocksize", "7e"}}).read.prefetch_bytes == (1ULL << 63U) - 1);
  CHECK(read({{"ipc.maximum.response.length", "0"}}).rpc.max_response_bytes == 0x7FFFFFFFU);
}

TEST_CASE("an empty value is one that nobody set") {
  CHECK(read({{"dfs.blocksize", "  "}}).write.block_size == 128U << 20U);
  CHECK_FALSE(read({{"dfs.client.cache.drop.behind.writes", ""}}).write.drop_behind.has_value());
  CHECK(read({{"dfs.client.cache.drop.behind.writes", "false"}}).write.drop_behind == false);
}

TEST_CASE("keys that depend on each other") {
  CHECK(read({{"dfs.client-write-packet-size", "20m"}}).write.packet_size == 16U << 20U);
  CHECK(
      read({{"dfs.client-write-packet-size", "20m"}, {"dfs.data.transfer.max.packet.size", "32m"}})
          .write.packet_size == 20U << 20U);
  CHECK(refusal({{"dfs.bytes-per-checksum", "16m"}})
            .starts_with("dfs.bytes-per-checksum must be so small that a chunk fits in a packet"));
  CHECK(
      read({{"dfs.blocksize", "1m"}, {"dfs.client.read.prefetch.size", "5"}}).read.prefetch_bytes ==
      5);
  const Settings spec = read({{"dfs.client.retry.policy.spec", "100, 2, 1s, 3"}});
  CHECK((spec.rpc.retry_policy ==
         std::vector<std::pair<env::Duration, int>>{{milliseconds(100), 2}, {seconds(1), 3}}));
}

// --- servers -------------------------------------------------------------------------------------

TEST_CASE("a host is a NameNode") {
  CHECK(servers(read({}, "nn")) == "nn:8020 ");
  CHECK(servers(read({}, "nn:")) == "nn:8020 ");
  CHECK(servers(read({}, "nn:9000")) == "nn:9000 ");
  CHECK(servers(read({}, "10.0.0.1:9000")) == "10.0.0.1:9000 ");
  CHECK(servers(read({}, "[::1]:9000")) == "[::1]:9000 ");
  CHECK(read({}, "[fe80::1]").name_nodes[0].host == "fe80::1");
  CHECK(read({}, "nn").service == "nn:8020");
}

TEST_CASE("what is no authority is refused") {
  for (const std::string bad : {":8020", "nn:0", "nn:65536", "nn:x", "nn:-1", "nn:80:20", "::1",
                                "[::1", "[]:1", "[::1]9", "a b", "a/b", "a,b", "nn:0x50"}) {
    CAPTURE(bad);
    CHECK(refusal({}, bad).find("'" + bad + "'") != std::string::npos);
  }
  CHECK(refusal({}, "bob@nn").find("HADOOP_USER_NAME") != std::string::npos);
}

TEST_CASE("without an authority fs.defaultFS says which") {
  CHECK(servers(read({{"fs.defaultFS", "hdfs://nn2:9000/user/x"}}, "")) == "nn2:9000 ");
  for (const std::string value : {"", "file:///", "hdfs:///", "s3a://bucket"}) {
    CAPTURE(value);
    CHECK(refusal({{"fs.defaultFS", value}}, "").starts_with("fs.defaultFS must be hdfs://"));
  }
  CHECK(refusal({}, "").ends_with("not 'file:///'"));
}

ConfigurationMap nameservice() {
  return {{"dfs.nameservices", "ns0 , ns1"},
          {"dfs.ha.namenodes.ns1", "nn1, nn2,nn3"},
          {"dfs.namenode.rpc-address.ns1.nn1", "a:8021"},
          {"dfs.namenode.rpc-address.ns1.nn2", " hdfs://b:8022/ "},
          {"dfs.namenode.rpc-address.ns1.nn3", "c"},
          {"dfs.namenode.rpc-address.ns0", "d:8024"}};
}

TEST_CASE("a nameservice is its NameNodes") {
  const Settings settings = read(nameservice(), "ns1");
  CHECK(servers(settings) == "a:8021 b:8022 c:8020 ");
  CHECK(settings.service == "ns1");
  CHECK(servers(read(nameservice(), "ns1:8020")) == "a:8021 b:8022 c:8020 ");
  ConfigurationMap map = nameservice();
  map["fs.defaultFS"] = "hdfs://ns1";
  CHECK(read(map, "").service == "ns1");
}

TEST_CASE("a proxy provider alone makes a nameservice, as in Hadoop") {
  ConfigurationMap map = nameservice();
  map.erase("dfs.nameservices");
  CHECK(servers(read(map, "ns1")) == "ns1:8020 ");
  map["dfs.client.failover.proxy.provider.ns1"] = "org.apache.hadoop.X";
  CHECK(servers(read(map, "ns1")) == "a:8021 b:8022 c:8020 ");
}

TEST_CASE("a nameservice may have one NameNode, and another authority is a host") {
  const Settings settings = read(nameservice(), "ns0");
  CHECK(servers(settings) == "d:8024 ");
  CHECK(settings.service == "ns0");
  CHECK(servers(read(nameservice(), "other:1")) == "other:1 ");
}

TEST_CASE("what a nameservice lacks is named") {
  CHECK(refusal(nameservice(), "ns1:9000") ==
        "hdfs://ns1:9000: ns1 is a nameservice, which has no port");
  ConfigurationMap map = nameservice();
  map.erase("dfs.namenode.rpc-address.ns1.nn2");
  CHECK(refusal(map, "ns1") ==
        "dfs.namenode.rpc-address.ns1.nn2 is missing: it is needed for the nameservice ns1");
  map["dfs.namenode.rpc-address.ns1.nn2"] = "b:x";
  CHECK(refusal(map, "ns1").starts_with("dfs.namenode.rpc-address.ns1.nn2 must be "));
  map.erase("dfs.ha.namenodes.ns1");
  CHECK(refusal(map, "ns1") ==
        "dfs.ha.namenodes.ns1 is missing: it is needed for the nameservice ns1");
}

TEST_CASE("the order of NameNodes may be fixed for all, or for one nameservice") {
  ConfigurationMap map = nameservice();
  CHECK(read(map, "ns1").rpc.random_order);
  map["dfs.client.failover.random.order"] = "false";
  CHECK_FALSE(read(map, "ns1").rpc.random_order);
  map["dfs.client.failover.random.order.ns1"] = "true";
  CHECK(read(map, "ns1").rpc.random_order);
  map["dfs.client.failover.random.order.ns1"] = "maybe";
  CHECK(refusal(map, "ns1").starts_with("dfs.client.failover.random.order.ns1 must be"));
}

TEST_CASE("the lease holder has a name of its own") {
  const std::string process = "_" + std::to_string(::getpid());
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(read({}).client_name);
  CHECK(names.size() == 100);
  CHECK(names.begin()->starts_with("DFSClient_NONMAPREDUCE_"));
  CHECK(names.begin()->ends_with(process));
  CHECK(read({{"mapreduce.task.attempt.id", "attempt_1_2"}})
            .client_name.starts_with("DFSClient_attempt_1_2_"));
}

TEST_CASE("a client has a user") {
  CHECK(Settings::from_map({}, "nn", "").status().code() == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hflush::hdfs
