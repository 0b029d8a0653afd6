// The sums that DataNodes keep of a file's blocks: what a file checksum is made of, without reading
// a byte of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hflush/base/result.h"
#include "hflush/crc/checksum.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/wire/data_transfer.h"

namespace hflush::hdfs {

// Of the first `size` bytes of one block.
struct BlockChecksum {
  std::uint64_t size = 0;
  std::uint32_t bytes_per_crc = 0;
  std::uint64_t crcs_per_block = 0;
  std::string checksum;  // kMd5Crc: 16 bytes, of the stored sums; kCompositeCrc: 4, big-endian
  crc::Kind kind = crc::Kind::kNone;
};

// Those of the first `length` bytes of the file, in order; of all for a length beyond its end. Each
// block's replicas are asked as a read would (replica_search.h). Fails as locate() does
// (block_locations.h), and with kIo, EBUSY of a file that is being written. Runs on the thread that
// calls, and can be interrupted.
Result<std::vector<BlockChecksum>> block_checksums(const ReadContext& context,
                                                   const std::string& path, std::uint64_t length,
                                                   BlockChecksumType type,
                                                   env::Interrupt& interrupt);

}  // namespace hflush::hdfs
