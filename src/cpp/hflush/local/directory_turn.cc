#include "hflush/local/directory_turn.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace hflush::local {
namespace {

// A turn is a few system calls. flock(2) itself could wait for ever, so it is asked again and
// again.
constexpr std::chrono::microseconds kShortestPause{50};
constexpr std::chrono::microseconds kLongestPause{5000};

}  // namespace

Result<DirectoryTurn> DirectoryTurn::at(const std::string& directory,
                                        std::chrono::milliseconds patience) {
  Descriptor opened = open_descriptor(directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (!opened) return DirectoryTurn(Descriptor());
  const auto end = std::chrono::steady_clock::now() + patience;
  auto pause = kShortestPause;
  while (uninterrupted([&] { return ::flock(opened.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) return DirectoryTurn(Descriptor());  // the file system has no locks
    if (std::chrono::steady_clock::now() >= end) {
      return Status::from_errno(ETIMEDOUT, "wait for another program's lock (flock) of directory",
                                directory);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  return DirectoryTurn(std::move(opened));
}

DirectoryTurn::~DirectoryTurn() {
  // A child forked in between has the descriptor, too: closing this one would not unlock.
  if (directory_) static_cast<void>(::flock(directory_.get(), LOCK_UN));
}

}  // namespace hflush::local
