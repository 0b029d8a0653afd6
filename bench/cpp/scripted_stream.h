// One accepted connection of the scripted cluster, read and written by one thread.
//
// Every function returns false once the peer has gone; it reports nothing more.
#pragma once

#include <cstddef>
#include <span>

#include "hflush/base/bytes.h"

namespace scripted {

class Stream {
 public:
  // Owns `descriptor`.
  explicit Stream(int descriptor);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // All of `out`.
  bool read(hflush::MutableByteView out) const;
  // A length of protobuf's kind, in front of a message.
  bool read_length(std::size_t& length) const;
  // Whether a read would not wait.
  bool has_more() const;
  // The next `size` bytes are dropped in the kernel, without being copied to here.
  bool discard(std::size_t size) const;
  // Whatever has come, at most `size` bytes.
  bool discard_some(std::size_t size) const;
  bool write(hflush::ByteView bytes) const;

 private:
  int descriptor_;
};

}  // namespace scripted
