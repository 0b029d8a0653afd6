// A DataNode on this machine, described as a NameNode would.
#pragma once

#include <cstdint>
#include <string>

#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {

// Data transfer and calls are at the same port.
inline DatanodeInfo loopback_node(std::uint16_t port) {
  DatanodeInfo node;
  node.ip = "127.0.0.1";
  node.host = "localhost";
  node.uuid = "node-" + std::to_string(port);
  node.transfer_port = port;
  node.rpc_port = port;
  wire::Writer id(node.encoded_id);
  id.add_string(1, node.ip);
  id.add_string(2, node.host);
  id.add_string(3, node.uuid);
  id.add_uint32(4, port);
  id.add_uint32(5, 0);
  id.add_uint32(6, port);
  wire::Writer info(node.encoded);
  info.add_message(1, node.encoded_id);
  return node;
}

}  // namespace hflush::hdfs
