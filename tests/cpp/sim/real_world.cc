#include "sim/real_world.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace hflush::sim {
namespace {

bool is_forbidden = false;

template <typename Function>
Function* real(const char* name) {
  if (is_forbidden) {
    std::fprintf(stderr, "a run calls %s() of the machine\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

Forbidden::Forbidden() noexcept { is_forbidden = true; }
Forbidden::~Forbidden() { is_forbidden = false; }

}  // namespace hflush::sim

using hflush::sim::real;

// Seen by the C++ library as well, whose clocks and condition variables call them.
#pragma GCC visibility push(default)

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) {
  return real<decltype(clock_gettime)>("clock_gettime")(clock, now);
}
int nanosleep(const timespec* duration, timespec* left) {
  return real<decltype(nanosleep)>("nanosleep")(duration, left);
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* until, timespec* left) {
  return real<decltype(clock_nanosleep)>("clock_nanosleep")(clock, flags, until, left);
}
int socket(int domain, int type, int protocol) noexcept {
  return real<decltype(socket)>("socket")(domain, type, protocol);
}
int poll(pollfd* polled, nfds_t count, int timeout) {
  return real<decltype(poll)>("poll")(polled, count, timeout);
}
int epoll_create1(int flags) noexcept {
  return real<decltype(epoll_create1)>("epoll_create1")(flags);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  return real<decltype(pthread_create)>("pthread_create")(thread, attributes, start, argument);
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return real<decltype(pthread_cond_wait)>("pthread_cond_wait")(condition, mutex);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  return real<decltype(pthread_cond_clockwait)>("pthread_cond_clockwait")(condition, mutex, clock,
                                                                          until);
}

}  // extern "C"

#pragma GCC visibility pop
