#include "hflush/s3/upload/upload_target.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "hflush/base/binary_text.h"
#include "hflush/crc/checksum.h"
#include "hflush/crypto/digest.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/memory_budget.h"
#include "hflush/s3/packets.h"

namespace hflush::s3 {
namespace {

constexpr std::uint64_t kLeastWindow = std::uint64_t{2} << 20U;

std::string path_of(const ObjectOptions& options) {
  return options.path.empty() ? "s3://" + options.bucket + "/" + options.key : options.path;
}

// Of all bytes of the parts.
std::uint32_t crc32c_of(const std::vector<PartReceipt>& parts) noexcept {
  std::uint32_t sum = 0;
  for (const PartReceipt& part : parts) {
    sum = crc::combine(crc::Kind::kCrc32c, sum, part.crc32c, part.size);
  }
  return sum;
}

// 128 random bits, in hex.
Result<std::string> make_token() {
  std::array<std::byte, 16> bits{};
  ssize_t count = -1;
  do {
    count = ::getrandom(bits.data(), bits.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return Status::from_errno(errno, "getrandom", {});
  return to_hex(bits);
}

// Loads what the upload needs, and makes its token, unless it has one.
Result<std::string> prepare(const Settings& settings, const std::optional<BegunObject>& begun) {
  if (settings.signs_payload()) HFLUSH_RETURN_IF_ERROR(crypto::load_digests());
  if (settings.content_md5) {
    if (const Status loaded = crypto::load_md5(); !loaded.ok()) {
      return Status(loaded.code(),
                    loaded.message() + ": it is not needed if fs.s3a.request.md5.header is false");
    }
  }
  return begun ? begun->token : make_token();
}

std::uint64_t window_of(const ObjectOptions& options, std::uint64_t block_bytes) noexcept {
  std::uint64_t memory = options.memory_bytes;
  if (memory == 0) {
    const std::uint64_t blocks = std::max<std::uint64_t>(options.active_blocks, 1);
    memory = blocks * block_bytes;
    // The last of them is half full when the writer waits. Two have to be there whole.
    if (blocks > 2) memory -= block_bytes / 2;
  }
  const std::uint64_t window = std::max(memory, kLeastWindow);
  return options.buffering == Buffering::kMemory ? std::max(window, 2 * block_bytes) : window;
}

}  // namespace

PartSizes part_sizes(const ObjectOptions& options) noexcept {
  const std::uint64_t limited =
      std::clamp<std::uint64_t>(options.block_bytes, kChunkBytes, PartSizes::kMaxPart);
  const std::uint64_t block = (limited + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  // Those that may not lie on disk grow no further than two of them fit in memory.
  const std::uint64_t largest =
      options.buffering == Buffering::kMemory ? window_of(options, block) / 2 : PartSizes::kMaxPart;
  return PartSizes(block, std::clamp<std::uint32_t>(options.max_parts, 1, PartSizes::kMaxParts),
                   options.uniform_parts, largest);
}

std::uint64_t upload_window(const ObjectOptions& options, const PartSizes& sizes) noexcept {
  return window_of(options, sizes.block_bytes());
}

UploadTarget::UploadTarget(std::shared_ptr<Client> its_client, ObjectOptions its_options)
    : client(std::move(its_client)),
      options(std::move(its_options)),
      sizes(part_sizes(options)),
      window(upload_window(options, sizes)),
      path(path_of(options)),
      token(prepare(client->settings(), options.begun)),
      out_of_memory(Status::from_errno(ENOMEM, "write", path)) {}

std::uint64_t begun_bytes(const ObjectOptions& options) noexcept {
  return options.begun ? options.begun->upload.bytes() : 0;
}

PartStoreOptions UploadTarget::store_options() const {
  const Settings& settings = client->settings();
  // A stream has its first part without asking the process's budget: one that is larger than all of
  // that lies on disk where it may.
  const std::uint64_t budget = options.buffering == Buffering::kAdaptive
                                   ? std::min(window, 2 * MemoryBudget::of_process().total())
                                   : window;
  return {.sizes = sizes,
          .buffering = options.buffering,
          .memory_bytes = budget,
          .directories = options.buffer_directories,
          .chunk_bytes = kChunkBytes,
          .packet_bytes = kPacketBytes,
          .sha256 = token.ok() && settings.signs_payload(),
          .md5 = token.ok() && settings.content_md5,
          .path = path,
          .begin = begun_bytes(options),
          .begin_crc32c = options.begun ? crc32c_of(options.begun->upload.parts) : 0};
}

UploadOptions UploadTarget::upload_options() const {
  return {.path = path,
          .sizes = sizes,
          .active_parts = std::max<std::size_t>(options.active_blocks, 1),
          .delayed = options.delayed,
          .always_multipart = options.delayed,
          .condition = options.condition,
          .begun = options.begun ? std::optional(options.begun->upload) : std::nullopt};
}

Status UploadTarget::encryption_refused(const char* operation, const env::HttpHead& head) const {
  if (!options.verify_encryption) return {};
  std::vector<env::HttpHeader> asked = options.headers;
  asked.insert(asked.end(), options.request_headers.begin(), options.request_headers.end());
  const std::string difference = encryption_difference(asked, head);
  if (difference.empty()) return {};
  return Status(StatusCode::kIo,
                std::string(operation) + ": " + client->endpoint() + ": " + difference, path, EIO);
}

}  // namespace hflush::s3
