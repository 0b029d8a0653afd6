#include "hflush/local/open_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "hflush/env/process.h"
#include "hflush/local/descriptor.h"
#include "hflush/local/local_sink.h"
#include "hflush/local/paths.h"
#include "hflush/local/sidecar.h"

namespace hflush::local {
namespace {

struct CreatedFile {
  Descriptor descriptor;
  bool is_new = false;
};

// What open(2) with O_CREAT says, told apart: a directory in the way is not a file that exists.
Status creation_failure(int error_number, const std::string& path) {
  struct stat found{};
  const bool directory = ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
  if (directory) return Status::from_errno(EISDIR, "create", path);
  return Status::from_errno(error_number, "create", path);
}

// Descriptors are opened non-blocking, so that a pipe without a reader is an error and not a hang;
// regular files do not care.
constexpr int kOpenFlags = O_WRONLY | O_NONBLOCK | O_CLOEXEC;

Result<CreatedFile> create_or_truncate(const std::string& path, const CreateOptions& options) {
  while (true) {
    Descriptor created(uninterrupted([&] {
      return ::open(path.c_str(), kOpenFlags | O_CREAT | O_EXCL, options.permission);
    }));
    if (created) {
      if (::fchmod(created.get(), options.permission) != 0) {  // the umask was applied by the caller
        return Status::from_errno(errno, "set permission of new file", path);
      }
      return CreatedFile{std::move(created), true};
    }
    if (errno != EEXIST || !options.overwrite) return creation_failure(errno, path);

    Descriptor truncated = open_descriptor(path.c_str(), kOpenFlags | O_TRUNC);
    if (truncated) return CreatedFile{std::move(truncated), false};
    if (errno != ENOENT) return creation_failure(errno, path);
    // A dangling link, which only creation through it fills, or a file deleted just now.
    Descriptor through_link(uninterrupted(
        [&] { return ::open(path.c_str(), kOpenFlags | O_CREAT, options.permission); }));
    if (through_link) return CreatedFile{std::move(through_link), true};
    if (errno != EEXIST) return creation_failure(errno, path);
  }
}

// The directories whose entries are new if `path` is created now: its parent, and the ones above
// that are missing, up to the first that exists.
std::vector<std::string> directories_with_new_entries(const std::string& path) {
  std::vector<std::string> directories;
  std::string directory(parent_of(path));
  directories.push_back(directory);
  while (!is_root(directory) && ::access(directory.c_str(), F_OK) != 0) {
    directory = std::string(parent_of(directory));
    directories.push_back(directory);
  }
  return directories;
}

struct NewFile {
  std::unique_ptr<env::WritableFile> file;
  std::vector<std::string> directories_to_sync;
};

Result<NewFile> create_file(const std::string& path, const CreateOptions& options) {
  std::vector<std::string> directories{std::string(parent_of(path))};
  Result<CreatedFile> created = create_or_truncate(path, options);
  if (!created.ok() && created.status().code() == StatusCode::kNotFound &&
      options.parents == Parents::kCreate) {
    directories = directories_with_new_entries(path);
    HFLUSH_RETURN_IF_ERROR(
        make_directories(std::string(parent_of(path)), std::nullopt, Parents::kCreate));
    created = create_or_truncate(path, options);
  }
  if (!created.ok()) return created.status();
  if (!created->is_new) directories.clear();
  return NewFile{env::make_posix_file(created->descriptor.release()), std::move(directories)};
}

std::unique_ptr<stream::OutputStream> make_stream(const std::string& path,
                                                  std::unique_ptr<Destination> destination,
                                                  LocalSinkOptions sink_options,
                                                  stream::MissingSync missing_sync) {
  env::Process& process = env::Process::current();
  const env::Clock& clock = env::steady_clock();
  auto sink =
      std::make_unique<LocalSink>(std::move(destination), std::move(sink_options),
                                  process.executor(), clock, env::usable_processors());
  return std::make_unique<stream::OutputStream>(path, std::move(sink), process.buffers(), clock,
                                                missing_sync);
}

}  // namespace

StreamResult create_raw(const std::string& path, const CreateOptions& options) {
  HFLUSH_ASSIGN_OR_RETURN(NewFile created, create_file(path, options));
  LocalSinkOptions sink_options;
  sink_options.sync_on_close = options.sync_on_close;
  sink_options.directories_to_sync = std::move(created.directories_to_sync);
  return make_stream(path, make_raw_destination(std::move(created.file), path),
                     std::move(sink_options), options.missing_sync);
}

StreamResult create_without_checksum(const std::string& path, const CreateOptions& options) {
  HFLUSH_ASSIGN_OR_RETURN(auto stream, create_raw(path, options));
  const std::string sidecar = sidecar_path(path);
  if (::unlink(sidecar.c_str()) != 0 && errno != ENOENT) {
    return Status::from_errno(errno, "remove stale checksum file", sidecar);
  }
  return stream;
}

StreamResult create_checksummed(const std::string& path, const CreateOptions& options,
                                std::size_t bytes_per_checksum) {
  if (bytes_per_checksum == 0 || bytes_per_checksum > kMaxBytesPerChecksum) {
    return Status(StatusCode::kInvalidArgument,
                  "bytes per checksum must be in 1.." + std::to_string(kMaxBytesPerChecksum) +
                      ", not " + std::to_string(bytes_per_checksum),
                  path);
  }
  HFLUSH_ASSIGN_OR_RETURN(NewFile created, create_file(path, options));
  CreateOptions sidecar_options = options;
  sidecar_options.overwrite = true;  // the data file decides who wins
  const std::string sidecar = sidecar_path(path);
  HFLUSH_ASSIGN_OR_RETURN(NewFile sums, create_file(sidecar, sidecar_options));

  auto destination =
      make_checksummed_destination(std::move(created.file), path, std::move(sums.file), sidecar,
                                   bytes_per_checksum);
  HFLUSH_RETURN_IF_ERROR(destination->flush());  // the header: an open empty file verifies
  LocalSinkOptions sink_options;
  sink_options.geometry =
      stream::Geometry::with_checksums(crc::Kind::kCrc32, bytes_per_checksum);
  sink_options.syncable = false;
  sink_options.sync_on_close = options.sync_on_close;
  sink_options.directories_to_sync = std::move(created.directories_to_sync);
  return make_stream(path, std::move(destination), std::move(sink_options), options.missing_sync);
}

StreamResult append_raw(const std::string& path, bool sync_on_close) {
  Descriptor descriptor = open_descriptor(path.c_str(), kOpenFlags | O_APPEND);
  if (!descriptor) {
    const int error_number = errno;
    if (error_number == EISDIR) {
      return Status(StatusCode::kNotAFile, "append: the path is a directory", path, EISDIR);
    }
    return Status::from_errno(error_number, "append", path);
  }
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) return Status::from_errno(errno, "append", path);

  LocalSinkOptions sink_options;
  sink_options.geometry.start = static_cast<std::uint64_t>(status.st_size);
  sink_options.sync_on_close = sync_on_close;
  return make_stream(path, make_raw_destination(env::make_posix_file(descriptor.release()), path),
                     std::move(sink_options), stream::MissingSync::kRefuse);
}

}  // namespace hflush::local
