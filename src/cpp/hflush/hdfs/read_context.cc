#include "hflush/hdfs/read_context.h"

#include "hflush/hdfs/client.h"
#include "hflush/hdfs/visible_length.h"

namespace hflush::hdfs {

ReadContext ReadContext::of(const std::shared_ptr<Client>& client) {
  return {.owner = client,
          .name_node = client->rpc(),
          .connections = client->connections(),
          .settings = client->settings(),
          .ask_visible_length = ask_datanode(client->settings())};
}

}  // namespace hflush::hdfs
