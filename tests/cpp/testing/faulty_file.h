// FaultyFile: a WritableFile in memory that answers as a kernel may, when the test says so.
#pragma once

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/writable_file.h"

namespace hflush::testing {

// The disk below the file, which the test keeps. Thread-safe.
struct Disk {
  Mutex mutex;
  std::vector<std::byte> bytes HFLUSH_GUARDED_BY(mutex);
  std::size_t synced HFLUSH_GUARDED_BY(mutex) = 0;  // bytes a sync has made durable
  int writes HFLUSH_GUARDED_BY(mutex) = 0;
  int syncs HFLUSH_GUARDED_BY(mutex) = 0;
  int closes HFLUSH_GUARDED_BY(mutex) = 0;
  int waits HFLUSH_GUARDED_BY(mutex) = 0;
  // Answers of the next write_some() calls: -errno, or at most how many bytes are taken.
  std::deque<std::ptrdiff_t> write_answers HFLUSH_GUARDED_BY(mutex);
  std::deque<int> sync_answers HFLUSH_GUARDED_BY(mutex);   // errno
  std::deque<int> close_answers HFLUSH_GUARDED_BY(mutex);  // errno
  std::size_t capacity HFLUSH_GUARDED_BY(mutex) = SIZE_MAX;

  std::vector<std::byte> content() {
    MutexLock lock(mutex);
    return bytes;
  }
};

class FaultyFile final : public env::WritableFile {
 public:
  explicit FaultyFile(Disk& disk) : disk_(disk) {}

  std::ptrdiff_t write_some(std::span<const ByteView> pieces) noexcept override {
    MutexLock lock(disk_.mutex);
    ++disk_.writes;
    std::size_t room = disk_.capacity - disk_.bytes.size();
    if (!disk_.write_answers.empty()) {
      const std::ptrdiff_t answer = disk_.write_answers.front();
      disk_.write_answers.pop_front();
      if (answer < 0) return answer;
      room = std::min(room, static_cast<std::size_t>(answer));
    }
    if (room == 0) return -ENOSPC;
    std::ptrdiff_t taken = 0;
    for (const ByteView piece : pieces) {
      const ByteView part = piece.first(std::min(piece.size(), room));
      disk_.bytes.insert(disk_.bytes.end(), part.begin(), part.end());
      room -= part.size();
      taken += static_cast<std::ptrdiff_t>(part.size());
    }
    return taken;
  }

  int sync() noexcept override {
    MutexLock lock(disk_.mutex);
    ++disk_.syncs;
    const int answer = next(disk_.sync_answers);
    if (answer == 0) disk_.synced = disk_.bytes.size();
    return answer;
  }

  int wait_writable() noexcept override {
    MutexLock lock(disk_.mutex);
    ++disk_.waits;
    return 0;
  }

  int truncate(std::uint64_t size) noexcept override {
    MutexLock lock(disk_.mutex);
    disk_.bytes.resize(size);
    return 0;
  }

  int close() noexcept override {
    MutexLock lock(disk_.mutex);
    ++disk_.closes;
    return next(disk_.close_answers);
  }

 private:
  static int next(std::deque<int>& answers) {
    if (answers.empty()) return 0;
    const int answer = answers.front();
    answers.pop_front();
    return answer;
  }

  Disk& disk_;
};

}  // namespace hflush::testing
