#include "hflush/local/destination.h"

#include <utility>

#include "hflush/local/mount.h"
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
  if (error_number == 0) return {};
  return is_lacking(error_number) ? lacking(error_number, "the mount cannot fdatasync", path)
                                  : Status::from_errno(error_number, "fdatasync", path);
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
  void give_up() noexcept override { file_->give_up(); }
  Status close() override { return close_file(*file_, path_); }

  void cut(std::uint64_t size) noexcept { static_cast<void>(file_->truncate(size)); }

 private:
  const std::unique_ptr<env::WritableFile> file_;
  const std::string path_;
};

// The data goes first: a crash in between leaves fewer sums than data, which readers detect
// (LOCAL-5). After a failed write both files are cut to what they agree on (CLOSE-11): a stream
// that cannot hsync has acknowledged nothing beyond that.
class ChecksummedDestination final : public Destination {
 public:
  ChecksummedDestination(std::unique_ptr<env::WritableFile> file, std::string path,
                         std::unique_ptr<env::WritableFile> sidecar, std::string sidecar_path,
                         std::uint32_t bytes_per_checksum)
      : data_(std::move(file), std::move(path)),
        sidecar_(std::move(sidecar)),
        sidecar_path_(std::move(sidecar_path)),
        bytes_per_checksum_(bytes_per_checksum) {
    const auto header = sidecar_header(bytes_per_checksum);
    unwritten_sums_.assign(header.begin(), header.end());
  }

  Status write(std::span<const stream::Packet> packets, ByteView /*tail: always empty*/) override {
    if (Status written = data_.write(packets, {}); !written.ok()) return broken(std::move(written));
    for (const stream::Packet& packet : packets) {
      const ByteView sums = packet.sums();
      unwritten_sums_.insert(unwritten_sums_.end(), sums.begin(), sums.end());
      written_ += packet.data().size();
    }
    return unwritten_sums_.size() < kSumsWorthAWrite ? Status() : flush();
  }

  Status flush() override {
    const ByteView sums(unwritten_sums_);
    if (Status written = env::write_fully(*sidecar_, {&sums, 1}, sidecar_path_); !written.ok()) {
      return broken(std::move(written));
    }
    unwritten_sums_.clear();
    covered_ = written_;
    return {};
  }

  Status sync() override {
    HFLUSH_RETURN_IF_ERROR(flush());
    HFLUSH_RETURN_IF_ERROR(data_.sync());
    return sync_file(*sidecar_, sidecar_path_);
  }

  void give_up() noexcept override { data_.give_up(); }

  Status close() override {
    Status outcome = files_disagree_ ? Status() : flush();
    if (files_disagree_) {
      data_.cut(covered_);
      static_cast<void>(sidecar_->truncate(sidecar_length(covered_, bytes_per_checksum_)));
    }
    outcome = first_failure(outcome, data_.close());
    return first_failure(outcome, close_file(*sidecar_, sidecar_path_));
  }

 private:
  static constexpr std::size_t kSumsWorthAWrite = 32U << 10U;  // the sums of 4 MiB

  Status broken(Status failure) noexcept {
    files_disagree_ = true;
    return failure;
  }

  RawDestination data_;
  const std::unique_ptr<env::WritableFile> sidecar_;
  const std::string sidecar_path_;
  const std::uint32_t bytes_per_checksum_;

  std::vector<std::byte> unwritten_sums_;
  std::uint64_t written_ = 0;    // bytes of data in the file
  std::uint64_t covered_ = 0;    // of which the sidecar has the sums
  bool files_disagree_ = false;  // a write failed half-way: neither length is known
};

}  // namespace

std::unique_ptr<Destination> make_raw_destination(std::unique_ptr<env::WritableFile> file,
                                                  std::string path) {
  return std::make_unique<RawDestination>(std::move(file), std::move(path));
}

std::unique_ptr<Destination> make_checksummed_destination(
    std::unique_ptr<env::WritableFile> file, std::string path,
    std::unique_ptr<env::WritableFile> sidecar, std::string sidecar_path,
    std::uint32_t bytes_per_checksum) {
  return std::make_unique<ChecksummedDestination>(std::move(file), std::move(path),
                                                  std::move(sidecar), std::move(sidecar_path),
                                                  bytes_per_checksum);
}

}  // namespace hflush::local
