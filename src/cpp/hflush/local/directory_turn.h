// DirectoryTurn: writers that put a file and its sums at a name take turns with all others that do
// so in that directory, of this process and of others.
//
// Thread-compatible: external locking.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "hflush/base/result.h"
#include "hflush/local/descriptor.h"

namespace hflush::local {

// A lock of the directory by flock(2), for as long as this lives. A thread never holds two, so that
// no order is needed. Where a directory cannot be locked (it may not be read, some network file
// systems) no thread waits for another.
class DirectoryTurn {
 public:
  // Waits for its turn. kTimedOut if it does not come: `flock DIRECTORY command` holds the same
  // lock for as long as the command runs, and the command may be this process.
  static Result<DirectoryTurn> at(const std::string& directory,
                                  std::chrono::milliseconds patience = std::chrono::seconds(30));

  DirectoryTurn(DirectoryTurn&& other) noexcept = default;
  DirectoryTurn& operator=(DirectoryTurn&&) = delete;
  DirectoryTurn(const DirectoryTurn&) = delete;
  DirectoryTurn& operator=(const DirectoryTurn&) = delete;
  ~DirectoryTurn();

 private:
  explicit DirectoryTurn(Descriptor directory) noexcept : directory_(std::move(directory)) {}

  Descriptor directory_;  // invalid: not locked
};

}  // namespace hflush::local
