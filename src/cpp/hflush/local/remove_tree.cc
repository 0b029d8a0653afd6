#include "hflush/local/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/local/descriptor.h"
#include "hflush/local/directory.h"
#include "hflush/local/paths.h"

namespace hflush::local {
namespace {

// A directory between the top of the tree and the one that is open.
struct Level {
  std::string name;
  dev_t device = 0;
  ino_t inode = 0;
  std::vector<std::string> children;  // directories in it that are still to be removed
};

class TreeRemover {
 public:
  explicit TreeRemover(const std::string& path) : path_(path) {}

  Status run() {
    HFLUSH_RETURN_IF_ERROR(enter(AT_FDCWD, path_));
    while (!levels_.empty()) {
      std::vector<std::string>& children = levels_.back().children;
      if (children.empty()) {
        HFLUSH_RETURN_IF_ERROR(leave());
      } else {
        const std::string child = std::move(children.back());
        children.pop_back();
        HFLUSH_RETURN_IF_ERROR(enter(current_.get(), child));
      }
    }
    return {};
  }

 private:
  // For messages.
  std::string current_path() const {
    std::string path = path_;
    for (std::size_t i = 1; i < levels_.size(); ++i) path = join(path, levels_[i].name);
    return path;
  }
  Status failure(int error_number, std::string_view operation, std::string_view name) const {
    return Status::from_errno(error_number, operation,
                              levels_.empty() ? path_ : join(current_path(), name));
  }

  // Opens a directory, which must be one and not a link, and removes all in it but directories that
  // are not empty.
  Status enter(int directory, const std::string& name) {
    Descriptor child =
        open_descriptor_at(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!child && errno == ENOENT && !levels_.empty()) return {};
    if (!child) return failure(errno, "open directory to delete it", name);
    struct stat facts;
    if (::fstat(child.get(), &facts) != 0) return failure(errno, "status", name);
    levels_.push_back({name, facts.st_dev, facts.st_ino, {}});
    current_ = std::move(child);
    return remove_leaves();
  }

  // Goes back to the parent and removes the emptied directory from it.
  Status leave() {
    const std::string name = std::move(levels_.back().name);
    levels_.pop_back();
    int directory = AT_FDCWD;
    if (levels_.empty()) {
      current_ = Descriptor();  // VirtualBox's shared folders remove none that is open
    } else {
      Descriptor parent = open_descriptor_at(current_.get(), "..", O_RDONLY | O_DIRECTORY);
      struct stat facts;
      if (!parent || ::fstat(parent.get(), &facts) != 0) {
        return failure(errno, "open parent of directory", name);
      }
      if (facts.st_dev != levels_.back().device || facts.st_ino != levels_.back().inode) {
        return failure(EBUSY, "delete directory that was moved meanwhile", name);
      }
      current_ = std::move(parent);
      directory = current_.get();
    }
    if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    return failure(errno, "delete directory", name);
  }

  // Some file systems skip entries of a listing in the course of which others are removed.
  Status remove_leaves() {
    std::vector<std::string> names;
    DirectoryReader reader(current_.get());
    while (const dirent* entry = reader.next()) names.emplace_back(entry->d_name);
    if (reader.error_number() != 0) {
      return Status::from_errno(reader.error_number(), "read directory", current_path());
    }
    for (const std::string& name : names) HFLUSH_RETURN_IF_ERROR(remove_leaf(name));
    return {};
  }

  Status remove_leaf(const std::string& name) {
    if (::unlinkat(current_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
    // Of a directory Linux says EISDIR and POSIX EPERM, which has other reasons, too.
    const int error_number = errno;
    if (error_number == EISDIR || error_number == EPERM) {
      if (::unlinkat(current_.get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
      if (errno == ENOTEMPTY || errno == EEXIST) {
        levels_.back().children.push_back(name);
        return {};
      }
      if (errno != ENOTDIR) return failure(errno, "delete directory", name);
    }
    return failure(error_number, "delete", name);
  }

  const std::string& path_;
  std::vector<Level> levels_;  // from the top to the current directory
  Descriptor current_;
};

}  // namespace

Status remove_tree(const std::string& path) { return TreeRemover(path).run(); }

}  // namespace hflush::local
