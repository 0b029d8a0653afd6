// Raw positioned reads: READ-1 … READ-6, READ-10, READ-11 below the bindings.
#include "hflush/local/local_source.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "hflush/base/before_sleep.h"
#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::TemporaryDirectory;
using testing::write_file;

std::unique_ptr<LocalSource> opened(const std::string& path) {
  auto file = LocalSource::open(path);
  REQUIRE_MESSAGE(file.ok(), file.status().to_string());
  return *std::move(file);
}

std::string read(const LocalSource& file, std::uint64_t position, std::size_t size) {
  std::string text(size, '?');
  auto got = file.pread(position, std::as_writable_bytes(std::span(text)));
  REQUIRE_MESSAGE(got.ok(), got.status().to_string());
  return text.substr(0, *got);
}

TEST_CASE("a read fills its buffer, or ends where the file does") {
  const TemporaryDirectory root;
  write_file(root / "file", "0123456789");
  const auto file = opened(root / "file");
  CHECK(read(*file, 0, 10) == "0123456789");
  CHECK(read(*file, 3, 4) == "3456");
  CHECK(read(*file, 8, 100) == "89");
  CHECK(read(*file, 10, 1).empty());
  CHECK(read(*file, 11, 1).empty());
  CHECK(read(*file, std::numeric_limits<std::uint64_t>::max(), 1).empty());
  CHECK(read(*file, std::numeric_limits<std::int64_t>::max(), 2).empty());
  CHECK(read(*file, 3, 0).empty());
  CHECK_FALSE(file->verified());
}

TEST_CASE("an empty file ends at once") {
  const TemporaryDirectory root;
  write_file(root / "file", "");
  const auto file = opened(root / "file");
  CHECK(read(*file, 0, 5).empty());
  CHECK(*file->length() == 0);
}

TEST_CASE("who asks for the length may have to wait for the server of a mount") {
  class GivesUp final : public BeforeSleep {
   public:
    bool is_given_up = false;

   private:
    void before_sleep() noexcept override { is_given_up = true; }
  };
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  const auto file = opened(root / "file");
  const GivesUp kept;
  CHECK(*file->length() == 1);
  CHECK(kept.is_given_up);
}

TEST_CASE("what is missing, or is no file, is refused when it is opened") {
  const TemporaryDirectory root;
  testing::make_directory(root / "dir/child");
  write_file(root / "file", "x");
  CHECK(code_of(LocalSource::open(root / "missing")) == StatusCode::kNotFound);
  CHECK(code_of(LocalSource::open(root / "file/x")) == StatusCode::kNotFound);
  CHECK(code_of(LocalSource::open(root / "dir")) == StatusCode::kNotAFile);
  CHECK(code_of(LocalSource::open(root / "dir/child")) == StatusCode::kNotAFile);
  CHECK(code_of(LocalSource::open("/dev/null")) == StatusCode::kUnsupported);
}

TEST_CASE("after close every call but close says so") {
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  const auto file = opened(root / "file");
  const auto other = opened(root / "file");
  CHECK(file->fileno().ok());
  file->close();
  file->close();
  std::byte byte;
  CHECK(code_of(file->pread(0, {&byte, 1})) == StatusCode::kClosed);
  CHECK(code_of(file->length()) == StatusCode::kClosed);
  CHECK(code_of(file->fileno()) == StatusCode::kClosed);
  CHECK(read(*other, 0, 1) == "x");
}

TEST_CASE("growth is seen") {
  const TemporaryDirectory root;
  write_file(root / "file", "123");
  const auto file = opened(root / "file");
  CHECK(read(*file, 0, 10) == "123");
  std::ofstream(root / "file", std::ios::app) << "456";
  CHECK(read(*file, 3, 10) == "456");
  CHECK(*file->length() == 6);
}

TEST_CASE("threads read at once, and a close among them breaks none of their reads") {
  const TemporaryDirectory root;
  std::string content(64 * 1024, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i / 64);
  write_file(root / "file", content);
  const auto file = opened(root / "file");
  std::atomic<int> wrong = 0;
  std::atomic<int> reads = 0;
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 4; ++seed) {
    readers.emplace_back([&, seed] {
      std::string buffer(777, '\0');
      for (std::size_t at = seed * 1000;; at = (at + 4099) % (content.size() - buffer.size())) {
        auto got = file->pread(at, std::as_writable_bytes(std::span(buffer)));
        if (!got.ok()) {
          if (got.status().code() != StatusCode::kClosed) ++wrong;
          return;
        }
        if (*got != buffer.size() || content.compare(at, buffer.size(), buffer) != 0) ++wrong;
        ++reads;
      }
    });
  }
  while (reads < 1000) std::this_thread::yield();
  file->close();
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace hflush::local
