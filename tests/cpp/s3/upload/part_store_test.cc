// What a part's body reads as, in memory and on disk, whatever the packets and the reads.
#include "hflush/s3/upload/part_store.h"

#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/base/binary_text.h"
#include "hflush/base/buffer_pool.h"
#include "hflush/crc/checksum.h"
#include "hflush/crypto/digest.h"
#include "hflush/env/clock.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/stream/packetizer.h"
#include "testing/bytes.h"

namespace hflush::s3 {
namespace {

using hflush::testing::pattern;

constexpr std::size_t kChunk = 1024;
constexpr std::size_t kPacket = 4 * kChunk;
constexpr std::uint64_t kBlock = 6 * kChunk;  // so that a part ends within a packet's size

// A stream's front: cuts what is written as the sink's geometry says.
class Writer {
 public:
  explicit Writer(PartStoreOptions options)
      : store(std::move(options)), packetizer_(geometry(), pool_) {}

  Status write(ByteView data) {
    packetizer_.append(data, sealed_);
    return hand_over();
  }
  Status flush() {
    packetizer_.cut(stream::Cut::kWholeChunks, sealed_);
    return hand_over();
  }
  Status finish() {
    packetizer_.cut(stream::Cut::kFinal, sealed_);
    return hand_over();
  }

 private:
  static stream::Geometry geometry() {
    stream::Geometry geometry = stream::Geometry::with_checksums(crc::Kind::kCrc32c, kChunk);
    geometry.packet_bytes = kPacket;
    geometry.block_bytes = kBlock;
    return geometry;
  }
  Status hand_over() {
    const Status added = store.add(sealed_);
    sealed_.clear();
    return added;
  }

  BufferPool pool_{0};

 public:
  PartStore store;

 private:
  stream::Packetizer packetizer_;
  std::vector<stream::Packet> sealed_;
};

PartStoreOptions options_of(Buffering buffering, std::uint64_t memory_bytes = 1U << 20U) {
  return {.sizes = PartSizes(kBlock, 100, true),
          .buffering = buffering,
          .memory_bytes = memory_bytes,
          .directories = {"/tmp"},
          .chunk_bytes = kChunk,
          .packet_bytes = kPacket,
          .path = "s3://b/k"};
}

std::vector<std::byte> read_all(const env::HttpBody& body, std::size_t piece) {
  std::vector<std::byte> bytes;
  std::vector<std::byte> buffer(piece);
  while (true) {
    const std::ptrdiff_t count = body.read_at(bytes.size(), buffer);
    REQUIRE(count >= 0);
    REQUIRE(count <= static_cast<std::ptrdiff_t>(piece));
    if (count == 0) return bytes;
    bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + count);
  }
}

// Where it lies from an offset on, `room` pieces at a time.
std::vector<std::byte> view_all(const env::HttpBody& body, std::size_t from, std::size_t room) {
  std::vector<std::byte> bytes;
  std::vector<ByteView> views(room);
  while (const std::size_t count = body.views_at(from + bytes.size(), views)) {
    REQUIRE(count <= room);
    for (const ByteView view : std::span(views).first(count)) {
      bytes.insert(bytes.end(), view.begin(), view.end());
    }
  }
  return bytes;
}

std::vector<std::string> entries_of(const std::string& path) {
  std::vector<std::string> names;
  DIR* const directory = ::opendir(path.c_str());
  REQUIRE(directory != nullptr);
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  return names;
}

// Descriptors of this process whose files lie, or lay, in the directory.
std::size_t open_files_of(const std::string& directory) {
  const std::string within = directory + "/";
  std::size_t count = 0;
  for (const std::string& descriptor : entries_of("/proc/self/fd")) {
    std::array<char, 256> target{};
    if (::readlink(("/proc/self/fd/" + descriptor).c_str(), target.data(), target.size() - 1) < 0) {
      continue;
    }
    if (std::string_view(target.data()).starts_with(within)) ++count;
  }
  return count;
}

// Another thread lets go of them.
bool wait_for_open_files(const std::string& directory, std::size_t count) {
  const env::TimePoint deadline = env::steady_clock().now() + env::testing::kPatience;
  while (open_files_of(directory) != count) {
    if (env::steady_clock().now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// A directory of its own, gone at the end.
class Directory {
 public:
  Directory() { REQUIRE(::mkdtemp(name_.data()) != nullptr); }
  ~Directory() { ::rmdir(name_.c_str()); }
  const std::string& name() const { return name_; }

 private:
  std::string name_ = "/tmp/hflush-part-store-XXXXXX";
};

TEST_CASE("a part reads as it was written, whatever the pieces, where it lies and how it is read") {
  const auto data = pattern(3 * kBlock + 1777);
  for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk, Buffering::kAdaptive}) {
    for (const std::size_t piece : {1U, 700U, 1024U, 5000U, 100'000U}) {
      for (const bool flushes : {false, true}) {
        CAPTURE(static_cast<int>(buffering));
        CAPTURE(piece);
        CAPTURE(flushes);
        Writer writer(options_of(buffering));
        for (std::size_t at = 0; at < data.size(); at += piece) {
          REQUIRE(writer.write(ByteView(data).subspan(at, std::min(piece, data.size() - at))).ok());
          if (flushes) REQUIRE(writer.flush().ok());
        }
        REQUIRE(writer.finish().ok());
        CHECK(writer.store.end() == data.size());
        CHECK(writer.store.crc32c() == crc::extend(crc::Kind::kCrc32c, 0, data));
        for (std::uint32_t number = 1; number <= 4; ++number) {
          const ByteView wanted = ByteView(data).subspan(
              (number - 1) * kBlock, number == 4 ? 1777 : static_cast<std::size_t>(kBlock));
          const Result<PartBody> part = writer.store.body(number);
          REQUIRE(part.ok());
          CHECK(part->size == wanted.size());
          CHECK(part->body->size() == wanted.size());
          CHECK(part->crc32c == crc::extend(crc::Kind::kCrc32c, 0, wanted));
          for (const std::size_t read : {1U, 511U, 1U << 20U}) {
            CHECK(std::ranges::equal(read_all(*part->body, read), wanted));
          }
          const bool in_memory = buffering != Buffering::kDisk;
          for (const std::size_t from : {std::size_t{0}, wanted.size() / 3, wanted.size()}) {
            const ByteView rest = in_memory ? wanted.subspan(from) : ByteView();
            CHECK(std::ranges::equal(view_all(*part->body, from, 3), rest));
          }
          CHECK(part->body->views_at(UINT64_MAX, std::span<ByteView>()) == 0);
          std::byte nothing[1];
          CHECK(part->body->read_at(wanted.size(), nothing) == 0);
          CHECK(part->body->read_at(UINT64_MAX, nothing) == 0);
        }
        CHECK(writer.store.body(5).status().code() == StatusCode::kInternal);
      }
    }
  }
}

TEST_CASE("a body outlives what forgets it, and stays the same") {
  const auto data = pattern(2 * kBlock);
  for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk}) {
    Writer writer(options_of(buffering));
    REQUIRE(writer.write(data).ok());
    const Result<PartBody> first = writer.store.body(1);
    const Result<PartBody> again = writer.store.body(1);
    REQUIRE(first.ok());
    REQUIRE(again.ok());
    CHECK(first->body == again->body);
    writer.store.forget(1);
    CHECK(!writer.store.body(1).ok());
    CHECK(writer.store.body(2).ok());
    writer.store.clear();
    CHECK(!writer.store.body(2).ok());
    CHECK(std::ranges::equal(read_all(*first->body, 4096), ByteView(data).first(kBlock)));
  }
}

TEST_CASE("part 1 of nothing is empty") {
  for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk}) {
    PartStoreOptions options = options_of(buffering);
    REQUIRE(crypto::load_digests().ok());
    options.sha256 = options.md5 = true;
    PartStore store(options);
    const Result<PartBody> part = store.body(1);
    REQUIRE(part.ok());
    CHECK(part->size == 0);
    CHECK(part->crc32c == 0);
    CHECK(part->md5 == "1B2M2Y8AsgTpgAmY7PhCfg==");
    CHECK(part->sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(read_all(*part->body, 16).empty());
    CHECK(!store.body(2).ok());
  }
}

TEST_CASE("digests are of each part") {
  REQUIRE(crypto::load_digests().ok());
  const auto data = pattern(2 * kBlock + 5);
  for (const Buffering buffering : {Buffering::kMemory, Buffering::kDisk}) {
    PartStoreOptions options = options_of(buffering);
    options.sha256 = options.md5 = true;
    Writer writer(options);
    REQUIRE(writer.write(data).ok());
    REQUIRE(writer.finish().ok());
    for (std::uint32_t number = 1; number <= 3; ++number) {
      const std::size_t begin = (number - 1) * kBlock;
      const ByteView bytes =
          ByteView(data).subspan(begin, std::min<std::size_t>(kBlock, data.size() - begin));
      for (int time = 0; time < 2; ++time) {
        const Result<PartBody> part = writer.store.body(number);
        REQUIRE(part.ok());
        CHECK(part->sha256 == to_hex(crypto::sha256(bytes)));
        CHECK(part->md5 == to_base64(crypto::md5(bytes)));
      }
    }
  }
}

TEST_CASE("parts of which two do not fit in the budget go to disk; what lies there is stored") {
  const PartSizes growing(kBlock, 10, false);
  PartStoreOptions options = options_of(Buffering::kAdaptive, 2 * kBlock);
  options.sizes = growing;
  const Directory directory;
  options.directories = {directory.name()};
  REQUIRE(growing.size(5) == kBlock);
  REQUIRE(growing.size(6) > kBlock);

  Writer writer(options);
  const auto data = pattern(static_cast<std::size_t>(growing.end(5)));
  REQUIRE(writer.write(data).ok());
  CHECK(open_files_of(directory.name()) == 0);
  CHECK(writer.store.stored_end() == 0);
  writer.store.forget(1);
  CHECK(writer.store.stored_end() == 0);

  const auto more = pattern(2 * kPacket);
  REQUIRE(writer.write(more).ok());
  CHECK(open_files_of(directory.name()) == 1);
  // Parts 2 to 5 lie in memory still.
  CHECK(writer.store.stored_end() == growing.begin(2));
  writer.store.forget(3);
  CHECK(writer.store.stored_end() == growing.begin(2));
  writer.store.forget(2);
  CHECK(writer.store.stored_end() == growing.begin(4));
  writer.store.forget(4);
  writer.store.forget(5);
  CHECK(writer.store.stored_end() == writer.store.end());
  writer.store.forget(6);
  CHECK(writer.store.stored_end() == writer.store.end());
}

TEST_CASE("a part too large for memory alone is refused, with the numbers") {
  Writer writer(options_of(Buffering::kMemory, 2 * kBlock - 1));
  const Status refused = writer.write(pattern(kPacket));
  CHECK(refused.code() == StatusCode::kIo);
  CHECK(refused.error_number() == EFBIG);
  CHECK(refused.path() == "s3://b/k");
  CHECK(refused.message().find("part 1 of 6144 bytes") != std::string::npos);
  CHECK(refused.message().find("12287") != std::string::npos);
}

TEST_CASE("more than the parts can hold is refused") {
  PartStoreOptions options = options_of(Buffering::kMemory);
  options.sizes = PartSizes(kBlock, 2, true);
  Writer writer(options);
  REQUIRE(writer.write(pattern(2 * kBlock)).ok());
  const Status refused = writer.write(pattern(kPacket));
  CHECK(refused.error_number() == EFBIG);
  CHECK(refused.message().find("2 parts") != std::string::npos);
}

TEST_CASE("nothing is left in the directory, and no descriptor open") {
  const Directory directory;
  {
    PartStoreOptions options = options_of(Buffering::kDisk);
    options.directories = {directory.name()};
    Writer writer(options);
    REQUIRE(writer.write(pattern(3 * kBlock)).ok());
    CHECK(open_files_of(directory.name()) == 3);
    CHECK(entries_of(directory.name()).empty());
    writer.store.forget(2);
    CHECK(wait_for_open_files(directory.name(), 2));
    const Result<PartBody> kept = writer.store.body(1);
    writer.store.clear();
    CHECK(wait_for_open_files(directory.name(), 1));
  }
  CHECK(wait_for_open_files(directory.name(), 0));
  CHECK(entries_of(directory.name()).empty());
}

TEST_CASE("files lie in the first directory where they can: made if need be, found for each part") {
  const Directory first;
  const Directory second;
  PartStoreOptions options = options_of(Buffering::kDisk);
  const std::string made = first.name() + "/made/there";
  options.directories = {"/dev/null/no", made, second.name()};
  Writer writer(options);
  REQUIRE(writer.write(pattern(kBlock)).ok());
  CHECK(open_files_of(made) == 1);
  std::filesystem::remove_all(first.name() + "/made");
  std::ofstream(first.name() + "/made") << "in the way";
  REQUIRE(writer.write(pattern(kBlock)).ok());
  CHECK(open_files_of(second.name()) == 1);
  std::filesystem::remove(first.name() + "/made");
}

TEST_CASE("where no file can be made, the failure is not one of the object's name") {
  PartStoreOptions options = options_of(Buffering::kDisk);
  options.directories = {"/dev/null/a", "/dev/null"};
  Writer writer(options);
  const Status refused = writer.write(pattern(kPacket));
  CHECK(refused.code() == StatusCode::kIo);
  CHECK(refused.error_number() == EIO);
  CHECK(refused.path() == "/dev/null");
  CHECK(refused.message() ==
        "open a file for part 1 of s3://b/k in fs.s3a.buffer.dir: /dev/null/a: Not a directory; "
        "/dev/null: Not a directory");
}

TEST_CASE("a disk that takes no more is told with its errno") {
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limited = old;
  limited.rlim_cur = kPacket + 100;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limited) == 0);
  Writer writer(options_of(Buffering::kDisk));
  const Status first = writer.write(pattern(kPacket));
  const Status second = writer.write(pattern(kPacket));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  std::signal(SIGXFSZ, old_handler);
  CHECK(first.ok());
  CHECK(second.code() == StatusCode::kIo);
  CHECK(second.error_number() == EFBIG);
}

TEST_CASE("what a flush cuts short does not keep a whole packet's memory") {
  // Chunk by chunk: a quarter of each packet is used.
  BufferPool pool(64 * (kPacket + 1024));
  PartStore store(options_of(Buffering::kMemory));
  stream::Geometry geometry = stream::Geometry::with_checksums(crc::Kind::kCrc32c, kChunk);
  geometry.packet_bytes = kPacket;
  geometry.block_bytes = kBlock;
  stream::Packetizer packetizer(geometry, pool);
  const auto chunk = pattern(kChunk);
  for (int i = 0; i < 5; ++i) {
    std::vector<stream::Packet> sealed;
    packetizer.append(chunk, sealed);
    packetizer.cut(stream::Cut::kWholeChunks, sealed);
    REQUIRE(sealed.size() == 1);
    REQUIRE(store.add(sealed).ok());
    sealed.clear();
    CHECK(pool.cached_bytes() > kPacket);  // it has come back
    CHECK(pool.cached_bytes() < 2 * kPacket);
  }
}

}  // namespace
}  // namespace hflush::s3
