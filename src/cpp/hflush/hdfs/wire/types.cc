#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

std::string ExtendedBlock::to_string() const {
  // Java's ids are signed: the blocks of an erasure-coded file are below zero.
  return "blk_" + std::to_string(static_cast<std::int64_t>(id)) + "_" +
         std::to_string(generation_stamp);
}

std::string inode_path(std::uint64_t file_id) {
  return "/.reserved/.inodes/" + std::to_string(file_id);
}

std::string DatanodeInfo::transfer_address() const {
  return ip + ":" + std::to_string(transfer_port);
}

}  // namespace hflush::hdfs
