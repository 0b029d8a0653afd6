#include "hflush/local/open_for_write.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "hflush/env/process.h"
#include "hflush/local/descriptor.h"
#include "hflush/local/local_sink.h"
#include "hflush/local/local_status.h"
#include "hflush/local/mount.h"
#include "hflush/local/paths.h"
#include "hflush/local/sidecar.h"

namespace hflush::local {
namespace {

// A file opened for writing. What was in it is still there until cut() or open_by_cutting().
struct OpenedFile {
  Descriptor descriptor;  // none: it exists, and nothing but cutting it may open it
  bool is_new = false;
  std::vector<std::string> directories_to_sync;  // whose entries are new with it
};

// What open(2) with O_CREAT says, more exactly: a directory in the way is not a file that exists.
Status creation_failure(int error_number, const std::string& path) {
  struct stat found{};
  const bool directory = ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
  if (directory) return Status::from_errno(EISDIR, "create", path);
  return Status::from_errno(error_number, "create", path);
}

constexpr mode_t kReadAndWrite = 0666;

Status give_permission(int file, const CreateOptions& options, std::string_view what,
                       const std::string& path) {
  return set_new_permission(
      options.permission, what, path, [&](struct stat* facts) { return ::fstat(file, facts); },
      [&](mode_t bits) { return ::fchmod(file, bits); });
}

// A permission that was asked for is also that of a file that is written anew, before anything of
// it is cut: what follows may be secret.
Status give_asked_permission(int file, const CreateOptions& options, const std::string& path) {
  struct stat facts{};
  if (!options.permission || !options.permission->is_asked || ::fstat(file, &facts) != 0 ||
      !S_ISREG(facts.st_mode)) {
    return {};
  }
  return give_permission(file, options, "file", path);
}

// Opens new sums of a file that was there to whom that is open: its readers need them, and they
// tell of it. As far as this user may; where the file has an ACL, its bits do not say who that is.
void open_to_the_same(int sums, int file) noexcept {
  struct stat facts{};
  if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) ||
      ::fgetxattr(file, "system.posix_acl_access", nullptr, 0) >= 0) {
    return;
  }
  ::fremovexattr(sums, "system.posix_acl_access");  // what the directory gives new files
  constexpr uid_t kSame = static_cast<uid_t>(-1);
  mode_t mode = facts.st_mode & 0777U;
  if (::fchown(sums, facts.st_uid, facts.st_gid) != 0 && ::fchown(sums, kSame, facts.st_gid) != 0) {
    mode = (mode & ~mode_t{S_IRWXG}) | (mode & mode_t{S_IRWXO}) << 3U;  // its group are others
  }
  ::fchmod(sums, mode);
}

Result<OpenedFile> create_or_open(const std::string& path, const CreateOptions& options) {
  const mode_t mode = options.permission ? options.permission->bits : kReadAndWrite;
  const int flags = options.append ? O_WRONLY | O_APPEND : O_WRONLY;
  while (true) {
    Descriptor created = open_descriptor(path.c_str(), flags | O_CREAT | O_EXCL, mode);
    if (created) {
      Status set = give_permission(created.get(), options, "new file", path);
      if (!set.ok()) {
        ::unlink(path.c_str());
        return set;
      }
      return OpenedFile{std::move(created), true, {}};
    }
    const bool may_exist = errno == EEXIST || is_lacking(errno);  // not every mount has O_EXCL
    if (!may_exist || !options.overwrite) return creation_failure(errno, path);

    Descriptor existing = open_file_or_pipe(path.c_str(), flags);
    if (existing) {
      HFLUSH_RETURN_IF_ERROR(give_asked_permission(existing.get(), options, path));
      return OpenedFile{std::move(existing), false, {}};
    }
    if (errno == EPERM) return OpenedFile{};
    if (errno != ENOENT) return creation_failure(errno, path);
    // A dangling link, which only creation through it fills, or a file deleted just now.
    Descriptor through_link = open_file_or_pipe(path.c_str(), flags | O_CREAT, mode);
    if (through_link) {
      HFLUSH_RETURN_IF_ERROR(give_asked_permission(through_link.get(), options, path));
      OpenedFile opened{std::move(through_link), false, {}};
      std::error_code failure;  // it is gone again
      const std::filesystem::path target = std::filesystem::canonical(path, failure);
      if (!failure) opened.directories_to_sync.emplace_back(target.parent_path().string());
      return opened;
    }
    if (errno != EEXIST) return creation_failure(errno, path);
  }
}

// Mountpoint for S3 replaces a file, if at all, only where open(2) itself cuts it.
Descriptor cut_by_opening(const std::string& path) {
  return open_file_or_pipe(path.c_str(), O_WRONLY | O_TRUNC);
}

// Opens what create_or_open() could not.
Status open_by_cutting(OpenedFile& file, const std::string& path) {
  if (file.descriptor) return {};
  file.descriptor = cut_by_opening(path);
  return file.descriptor ? Status() : creation_failure(errno, path);
}

// The directories whose entries are new if `path` is created now: its parent, and the ones above
// that are missing, up to the first that exists.
std::vector<std::string> directories_with_new_entries(const std::string& path) {
  std::vector<std::string> directories = missing_directories(std::string(parent_of(path)));
  directories.emplace_back(parent_of(directories.empty() ? path : directories.back()));
  return directories;
}

Result<OpenedFile> open_file(const std::string& path, const CreateOptions& options) {
  std::vector<std::string> directories{std::string(parent_of(path))};
  Result<OpenedFile> opened = create_or_open(path, options);
  if (!opened.ok() && opened.status().code() == StatusCode::kNotFound &&
      options.parents == Parents::kCreate) {
    directories = directories_with_new_entries(path);
    HFLUSH_RETURN_IF_ERROR(
        make_directories(std::string(parent_of(path)), std::nullopt, Parents::kCreate));
    opened = create_or_open(path, options);
  }
  if (opened.ok() && opened->is_new) opened->directories_to_sync = std::move(directories);
  return opened;
}

// Cuts a file; pipes and devices hold nothing. One that is short enough only gets the time that
// cutting would give it: ext4 starts writing a file back at close if it was ever truncated, which
// halves the speed. Where ftruncate is refused, open(2) cuts it, to nothing, and the descriptor
// goes on with that; locks on it are gone.
Status cut(int descriptor, off_t size, const std::string& path) {
  struct stat facts{};
  if (::fstat(descriptor, &facts) == 0) {
    if (!S_ISREG(facts.st_mode)) return {};
    if (facts.st_size <= size) {
      ::futimens(descriptor, nullptr);
      return {};
    }
  }
  if (::ftruncate(descriptor, size) == 0) return {};
  const int error_number = errno;
  const Descriptor opened = cut_by_opening(path);
  if (opened && ::dup3(opened.get(), descriptor, O_CLOEXEC) >= 0) return {};
  return Status::from_errno(error_number, "truncate", path);
}

// Gives a sidecar that open(2) has cut its mark and its header back: its offset is 0 again, and not
// behind the header.
Status begin_again(int sidecar, std::uint32_t bytes_per_checksum, const std::string& path) {
  if (::lseek(sidecar, 0, SEEK_CUR) != 0) return {};
  mark_unfinished(sidecar);
  const SidecarHeader header = sidecar_header(bytes_per_checksum);
  const ssize_t written =
      uninterrupted([&] { return ::write(sidecar, header.data(), header.size()); });
  if (std::cmp_equal(written, header.size())) return {};
  return Status::from_errno(written < 0 ? errno : ENOSPC, "write", path);
}

// 0 of what is no regular file: it cannot be cut.
std::uint64_t inode_of(int descriptor) {
  struct stat facts{};
  return ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) ? facts.st_ino : 0;
}

// Whether it takes bytes only as somebody else reads them.
bool waits_for_reader(int descriptor) {
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return false;
  return S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) || ::isatty(descriptor) != 0;
}

std::unique_ptr<stream::OutputStream> make_stream(const std::string& path,
                                                  std::unique_ptr<Destination> destination,
                                                  LocalSinkOptions sink_options) {
  env::Process& process = env::Process::current();
  const env::Clock& clock = env::steady_clock();
  auto sink = std::make_unique<LocalSink>(std::move(destination), std::move(sink_options),
                                          process.executor(), clock, env::usable_processors());
  return std::make_unique<stream::OutputStream>(path, std::move(sink), process.buffers(), clock);
}

StreamResult make_raw_stream(const std::string& path, OpenedFile file,
                             const CreateOptions& options) {
  HFLUSH_RETURN_IF_ERROR(open_by_cutting(file, path));
  if (!file.is_new) HFLUSH_RETURN_IF_ERROR(cut(file.descriptor.get(), 0, path));
  LocalSinkOptions sink_options;
  sink_options.sync_on_close = options.sync_on_close;
  sink_options.directories_to_sync = std::move(file.directories_to_sync);
  sink_options.inode = inode_of(file.descriptor.get());
  sink_options.waits_for_reader = waits_for_reader(file.descriptor.get());
  auto written = env::make_posix_file(file.descriptor.release());
  return make_stream(path, make_raw_destination(std::move(written), path), std::move(sink_options));
}

}  // namespace

StreamResult create_raw(const std::string& path, const CreateOptions& options) {
  HFLUSH_ASSIGN_OR_RETURN(OpenedFile file, open_file(path, options));
  return make_raw_stream(path, std::move(file), options);
}

StreamResult create_without_checksum(const std::string& path, const CreateOptions& options) {
  HFLUSH_ASSIGN_OR_RETURN(OpenedFile file, open_file(path, options));
  // Before the old file is cut: if its sums have to stay, so does it.
  if (Status removed = remove_sidecar(sidecar_path(path)); !removed.ok()) {
    if (file.is_new) ::unlink(path.c_str());
    return removed;
  }
  return make_raw_stream(path, std::move(file), options);
}

StreamResult create_checksummed(const std::string& path, const CreateOptions& options,
                                std::size_t bytes_per_checksum) {
  if (bytes_per_checksum == 0 || bytes_per_checksum > kMaxBytesPerChecksum) {
    return Status(StatusCode::kInvalidArgument,
                  "bytes per checksum must be in 1.." + std::to_string(kMaxBytesPerChecksum) +
                      ", not " + std::to_string(bytes_per_checksum),
                  path);
  }
  const auto bytes_per_sum = static_cast<std::uint32_t>(bytes_per_checksum);
  HFLUSH_ASSIGN_OR_RETURN(OpenedFile file, open_file(path, options));
  const std::string sidecar = sidecar_path(path);
  CreateOptions sidecar_options = options;
  sidecar_options.overwrite = true;  // the data file decides who wins
  struct stat facts{};
  // A link that waits there would lead the sums of a new file into another file.
  if (file.is_new && ::lstat(sidecar.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode)) {
    ::unlink(sidecar.c_str());
  }
  Result<OpenedFile> sums = open_file(sidecar, sidecar_options);
  const auto withdraw = [&](Status failure) {  // nothing is left behind (CREATE-9)
    if (sums.ok() && sums->is_new) ::unlink(sidecar.c_str());
    if (file.is_new) ::unlink(path.c_str());
    return failure;
  };
  if (!sums.ok()) return withdraw(sums.status());
  if (sums->is_new && !file.is_new) {
    open_to_the_same(sums->descriptor.get(), file.descriptor.get());
  }
  Status ready = open_by_cutting(*sums, sidecar);
  if (ready.ok()) ready = open_by_cutting(file, path);
  if (!ready.ok()) return withdraw(std::move(ready));

  const int file_descriptor = file.descriptor.release();
  const int sums_descriptor = sums->descriptor.release();
  auto destination = make_checksummed_destination(env::make_posix_file(file_descriptor), path,
                                                  env::make_posix_file(sums_descriptor, true),
                                                  sidecar, bytes_per_sum);
  // In this order no reader ever takes old sums for new data or the reverse, and an old file is
  // whole until nothing but cutting it is left to do. The header makes an open empty file verify.
  mark_unfinished(sums_descriptor);
  ready = destination->flush();
  if (ready.ok() && !sums->is_new) ready = cut(sums_descriptor, kSidecarHeaderSize, sidecar);
  if (ready.ok()) ready = begin_again(sums_descriptor, bytes_per_sum, sidecar);
  if (ready.ok() && !file.is_new) ready = cut(file_descriptor, 0, path);
  if (!ready.ok()) return withdraw(std::move(ready));

  LocalSinkOptions sink_options;
  sink_options.geometry = stream::Geometry::with_checksums(crc::Kind::kCrc32, bytes_per_checksum);
  sink_options.syncable = false;
  sink_options.sync_on_close = options.sync_on_close;
  sink_options.directories_to_sync = std::move(file.directories_to_sync);
  return make_stream(path, std::move(destination), std::move(sink_options));
}

StreamResult append_raw(const std::string& path, bool sync_on_close) {
  Descriptor descriptor = open_file_or_pipe(path.c_str(), O_WRONLY | O_APPEND);
  if (!descriptor) {
    const int error_number = errno;
    if (error_number == EISDIR) {
      return Status(StatusCode::kNotAFile, "append: the path is a directory", path, EISDIR);
    }
    if (is_lacking(error_number)) {
      return lacking(error_number, "append: the mount opens no file that exists to add to it",
                     path);
    }
    return failure_of(error_number, "append", path);
  }
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) return Status::from_errno(errno, "append", path);

  LocalSinkOptions sink_options;
  sink_options.geometry.start = static_cast<std::uint64_t>(status.st_size);
  sink_options.sync_on_close = sync_on_close;
  sink_options.inode = inode_of(descriptor.get());
  sink_options.waits_for_reader = waits_for_reader(descriptor.get());
  return make_stream(path, make_raw_destination(env::make_posix_file(descriptor.release()), path),
                     std::move(sink_options));
}

}  // namespace hflush::local
