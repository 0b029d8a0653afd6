// The NameNode of the scripted cluster: a flat name space in memory, whose files have the length
// that their writer reported. Answers at once; a file is complete as soon as its client says so.
//
// Knows what a client calls to write files and to look at them: getServerDefaults, getFileInfo,
// mkdirs, delete, create, addBlock, getBlockLocations, abandonBlock, fsync, updateBlockForPipeline,
// updatePipeline, complete, renewLease. Everything else is RpcNoSuchMethodException. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/wire/wire.h"
#include "scripted_stream.h"

namespace scripted {

class NameNode {
 public:
  explicit NameNode(std::uint16_t data_node_port) : data_node_port_(data_node_port) {}

  // One connection, until it ends or what comes is not Hadoop RPC without SASL.
  void serve(const Stream& stream);

 private:
  struct File {
    std::uint64_t id = 0;
    std::uint64_t length = 0;
    std::uint64_t block_size = 0;
    std::uint32_t replication = 0;
    std::uint32_t permission = 0;
    std::vector<hflush::hdfs::ExtendedBlock> blocks;  // the finished ones

    void add(const hflush::hdfs::ExtendedBlock& block);
  };
  struct Failure {
    std::string_view java_class;
    std::string message;
  };
  // A response message, or the exception that the server throws.
  using Answer = std::variant<std::string, Failure>;
  using Reader = hflush::hdfs::wire::Reader;

  // The response frame, length and all; empty for what has no answer.
  std::string answer_frame(std::string_view frame, bool& good);
  Answer answer(std::string_view method, Reader request);
  Answer get_file_info(Reader request);
  Answer create(Reader request);
  Answer remove(Reader request);
  Answer add_block(Reader request);
  Answer complete(Reader request);
  Answer get_block_locations(Reader request);
  Answer update_block(Reader request);
  std::string located_block(const hflush::hdfs::ExtendedBlock& block, std::uint32_t replicas) const;
  hflush::hdfs::LocatedBlock replicated(const hflush::hdfs::ExtendedBlock& block,
                                        std::uint32_t replicas, std::uint64_t offset) const;

  const std::uint16_t data_node_port_;
  std::atomic<std::uint64_t> next_block_{1073741825};  // a counter: no lock needed
  std::atomic<std::uint64_t> next_stamp_{1001};        // likewise

  hflush::Mutex mutex_;
  std::map<std::string, File, std::less<>> files_ HFLUSH_GUARDED_BY(mutex_);
  std::uint64_t next_file_ HFLUSH_GUARDED_BY(mutex_) = 16386;
};

}  // namespace scripted
