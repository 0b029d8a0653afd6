// open_for_write(): the stream that writes an object.
#pragma once

#include <memory>
#include <string>

#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/s3_sink.h"
#include "hflush/stream/output_stream.h"

namespace hflush::s3 {

struct OpenedObject {
  std::unique_ptr<stream::OutputStream> stream;
  std::shared_ptr<S3Upload> upload;        // what remains of it after the stream
  std::weak_ptr<KeepableUpload> keepable;  // none once the stream is gone
};

// `path`: a slash and the key. options.path, which messages name, is the same unless it is set.
// No store is asked: the stream reports failures.
OpenedObject open_for_write(std::shared_ptr<Client> client, const std::string& path,
                            ObjectOptions options);

}  // namespace hflush::s3
