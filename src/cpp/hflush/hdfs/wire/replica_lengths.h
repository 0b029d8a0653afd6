// ReplicaLengths: how far the bytes of a replica have come that is being written. No call asks for
// that; but a DataNode that is asked about a generation stamp newer than its replica's refuses with
// a description of the replica, since Hadoop 2 in the same words (ReplicaInfo.toString).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hflush::hdfs {

struct ReplicaLengths {
  std::uint64_t received = 0;
  std::uint64_t acknowledged = 0;  // by this node and all behind it: what readers are shown

  bool operator==(const ReplicaLengths&) const = default;
};

// A generation stamp that no replica has.
inline constexpr std::uint64_t kNewerStamp = INT64_MAX;

// What the message of the refusal says; none if it is another one.
std::optional<ReplicaLengths> replica_lengths(std::string_view message) noexcept;

}  // namespace hflush::hdfs
