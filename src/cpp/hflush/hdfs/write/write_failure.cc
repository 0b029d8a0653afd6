#include "hflush/hdfs/write/write_failure.h"

namespace hflush::hdfs {

std::string FailureRecord::faults() const {
  std::string text;
  for (std::size_t i = 0; i < of_block_; ++i) {
    const FailedNode& node = nodes_[nodes_.size() - 1 - i];
    std::string fault = "DataNode " + node.address + " (" + std::to_string(node.place + 1) +
                        " of " + std::to_string(node.nodes) + ") " + node.reason;
    if (i > 0 && text.size() + 2 + fault.size() > kMaxText) break;
    if (i > 0) fault.append("; ").append(text);
    text = std::move(fault);
  }
  return text;
}

}  // namespace hflush::hdfs
