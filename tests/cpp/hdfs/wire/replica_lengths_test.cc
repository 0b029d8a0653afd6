// What a DataNode's refusal says of its replica.
#include "hflush/hdfs/wire/replica_lengths.h"

#include <doctest/doctest.h>

#include <string>

namespace hflush::hdfs {
namespace {

TEST_CASE("the lengths of a replica are in the refusal of a newer generation stamp") {
  const std::string refusal =
      "getReplicaVisibleLength: DataNode 127.0.0.1:9867: replica.getGenerationStamp() < "
      "block.getGenerationStamp(), block=BP-1:blk_1073741825_9223372036854775807, "
      "replica=ReplicaBeingWritten, blk_1073741825_1001, RBW\n"
      "  getNumBytes()     = 2049\n"
      "  getBytesOnDisk()  = 2048\n"
      "  getVisibleLength()= 1025\n"
      "  getVolume()       = /data\n"
      "  getBlockURI()     = file:/data/current/BP-1/current/rbw/blk_1073741825";
  CHECK(replica_lengths(refusal) == ReplicaLengths{2049, 1025});
  for (std::size_t size = 0; size < refusal.find("= 1025"); ++size) {
    CHECK_FALSE(replica_lengths(std::string_view(refusal).substr(0, size)));
  }
  CHECK_FALSE(replica_lengths("replica.getGenerationStamp() < block.getGenerationStamp()"));
  CHECK_FALSE(replica_lengths("getNumBytes() = many, getVisibleLength() = 1"));
  // It waits to be recovered.
  CHECK_FALSE(replica_lengths("getNumBytes()     = 7\n  getVisibleLength()= -1"));
}

}  // namespace
}  // namespace hflush::hdfs
