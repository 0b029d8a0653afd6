// MemoryFiles: the names and the bytes of one memory store.
//
// They end with their process; a forked child begins with none. Paths are absolute and normalised.
// Every function is atomic. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"

namespace hflush::mem {

struct MemoryStatus {
  std::string path;
  bool is_directory = false;
  std::uint64_t length = 0;
  mode_t mode = 0;
  std::int64_t mtime_ns = 0;  // since the epoch
  std::int64_t atime_ns = 0;
  std::uint64_t id = 0;  // of the file, whatever its name
};

class MemoryFiles {
 public:
  static constexpr std::size_t kLongestName = 255;
  static constexpr std::size_t kLongestPath = 4096;

  // A file that is open: it stays when its name is removed or given to another.
  struct Node;
  using File = std::shared_ptr<Node>;

  // Those of mem://name/ in this process.
  static std::shared_ptr<MemoryFiles> named(const std::string& name);

  MemoryFiles();
  ~MemoryFiles();
  MemoryFiles(const MemoryFiles&) = delete;
  MemoryFiles& operator=(const MemoryFiles&) = delete;

  // --- names

  // kNotFound also below a file.
  Result<MemoryStatus> status(const std::string& path) const;
  // The entries of a directory; of a file its own status.
  Result<std::vector<MemoryStatus>> list(const std::string& path) const;
  Status mkdirs(const std::string& path, mode_t mode, bool create_parent);
  // False if there was nothing.
  Result<bool> remove(const std::string& path, bool recursive);
  // Hadoop's FileSystem.rename: into a directory unless source and destination are directories and
  // the destination is empty; replaces a file; makes missing parents.
  Status rename(const std::string& source, const std::string& destination);
  // Hadoop's FileContext.rename: the destination is meant as it is given, and its parent exists.
  Status rename_exact(const std::string& source, const std::string& destination, bool overwrite);
  Status set_permission(const std::string& path, mode_t mode);
  Status set_times(const std::string& path, std::optional<std::int64_t> mtime_ns,
                   std::optional<std::int64_t> atime_ns);

  // --- files

  // A new, empty file. One that was there keeps its bytes for those who have it open.
  Result<File> create(const std::string& path, bool overwrite, bool create_parent, mode_t mode);
  // kNotFound, kNotAFile.
  Result<File> open(const std::string& path) const;
  // All of the pieces, or a failure and none of them.
  Status append(Node& file, std::span<const ByteView> pieces);
  // Fewer bytes than asked for only at the end.
  std::size_t read(const Node& file, std::uint64_t position, MutableByteView out) const;
  std::uint64_t length(const Node& file) const;

  // No file grows beyond so many bytes: append() answers EFBIG.
  void set_largest_file(std::uint64_t bytes);

 private:
  // An entry that is there, and the directory that it is in.
  struct Place {
    File directory;
    std::string name;
  };

  File make_node(bool is_directory, mode_t mode) HFLUSH_REQUIRES(mutex_);
  File find(const std::string& path) const HFLUSH_REQUIRES(mutex_);
  Result<File> find_or_fail(const std::string& path, const char* operation) const
      HFLUSH_REQUIRES(mutex_);
  Result<Place> place_of(const std::string& path, const char* operation, std::optional<mode_t> make)
      HFLUSH_REQUIRES(mutex_);
  Status move(const std::string& source, const std::string& destination, bool make_parents)
      HFLUSH_REQUIRES(mutex_);
  Status check_move(const std::string& source, const std::string& destination) const
      HFLUSH_REQUIRES(mutex_);

  // Innermost. Guards what every Node holds.
  mutable Mutex mutex_;
  std::uint64_t last_id_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::uint64_t largest_file_ HFLUSH_GUARDED_BY(mutex_) = UINT64_MAX;
  const File root_;
};

}  // namespace hflush::mem
