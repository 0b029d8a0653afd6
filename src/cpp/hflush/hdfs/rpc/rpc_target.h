// RpcTarget: whom an RPC client calls: the NameNodes of one name service, or one DataNode. A value.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hflush/env/socket.h"
#include "hflush/hdfs/sasl/token_file.h"

namespace hflush::hdfs {

struct RpcTarget {
  std::string protocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
  std::vector<env::Endpoint> servers;         // at least one; several: a nameservice
  std::string name{};                         // of the nameservice, for messages
  std::string real_user{};                    // who acts as the user; empty: the user itself
  std::shared_ptr<sasl::TokenFile> tokens{};  // of the caller, for any server; null: none
  std::string unknown_host_hint{};            // ends the message if a server's name is not known
};

}  // namespace hflush::hdfs
