// WriteStream: what the machines of one stream that is written to HDFS have in common. Values
// without decisions: FileWriter owns them, BlockWriter and Promises refer to them.
//
// Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hflush/crc/checksum.h"
#include "hflush/hdfs/rpc/retry_delays.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/congestion_backoff.h"
#include "hflush/hdfs/write/packet_queue.h"
#include "hflush/hdfs/write/recoveries.h"
#include "hflush/hdfs/write/write_failure.h"
#include "hflush/stream/duration_statistic.h"

namespace hflush::hdfs {

// What is written, and how. Constant for the life of a stream.
struct WriteTarget {
  std::string path;
  std::uint64_t file_id = 0;
  std::string client_name;
  std::uint64_t block_size = 0;
  std::uint32_t replication = 0;
  crc::Kind checksum = crc::Kind::kCrc32c;
  std::uint32_t bytes_per_checksum = 512;
  bool sync_every_block = false;  // CreateFlag SYNC_BLOCK
  bool update_length = false;     // hsync tells the NameNode the length (SyncFlag UPDATE_LENGTH)
  bool lazy_persist = false;
  bool no_local_write = false;
  bool ignore_client_locality = false;
  std::vector<std::string> favored_nodes;
  // Whether an IP address is this machine's; asked when a DataNode restarts. None: none is.
  bool (*is_local)(const std::string& ip) = nullptr;
  // An append: the file's length, and its partial last block if there is one; or else the last
  // block, which the first addBlock, or complete, names so that it can be repeated.
  std::uint64_t start = 0;
  std::optional<LocatedBlock> partial_block;
  std::optional<ExtendedBlock> previous_block;
};

// What a stream has done so far.
struct WriteCounters {
  std::int64_t packets_sent = 0;  // heartbeats are not among them
  std::int64_t bytes_sent = 0;    // headers and sums included
  std::int64_t heartbeats = 0;
  std::int64_t acks = 0;
  std::int64_t blocks = 0;
  std::int64_t pipelines = 0;
  std::int64_t block_retries = 0;     // blocks abandoned, as their pipeline was not built or broke
  std::int64_t allocate_retries = 0;  // addBlock asked again after a pause
  std::int64_t complete_retries = 0;
  std::int64_t fsyncs = 0;             // calls to the NameNode
  std::int64_t synced_afterwards = 0;  // replicas of finished blocks
  std::int64_t left_unsynced = 0;      // other replicas of these, whose node is gone or refused
  std::int64_t congestion_delays = 0;  // packets held back because DataNodes were congested
  std::int64_t recoveries = 0;         // pipelines that stood and broke
  std::int64_t replacements = 0;       // DataNodes that came in for one that failed or is missing
  std::int64_t transfers = 0;          // copies of a block made for them, as their sources say
  std::int64_t bytes_sent_again = 0;   // of packets, on another pipeline
  std::int64_t restarts_waited_for = 0;
  std::int64_t silence_probes = 0;  // of pipelines whose DataNodes were asked why they are silent
  std::int64_t found_silent = 0;    // DataNodes that were to blame, by their answers or without any
  stream::DurationStatistic ack_latency;
  stream::DurationStatistic stalls;  // StallWatch's
};

// Numbers a connection of one stream, from 1 on.
using ConnectionNumber = std::uint32_t;
// Numbers what the DataNodes of one stream were asked, from 1 on.
using QuestionNumber = std::uint32_t;

// Between attempts at what may be there soon.
inline RetryDelays delays_of(const WriteSettings& settings) noexcept {
  return {settings.complete_first_delay, settings.locate_initial_delay, settings.locate_max_delay,
          settings.locate_following_block_retries};
}

struct WriteStream {
  WriteStream(WriteTarget its_target, const WriteSettings& its_settings)
      : target(std::move(its_target)),
        settings(its_settings),
        drop_behind(settings.drop_behind),
        backoff(settings.congestion_backoff_mean, settings.congestion_backoff_max, target.file_id) {
  }

  ChecksumParameters checksum() const noexcept {
    return {target.checksum, target.bytes_per_checksum};
  }

  // Between questions about what the NameNode does not have yet.
  RetryDelays delays() const noexcept { return delays_of(settings); }

  const WriteTarget target;
  const WriteSettings settings;
  std::optional<bool> drop_behind;  // for the pipelines that are set up from now on
  WriteCounters counters;
  PacketQueue packets;  // not acknowledged; those of the block that is being written are in front
  CongestionBackoff backoff;
  Recoveries recoveries;
  FailureRecord failures;
  ConnectionNumber last_connection = 0;
  QuestionNumber last_question = 0;
};

}  // namespace hflush::hdfs
