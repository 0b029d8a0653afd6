#include "hflush/s3/upload/open_for_write.h"

#include <algorithm>
#include <utility>

#include "hflush/env/clock.h"
#include "hflush/env/process.h"

namespace hflush::s3 {

OpenedObject open_for_write(std::shared_ptr<Client> client, const std::string& path,
                            ObjectOptions options) {
  options.key = path.substr(std::min<std::size_t>(1, path.size()));
  if (options.path.empty()) options.path = path;
  std::string name = options.path;
  auto sink = std::make_unique<S3Sink>(std::move(client), std::move(options));
  std::shared_ptr<S3Upload> upload = sink->upload();
  std::weak_ptr<KeepableUpload> keepable = sink->keepable();
  auto stream = std::make_unique<stream::OutputStream>(
      std::move(name), std::move(sink), env::Process::current().buffers(), env::steady_clock());
  return {std::move(stream), std::move(upload), std::move(keepable)};
}

}  // namespace hflush::s3
