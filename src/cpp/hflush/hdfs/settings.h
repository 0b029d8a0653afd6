// Settings of a client, with their defaults.
//
// The Python layer reads them from a Hadoop configuration. Its table of keys (hflush/hdfs/keys.py)
// names the member that takes each value, checks what it may be, and takes defaults from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hflush/crc/checksum.h"
#include "hflush/env/clock.h"
#include "hflush/env/socket.h"
#include "hflush/hdfs/sasl/credentials.h"
#include "hflush/hdfs/sasl/mechanism.h"

namespace hflush::hdfs {

struct RpcSettings {
  env::Duration connect_timeout = std::chrono::seconds(20);        // ipc.client.connect.timeout
  int connect_retries = 10;                                        // ipc.client.connect.max.retries
  int connect_retries_on_timeouts = 0;                             // ….max.retries.on.timeouts
  env::Duration connect_retry_interval = std::chrono::seconds(1);  // ….retry.interval
  env::Duration rpc_timeout = std::chrono::seconds(120);           // ipc.client.rpc-timeout.ms
  bool ping = true;                                                // ipc.client.ping
  env::Duration ping_interval = std::chrono::seconds(60);          // ipc.ping.interval
  env::Duration idle_time = std::chrono::seconds(10);  // ipc.client.connection.maxidletime
  std::uint32_t max_response_bytes = 128U << 20U;      // ipc.maximum.response.length
  std::uint32_t max_request_bytes = 128U << 20U;       // ipc.maximum.data.length
  bool tcp_no_delay = true;                            // ipc.client.tcpnodelay

  // Whether servers have to ask who calls: hadoop.security.authentication is not simple.
  bool requires_authentication = false;
  bool fallback_to_simple = false;  // ipc.client.fallback-to-simple-auth-allowed
  // hadoop.rpc.protection, in the order of preference.
  std::vector<sasl::Protection> protections{sasl::Protection::kAuth};

  // Of a nameservice with several NameNodes.
  int max_failovers = 15;                                        // dfs.client.failover.max.attempts
  int max_retries = 10;                                          // dfs.client.retry.max.attempts
  env::Duration failover_base = std::chrono::milliseconds(500);  // ….failover.sleep.base.millis
  env::Duration failover_cap = std::chrono::seconds(15);         // ….failover.sleep.max.millis
  int failover_connect_retries = 0;  // dfs.client.failover.connection.retries
  // dfs.client.failover.connection.retries.on.timeouts
  int failover_connect_retries_on_timeouts = 0;
  bool random_order = true;  // dfs.client.failover.random.order

  // Of a single NameNode: dfs.client.retry.policy.enabled, and its .spec, pauses and how often
  // each.
  bool retry_policy_enabled = false;
  std::vector<std::pair<env::Duration, int>> retry_policy{{std::chrono::seconds(10), 6},
                                                          {std::chrono::seconds(60), 10}};
};

// When a pipeline that has lost a DataNode gets another one in its place.
enum class ReplacementPolicy : std::uint8_t { kNever, kDefault, kAlways };

struct WriteSettings {
  std::uint64_t block_size = 128U << 20U;      // dfs.blocksize
  std::uint32_t replication = 3;               // dfs.replication
  crc::Kind checksum = crc::Kind::kCrc32c;     // dfs.checksum.type
  std::uint32_t bytes_per_checksum = 512;      // dfs.bytes-per-checksum
  std::uint32_t packet_size = 64U << 10U;      // dfs.client-write-packet-size
  std::uint32_t max_packet_size = 16U << 20U;  // dfs.data.transfer.max.packet.size
  std::uint32_t max_packets_in_flight = 80;    // dfs.client.write.max-packets-in-flight
  env::Duration socket_timeout = std::chrono::seconds(60);  // dfs.client.socket-timeout
  env::Duration socket_write_timeout =
      std::chrono::seconds(480);           // dfs.datanode.socket.write.timeout
  int send_buffer_bytes = 0;               // dfs.client.socket.send.buffer.size
  bool tcp_no_delay = true;                // dfs.data.transfer.client.tcpnodelay
  bool use_datanode_hostname = false;      // dfs.client.use.datanode.hostname
  int block_write_retries = 3;             // dfs.client.block.write.retries
  int locate_following_block_retries = 5;  // ….locateFollowingBlock.retries
  env::Duration locate_initial_delay = std::chrono::milliseconds(400);  // ….initial.delay.ms
  env::Duration locate_max_delay = std::chrono::seconds(60);            // ….max.delay.ms
  // complete() that answers "not yet" is asked again after this, doubling up to
  // locate_initial_delay and beyond: the block report is usually 2 ms away. Total patience is
  // Hadoop's.
  env::Duration complete_first_delay =
      std::chrono::milliseconds(2);  // hflush.hdfs.complete.initial.delay.ms
  // A call of an open stream is repeated for so long while no NameNode can carry it out.
  env::Duration name_node_patience = std::chrono::minutes(2);  // hflush.hdfs.namenode.patience
  // The DataNodes of a pipeline that is silent for so long are asked why; 0: never.
  env::Duration silence_probe = std::chrono::seconds(3);  // hflush.hdfs.silence.probe
  env::Duration excluded_nodes_expiry =
      std::chrono::minutes(10);  // ….exclude.nodes.cache.expiry.interval.millis
  env::Duration congestion_backoff_mean =
      std::chrono::seconds(5);  // dfs.client.congestion.backoff.mean.time
  env::Duration congestion_backoff_max =
      std::chrono::seconds(50);       // dfs.client.congestion.backoff.max.time
  int pipeline_recovery_retries = 5;  // dfs.client.pipeline.recovery.max-retries
  env::Duration datanode_restart_timeout =
      std::chrono::seconds(30);  // dfs.client.datanode-restart.timeout
  int slow_node_threshold = 10;  // dfs.client.mark.slownode.as.badnode.threshold
  bool replace_datanode = true;  // dfs.client.block.write.replace-datanode-on-failure.enable
  ReplacementPolicy replacement_policy = ReplacementPolicy::kDefault;  // ….policy
  bool replacement_best_effort = false;                                // ….best-effort
  int replacement_min_replication = 0;                                 // ….min-replication
  std::optional<bool> drop_behind;              // dfs.client.cache.drop.behind.writes
  bool recover_lease_on_close_failure = false;  // dfs.client.write.recover.lease.on.close.exception
};

struct ReadSettings {
  std::uint64_t prefetch_bytes = 10 * (128ULL << 20U);   // dfs.client.read.prefetch.size
  int max_block_acquire_failures = 3;                    // dfs.client.max.block.acquire.failures
  env::Duration retry_window = std::chrono::seconds(3);  // dfs.client.retry.window.base
  int last_block_length_retries = 3;  // dfs.client.retry.times.get-last-block-length
  env::Duration last_block_length_interval = std::chrono::seconds(4);  // ….interval-ms.…
  std::uint32_t max_packet_size = 16U << 20U;                   // dfs.data.transfer.max.packet.size
  std::uint32_t socket_cache_capacity = 16;                     // dfs.client.socketcache.capacity
  env::Duration socket_cache_expiry = std::chrono::seconds(3);  // dfs.client.socketcache.expiryMsec
  int cached_connection_retries = 3;                            // dfs.client.cached.conn.retry
  std::optional<bool> drop_behind;                          // dfs.client.cache.drop.behind.reads
  std::optional<std::int64_t> readahead_bytes;              // dfs.client.cache.readahead
  bool verify_checksum = true;                              // fs's set_verify_checksum
  env::Duration socket_timeout = std::chrono::seconds(60);  // dfs.client.socket-timeout
  bool use_datanode_hostname = false;                       // dfs.client.use.datanode.hostname
};

struct Settings {
  std::string user;                           // HADOOP_USER_NAME or the process owner
  std::string real_user;                      // who acts as the user (HADOOP_PROXY_USER), or empty
  std::vector<sasl::Token> tokens;            // until token_file was read
  std::string token_file;                     // HADOOP_TOKEN_FILE_LOCATION, or empty
  std::string task_attempt = "NONMAPREDUCE";  // mapreduce.task.attempt.id: part of client_name
  std::string client_name;                    // the lease holder; unique
  std::string service;                        // the URL's authority
  std::vector<env::Endpoint> name_nodes;      // several: a nameservice
  std::string unknown_host_hint;              // ends the message where their name is not known
  env::Duration lease_hard_limit = std::chrono::seconds(1200);  // dfs.namenode.lease-hard-limit-sec
  env::Duration server_defaults_validity = std::chrono::hours(1);
  RpcSettings rpc;
  WriteSettings write;
  ReadSettings read;
};

// A new name of a lease holder, like none before. The form is that of Java's client.
std::string make_client_name(const std::string& task_attempt);

}  // namespace hflush::hdfs
