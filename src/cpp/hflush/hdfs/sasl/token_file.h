// TokenFile: the tokens of a process, and the file that they come from, read again when it has
// changed: the submitter of a long job puts newer ones there.
//
// A file that cannot be read any more, or is half written, leaves the tokens that were there, and
// is tried again the next time. Thread-safe; reads without waiting for other threads' calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/hdfs/sasl/credentials.h"

namespace hflush::hdfs::sasl {

// What a client knows at one time.
struct HeldTokens {
  std::vector<Token> tokens;
  std::string origin;  // for messages: "/run/tokens", and why it cannot be read; may be empty
};

class TokenFile {
 public:
  // `tokens`: until the file was read. An empty path: these are all.
  TokenFile(std::vector<Token> tokens, std::string path);

  HeldTokens now() HFLUSH_EXCLUDES(mutex_);

 private:
  // Which content a file had: equal if it has not changed.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };

  Status refresh_locked() HFLUSH_REQUIRES(mutex_);

  const std::string path_;
  // Held while the file is read.
  Mutex mutex_;
  std::vector<Token> tokens_ HFLUSH_GUARDED_BY(mutex_);
  Stamp stamp_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::hdfs::sasl
