// OrderedReads: whether a positioned read goes on from the last one. Pure.
//
// Reads in order are worth a request for all the rest: what the store sends ahead is there when the
// next read comes. Other reads ask for their own range, so that nothing is sent in vain.
//
// | A read begins                                                 | It                           |
// |---------------------------------------------------------------|------------------------------|
// | in what streams ahead, at most `skip_window` bytes further on | goes on: takes the stream,   |
// |                                                               | and reads over the gap       |
// | else where the last one ended, or at 0 before any             | streams: asks for the rest   |
// | else                                                          | asks for its range; a stream |
// |                                                               | stays for the reads after it |
//
// A read that fails changes nothing; it may have used up the stream. Thread-compatible.
#pragma once

#include <cstdint>

namespace hflush::stream {

enum class ReadStep : std::uint8_t { kGoOn, kStream, kRange };

// The stream that the store sends ahead; without one nothing remains.
struct StreamAhead {
  std::uint64_t position = 0;  // of its next byte, in the file
  std::uint64_t remaining = 0;
};

class OrderedReads {
 public:
  explicit OrderedReads(std::uint64_t skip_window) noexcept : skip_window_(skip_window) {}

  ReadStep step(std::uint64_t position, StreamAhead ahead) const noexcept;
  // A read has succeeded, and `end` is the position behind its last byte.
  void succeeded(std::uint64_t end) noexcept { next_position_ = end; }

 private:
  std::uint64_t skip_window_;
  std::uint64_t next_position_ = 0;
};

}  // namespace hflush::stream
