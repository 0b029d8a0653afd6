// HdfsSink: the sink of a file in HDFS, the shell around WritePipeline.
//
// put() sends on the caller's thread, as much as the kernel takes; the loop thread sends what is
// left when there is room again, reads the acknowledgements, and is where the NameNode's answers
// and the timers arrive. Whoever finds nobody else at the machine feeds it and does what it asks
// for; the others leave their event and go. So events are handled one at a time and in order, no
// thread waits for another, and a flush costs its caller one system call before it waits.
//
// Thread-safe where Sink asks for it. The mutex guards the inbox, not the machine; it is never held
// across a system call, a call to the NameNode or an event of the stream. Where an allocation fails
// the stream fails: nothing is thrown on the loop thread. An open stream that is idle has no
// buffers, one timer and its connection. The stream's lease is renewed from construction until it
// is published, has failed or is abandoned; then the file is given up (lease_renewer.h). In a
// forked child nothing here does anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hflush/env/event_loop.h"
#include "hflush/env/executor.h"
#include "hflush/hdfs/rpc/lease_renewer.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/write/write_pipeline.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

// What a sink needs of its client.
struct WriteContext {
  std::shared_ptr<void> owner;  // keeps the rest alive
  env::EventLoop& loop;
  env::Executor& resolver;
  RpcClient& name_node;
  LeaseRenewer& leases;
  const WriteSettings& settings;
};

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

 private:
  class Core;

  const stream::Geometry geometry_;
  const std::uint32_t generation_;
  std::shared_ptr<Core> core_;  // shared with what is under way on the loop
};

}  // namespace hflush::hdfs
