// S3Source: the bytes of one object, pinned to the ETag that it had when it was opened.
//
// Each concurrent read has a request of its own. A read in order (stream/ordered_reads.h) is served
// from one response that streams ahead, up to a window.
//
// An object that comes whole in one response is compared with the CRC that the store keeps of it,
// if it does (object_body.h). Where they differ, a read that began at 0 asks once more; any other
// that needs the last bytes that came is kChecksum, and what was read before may be wrong as well.
// What is asked for again from where a response broke off, or was released, is not compared, nor
// are ranges.
//
// An object that was replaced under the reader is kPreconditionFailed (If-Match on every request,
// and ETag and length of every answer are checked), never a mixture. A response that breaks off is
// asked for again from where it broke, a bounded number of times. One that is not read for a while
// gives back its connection, and of its memory all but what was last asked for; the rest is asked
// for again when it is needed. Thread-safe; an interrupted or failed read leaves the file as it
// was. Not usable in a forked child (kForked).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/own_process.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/read/read_options.h"
#include "hflush/stream/source.h"

namespace hflush::s3 {

class S3Source final : public stream::Source {
 public:
  // Asks the store nothing.
  static Result<std::unique_ptr<S3Source>> open(std::shared_ptr<Client> client,
                                                ReadOptions options);
  ~S3Source() override;

  const std::string& path() const noexcept override;
  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt) override;
  Result<std::uint64_t> length() const override;
  void close() override;
  bool verified() const noexcept override { return false; }  // an object read in ranges is not
  void unbuffer() override;
  void add_statistics(Statistics& statistics) const override;  // by Hadoop's names

 private:
  class Reader;

  explicit S3Source(std::shared_ptr<Reader> reader);

  Status forked() const;

  env::OwnProcess<Reader> reader_;
};

}  // namespace hflush::s3
