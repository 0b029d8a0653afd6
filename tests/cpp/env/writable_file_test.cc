// LOCAL-10: partial writes, EINTR and EAGAIN are finished; real errors are reported with numbers.
#include "hflush/env/writable_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "testing/bytes.h"
#include "testing/faulty_file.h"

namespace hflush::env {
namespace {

using testing::bytes_of;
using testing::Disk;
using testing::FaultyFile;
using testing::pattern;

TEST_CASE("short writes are continued across pieces, interrupted ones repeated") {
  Disk disk;
  {
    MutexLock lock(disk.mutex);
    disk.write_answers = {3, -EINTR, 1, -EAGAIN, 7, 1};
  }
  FaultyFile file(disk);
  const auto data = pattern(100);
  const std::array<ByteView, 4> pieces{ByteView(data).first(2), ByteView(),
                                       ByteView(data).subspan(2, 6), ByteView(data).subspan(8)};
  CHECK(write_fully(file, pieces, "/file").ok());
  CHECK(disk.content() == data);
  MutexLock lock(disk.mutex);
  CHECK(disk.waits == 1);
}

TEST_CASE("more pieces than one system call takes") {
  Disk disk;
  FaultyFile file(disk);
  const auto data = pattern(1000);
  std::vector<ByteView> pieces;
  for (std::size_t i = 0; i < data.size(); ++i) pieces.push_back(ByteView(data).subspan(i, 1));
  CHECK(write_fully(file, pieces, "/file").ok());
  CHECK(disk.content() == data);
}

TEST_CASE("a full disk: errno, path, and how far it got") {
  Disk disk;
  {
    MutexLock lock(disk.mutex);
    disk.capacity = 40;
  }
  FaultyFile file(disk);
  const auto data = pattern(100);
  const std::array<ByteView, 1> pieces{ByteView(data)};
  const Status full = write_fully(file, pieces, "/file");
  CHECK(full.error_number() == ENOSPC);
  CHECK(full.path() == "/file");
  CHECK(full.message().find("write of 100 bytes (40 written)") != std::string::npos);
}

TEST_CASE("a file that takes nothing and says nothing is an error, not a loop") {
  Disk disk;
  {
    MutexLock lock(disk.mutex);
    disk.write_answers = {0};
    disk.capacity = 10;
  }
  FaultyFile file(disk);
  const auto data = bytes_of("x");
  const std::array<ByteView, 1> pieces{ByteView(data)};
  CHECK_FALSE(write_fully(file, pieces, "/file").ok());
}

TEST_CASE("a forked child has no private file, and closes no other one in its place") {
  const int number = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  REQUIRE(number >= 0);
  std::unique_ptr<WritableFile> file = make_posix_file(number, true);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool was_closed = ::fcntl(number, F_GETFD) < 0;
    ::dup2(::open("/dev/null", O_RDONLY), number);
    file.reset();
    ::_exit(was_closed && ::fcntl(number, F_GETFD) >= 0 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(file->close() == 0);
  CHECK(::fcntl(number, F_GETFD) < 0);
}

}  // namespace
}  // namespace hflush::env
