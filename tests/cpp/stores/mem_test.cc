// The memory store of docs/new-store.md: its sink under the real stream, with many threads.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hflush/stream/output_stream.h"
#include "mem/memory_files.h"
#include "mem/memory_source.h"
#include "mem/open_for_write.h"
#include "testing/bytes.h"

namespace hflush::mem {
namespace {

using testing::bytes_of;
using testing::pattern;

class NoInterrupt final : public stream::Interrupt {
 private:
  Status check() override { return {}; }
};

std::vector<std::byte> content(const std::shared_ptr<MemoryFiles>& files, const std::string& path) {
  NoInterrupt interrupt;
  auto source = MemorySource::open(files, path);
  REQUIRE(source.ok());
  std::vector<std::byte> bytes(*(*source)->length());
  CHECK(*(*source)->read_at(0, bytes, interrupt) == bytes.size());
  return bytes;
}

template <typename Work>
void in_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int number = 0; number < count; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a file in memory: records of many writers are whole, and a reader sees a prefix") {
  constexpr int kThreads = 8;
  constexpr std::size_t kRecords = 500;
  constexpr std::size_t kSize = 1000;
  const auto files = std::make_shared<MemoryFiles>();
  auto out = create(files, "/dir/file", false, true, 0644);
  REQUIRE(out.ok());
  std::atomic<bool> done{false};
  std::thread reader([&] {
    NoInterrupt interrupt;
    auto source = MemorySource::open(files, "/dir/file");
    std::uint64_t before = 0;
    while (!done.load()) {
      const std::uint64_t length = *(*source)->length();
      CHECK(length >= before);
      before = length;
      std::vector<std::byte> bytes(length);
      CHECK(*(*source)->read_at(0, bytes, interrupt) == length);
    }
  });
  in_threads(kThreads, [&](int number) {
    NoInterrupt interrupt;
    const std::vector<std::byte> record(kSize, static_cast<std::byte>(number));
    for (std::size_t i = 0; i < kRecords; ++i) {
      CHECK((*out)->write(record, interrupt).ok());
      if (i % 100 == 0) CHECK((*out)->flush(interrupt).ok());
    }
  });
  NoInterrupt interrupt;
  CHECK((*out)->close(interrupt).ok());
  done.store(true);
  reader.join();

  const std::vector<std::byte> bytes = content(files, "/dir/file");
  REQUIRE(bytes.size() == kThreads * kRecords * kSize);
  std::vector<std::size_t> counts(kThreads);
  for (std::size_t at = 0; at < bytes.size(); at += kSize) {
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    CHECK(std::vector(first, first + kSize) == std::vector(kSize, *first));
    ++counts[std::to_integer<std::size_t>(*first)];
  }
  CHECK(counts == std::vector(kThreads, kRecords));
}

TEST_CASE("files in memory: of many creators and renamers one wins") {
  const auto files = std::make_shared<MemoryFiles>();
  std::atomic<int> created{0};
  std::atomic<int> renamed{0};
  in_threads(8, [&](int number) {
    const std::string own = "/own" + std::to_string(number);
    if (files->create("/file", false, false, 0644).ok()) ++created;
    CHECK(files->create(own, false, false, 0644).ok());
    if (files->rename_exact(own, "/target", false).ok()) ++renamed;
    CHECK(files->mkdirs("/a/b/c", 0755, true).ok());
  });
  CHECK(created == 1);
  CHECK(renamed == 1);
  CHECK(files->list("/")->size() == 7 + 3);  // the losers' own; file, target, a
}

TEST_CASE("a file in memory that may not grow: the failure is reported, and nothing after it") {
  const auto files = std::make_shared<MemoryFiles>();
  files->set_largest_file(100);
  auto out = create(files, "/file", true, true, 0644);
  REQUIRE(out.ok());
  NoInterrupt interrupt;
  CHECK((*out)->write(bytes_of("kept"), interrupt).ok());
  CHECK((*out)->flush(interrupt).ok());
  CHECK((*out)->write(pattern(200), interrupt).ok());
  const Status failure = (*out)->close(interrupt);
  CHECK(failure.error_number() == EFBIG);
  CHECK(failure.path() == "/file");
  CHECK(content(files, "/file") == bytes_of("kept"));
}

TEST_CASE("a file in memory that loses its name keeps its bytes for those who have it open") {
  const auto files = std::make_shared<MemoryFiles>();
  NoInterrupt interrupt;
  auto out = create(files, "/file", true, true, 0644);
  CHECK((*out)->write(bytes_of("old"), interrupt).ok());
  CHECK((*out)->flush(interrupt).ok());
  auto source = MemorySource::open(files, "/file");
  CHECK(*files->remove("/file", false));
  CHECK((*out)->write(bytes_of(", and more"), interrupt).ok());
  CHECK((*out)->close(interrupt).ok());
  std::vector<std::byte> bytes(13);
  CHECK(*(*source)->read_at(0, bytes, interrupt) == 13);
  CHECK(bytes == bytes_of("old, and more"));
  CHECK(MemorySource::open(files, "/file").status().code() == StatusCode::kNotFound);
  (*source)->close();
  CHECK((*source)->read_at(0, bytes, interrupt).status().code() == StatusCode::kClosed);
}

TEST_CASE("names in memory: refusals leave everything as it was") {
  MemoryFiles files;
  CHECK(files.mkdirs("/dir/sub", 0755, true).ok());
  CHECK(files.create("/file", false, false, 0644).ok());
  const std::string long_name(MemoryFiles::kLongestName + 1, 'n');

  CHECK(files.create("/dir", true, true, 0644).status().code() == StatusCode::kPathIsDirectory);
  CHECK(files.create("/file", false, true, 0644).status().code() == StatusCode::kAlreadyExists);
  CHECK(files.create("/file/x", true, true, 0644).status().code() ==
        StatusCode::kParentNotDirectory);
  CHECK(files.create("/no/x", true, false, 0644).status().code() == StatusCode::kNotFound);
  CHECK(files.create("/new/" + long_name, true, true, 0644).status().error_number() ==
        ENAMETOOLONG);
  CHECK(files.mkdirs("/file", 0755, true).code() == StatusCode::kAlreadyExists);
  CHECK(files.remove("/dir", false).status().code() == StatusCode::kNotEmpty);
  CHECK(files.remove("/", true).status().code() == StatusCode::kPermissionDenied);
  CHECK(files.rename("/dir", "/dir/sub/below").error_number() == EINVAL);
  CHECK(files.rename("/dir", "/file").code() == StatusCode::kAlreadyExists);
  CHECK(files.rename("/", "/elsewhere").code() == StatusCode::kPermissionDenied);
  CHECK(files.rename_exact("/file", "/dir", true).code() == StatusCode::kPathIsDirectory);
  CHECK(files.rename_exact("/no", "/new", true).code() == StatusCode::kNotFound);

  CHECK(files.list("/")->size() == 2);
  CHECK(files.list("/dir")->size() == 1);
  CHECK(files.list("/dir/sub")->empty());
}

}  // namespace
}  // namespace hflush::mem
