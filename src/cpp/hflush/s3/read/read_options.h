// ReadOptions: which object is read, and how.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"

namespace hflush::s3 {

struct ReadOptions {
  std::string bucket;
  std::string key;
  std::string path;  // for messages
  std::uint64_t size = 0;
  std::string etag;        // empty: not pinned
  std::string version_id;  // empty: the newest
  std::vector<env::HttpHeader> request_headers;
  std::uint64_t readahead_bytes = std::uint64_t{1} << 20U;  // fs.s3a.readahead.range: a forward
                                                            // step so large is read over
  std::uint64_t window_bytes = std::uint64_t{4} << 20U;     // buffered ahead of reads in order
  env::Duration idle_timeout = std::chrono::seconds(5);     // then a response that nothing reads is
                                                            // ended
};

}  // namespace hflush::s3
