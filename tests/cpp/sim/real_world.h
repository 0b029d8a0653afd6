// RealWorld: what a run must not touch. While one is Forbidden, a clock, a sleep, a socket or a
// thread of the machine ends the process with its name.
//
// In programs that link real_world.cc: it takes the place of the C library's functions.
#pragma once

namespace hflush::sim {

class Forbidden {
 public:
  Forbidden() noexcept;
  ~Forbidden();
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;
};

}  // namespace hflush::sim
