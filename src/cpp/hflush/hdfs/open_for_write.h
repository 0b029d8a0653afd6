// create() and append(): the streams that write files of HDFS.
//
// What the NameNode opened for a call that then failed, or was interrupted, is closed again. The
// streams keep the client alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/result.h"
#include "hflush/crc/checksum.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/client.h"
#include "hflush/stream/output_stream.h"

namespace hflush::hdfs {

// What both may say beside the path.
struct WriteOptions {
  bool sync_block = false;     // CreateFlag SYNC_BLOCK
  bool update_length = false;  // hsync tells the NameNode the length (SyncFlag UPDATE_LENGTH)
  // Where the replicas of new blocks are to be.
  bool no_local_write = false;
  bool ignore_client_locality = false;
  std::vector<std::string> favored_nodes;  // "host:port"
};

// What create() may say; what is missing comes from the settings.
struct CreateOptions : WriteOptions {
  bool overwrite = true;
  bool create_parent = true;
  std::uint32_t masked = 0644;
  std::uint32_t unmasked = 0666;
  std::optional<std::uint32_t> replication;
  std::optional<std::uint64_t> block_size;
  std::optional<crc::Kind> checksum;
  std::optional<std::uint32_t> bytes_per_checksum;
  bool lazy_persist = false;
  bool should_replicate = false;
  std::string storage_policy;
  std::string ec_policy;
};

// What append() may say.
struct AppendOptions : WriteOptions {
  bool new_block = false;  // CreateFlag NEW_BLOCK
};

using StreamResult = Result<std::unique_ptr<stream::OutputStream>>;

StreamResult create(Client& client, const std::string& path, const CreateOptions& options,
                    env::Interrupt& interrupt);
StreamResult append(Client& client, const std::string& path, const AppendOptions& options,
                    env::Interrupt& interrupt);

}  // namespace hflush::hdfs
