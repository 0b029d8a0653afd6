// ClusterConversation: what clients say to a NameNode about files, and to its DataNodes about their
// blocks, step by step, so that the model of this simulator and a cluster of Hadoop can be asked
// the same (see tests/integration/test_hdfs_model.py). A step is a line, and so is its answer: what
// the call returned, or the class of its exception.
//
//   create PATH CLIENT FLAGS REPLICATION               again: the last call once more, with its ids
//   append PATH CLIENT FLAGS                           updateBlockForPipeline CLIENT BLOCK
//   addBlock PATH CLIENT FILE BLOCK NODES              updatePipeline CLIENT BLOCK BLOCK NODES
//   abandonBlock PATH CLIENT FILE BLOCK                renewLease CLIENT
//   complete PATH CLIENT FILE BLOCK                    recoverLease PATH CLIENT
//   fsync PATH CLIENT FILE LENGTH                      isFileClosed PATH
//   getAdditionalDatanode PATH CLIENT FILE BLOCK NODES NODES
//   getFileInfo PATH                                   getBlockLocations PATH OFFSET LENGTH
//
//   set-up STAGE BLOCK LATEST MIN MAX NODES            see block_dialogue.h
//   packet NUMBER OFFSET SIZE [sync] [last]
//   leave
//
//   reported BLOCK    how many of its DataNodes have reported that it is finished; of the model
//   only recovered PATH    closed, or open: the NameNode has had its time for it; of the model only
//   lapse STEP        this step, when the soft limit of all leases has passed
//
// A BLOCK is ID:STAMP:LENGTH, or `-`. Ids of files and of blocks, and stamps, are counted from the
// first that the server gave, which is 1: both servers give one after the other. NODES are places
// in what this client knows of a block's pipeline, `0,2`, or `-`: servers choose nodes as they
// like. An answer has their number, and `!` if it lacks one that was to stay, or has one that was
// excluded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hflush/env/socket.h"
#include "hflush/hdfs/rpc/rpc_channel.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/types.h"
#include "sim/block_dialogue.h"
#include "sim/lines.h"

namespace hflush::sim {

// The cluster, as seen by its clients.
class PeerCluster {
 public:
  virtual ~PeerCluster() = default;
  virtual Lines& lines() = 0;
  virtual env::Endpoint name_node() const = 0;
  virtual std::string reported(std::uint64_t block) = 0;
  virtual std::string recovered(const std::string& path) = 0;
  virtual void lapse() = 0;
  // What must not be; empty: nothing has happened that must not.
  virtual std::string breach() const = 0;
};

// One NameNode, three DataNodes. Nobody hears of what is to be recovered but in recovered().
std::unique_ptr<PeerCluster> model_cluster();
// A real one on this machine.
std::unique_ptr<PeerCluster> hadoop_cluster(std::uint16_t port);

class ClusterConversation {
 public:
  // `cluster` outlives it; `user` is who calls.
  ClusterConversation(PeerCluster& cluster, std::string user);
  // What a step led to; nothing for a step that is none.
  std::optional<std::string> answer(std::string_view step);

 private:
  class Words;
  struct Call {
    std::int32_t id;
    std::string method;
    std::string request;
  };
  // Numbers that a server gives one after the other.
  struct Numbers {
    std::optional<std::uint64_t> first;
    std::uint64_t known(std::uint64_t number);  // as this conversation has it
    std::uint64_t real(std::uint64_t known) const { return known + first.value_or(1) - 1; }
  };
  // Of a block, with all that may be set up for it.
  struct Known {
    std::vector<hdfs::Replica> pipeline;
    hdfs::Token token;
  };

  std::optional<std::string> carry_out(std::string_view step);
  std::optional<std::string> call(const std::string& method, Words& words);
  std::optional<std::string> call_for_block(const std::string& method, Words& words);
  std::optional<std::string> set_up(Words& words);
  template <hdfs::Request T, typename Show>
  std::string ask(const T& request, Show show);
  std::variant<std::string, hdfs::RemoteException> response(bool is_again);

  std::string shown(const hdfs::FileStatus& status);
  std::string shown(const hdfs::LocatedBlock& block);
  std::string shown(const hdfs::LocatedBlocks& blocks);
  void keep(const hdfs::LocatedBlock& block);

  PeerCluster& cluster_;
  hdfs::RpcChannel channel_;
  std::unique_ptr<Line> line_;
  BlockDialogue dialogue_;
  std::string pool_;
  Call last_{};
  std::function<std::string(const std::string& body)> show_;  // of the last call's response
  Numbers files_;
  Numbers blocks_;
  Numbers stamps_;
  std::map<std::uint64_t, Known> known_;  // by the block's real id
};

}  // namespace hflush::sim
