// Checks the answer to a GET: it must be the requested range of the object that was opened.
// Pure.
//
// | Head                                                        | The body is                     |
// |-------------------------------------------------------------|---------------------------------|
// | another ETag than the object was opened with                | refused: kPreconditionFailed    |
// | 206, content-range with another total than the size         | refused: kPreconditionFailed    |
// | 206, content-range that begins where it was asked to, and   | that range, perhaps a shorter   |
// | ends no later                                               | one                             |
// | 206, any other content-range, or none                       | refused: kIo                    |
// | 200, content-length other than the size                     | refused: kPreconditionFailed    |
// | 200: the whole was asked for, or the store knows no ranges  | the object; what lies before    |
// |                                                             | the range is passed over. It is |
// |                                                             | compared with the CRC that the  |
// |                                                             | store has of it, if it has one  |
// | any other                                                   | refused: kIo                    |
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/crc/checksum.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/read/read_options.h"

namespace hflush::s3 {

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::string to_text(const ByteRange& range);

// "bytes 0-99/1000" as {0, 100} and 1000; a total of "*" is none.
struct ContentRange {
  ByteRange range;
  std::optional<std::uint64_t> total;
};

std::optional<ContentRange> parse_content_range(std::string_view text) noexcept;

// kPreconditionFailed: the object is not the one that was opened; `what` says why.
Status replaced(const ReadOptions& options, const ByteRange& asked, const std::string& what);

// The body that a head announces.
struct ExpectedBody {
  std::uint64_t size = 0;
  std::uint64_t before = 0;  // bytes in front of the range
  // The CRC of the whole object, as a header has it; kNone without one, and of an object whose CRC
  // is one of its parts' CRCs.
  crc::Kind sum_kind = crc::Kind::kNone;
  std::string sum = {};
};

// The table above.
Result<ExpectedBody> expected_body(const env::HttpHead& head, const ReadOptions& options,
                                   const ByteRange& asked);

// How much of a body has come, and what of that is for the reader. Thread-compatible.
class ObjectBody {
 public:
  explicit ObjectBody(const ByteRange& asked) : asked_(asked) {
    expected_.size = asked.end - asked.begin;
  }

  // A head has come; an attempt before it may have had one.
  void begin(ExpectedBody expected);
  // The part of `bytes`, which have come next, that the reader wants. kIo if they are more than
  // was expected, kChecksum if the whole is there and its sum differs.
  Result<ByteView> take(ByteView bytes);
  // Of the bytes for the reader that have not come yet, the next `count` are passed over.
  void skip(std::uint64_t count) noexcept { skip_ += count; }

  bool is_complete() const noexcept { return sent_ == expected_.size; }
  std::uint64_t received() const noexcept { return received_; }
  std::uint64_t received_of_range() const noexcept { return received_ - in_front_; }

 private:
  Status check_sum() const;

  const ByteRange asked_;
  ExpectedBody expected_;
  std::uint64_t sent_ = 0;      // of the body that was begun last
  std::uint64_t received_ = 0;  // in all
  std::uint64_t in_front_ = 0;  // of those, in front of the range
  std::uint64_t skip_ = 0;
  std::uint32_t sum_ = 0;
};

}  // namespace hflush::s3
