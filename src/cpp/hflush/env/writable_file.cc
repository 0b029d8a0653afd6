#include "hflush/env/writable_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "hflush/env/parent_only.h"

namespace hflush::env {
namespace {

class PosixFile final : public WritableFile {
 public:
  PosixFile(int descriptor, bool is_private) : descriptor_(descriptor) {
    if (is_private) private_.emplace(descriptor);
  }
  ~PosixFile() override {
    const int descriptor = release();
    if (descriptor >= 0) ::close(descriptor);
  }

  std::ptrdiff_t write_some(std::span<const ByteView> pieces) noexcept override {
    std::array<iovec, kMaxPieces> vectors;
    const std::size_t count = std::min(pieces.size(), vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
      vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    const ssize_t written = count == 1
                                ? ::write(descriptor_, vectors[0].iov_base, vectors[0].iov_len)
                                : ::writev(descriptor_, vectors.data(), static_cast<int>(count));
    return written >= 0 ? written : -errno;
  }

  int sync() noexcept override {
    while (::fdatasync(descriptor_) != 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }

  int wait_writable() noexcept override {
    pollfd waiting{descriptor_, POLLOUT, 0};
    while (!given_up_.load(std::memory_order_relaxed)) {
      const int ready = ::poll(&waiting, 1, kWaitMs);
      if (ready != 0) return ready > 0 || errno == EINTR ? 0 : errno;
    }
    return ECANCELED;
  }

  void give_up() noexcept override { given_up_.store(true, std::memory_order_relaxed); }

  int truncate(std::uint64_t size) noexcept override {
    return ::ftruncate(descriptor_, static_cast<off_t>(size)) == 0 ? 0 : errno;
  }

  int close() noexcept override {
    const bool was_private = private_.has_value();
    const int descriptor = release();
    if (descriptor < 0) return 0;
    const int locked = was_private ? ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    // Also after EINTR the descriptor is gone, and what FUSE or NFS were about to write is not
    // there.
    const int error_number = ::close(descriptor) == 0 ? 0 : errno;
    // Not before: NFS writes the rest where a lock ends, and does not say that it failed.
    if (locked >= 0) unlock_and_close(locked);
    return error_number;
  }

 private:
  // How long a wait takes no notice of give_up().
  static constexpr int kWaitMs = 50;

  // The descriptor, for who closes it; -1 where a forked child has done so.
  int release() noexcept {
    if (private_ && private_->is_closed()) descriptor_ = -1;
    private_.reset();
    return std::exchange(descriptor_, -1);
  }

  // A child that is being forked may share the open file, and with it the lock.
  static void unlock_and_close(int descriptor) noexcept {
    struct flock everything{};
    everything.l_type = F_UNLCK;
    ::fcntl(descriptor, F_OFD_SETLK, &everything);
    ::close(descriptor);
  }

  int descriptor_;
  std::optional<ParentOnly> private_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace

std::unique_ptr<WritableFile> make_posix_file(int descriptor, bool is_private) {
  return std::make_unique<PosixFile>(descriptor, is_private);
}

Status write_fully(WritableFile& file, std::span<const ByteView> pieces, const std::string& path) {
  std::vector<ByteView> wanted;
  wanted.reserve(pieces.size());
  for (const ByteView piece : pieces) {
    if (!piece.empty()) wanted.push_back(piece);
  }
  std::span<ByteView> left(wanted);
  std::size_t done = 0;
  while (!left.empty()) {
    const std::size_t count = std::min(left.size(), WritableFile::kMaxPieces);
    const std::ptrdiff_t written = file.write_some(left.first(count));
    if (written > 0) {
      done += static_cast<std::size_t>(written);
      left = without_front(left, static_cast<std::size_t>(written));
      continue;
    }
    int error_number =
        written == 0 ? EIO : static_cast<int>(-written);  // 0: no progress is possible
    if (error_number == EINTR) continue;
    if (error_number == EAGAIN) error_number = file.wait_writable();
    if (error_number != 0) {
      std::size_t rest = 0;
      for (const ByteView piece : left) rest += piece.size();
      return Status::from_errno(error_number,
                                "write of " + std::to_string(done + rest) + " bytes (" +
                                    std::to_string(done) + " written)",
                                path);
    }
  }
  return {};
}

}  // namespace hflush::env
