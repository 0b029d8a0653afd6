#include "hflush/hdfs/read/stored_checksum.h"

#include "hflush/base/check.h"
#include "hflush/hdfs/read/ask_replicas.h"
#include "hflush/hdfs/read/block_stream.h"

namespace hflush::hdfs {

Result<ChecksumParameters> stored_checksum(const ReadContext& context, const std::string& path,
                                           const LocatedBlock& block, env::Interrupt& interrupt) {
  HFLUSH_DCHECK(block.block.length > 0);
  ReadCounts counts;
  const auto ask = [&](const LocatedBlock& at, const DatanodeInfo& node,
                       Sums sums) -> Result<ChecksumParameters> {
    ReadOptions options;
    options.sums = sums;
    HFLUSH_ASSIGN_OR_RETURN(
        auto stream, BlockStream::open(context, at, node, {0, 1}, options, counts, interrupt));
    return stream->checksum();
  };
  Question question{context, path, "stored checksum", interrupt};
  return ask_replicas<ChecksumParameters>(question, block, ask);
}

}  // namespace hflush::hdfs
