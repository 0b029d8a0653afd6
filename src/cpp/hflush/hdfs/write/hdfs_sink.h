// HdfsSink: the sink of a file in HDFS, in front of PipelineShell.
//
// put() sends on the caller's thread, as much as the kernel takes, so that a flush costs its caller
// one system call before it waits. An open stream that is idle has no buffers, one timer and its
// connection. The stream's lease is renewed from construction until it is published, has failed or
// is abandoned; then the file is given up (lease_renewer.h). In a forked child nothing here does
// anything.
//
// Thread-safe where Sink asks for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hflush/env/own_process.h"
#include "hflush/hdfs/write/pipeline_shell.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

// The sizes at which a file is cut into packets: whole chunks, no more in a packet than
// dfs.client-write-packet-size has room for, and no packet across the end of a block.
stream::Geometry write_geometry(const WriteTarget& target, const WriteSettings& settings) noexcept;

class HdfsSink final : public stream::Sink {
 public:
  // Right after create or append has succeeded: begins to renew the lease. `name_space` is the file
  // status's.
  HdfsSink(WriteContext context, WriteTarget target, std::string name_space);
  ~HdfsSink() override;
  HdfsSink(const HdfsSink&) = delete;
  HdfsSink& operator=(const HdfsSink&) = delete;

  stream::SinkTraits traits() const override;
  std::size_t put(stream::Batch batch, std::optional<stream::Level> level,
                  stream::SinkEvents& events) override;
  void finish(stream::SinkEvents& events) override;
  Status abandon() noexcept override;
  void advise(std::optional<bool> drop_behind) override;
  void add_statistics(Statistics& statistics) const override;
  stream::PastEvents history() const override;

 private:
  const stream::Geometry geometry_;
  const std::uint64_t file_id_;
  const env::OwnProcess<PipelineShell> shell_;  // shared with what is under way on the loop
};

}  // namespace hflush::hdfs
