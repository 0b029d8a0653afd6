#include "hflush/local/destination.h"

#include <utility>

#include "hflush/local/sidecar.h"

namespace hflush::local {
namespace {

std::vector<ByteView> data_of(std::span<const stream::Packet> packets, ByteView tail) {
  std::vector<ByteView> pieces;
  pieces.reserve(packets.size() + 1);
  for (const stream::Packet& packet : packets) pieces.push_back(packet.data());
  pieces.push_back(tail);
  return pieces;
}

Status sync_file(env::WritableFile& file, const std::string& path) {
  const int error_number = file.sync();
  return error_number == 0 ? Status() : Status::from_errno(error_number, "fdatasync", path);
}

Status close_file(env::WritableFile& file, const std::string& path) {
  const int error_number = file.close();
  return error_number == 0 ? Status() : Status::from_errno(error_number, "close", path);
}

class RawDestination final : public Destination {
 public:
  RawDestination(std::unique_ptr<env::WritableFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  Status write(std::span<const stream::Packet> packets, ByteView tail) override {
    return env::write_fully(*file_, data_of(packets, tail), path_);
  }
  Status flush() override { return {}; }
  Status sync() override { return sync_file(*file_, path_); }
  Status close(bool /*publish*/) override { return close_file(*file_, path_); }

 private:
  const std::unique_ptr<env::WritableFile> file_;
  const std::string path_;
};

// The data goes first: a crash in between leaves fewer sums than data, which readers detect
// (LOCAL-5).
class ChecksummedDestination final : public Destination {
 public:
  ChecksummedDestination(std::unique_ptr<env::WritableFile> file, std::string path,
                         std::unique_ptr<env::WritableFile> sidecar, std::string sidecar_path,
                         std::size_t bytes_per_checksum)
      : data_(std::move(file), std::move(path)),
        sidecar_(std::move(sidecar)),
        sidecar_path_(std::move(sidecar_path)) {
    const auto header = sidecar_header(static_cast<std::uint32_t>(bytes_per_checksum));
    unwritten_sums_.assign(header.begin(), header.end());
  }

  Status write(std::span<const stream::Packet> packets, ByteView /*tail: always empty*/) override {
    HFLUSH_RETURN_IF_ERROR(data_.write(packets, {}));
    for (const stream::Packet& packet : packets) {
      const ByteView sums = packet.sums();
      unwritten_sums_.insert(unwritten_sums_.end(), sums.begin(), sums.end());
    }
    return unwritten_sums_.size() < kSumsWorthAWrite ? Status() : flush();
  }

  Status flush() override {
    const ByteView sums(unwritten_sums_);
    HFLUSH_RETURN_IF_ERROR(env::write_fully(*sidecar_, {&sums, 1}, sidecar_path_));
    unwritten_sums_.clear();
    return {};
  }

  Status sync() override {
    HFLUSH_RETURN_IF_ERROR(flush());
    HFLUSH_RETURN_IF_ERROR(data_.sync());
    return sync_file(*sidecar_, sidecar_path_);
  }

  Status close(bool publish) override {
    Status outcome = publish ? flush() : Status();
    outcome = first_failure(std::move(outcome), data_.close(publish));
    return first_failure(std::move(outcome), close_file(*sidecar_, sidecar_path_));
  }

 private:
  static constexpr std::size_t kSumsWorthAWrite = 32U << 10U;  // the sums of 4 MiB

  RawDestination data_;
  const std::unique_ptr<env::WritableFile> sidecar_;
  const std::string sidecar_path_;
  std::vector<std::byte> unwritten_sums_;
};

}  // namespace

std::unique_ptr<Destination> make_raw_destination(std::unique_ptr<env::WritableFile> file,
                                                  std::string path) {
  return std::make_unique<RawDestination>(std::move(file), std::move(path));
}

std::unique_ptr<Destination> make_checksummed_destination(
    std::unique_ptr<env::WritableFile> file, std::string path,
    std::unique_ptr<env::WritableFile> sidecar, std::string sidecar_path,
    std::size_t bytes_per_checksum) {
  return std::make_unique<ChecksummedDestination>(std::move(file), std::move(path),
                                                  std::move(sidecar), std::move(sidecar_path),
                                                  bytes_per_checksum);
}

}  // namespace hflush::local
