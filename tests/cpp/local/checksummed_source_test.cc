// Reads are verified: READ-16, LOCAL-1, LOCAL-5, LOCAL-6 below the bindings.
#include "hflush/local/checksummed_source.h"

#include <fcntl.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "hflush/local/descriptor.h"
#include "hflush/local/rename.h"
#include "hflush/local/sidecar.h"
#include "local/checksummed_files.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::pattern;
using testing::read_file;
using testing::sidecar_of;
using testing::TemporaryDirectory;
using testing::write_checksummed;
using testing::write_file;

std::unique_ptr<stream::Source> opened(const std::string& path) {
  auto file = open_checksummed(path);
  REQUIRE_MESSAGE(file.ok(), file.status().to_string());
  return *std::move(file);
}

Result<std::string> try_read(stream::Source& file, std::uint64_t position, std::size_t size) {
  std::string text(size, '?');
  env::Uninterrupted interrupt;
  HFLUSH_ASSIGN_OR_RETURN(
      const std::size_t got,
      file.read_at(position, std::as_writable_bytes(std::span(text)), interrupt));
  return text.substr(0, got);
}

std::string read(stream::Source& file, std::uint64_t position, std::size_t size) {
  auto content = try_read(file, position, size);
  REQUIRE_MESSAGE(content.ok(), content.status().to_string());
  return *std::move(content);
}

// The whole of a file, in one read that goes past its end.
Result<std::string> read_all(const std::string& path) {
  const auto file = opened(path);
  return try_read(*file, 0, read_file(path).size() + 1);
}

void expect_refused(const std::string& path, std::uint64_t position) {
  const auto content = read_all(path);
  CHECK(code_of(content) == StatusCode::kChecksum);
  CHECK(content.status().path() == path);
  const ChecksumMismatch* mismatch = content.status().checksum_mismatch();
  REQUIRE(mismatch != nullptr);
  CHECK(mismatch->position == position);
}

TEST_CASE("golden: the sidecar of nine bytes, as zlib and Hadoop have it") {
  const TemporaryDirectory root;
  write_file(root / "file", "123456789");
  write_file(root / ".file.crc", std::string_view("crc\0\0\0\2\0\xcb\xf4\x39\x26", 12));
  const auto file = opened(root / "file");
  CHECK(file->verified());
  CHECK(read(*file, 0, 100) == "123456789");
  CHECK(*file->length() == 9);
}

TEST_CASE("every length around chunks and runs reads whole and in part") {
  const TemporaryDirectory root;
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{400}, std::size_t{512},
                                  std::size_t{70'000}, std::size_t{300'000}}) {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * chunk + 5}) {
      CAPTURE(chunk);
      CAPTURE(size);
      const std::string content = pattern(size);
      write_checksummed(root / "file", content, chunk);
      const auto file = opened(root / "file");
      CHECK(read(*file, 0, size) == content);
      CHECK(read(*file, 0, size + 1) == content);
      CHECK(read(*file, size, 10).empty());
      CHECK(read(*file, size + 1000, 10).empty());
      CHECK(read(*file, size / 2, size) == content.substr(size / 2));
    }
  }
}

TEST_CASE("a thousand random reads give exact bytes") {
  const TemporaryDirectory root;
  const std::string content = pattern(1'000'003);
  write_checksummed(root / "file", content);
  const auto file = opened(root / "file");
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t at = random() % content.size();
    const std::size_t size = random() % (i % 10 == 0 ? 600'000 : 3000);
    CHECK((read(*file, at, size) == content.substr(at, size)));
  }
}

TEST_CASE("every flipped bit is caught, at the position of its chunk, with both sums") {
  const TemporaryDirectory root;
  const std::string content = pattern(1300);
  for (std::size_t at = 0; at < content.size(); at += 37) {
    write_checksummed(root / "file", content);
    std::string wrong = content;
    wrong[at] = static_cast<char>(wrong[at] ^ (1 << (at % 8)));
    write_file(root / "file", wrong);
    expect_refused(root / "file", at / 512 * 512);
  }
  const auto refused = read_all(root / "file");
  const ChecksumMismatch& mismatch = *refused.status().checksum_mismatch();
  CHECK(mismatch.expected ==
        crc::extend(crc::Kind::kCrc32, 0, as_bytes(std::string_view(content).substr(1024))));
  CHECK(mismatch.actual != mismatch.expected);
}

TEST_CASE("chunks that are not read are not verified") {
  const TemporaryDirectory root;
  std::string content = pattern(2048);
  write_checksummed(root / "file", content);
  std::string wrong = content;
  wrong[600] = static_cast<char>(~wrong[600]);
  write_file(root / "file", wrong);
  const auto file = opened(root / "file");
  CHECK(read(*file, 0, 512) == content.substr(0, 512));
  CHECK(read(*file, 1024, 1024) == content.substr(1024));
  CHECK(code_of(try_read(*file, 1000, 100)) == StatusCode::kChecksum);
  CHECK(code_of(try_read(*file, 511, 2)) == StatusCode::kChecksum);
}

TEST_CASE("a flipped bit in a sum is caught") {
  const TemporaryDirectory root;
  write_checksummed(root / "file", pattern(1300));
  std::string sums = read_file(sidecar_of(root / "file"));
  sums[8 + 4] = static_cast<char>(sums[8 + 4] ^ 1);
  write_file(sidecar_of(root / "file"), sums);
  expect_refused(root / "file", 512);
}

TEST_CASE("a truncated sidecar is caught wherever it ends") {
  const TemporaryDirectory root;
  const std::string content = pattern(1300);
  const std::string sums = testing::sidecar_content(content);
  write_file(root / "file", content);
  for (std::size_t size = 0; size < sums.size(); ++size) {
    CAPTURE(size);
    write_file(sidecar_of(root / "file"), sums.substr(0, size));
    expect_refused(root / "file", size < 8 ? 0 : (size - 8) / 4 * 512);
  }
}

TEST_CASE("a sidecar with more than the file has is caught") {
  const TemporaryDirectory root;
  const std::string content = pattern(1024);
  for (const std::string& extra : {std::string("x"), std::string(4, 'x')}) {
    write_file(root / "file", content);
    write_file(sidecar_of(root / "file"), testing::sidecar_content(content) + extra);
    expect_refused(root / "file", 1024);
  }
}

TEST_CASE("a file that lost its end, at a chunk or inside one, is caught") {
  const TemporaryDirectory root;
  const std::string content = pattern(1300);
  for (const std::size_t size : {1299U, 1024U, 1023U, 512U, 0U}) {
    CAPTURE(size);
    write_checksummed(root / "file", content);
    write_file(root / "file", content.substr(0, size));
    expect_refused(root / "file", size / 512 * 512);
    const auto file = opened(root / "file");
    CHECK(code_of(try_read(*file, 0, size)) == StatusCode::kChecksum);
    if (size % 512 == 0) CHECK(code_of(try_read(*file, size, 1)) == StatusCode::kChecksum);
  }
}

TEST_CASE("a file that grew past its sums is caught") {
  const TemporaryDirectory root;
  const std::string content = pattern(1024);
  write_checksummed(root / "file", content);
  write_file(root / "file", content + "more");
  expect_refused(root / "file", 1024);
  write_checksummed(root / "file", content.substr(0, 1000));
  write_file(root / "file", content);
  expect_refused(root / "file", 512);
}

TEST_CASE("another file's sidecar, and what is none at all, is caught") {
  const TemporaryDirectory root;
  write_file(root / "file", pattern(1024, 1));
  for (const std::string& sums :
       {testing::sidecar_content(pattern(1024, 2)), std::string("xxxx\0\0\2\0........", 16),
        std::string(16, '\0'), std::string("crc\0\0\0\0\0........", 16)}) {
    write_file(sidecar_of(root / "file"), sums);
    expect_refused(root / "file", 0);
  }
}

TEST_CASE("an empty file has a sidecar of a header alone") {
  const TemporaryDirectory root;
  write_checksummed(root / "file", "");
  CHECK(read_all(root / "file")->empty());
  write_file(sidecar_of(root / "file"), "");
  expect_refused(root / "file", 0);
}

TEST_CASE("a file without a sidecar is read as it is") {
  const TemporaryDirectory root;
  write_file(root / "file", "content");
  const auto file = opened(root / "file");
  CHECK_FALSE(file->verified());
  CHECK(read(*file, 0, 100) == "content");
  const std::string longest(255, 'n');  // leaves no room for a sidecar's name
  write_file(root / longest, "content");
  CHECK_FALSE(opened(root / longest)->verified());
}

TEST_CASE("what cannot be opened says so at once") {
  const TemporaryDirectory root;
  testing::make_directory(root / "dir");
  CHECK(code_of(open_checksummed(root / "missing")) == StatusCode::kNotFound);
  CHECK(code_of(open_checksummed(root / "dir")) == StatusCode::kNotAFile);
  CHECK_FALSE(open_checksummed("/").ok());
  write_checksummed(root / "file", "content");
  REQUIRE(::chmod(root.path().c_str(), 0755) == 0);  // nobody gets as far as the sidecar
  REQUIRE(::chmod((root / ".file.crc").c_str(), 0) == 0);
  const testing::Unprivileged nobody;
  CHECK(code_of(open_checksummed(root / "file")) == StatusCode::kPermissionDenied);
}

TEST_CASE("after close reads say so") {
  const TemporaryDirectory root;
  write_checksummed(root / "file", "content");
  const auto file = opened(root / "file");
  file->close();
  file->close();
  CHECK(code_of(try_read(*file, 0, 1)) == StatusCode::kClosed);
  CHECK(code_of(file->length()) == StatusCode::kClosed);
}

TEST_CASE("no descriptor has bytes that are verified") {
  const TemporaryDirectory root;
  write_checksummed(root / "file", "content");
  const auto refused = opened(root / "file")->fileno();
  CHECK(code_of(refused) == StatusCode::kUnsupported);
  CHECK(refused.status().path() == root / "file");
}

TEST_CASE("a file that is being written is read as far as it goes") {
  const TemporaryDirectory root;
  const std::string content = pattern(3000);
  write_file(root / "file", "");
  write_file(sidecar_of(root / "file"), "");
  Descriptor writer = open_descriptor(sidecar_of(root / "file").c_str(), O_WRONLY);
  mark_unfinished(writer.get());
  const auto file = opened(root / "file");
  CHECK(read(*file, 0, 100).empty());
  write_file(root / "file", content.substr(0, 2048));  // the data is ahead of its sums
  CHECK(read(*file, 0, 5000) == content.substr(0, 2048));

  // The writer dies: what has no sums is a fault again.
  writer = Descriptor();
  CHECK(code_of(try_read(*file, 0, 5000)) == StatusCode::kChecksum);

  // The writer finishes.
  write_file(root / "file", content);
  write_file(sidecar_of(root / "file"), testing::sidecar_content(content));
  CHECK(read(*file, 0, 5000) == content);
}

TEST_CASE("threads verify at once") {
  const TemporaryDirectory root;
  const std::string content = pattern(200'000);
  write_checksummed(root / "file", content);
  const auto file = opened(root / "file");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 4; ++seed) {
    readers.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 200; ++i) {
        const std::size_t at = random() % content.size();
        const std::size_t size = random() % 5000;
        const auto text = try_read(*file, at, size);
        if (!text.ok() || content.compare(at, size, *text) != 0) ++wrong;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace hflush::local
