// UploadTarget: what is uploaded, where to and in which sizes, as its options and the client's
// settings say. Constant.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hflush/base/result.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/block_upload.h"
#include "hflush/s3/upload/part_sizes.h"
#include "hflush/s3/upload/part_store.h"
#include "hflush/s3/upload/upload_calls.h"

namespace hflush::s3 {

// The sizes of the parts, and the memory budget of the stream: half a block less than may be
// active, where these are more than two; at least 2 MiB, and where all parts lie in memory at least
// two of them, as the one that fills is never acknowledged.
PartSizes part_sizes(const ObjectOptions& options) noexcept;
std::uint64_t upload_window(const ObjectOptions& options, const PartSizes& sizes) noexcept;
// Bytes of the parts that an upload had when it was begun before; else 0.
std::uint64_t begun_bytes(const ObjectOptions& options) noexcept;

struct UploadTarget {
  UploadTarget(std::shared_ptr<Client> its_client, ObjectOptions its_options);

  PartStoreOptions store_options() const;
  UploadOptions upload_options() const;
  // Fine unless the store was asked to encrypt, and its answer does not say that it does.
  Status encryption_refused(const char* operation, const env::HttpHead& head) const;
  // Empty where there is none.
  std::string token_or_empty() const { return token.ok() ? *token : std::string(); }

  const std::shared_ptr<Client> client;
  const ObjectOptions options;
  const PartSizes sizes;
  const std::uint64_t window;  // upload_window()
  const std::string path;
  // x-amz-meta-hflush-token; or what is missing: the stream fails with it at its first call.
  const Result<std::string> token;
  const Status out_of_memory;  // made while there is memory
};

}  // namespace hflush::s3
