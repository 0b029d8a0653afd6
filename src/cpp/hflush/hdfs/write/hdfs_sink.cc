#include "hflush/hdfs/write/hdfs_sink.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace hflush::hdfs {
namespace {

// Sealed bytes that are handed over at once.
constexpr std::size_t kBatchBytes = 512U << 10U;

}  // namespace

stream::Geometry write_geometry(const WriteTarget& target, const WriteSettings& settings) noexcept {
  stream::Geometry geometry;
  geometry.checksum = target.checksum;
  geometry.bytes_per_checksum = target.bytes_per_checksum;  // DataNodes align NULL sums too
  const std::size_t chunk = target.bytes_per_checksum;
  const std::size_t packet =
      std::max<std::size_t>(std::min(settings.packet_size, settings.max_packet_size), 1);
  const std::size_t body = packet - std::min(packet, PacketHeader::kMaxSize);
  geometry.packet_bytes = std::max<std::size_t>(1, body / (chunk + crc::kSumSize)) * chunk;
  // At least two: the packet being filled and one on its way.
  const std::size_t packets = std::max<std::size_t>(2, settings.max_packets_in_flight);
  geometry.window_bytes = packets * geometry.packet_bytes;
  geometry.batch_bytes =
      std::min(std::max(kBatchBytes, geometry.packet_bytes), geometry.window_bytes);
  geometry.block_bytes = target.block_size;
  geometry.start = target.start;
  geometry.block_start = target.partial_block ? target.partial_block->offset : target.start;
  return geometry;
}

HdfsSink::HdfsSink(WriteContext context, WriteTarget target, std::string name_space)
    : geometry_(write_geometry(target, context.settings)),
      file_id_(target.file_id),
      shell_(PipelineShell::make(std::move(context), std::move(target), std::move(name_space))) {}

HdfsSink::~HdfsSink() {
  if (PipelineShell* const shell = shell_.here()) shell->abandon();
}

stream::SinkTraits HdfsSink::traits() const {
  return {geometry_, {"hsync", "dropbehind", stream::kEndBlock}, &shell_.here()->loop(), file_id_};
}

// A packet stays until it is acknowledged: nothing is taken from the caller's memory.
std::size_t HdfsSink::put(stream::Batch batch, std::optional<stream::Level> level,
                          stream::SinkEvents& events) {
  std::vector<stream::Packet> taken(std::make_move_iterator(batch.packets.begin()),
                                    std::make_move_iterator(batch.packets.end()));
  shell_.here()->drive_for(
      events, [level, taken = std::move(taken)](PipelineDriver& driver) mutable {
        if (level) return driver.machine.sync(*level, taken, driver.now(), driver.actions);
        driver.machine.put(taken, driver.now(), driver.actions);
      });
  return 0;
}

void HdfsSink::finish(stream::SinkEvents& events) {
  shell_.here()->drive_for(
      events, [](PipelineDriver& driver) { driver.machine.finish(driver.now(), driver.actions); });
}

Status HdfsSink::abandon() noexcept {
  if (PipelineShell* const shell = shell_.here()) shell->abandon();
  return {};
}

void HdfsSink::advise(std::optional<bool> drop_behind) {
  shell_.here()->drive(
      [drop_behind](PipelineDriver& driver) { driver.machine.set_drop_behind(drop_behind); });
}

void HdfsSink::add_statistics(Statistics& statistics) const {
  const WriteCounters counters = shell_.here()->counters();
  statistics["hdfs_packets_sent"] += counters.packets_sent;
  statistics["hdfs_bytes_sent"] += counters.bytes_sent;
  statistics["hdfs_heartbeats"] += counters.heartbeats;
  statistics["hdfs_acks"] += counters.acks;
  statistics["hdfs_blocks"] += counters.blocks;
  statistics["hdfs_pipelines"] += counters.pipelines;
  statistics["hdfs_block_retries"] += counters.block_retries;
  statistics["hdfs_allocate_retries"] += counters.allocate_retries;
  statistics["hdfs_complete_retries"] += counters.complete_retries;
  statistics["hdfs_namenode_fsyncs"] += counters.fsyncs;
  statistics["hdfs_replicas_synced_afterwards"] += counters.synced_afterwards;
  statistics["hdfs_replicas_left_unsynced"] += counters.left_unsynced;
  statistics["hdfs_congestion_delays"] += counters.congestion_delays;
  statistics["hdfs_pipeline_recoveries"] += counters.recoveries;
  statistics["hdfs_datanode_replacements"] += counters.replacements;
  statistics["hdfs_block_transfers"] += counters.transfers;
  statistics["hdfs_bytes_sent_again"] += counters.bytes_sent_again;
  statistics["hdfs_datanode_restarts_awaited"] += counters.restarts_waited_for;
  statistics["hdfs_silence_probes"] += counters.silence_probes;
  statistics["hdfs_datanodes_found_silent"] += counters.found_silent;
  counters.ack_latency.add_to(statistics, "hdfs_ack_latency");
  counters.stalls.add_to(statistics, "hdfs_stall");
}

stream::PastEvents HdfsSink::history() const { return shell_.here()->history(); }

}  // namespace hflush::hdfs
