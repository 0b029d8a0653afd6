#include "hflush/local/checksummed_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "hflush/base/check.h"
#include "hflush/base/endian.h"
#include "hflush/crc/checksum.h"
#include "hflush/local/sidecar.h"

namespace hflush::local {
namespace {

// How much is read and verified at a time: short enough to stay in the processor's cache between
// the two, and a bound on the memory for sums.
constexpr std::size_t kRunSize = std::size_t{256} << 10U;
// Reads up to this size that do not fit the chunks go through one buffer at once.
constexpr std::size_t kPartSize = std::size_t{32} << 10U;
// How often a file that is being replaced is opened again.
constexpr int kAttempts = 8;

std::size_t round_down(std::size_t size, std::size_t unit) noexcept { return size / unit * unit; }
std::size_t round_up(std::size_t size, std::size_t unit) noexcept {
  return round_down(size + unit - 1, unit);
}

// Does `path` still lead to the open file?
Result<bool> is_current(const LocalSource& file) {
  HFLUSH_ASSIGN_OR_RETURN(const int descriptor, file.fileno());
  struct stat opened;
  struct stat now;
  if (::fstat(descriptor, &opened) != 0) return Status::from_errno(errno, "status", file.path());
  if (::stat(file.path().c_str(), &now) != 0) return false;
  return opened.st_dev == now.st_dev && opened.st_ino == now.st_ino;
}

Result<std::uint32_t> read_header(const LocalSource& sums) {
  SidecarHeader header;
  HFLUSH_ASSIGN_OR_RETURN(const std::size_t size, sums.pread(0, header));
  return parse_sidecar_header(ByteView(header).first(size));
}

}  // namespace

Result<std::unique_ptr<stream::Source>> open_checksummed(const std::string& path) {
  for (int attempt = 1;; ++attempt) {
    HFLUSH_ASSIGN_OR_RETURN(auto data, LocalSource::open(path));
    auto sums = LocalSource::open(sidecar_path(path));
    if (!sums.ok() && !is_missing(sums.status())) {
      return Status(sums.status()).with_path(path);
    }
    // A rename may have put another file and its sidecar in place between the two.
    HFLUSH_ASSIGN_OR_RETURN(const bool belong_together, is_current(*data));
    if (!belong_together && attempt < kAttempts) continue;
    if (!sums.ok()) return std::unique_ptr<stream::Source>(std::move(data));
    return std::unique_ptr<stream::Source>(
        std::make_unique<ChecksummedSource>(std::move(data), *std::move(sums)));
  }
}

Result<std::size_t> ChecksummedSource::read_at(std::uint64_t position, MutableByteView out,
                                               env::Interrupt& /*interrupt*/) {
  auto got = read_verified(position, out);
  if (got.status().code() != StatusCode::kChecksum) return got;
  HFLUSH_ASSIGN_OR_RETURN(const int sidecar, sums_->fileno());
  if (is_unfinished(sidecar)) return data_->pread(position, out);
  return read_verified(position, out);  // its writer may just have finished it
}

Result<std::size_t> ChecksummedSource::read_verified(std::uint64_t position, MutableByteView out) {
  HFLUSH_ASSIGN_OR_RETURN(const std::uint64_t length, this->length());
  const auto header = read_header(*sums_);
  if (header.status().code() == StatusCode::kChecksum) {
    return mismatch(header.status().message(), 0, 0, 0);
  }
  HFLUSH_ASSIGN_OR_RETURN(const std::uint32_t chunk, header);
  const std::size_t run_size = round_down(std::max(kRunSize, std::size_t{chunk}), chunk);
  std::size_t done = 0;
  while (done < out.size() && position + done < length) {
    const std::uint64_t at = position + done;
    const MutableByteView rest = out.subspan(done);
    const bool fits = at % chunk == 0 && rest.size() >= chunk;
    const std::size_t run = std::min(run_size, round_down(rest.size(), chunk));
    HFLUSH_ASSIGN_OR_RETURN(const std::size_t got, fits ? read_chunks(at, chunk, rest.first(run))
                                                        : read_part(at, chunk, rest));
    if (got == 0) break;
    done += got;
  }
  const bool reached_end = done < out.size() || position + done >= length;
  if (reached_end) HFLUSH_RETURN_IF_ERROR(verify_length(chunk));
  return done;
}

Result<std::size_t> ChecksummedSource::read_part(std::uint64_t position, std::size_t chunk,
                                                 MutableByteView out) {
  const auto skip = static_cast<std::size_t>(position % chunk);
  const std::size_t wanted = out.size() <= kPartSize ? round_up(skip + out.size(), chunk) : chunk;
  std::vector<std::byte> buffer(wanted);
  HFLUSH_ASSIGN_OR_RETURN(const std::size_t got, read_chunks(position - skip, chunk, buffer));
  if (got <= skip) return std::size_t{0};
  const std::size_t usable = std::min(got - skip, out.size());
  std::copy_n(buffer.begin() + static_cast<std::ptrdiff_t>(skip), usable, out.begin());
  return usable;
}

Result<std::size_t> ChecksummedSource::read_chunks(std::uint64_t position, std::size_t chunk,
                                                   MutableByteView out) {
  HFLUSH_DCHECK(position % chunk == 0 && out.size() % chunk == 0);
  HFLUSH_ASSIGN_OR_RETURN(const std::size_t got, data_->pread(position, out));
  HFLUSH_RETURN_IF_ERROR(verify(position, chunk, out.first(got)));
  return got;
}

Status ChecksummedSource::verify(std::uint64_t position, std::size_t chunk, ByteView bytes) {
  std::vector<std::byte> sums(crc::checksum_count(bytes.size(), chunk) * crc::kSumSize);
  HFLUSH_ASSIGN_OR_RETURN(const std::size_t got,
                          sums_->pread(sidecar_offset(position / chunk), sums));
  const std::size_t covered = std::min(bytes.size(), got / crc::kSumSize * chunk);
  const auto wrong =
      crc::first_mismatch(crc::Kind::kCrc32, bytes.first(covered), chunk, sums.data());
  if (wrong) {
    const std::size_t begin = *wrong * chunk;
    const ByteView summed = bytes.subspan(begin, std::min(chunk, bytes.size() - begin));
    return mismatch("bytes do not match their checksum", position + begin,
                    load_be32(sums.data() + *wrong * crc::kSumSize),
                    crc::extend(crc::Kind::kCrc32, 0, summed));
  }
  if (covered == bytes.size()) return {};
  return mismatch("file has more bytes than checksums", position + covered, 0, 0);
}

Status ChecksummedSource::verify_length(std::uint32_t bytes_per_checksum) {
  HFLUSH_ASSIGN_OR_RETURN(const std::uint64_t length, this->length());
  HFLUSH_ASSIGN_OR_RETURN(const std::uint64_t stored, sums_->length());
  const std::uint64_t due = sidecar_length(length, bytes_per_checksum);
  if (stored == due) return {};
  return mismatch("checksum file has " + std::to_string(stored) + " bytes where " +
                      std::to_string(due) + " belong to a file of " + std::to_string(length),
                  length, 0, 0);
}

Status ChecksummedSource::mismatch(const std::string& message, std::uint64_t position,
                                   std::uint32_t expected, std::uint32_t actual) const {
  return Status(StatusCode::kChecksum, message + ", at " + std::to_string(position), data_->path(),
                EIO)
      .with_mismatch({position, expected, actual});
}

void ChecksummedSource::close() {
  data_->close();
  sums_->close();
}

}  // namespace hflush::local
