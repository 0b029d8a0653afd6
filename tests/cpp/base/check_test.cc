// HFLUSH_DCHECK: a breach ends a debug build, and costs a release nothing.
#include "hflush/base/check.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace {

int status_of_child(bool condition) {
  const pid_t child = fork();
  if (child == 0) {
    static_cast<void>(std::signal(SIGABRT, SIG_DFL));  // not the report of the test program
    HFLUSH_DCHECK(condition);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a condition that holds does nothing") { CHECK(status_of_child(true) == 0); }

TEST_CASE("a breach aborts where NDEBUG is not defined, and goes unseen where it is") {
  const int status = status_of_child(false);
#ifdef NDEBUG
  CHECK(status == 0);
#else
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
#endif
}

#ifdef NDEBUG
TEST_CASE("a release does not evaluate the condition") {
  int evaluated = 0;
  HFLUSH_DCHECK(++evaluated > 0);
  CHECK(evaluated == 0);
}
#endif
