#include "hflush/s3/upload/part_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <new>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "hflush/base/before_sleep.h"
#include "hflush/base/binary_text.h"
#include "hflush/base/check.h"
#include "hflush/base/endian.h"
#include "hflush/crc/polynomial.h"
#include "hflush/crypto/digest.h"
#include "hflush/env/own_process.h"
#include "hflush/env/standard_streams.h"
#include "hflush/env/writable_file.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/packets.h"

namespace hflush::s3 {
namespace {

// A packet that holds less than this share of what its memory could is copied.
constexpr std::size_t wasteful_below(std::size_t packet_bytes) noexcept {
  return packet_bytes - packet_bytes / 8;
}

// How far the system reads ahead of a reader: twice what is sent at a time.
constexpr off_t kReadAhead = off_t{1} << 20U;

std::string usual_directory() {
  const char* const usual = std::getenv("TMPDIR");
  return usual != nullptr && *usual != '\0' ? usual : "/tmp";
}

// A file that no other program can open and that is gone with its descriptor; -1 with errno.
int open_unlinked(const std::string& directory) {
  int file = -1;
  do {
    file = env::beside_standard_streams(
        ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  } while (file < 0 && errno == EINTR);
  // Of a file system or kernel that has no such files, or a sandbox that refuses the flag.
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOSYS &&
                    errno != EPERM)) {
    return file;
  }
  std::string name = directory + "/hflush-part-XXXXXX";
  file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) ::unlink(name.c_str());
  return env::beside_standard_streams(file);
}

struct OpenFile {
  int descriptor = -1;
  std::string directory;
};

// Whether so many bytes find room where a file is, as far as the system says.
bool has_room(int file, std::uint64_t bytes) noexcept {
  struct statvfs facts{};
  return ::fstatvfs(file, &facts) != 0 || facts.f_bavail >= bytes / facts.f_frsize + 1;
}

// In the first of the directories where `bytes` have room, or else in the first where it can be
// done; missing ones are made. A failure that is about a name would read as the object's, so it has
// another number.
Result<OpenFile> open_in(const std::vector<std::string>& directories, std::uint64_t bytes,
                         const std::string& what) {
  std::string failed;
  int error_number = 0;
  for (const bool needs_room : {true, false}) {
    for (const std::string& directory : directories) {
      std::error_code ignored;  // opening says what is wrong
      std::filesystem::create_directories(directory, ignored);
      const int file = open_unlinked(directory);
      if (file >= 0 && (!needs_room || has_room(file, bytes))) return OpenFile{file, directory};
      error_number = errno;
      if (file >= 0) {
        ::close(file);
      } else if (!needs_room) {
        failed += (failed.empty() ? "" : "; ") + directory + ": " + std::strerror(error_number);
      }
    }
  }
  const bool is_name = error_number == ENOENT || error_number == EEXIST || error_number == ENOTDIR;
  return Status(StatusCode::kIo, "open a file for " + what + " in fs.s3a.buffer.dir: " + failed,
                directories.back(), is_name ? EIO : error_number);
}

// What crc::combine() multiplies by for a whole chunk.
std::uint32_t chunk_power(std::size_t chunk_bytes) noexcept {
  const auto power = [](std::size_t bytes) constexpr {
    return crc::power(crc::Kind::kCrc32c, crc::power_of_x(crc::Kind::kCrc32c, 8), bytes);
  };
  constexpr std::uint32_t kUsual = power(kChunkBytes);
  return chunk_bytes == kChunkBytes ? kUsual : power(chunk_bytes);
}

// The sum of what `sum` is of, followed by the packet. `power`: that of a whole chunk.
std::uint32_t extend(std::uint32_t sum, const stream::Packet& packet, std::size_t chunk_bytes,
                     std::uint32_t power) noexcept {
  const ByteView sums = packet.sums();
  std::size_t left = packet.data().size();
  for (std::size_t at = 0; at < sums.size(); at += crc::kSumSize) {
    const std::uint32_t next = load_be32(sums.data() + at);
    const std::size_t length = std::min(left, chunk_bytes);
    sum = length == chunk_bytes ? crc::multiply(crc::Kind::kCrc32c, sum, power) ^ next
                                : crc::combine(crc::Kind::kCrc32c, sum, next, length);
    left -= length;
  }
  return sum;
}

std::string spell(const std::string& digest, crypto::RunningDigest::Kind kind) {
  return kind == crypto::RunningDigest::Kind::kSha256 ? to_hex(as_bytes(digest))
                                                      : to_base64(as_bytes(digest));
}

}  // namespace

// The bytes of one part: first they are added, then they are read.
class PartStore::Part : public env::HttpBody {
 public:
  Part(std::uint64_t begin_offset, bool with_sha256, bool with_md5) : begin(begin_offset) {
    if (with_sha256) sha256_.emplace(crypto::RunningDigest::Kind::kSha256);
    if (with_md5) md5_.emplace(crypto::RunningDigest::Kind::kMd5);
  }

  virtual bool on_disk() const noexcept = 0;
  // It is read soon: no reader should have to wait.
  virtual void expect_reads() const noexcept {}
  std::uint64_t size() const noexcept final { return size_; }

  Status add(std::span<stream::Packet> packets, std::size_t chunk_bytes, std::uint32_t power) {
    for (const stream::Packet& packet : packets) {
      crc32c_ = extend(crc32c_, packet, chunk_bytes, power);
      if (sha256_) sha256_->update(packet.data());
      if (md5_) md5_->update(packet.data());
    }
    return take(packets);
  }

  // Nothing is added after this; calls after the first give the same.
  void describe(PartBody& body) {
    if (sha256_) sha256_text_ = spell(sha256_->finish(), crypto::RunningDigest::Kind::kSha256);
    if (md5_) md5_text_ = spell(md5_->finish(), crypto::RunningDigest::Kind::kMd5);
    sha256_.reset();
    md5_.reset();
    body.size = size_;
    body.crc32c = crc32c_;
    body.sha256 = sha256_text_;
    body.md5 = md5_text_;
  }

  const std::uint64_t begin;  // in the object

 protected:
  virtual Status take(std::span<stream::Packet> packets) = 0;
  std::atomic<std::uint64_t> size_ = 0;  // grows after the bytes are there to be read

 private:
  std::uint32_t crc32c_ = 0;
  std::optional<crypto::RunningDigest> sha256_;
  std::optional<crypto::RunningDigest> md5_;
  std::string sha256_text_;
  std::string md5_text_;
};

class PartStore::MemoryPart final : public Part {
 public:
  MemoryPart(std::uint64_t begin_offset, const PartStoreOptions& options)
      : Part(begin_offset, options.sha256, options.md5),
        wasteful_below_(wasteful_below(options.packet_bytes)) {}

  bool on_disk() const noexcept override { return false; }

  std::ptrdiff_t read_at(std::uint64_t offset, MutableByteView out) const noexcept override {
    const MutexLock lock(runs_mutex_);
    std::size_t done = 0;
    for (auto run = run_at(offset); run != runs_.end() && done < out.size(); ++run) {
      const ByteView rest = run->bytes.subspan(static_cast<std::size_t>(offset - run->begin));
      const std::size_t count = std::min(rest.size(), out.size() - done);
      std::memcpy(out.data() + done, rest.data(), count);
      done += count;
      offset += count;
    }
    return static_cast<std::ptrdiff_t>(done);
  }
  std::size_t views_at(std::uint64_t offset, std::span<ByteView> out) const noexcept override {
    const MutexLock lock(runs_mutex_);
    std::size_t count = 0;
    for (auto run = run_at(offset); run != runs_.end() && count < out.size(); ++run) {
      out[count] = run->bytes.subspan(static_cast<std::size_t>(offset - run->begin));
      offset += out[count++].size();
    }
    return count;
  }

 protected:
  Status take(std::span<stream::Packet> packets) override {
    for (stream::Packet& packet : packets) {
      const std::size_t count = packet.data().size();
      if (count < wasteful_below_ && !packet.is_reference()) {
        const ByteView data = packet.data();
        std::vector<std::byte>& copy = copies_.emplace_back(data.begin(), data.end());
        add_run(ByteView(copy));
        const stream::Packet let_go = std::move(packet);
      } else {
        const stream::Packet& kept = packets_.emplace_back(std::move(packet));
        add_run(kept.data());
      }
      size_ += count;
    }
    return {};
  }

 private:
  struct Run {
    std::uint64_t begin;  // in the part
    ByteView bytes;       // they stay where they are when their owners move
  };

  // The one that has the byte there; none where there is no such byte.
  std::vector<Run>::const_iterator run_at(std::uint64_t offset) const noexcept
      HFLUSH_REQUIRES(runs_mutex_) {
    if (offset >= size_) return runs_.end();
    return std::prev(std::ranges::upper_bound(runs_, offset, {}, &Run::begin));
  }
  void add_run(ByteView bytes) {
    const MutexLock lock(runs_mutex_);
    runs_.push_back({size_, bytes});
  }

  const std::size_t wasteful_below_;
  // Of a part that still grows while its tail is read. Innermost.
  mutable Mutex runs_mutex_;
  std::vector<Run> runs_ HFLUSH_GUARDED_BY(runs_mutex_);
  std::vector<stream::Packet> packets_;
  std::vector<std::vector<std::byte>> copies_;
};

class PartStore::DiskPart final : public Part {
 public:
  DiskPart(std::uint64_t begin_offset, const PartStoreOptions& options, int file,
           std::string directory)
      : Part(begin_offset, options.sha256, options.md5),
        file_(file),
        writing_(env::make_posix_file(file, true)),
        directory_(std::move(directory)) {}
  // The system takes its time to remove a large file, and the last reader is the loop.
  ~DiskPart() override {
    if (origin_.is_parent()) return;  // it has it still
    try {
      env::Process::current().executor().run(
          [file = std::move(writing_)]() mutable { file.reset(); });
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is released here
    }
  }
  DiskPart(const DiskPart&) = delete;
  DiskPart& operator=(const DiskPart&) = delete;

  bool on_disk() const noexcept override { return true; }
  void expect_reads() const noexcept override { read_ahead(0); }

  // A failed disk, or a file that somebody cut, is EIO.
  std::ptrdiff_t read_at(std::uint64_t offset, MutableByteView out) const noexcept override {
    if (offset >= size_) return 0;
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size_ - offset));
    ssize_t count = -1;
    BeforeSleep::run();
    do {
      count = ::pread(file_, out.data(), wanted, static_cast<off_t>(offset));
    } while (count < 0 && errno == EINTR);
    if (count < 0) return -errno;
    if (offset + wanted < size_) read_ahead(offset + wanted);
    return count == 0 && wanted > 0 ? -EIO : count;
  }

 protected:
  Status take(std::span<stream::Packet> packets) override {
    std::vector<ByteView> pieces;
    pieces.reserve(packets.size());
    std::uint64_t count = 0;
    for (const stream::Packet& packet : packets) {
      pieces.push_back(packet.data());
      count += packet.data().size();
    }
    BeforeSleep::run();
    HFLUSH_RETURN_IF_ERROR(env::write_fully(*writing_, pieces, directory_));
    for (stream::Packet& packet : packets) const stream::Packet let_go = std::move(packet);
    size_ += count;
    return {};
  }

 private:
  // Mostly it lies in the system's memory and this does nothing; else a disk is at work while what
  // came before is being sent.
  void read_ahead(std::uint64_t offset) const noexcept {
    static_cast<void>(
        ::posix_fadvise(file_, static_cast<off_t>(offset), kReadAhead, POSIX_FADV_WILLNEED));
  }

  const int file_;  // writing_'s
  std::shared_ptr<env::WritableFile> writing_;
  const std::string directory_;
  const env::Origin origin_;
};

PartStore::PartStore(PartStoreOptions options)
    : options_(std::move(options)),
      chunk_power_(chunk_power(options_.chunk_bytes)),
      filling_end_(options_.begin),
      end_(options_.begin),
      crc32c_(options_.begin_crc32c) {}

PartStore::~PartStore() = default;

bool PartStore::fits_in_memory(std::uint32_t number) const noexcept {
  return options_.sizes.size(number) <= options_.memory_bytes / 2;
}

Status PartStore::start_part(std::uint32_t number) {
  if (number > options_.sizes.max_parts()) {
    return Status(StatusCode::kIo,
                  "an object of more than " + std::to_string(options_.sizes.max_bytes()) +
                      " bytes does not fit in " + std::to_string(options_.sizes.max_parts()) +
                      " parts that begin at " + std::to_string(options_.sizes.block_bytes()) +
                      " bytes (fs.s3a.multipart.size)",
                  options_.path, EFBIG);
  }
  const std::uint64_t begin = options_.sizes.begin(number);
  const bool in_memory = options_.buffering != Buffering::kDisk && fits_in_memory(number);
  std::shared_ptr<Part> part;
  if (in_memory) {
    part = std::make_shared<MemoryPart>(begin, options_);
  } else if (options_.buffering == Buffering::kMemory) {
    return Status(StatusCode::kIo,
                  "part " + std::to_string(number) + " of " +
                      std::to_string(options_.sizes.size(number)) + " bytes, at offset " +
                      std::to_string(begin) + ", is too large for a memory budget of " +
                      std::to_string(options_.memory_bytes) +
                      " bytes, and buffering on disk is not enabled",
                  options_.path, EFBIG);
  } else {
    BeforeSleep::run();
    HFLUSH_ASSIGN_OR_RETURN(OpenFile file,
                            open_in(options_.directories.empty() ? std::vector{usual_directory()}
                                                                 : options_.directories,
                                    options_.sizes.size(number),
                                    "part " + std::to_string(number) + " of " + options_.path));
    part = std::make_shared<DiskPart>(begin, options_, file.descriptor, std::move(file.directory));
  }
  filling_ = part;
  filling_end_ = options_.sizes.end(number);
  MutexLock lock(mutex_);
  if (part->on_disk()) uses_disk_ = true;
  parts_[number] = std::move(part);
  return {};
}

Status PartStore::add(std::span<stream::Packet> packets) {
  std::uint32_t sum = crc32c();
  while (!packets.empty()) {
    const std::uint64_t offset = packets.front().offset();
    if (offset >= filling_end_) HFLUSH_RETURN_IF_ERROR(start_part(options_.sizes.at(offset)));
    const std::shared_ptr<Part> filling = filling_.lock();
    if (!filling) return {};  // cleared meanwhile: the bytes are not needed
    std::size_t count = 0;
    std::uint64_t to = offset;
    for (; count < packets.size() && to < filling_end_; ++count) {
      sum = extend(sum, packets[count], options_.chunk_bytes, chunk_power_);
      to = packets[count].end();
    }
    HFLUSH_RETURN_IF_ERROR(filling->add(packets.first(count), options_.chunk_bytes, chunk_power_));
    packets = packets.subspan(count);
    MutexLock lock(mutex_);
    end_ = to;
    crc32c_ = sum;
  }
  return {};
}

std::uint64_t PartStore::end() const {
  MutexLock lock(mutex_);
  return end_;
}

// Parts never get smaller: once one lies on disk, so do all after it.
std::uint64_t PartStore::stored_end() const {
  MutexLock lock(mutex_);
  if (!uses_disk_) return 0;
  if (parts_.empty() || parts_.begin()->second->on_disk()) return end_;
  return parts_.begin()->second->begin;
}

std::uint32_t PartStore::crc32c() const {
  MutexLock lock(mutex_);
  return crc32c_;
}

Result<PartBody> PartStore::body(std::uint32_t number) {
  PartBody body;
  std::shared_ptr<Part> part;
  {
    MutexLock lock(mutex_);
    if (const auto found = parts_.find(number); found != parts_.end()) {
      part = found->second;
    } else if (number != 1 || end_ != 0) {
      return Status(StatusCode::kInternal,
                    "the bytes of part " + std::to_string(number) + " are not there",
                    options_.path);
    }
  }
  if (!part) part = std::make_shared<MemoryPart>(0, options_);
  part->describe(body);
  part->expect_reads();
  body.body = std::move(part);
  return body;
}

Result<PartTail> PartStore::tail(std::uint64_t offset) const {
  HFLUSH_DCHECK(offset <= end());
  const std::uint32_t number = options_.sizes.at(offset);
  PartTail tail;
  tail.begin = number <= options_.sizes.max_parts() ? options_.sizes.begin(number) : offset;
  tail.size = offset - tail.begin;
  if (tail.size == 0) return tail;
  const MutexLock lock(mutex_);
  const auto found = parts_.find(number);
  if (found == parts_.end()) {
    return Status(StatusCode::kNotFound,
                  "the bytes of part " + std::to_string(number) + " are not kept any more",
                  options_.path);
  }
  tail.bytes = found->second;
  return tail;
}

void PartStore::forget(std::uint32_t number) noexcept {
  Parts::node_type forgotten;  // released without the mutex
  MutexLock lock(mutex_);
  forgotten = parts_.extract(number);
}

void PartStore::clear() noexcept {
  Parts forgotten;  // likewise
  MutexLock lock(mutex_);
  forgotten.swap(parts_);
}

}  // namespace hflush::s3
