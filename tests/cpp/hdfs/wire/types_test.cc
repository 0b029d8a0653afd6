// What messages and addresses are made of (HDFS: names of blocks and nodes).
#include "hflush/hdfs/wire/types.h"

#include <doctest/doctest.h>

#include "hdfs/golden.h"

namespace hflush::hdfs {
namespace {

using testing::golden::bytes;

TEST_CASE("a block is named as Hadoop names it") {
  CHECK(ExtendedBlock{"BP-1", 1073741825, 1001, 0}.to_string() == "blk_1073741825_1001");
  CHECK(ExtendedBlock{"BP-1", 0x8000000000000010, 7, 0}.to_string() ==
        "blk_-9223372036854775792_7");
}

TEST_CASE("a node's addresses: by number for servers, by either for connecting") {
  DatanodeInfo node;
  node.ip = "10.0.0.3";
  node.host = "dn3";
  node.transfer_port = 9866;
  node.rpc_port = 9867;
  CHECK(node.transfer_address() == "10.0.0.3:9866");
  CHECK(node.transfer_endpoint(false) == env::Endpoint{"10.0.0.3", 9866});
  CHECK(node.transfer_endpoint(true) == env::Endpoint{"dn3", 9866});
  CHECK(node.rpc_endpoint(false) == env::Endpoint{"10.0.0.3", 9867});
  CHECK(node.rpc_endpoint(true) == env::Endpoint{"dn3", 9867});
}

TEST_CASE("a token is never missing: without security it has four empty fields") {
  CHECK(Token().encoded == bytes("[TOK0]"));
}

TEST_CASE("a located block ends where its bytes do") {
  LocatedBlock block;
  block.offset = 1024;
  block.block.length = 1;
  CHECK(block.end() == 1025);
}

}  // namespace
}  // namespace hflush::hdfs
