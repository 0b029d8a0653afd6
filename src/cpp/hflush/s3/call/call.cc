#include "hflush/s3/call/call.h"

namespace hflush::s3 {

std::string path_of(const Call& call) {
  std::string path = "s3://" + call.bucket;
  if (!call.key.empty()) path.append(1, '/').append(call.key);
  return path;
}

}  // namespace hflush::s3
