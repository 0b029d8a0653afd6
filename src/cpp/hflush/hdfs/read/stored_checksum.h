// How a block's replicas are summed on disk: what an append to it must go on with.
#pragma once

#include <string>

#include "hflush/base/result.h"
#include "hflush/env/clock.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// Asks for the first byte of `block`, of one replica after the other until one answers; the failure
// says what each of them did. One without checksums does not answer for the others: there are none
// only if every replica says so. A token that only allows writing is replaced. Runs on the thread
// that calls, and can be interrupted. Requires: the block is not empty.
Result<ChecksumParameters> stored_checksum(const ReadContext& context, const std::string& path,
                                           const LocatedBlock& block, env::Interrupt& interrupt);

// The same for a caller that can do without: no replica is waited for longer than a third of
// `patience`, and none is given time to come back. kTimedOut when that has passed.
Result<ChecksumParameters> stored_checksum_within(env::Duration patience,
                                                  const ReadContext& context,
                                                  const std::string& path,
                                                  const LocatedBlock& block,
                                                  env::Interrupt& interrupt);

}  // namespace hflush::hdfs
