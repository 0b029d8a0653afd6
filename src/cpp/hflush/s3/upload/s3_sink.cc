#include "hflush/s3/upload/s3_sink.h"

#include <algorithm>
#include <utility>

#include "hflush/s3/packets.h"
#include "hflush/s3/upload/upload_shell.h"
#include "hflush/s3/upload/writer_window.h"

namespace hflush::s3 {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20U;

}  // namespace

stream::Geometry upload_geometry(const ObjectOptions& options) noexcept {
  const PartSizes sizes = part_sizes(options);
  stream::Geometry geometry;
  geometry.checksum = crc::Kind::kCrc32c;
  geometry.bytes_per_checksum = kChunkBytes;
  geometry.packet_bytes = kPacketBytes;
  geometry.batch_bytes = std::min(kBatchBytes, sizes.block_bytes());
  geometry.window_bytes = std::min(upload_window(options, sizes), WriterWindow::kFirst);
  geometry.block_bytes = sizes.block_bytes();
  geometry.takes_references = options.references;
  geometry.start = geometry.block_start = begun_bytes(options);
  return geometry;
}

S3Sink::S3Sink(std::shared_ptr<Client> client, ObjectOptions options)
    : shell_(std::make_shared<UploadShell>(std::move(client), std::move(options))) {}

S3Sink::~S3Sink() {
  if (UploadShell* const shell = shell_.here()) shell->abandon();
}

std::shared_ptr<S3Upload> S3Sink::upload() const { return shell_.here()->ledger(); }

std::weak_ptr<KeepableUpload> S3Sink::keepable() const { return shell_.shared(); }

stream::SinkTraits S3Sink::traits() const {
  stream::SinkTraits traits;
  traits.geometry = upload_geometry(shell_.here()->options());
  traits.capabilities = {"fs.capability.outputstream.abortable", "abortable"};
  if (shell_.here()->options().delayed) {
    traits.capabilities.insert(traits.capabilities.end(), {"fs.s3a.capability.magic.output.stream",
                                                           "s3a:magic.output.stream"});
  }
  traits.loop = &shell_.here()->loop();
  return traits;
}

// A part stays until it is acknowledged: nothing is taken from the caller's memory.
std::size_t S3Sink::put(stream::Batch batch, std::optional<stream::Level> level,
                        stream::SinkEvents& events) {
  if (!batch.packets.empty()) shell_.here()->put(batch.packets, events);
  if (level) shell_.here()->sync(*level, events);
  return 0;
}

void S3Sink::finish(stream::SinkEvents& events) { shell_.here()->finish(events); }

Status S3Sink::abandon() noexcept {
  if (UploadShell* const shell = shell_.here()) shell->abandon();
  return {};
}

void S3Sink::add_statistics(Statistics& statistics) const {
  shell_.here()->ledger()->add_statistics(statistics);
}

}  // namespace hflush::s3
