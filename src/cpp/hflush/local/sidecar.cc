#include "hflush/local/sidecar.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "hflush/base/check.h"
#include "hflush/base/endian.h"
#include "hflush/crc/checksum.h"
#include "hflush/local/paths.h"

namespace hflush::local {
namespace {

constexpr std::string_view kPrefix = ".";
constexpr std::string_view kSuffix = ".crc";
constexpr std::array kMagic = {std::byte{'c'}, std::byte{'r'}, std::byte{'c'}, std::byte{0}};
static_assert(kMagic.size() + sizeof(std::uint32_t) == kSidecarHeaderSize);

// A lock of the whole file that belongs to the open file, as the old POSIX locks do not.
struct flock whole_file(short type) noexcept {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

bool is_sidecar_name(std::string_view name) noexcept {
  return name.size() > kPrefix.size() + kSuffix.size() && name.starts_with(kPrefix) &&
         name.ends_with(kSuffix);
}

std::string sidecar_path(std::string_view path) {
  HFLUSH_DCHECK(path != "/");
  std::string name(kPrefix);
  name += name_of(path);
  name += kSuffix;
  return join(parent_of(path), name);
}

bool is_missing(const Status& failure) noexcept {
  return failure.code() == StatusCode::kNotFound || failure.error_number() == ENAMETOOLONG;
}

std::uint64_t sidecar_length(std::uint64_t file_length, std::uint32_t bytes_per_checksum) noexcept {
  HFLUSH_DCHECK(bytes_per_checksum > 0);
  return sidecar_offset(crc::checksum_count(file_length, bytes_per_checksum));
}

std::uint64_t sidecar_offset(std::uint64_t chunk) noexcept {
  return kSidecarHeaderSize + chunk * crc::kSumSize;
}

SidecarHeader sidecar_header(std::uint32_t bytes_per_checksum) noexcept {
  SidecarHeader header;
  std::ranges::copy(kMagic, header.begin());
  store_be32(header.data() + kMagic.size(), bytes_per_checksum);
  return header;
}

Result<std::uint32_t> parse_sidecar_header(ByteView header) {
  if (header.size() < kSidecarHeaderSize) {
    return Status(StatusCode::kChecksum, "checksum file ends inside its header, after " +
                                             std::to_string(header.size()) + " bytes");
  }
  if (!std::ranges::equal(kMagic, header.first(kMagic.size()))) {
    return Status(StatusCode::kChecksum, "checksum file does not begin with 'crc\\0'");
  }
  const std::uint32_t bytes_per_checksum = load_be32(header.data() + kMagic.size());
  if (bytes_per_checksum == 0 || bytes_per_checksum > kMaxBytesPerChecksum) {
    return Status(
        StatusCode::kChecksum,
        "checksum file claims " + std::to_string(bytes_per_checksum) + " bytes per checksum");
  }
  return bytes_per_checksum;
}

Status remove_sidecar(const std::string& sidecar) {
  if (::unlink(sidecar.c_str()) == 0) return {};
  Status failure = Status::from_errno(errno, "delete checksum file", sidecar);
  return is_missing(failure) ? Status() : failure;
}

void mark_unfinished(int sidecar) noexcept {
  struct flock lock = whole_file(F_WRLCK);
  ::fcntl(sidecar, F_OFD_SETLK, &lock);
}

bool is_unfinished(int sidecar) noexcept {
  struct flock lock = whole_file(F_RDLCK);  // only asked about, never taken
  return ::fcntl(sidecar, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace hflush::local
