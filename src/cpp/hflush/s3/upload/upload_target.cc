#include "hflush/s3/upload/upload_target.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "hflush/s3/call/digest.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/packets.h"

namespace hflush::s3 {
namespace {

constexpr std::uint64_t kLeastWindow = std::uint64_t{2} << 20U;

std::string path_of(const ObjectOptions& options) {
  return options.path.empty() ? "s3://" + options.bucket + "/" + options.key : options.path;
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

// Loads what the upload needs, and makes its token.
Result<std::string> prepare(const Settings& settings) {
  if (settings.signs_payload()) HFLUSH_RETURN_IF_ERROR(load_digests());
  if (settings.content_md5) HFLUSH_RETURN_IF_ERROR(load_md5());
  return make_token();
}

}  // namespace

PartSizes part_sizes(const ObjectOptions& options) noexcept {
  const std::uint64_t limited =
      std::clamp<std::uint64_t>(options.block_bytes, kChunkBytes, PartSizes::kMaxPart);
  const std::uint64_t block = (limited + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  return PartSizes(block, std::clamp<std::uint32_t>(options.max_parts, 1, PartSizes::kMaxParts),
                   options.uniform_parts);
}

std::uint64_t upload_window(const ObjectOptions& options) noexcept {
  const PartSizes sizes = part_sizes(options);
  const std::uint64_t memory =
      options.memory_bytes != 0
          ? options.memory_bytes
          : std::max<std::uint64_t>(options.active_blocks, 1) * sizes.block_bytes();
  const std::uint64_t window = std::max(memory, kLeastWindow);
  return options.buffering == Buffering::kMemory ? std::max(window, 2 * sizes.size(1)) : window;
}

UploadTarget::UploadTarget(std::shared_ptr<Client> its_client, ObjectOptions its_options)
    : client(std::move(its_client)),
      options(std::move(its_options)),
      path(path_of(options)),
      token(prepare(client->settings())),
      out_of_memory(Status::from_errno(ENOMEM, "write", path)) {}

PartStoreOptions UploadTarget::store_options() const {
  const Settings& settings = client->settings();
  return {.sizes = part_sizes(options),
          .buffering = options.buffering,
          .memory_bytes = upload_window(options),
          .directory = options.buffer_directory,
          .chunk_bytes = kChunkBytes,
          .packet_bytes = kPacketBytes,
          .sha256 = token.ok() && settings.signs_payload(),
          .md5 = token.ok() && settings.content_md5,
          .path = path};
}

UploadOptions UploadTarget::upload_options() const {
  return {.path = path,
          .sizes = part_sizes(options),
          .active_parts = std::max<std::size_t>(options.active_blocks, 1),
          .delayed = options.delayed,
          .always_multipart = options.delayed,
          .condition = options.condition};
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
