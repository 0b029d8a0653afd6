#include "mem/memory_files.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "hflush/env/own_process.h"

namespace hflush::mem {

// Guarded by the lock of its MemoryFiles.
struct MemoryFiles::Node {
  std::uint64_t id = 0;
  bool is_directory = false;
  mode_t mode = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t atime_ns = 0;
  std::vector<std::byte> bytes;                       // of a file
  std::map<std::string, File, std::less<>> children;  // of a directory

  MemoryStatus status(std::string path) const {
    return {std::move(path), is_directory, bytes.size(), mode, mtime_ns, atime_ns, id};
  }
};

namespace {

constexpr mode_t kImpliedDirectoryMode = 0755;

// The stores of one process.
struct Stores {
  // Before that of a store.
  Mutex mutex;
  std::map<std::string, std::shared_ptr<MemoryFiles>> by_name HFLUSH_GUARDED_BY(mutex);
};

std::int64_t now_ns() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

std::vector<std::string_view> elements_of(std::string_view path) {
  std::vector<std::string_view> elements;
  while (path.size() > 1) {
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    elements.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return elements;
}

std::string join(const std::string& directory, std::string_view name) {
  return (directory == "/" ? "" : directory) + "/" + std::string(name);
}

bool is_below(std::string_view path, std::string_view ancestor) {
  return path.size() > ancestor.size() && path.starts_with(ancestor) &&
         path[ancestor.size()] == '/';
}

// The functions below run under the lock of the nodes.

MemoryFiles::File child_of(const MemoryFiles::Node& directory, std::string_view name) {
  const auto entry = directory.children.find(name);
  return entry == directory.children.end() ? nullptr : entry->second;
}

MemoryFiles::File add(MemoryFiles::Node& directory, const std::string& name,
                      MemoryFiles::File child) {
  directory.children[name] = child;
  directory.mtime_ns = now_ns();
  return child;
}

void take(MemoryFiles::Node& directory, const std::string& name) {
  directory.children.erase(name);
  directory.mtime_ns = now_ns();
}

Status check_replaces(const MemoryFiles::Node& moved, const MemoryFiles::Node& there,
                      const std::string& destination) {
  int refusal = 0;
  if (!there.children.empty()) refusal = ENOTEMPTY;
  if (there.is_directory && !moved.is_directory) refusal = EISDIR;
  if (moved.is_directory && !there.is_directory) refusal = EEXIST;
  if (refusal == 0) return {};
  return Status::from_errno(refusal, "rename: destination", destination);
}

Status check_names(const std::string& path, const char* operation) {
  const auto too_long = [](std::string_view name) {
    return name.size() > MemoryFiles::kLongestName;
  };
  if (path.size() <= MemoryFiles::kLongestPath && std::ranges::none_of(elements_of(path), too_long))
    return {};
  return Status::from_errno(ENAMETOOLONG, operation, path);
}

}  // namespace

std::shared_ptr<MemoryFiles> MemoryFiles::named(const std::string& name) {
  static env::PerProcess<Stores> stores;
  Stores& here = stores.get();
  MutexLock lock(here.mutex);
  std::shared_ptr<MemoryFiles>& files = here.by_name[name];
  if (files == nullptr) files = std::make_shared<MemoryFiles>();
  return files;
}

MemoryFiles::MemoryFiles() : root_(std::make_shared<Node>()) {
  root_->is_directory = true;
  root_->mode = kImpliedDirectoryMode;
  root_->mtime_ns = root_->atime_ns = now_ns();
}

MemoryFiles::~MemoryFiles() = default;

// --- names

Result<MemoryStatus> MemoryFiles::status(const std::string& path) const {
  MutexLock lock(mutex_);
  HFLUSH_ASSIGN_OR_RETURN(const File found, find_or_fail(path, "status"));
  return found->status(path);
}

Result<std::vector<MemoryStatus>> MemoryFiles::list(const std::string& path) const {
  MutexLock lock(mutex_);
  HFLUSH_ASSIGN_OR_RETURN(const File found, find_or_fail(path, "list"));
  std::vector<MemoryStatus> entries;
  if (!found->is_directory) entries.push_back(found->status(path));
  for (const auto& [name, child] : found->children) {
    entries.push_back(child->status(join(path, name)));
  }
  return entries;
}

Status MemoryFiles::mkdirs(const std::string& path, mode_t mode, bool create_parent) {
  MutexLock lock(mutex_);
  if (const File found = find(path)) {
    if (found->is_directory) return {};
    return Status::from_errno(EEXIST, "mkdirs: a file", path);
  }
  HFLUSH_ASSIGN_OR_RETURN(
      const Place place,
      place_of(path, "mkdirs", create_parent ? std::optional(mode) : std::nullopt));
  add(*place.directory, place.name, make_node(true, mode));
  return {};
}

Result<bool> MemoryFiles::remove(const std::string& path, bool recursive) {
  MutexLock lock(mutex_);
  const File found = find(path);
  if (found == nullptr) return false;
  if (!recursive && !found->children.empty()) {
    return Status::from_errno(ENOTEMPTY, "delete", path);
  }
  HFLUSH_ASSIGN_OR_RETURN(const Place place, place_of(path, "delete", std::nullopt));
  take(*place.directory, place.name);
  return true;
}

Status MemoryFiles::rename(const std::string& source, const std::string& destination) {
  MutexLock lock(mutex_);
  HFLUSH_RETURN_IF_ERROR(check_move(source, destination));
  if (source == destination) return {};
  std::string target = destination;
  const File there = find(destination);
  if (there != nullptr && there->is_directory) {
    const bool replaces = find(source)->is_directory && there->children.empty();
    if (!replaces) target = join(destination, elements_of(source).back());
    if (target == source) return {};
  }
  return move(source, target, true);
}

Status MemoryFiles::rename_exact(const std::string& source, const std::string& destination,
                                 bool overwrite) {
  MutexLock lock(mutex_);
  HFLUSH_RETURN_IF_ERROR(check_move(source, destination));
  const bool refused = source == destination || (!overwrite && find(destination) != nullptr);
  if (refused) return Status::from_errno(EEXIST, "rename: destination", destination);
  return move(source, destination, false);
}

// What holds for both forms, whatever is at the destination.
Status MemoryFiles::check_move(const std::string& source, const std::string& destination) const {
  HFLUSH_ASSIGN_OR_RETURN(const File moved, find_or_fail(source, "rename"));
  if (moved == root_) return Status::from_errno(EPERM, "rename: the root directory stays", source);
  if (moved->is_directory && is_below(destination, source)) {
    return Status::from_errno(EINVAL, "rename: '" + destination + "' is below it", source);
  }
  return {};
}

Status MemoryFiles::move(const std::string& source, const std::string& destination,
                         bool make_parents) {
  const File moved = find(source);
  const File there = find(destination);
  if (there != nullptr) {
    HFLUSH_RETURN_IF_ERROR(check_replaces(*moved, *there, destination));
  }
  HFLUSH_ASSIGN_OR_RETURN(
      const Place to, place_of(destination, "rename",
                               make_parents ? std::optional(kImpliedDirectoryMode) : std::nullopt));
  HFLUSH_ASSIGN_OR_RETURN(const Place from, place_of(source, "rename", std::nullopt));
  add(*to.directory, to.name, moved);
  take(*from.directory, from.name);
  return {};
}

Status MemoryFiles::set_permission(const std::string& path, mode_t mode) {
  MutexLock lock(mutex_);
  HFLUSH_ASSIGN_OR_RETURN(const File found, find_or_fail(path, "set permission"));
  found->mode = mode;
  return {};
}

Status MemoryFiles::set_times(const std::string& path, std::optional<std::int64_t> mtime_ns,
                              std::optional<std::int64_t> atime_ns) {
  MutexLock lock(mutex_);
  HFLUSH_ASSIGN_OR_RETURN(const File found, find_or_fail(path, "set times"));
  found->mtime_ns = mtime_ns.value_or(found->mtime_ns);
  found->atime_ns = atime_ns.value_or(found->atime_ns);
  return {};
}

// --- files

Result<MemoryFiles::File> MemoryFiles::create(const std::string& path, bool overwrite,
                                              bool create_parent, mode_t mode) {
  MutexLock lock(mutex_);
  if (const File found = find(path)) {
    if (found->is_directory) return Status::from_errno(EISDIR, "create", path);
    if (!overwrite) return Status::from_errno(EEXIST, "create", path);
  }
  HFLUSH_ASSIGN_OR_RETURN(
      const Place place,
      place_of(path, "create",
               create_parent ? std::optional(kImpliedDirectoryMode) : std::nullopt));
  return add(*place.directory, place.name, make_node(false, mode));
}

Result<MemoryFiles::File> MemoryFiles::open(const std::string& path) const {
  MutexLock lock(mutex_);
  HFLUSH_ASSIGN_OR_RETURN(File found, find_or_fail(path, "open"));
  if (!found->is_directory) return found;
  return Status(StatusCode::kNotAFile, "open: this is a directory", path, EISDIR);
}

Status MemoryFiles::append(Node& file, std::span<const ByteView> pieces) {
  std::size_t size = 0;
  for (const ByteView piece : pieces) size += piece.size();
  MutexLock lock(mutex_);
  const std::size_t held = file.bytes.size();
  if (held > largest_file_ || size > largest_file_ - held) {
    return Status::from_errno(EFBIG, "write of " + std::to_string(size) + " bytes", {});
  }
  if (file.bytes.capacity() < held + size) file.bytes.reserve(std::max(held + size, held * 2));
  for (const ByteView piece : pieces) {
    file.bytes.insert(file.bytes.end(), piece.begin(), piece.end());
  }
  file.mtime_ns = now_ns();
  return {};
}

std::size_t MemoryFiles::read(const Node& file, std::uint64_t position, MutableByteView out) const {
  MutexLock lock(mutex_);
  if (position >= file.bytes.size()) return 0;
  const ByteView rest = ByteView(file.bytes).subspan(position);
  const std::size_t count = std::min(rest.size(), out.size());
  std::ranges::copy(rest.first(count), out.begin());
  return count;
}

std::uint64_t MemoryFiles::length(const Node& file) const {
  MutexLock lock(mutex_);
  return file.bytes.size();
}

void MemoryFiles::set_largest_file(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  largest_file_ = bytes;
}

// --- the tree

MemoryFiles::File MemoryFiles::make_node(bool is_directory, mode_t mode) {
  File made = std::make_shared<Node>();
  made->id = ++last_id_;
  made->is_directory = is_directory;
  made->mode = mode;
  made->mtime_ns = made->atime_ns = now_ns();
  return made;
}

MemoryFiles::File MemoryFiles::find(const std::string& path) const {
  File at = root_;
  for (const std::string_view name : elements_of(path)) {
    at = child_of(*at, name);
    if (at == nullptr) break;
  }
  return at;
}

Result<MemoryFiles::File> MemoryFiles::find_or_fail(const std::string& path,
                                                    const char* operation) const {
  File found = find(path);
  if (found == nullptr) return Status::from_errno(ENOENT, operation, path);
  return found;
}

// Where `path` is, or is to be: missing directories above it are made with the mode `make`, or
// missed. Nothing is made below a file.
Result<MemoryFiles::Place> MemoryFiles::place_of(const std::string& path, const char* operation,
                                                 std::optional<mode_t> make) {
  HFLUSH_RETURN_IF_ERROR(check_names(path, operation));
  std::vector<std::string_view> elements = elements_of(path);
  if (elements.empty()) return Status::from_errno(EPERM, operation, path);
  const std::string name(elements.back());
  elements.pop_back();
  File directory = root_;
  for (const std::string_view above : elements) {
    File next = child_of(*directory, above);
    if (next == nullptr && !make) {
      return Status::from_errno(ENOENT, std::string(operation) + ": no parent", path);
    }
    if (next == nullptr) next = add(*directory, std::string(above), make_node(true, *make));
    if (!next->is_directory) return Status::from_errno(ENOTDIR, operation, path);
    directory = std::move(next);
  }
  return Place{std::move(directory), name};
}

}  // namespace hflush::mem
