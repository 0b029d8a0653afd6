// InputFile: positioned reads of one object, pinned to the ETag that it had when it was opened.
//
// Holds no position, so that any number of threads may read at once, each with a request of its
// own. A read that goes on where the last one ended, or starts at 0, is served from one response
// that streams ahead, up to a window; a small step forward reads over what lies between. Any other
// read asks for just its range. Bytes go straight into the buffer of a read that waits for them.
//
// An object that comes whole in one response is compared with the CRC that the store keeps of it,
// if it does. Where they differ, a read that began at 0 asks once more; any other that needs the
// last bytes that came is kChecksum, and what was read before may be wrong as well. What is asked
// for again from where a response broke off, or was let go, is not compared, nor are ranges.
//
// An object that was replaced under the reader is kPreconditionFailed (If-Match on every request,
// and ETag and length of every answer are checked), never a mixture. A response that breaks off is
// asked for again from where it broke, a bounded number of times. One that nobody reads for a while
// gives back its connection, and of its memory all but what was last asked for; the rest is asked
// for again when it is needed. Thread-safe; an interrupted or failed read leaves the file as it
// was. Not usable in a forked child (kForked).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"
#include "hflush/env/interrupt.h"
#include "hflush/s3/call/client.h"

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
  env::Duration idle_timeout = std::chrono::seconds(5);     // then a response that nobody reads is
                                                            // ended
};

class InputFile {
 public:
  // Asks the store nothing.
  static Result<std::unique_ptr<InputFile>> make(std::shared_ptr<Client> client,
                                                 ReadOptions options);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Fills `out` from `position` on and returns how many bytes that were: fewer than asked for only
  // if the object ends there, 0 at or past its end. After a failure `out` holds anything.
  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt);
  std::uint64_t length() const noexcept;
  // Calls under way finish. Idempotent.
  void close();
  bool closed() const;
  // Ends the response that waits for the next read in order, with what it has sent ahead.
  void unbuffer();
  // Adds the file's own counters, by Hadoop's names. Never waits for I/O.
  void add_statistics(Statistics& statistics) const;

 private:
  class Core;

  explicit InputFile(std::shared_ptr<Core> core);

  const std::shared_ptr<Core> core_;
};

}  // namespace hflush::s3
