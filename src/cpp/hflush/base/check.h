// HFLUSH_DCHECK(condition): what a caller has to guarantee, checked in debug and sanitizer builds.
//
// For a precondition that is cheap to check and whose breach is a fault of this library, never of
// a user, a file or a server: those get a Status. A breach prints the condition and aborts. Where
// NDEBUG is defined, as in every release, the condition is compiled and not evaluated.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace hflush {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) noexcept {
  std::fprintf(stderr, "%s:%d: HFLUSH_DCHECK(%s) failed\n", file, line, condition);
  std::abort();
}

}  // namespace hflush

#ifdef NDEBUG
#define HFLUSH_DCHECK(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#define HFLUSH_DCHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::hflush::check_failed(__FILE__, __LINE__, #condition))
#endif
