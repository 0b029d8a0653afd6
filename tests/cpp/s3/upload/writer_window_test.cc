// How far the writer of an object may be: to the end of the part that is wanted, and further as
// memory allows.
#include "hflush/s3/upload/writer_window.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

namespace hflush::s3 {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// A writer that always writes as much as the stream's small window lets it.
struct Writer {
  Writer(std::uint64_t whole, std::uint64_t budget_bytes)
      : budget(budget_bytes), window(whole, PartSizes(8 * kMiB, 100, true), budget) {}

  void write(std::uint64_t to) {
    end = std::min(to, reported + std::min(window.whole(), WriterWindow::kFirst));
    if (!window.is_open()) window.open([this] { ++rooms; });
    move();
  }
  void write_all() {
    std::uint64_t before = 0;
    do {
      before = end;
      write(UINT64_MAX);
    } while (end != before);
  }
  void acknowledge(std::uint64_t offset) {
    window.acknowledged(offset);
    move();
  }
  void move() {
    if (const auto offset = window.move(end, stored)) {
      CHECK(*offset > reported);
      reported = *offset;
    }
  }

  MemoryBudget budget;
  WriterWindow window;
  std::uint64_t reported = 0;  // to the stream, as acknowledged
  std::uint64_t end = 0;
  std::uint64_t stored = 0;
  int rooms = 0;
};

TEST_CASE("with memory the writer goes as far as the stream's budget") {
  Writer writer(32 * kMiB, 1024 * kMiB);
  writer.write_all();
  CHECK(writer.end == 32 * kMiB);
  CHECK(writer.budget.held() == 32 * kMiB);
  writer.acknowledge(8 * kMiB);
  writer.write_all();
  CHECK(writer.end == 40 * kMiB);
  CHECK(writer.budget.held() == 32 * kMiB);
}

TEST_CASE("without memory the writer still fills the part that is wanted next, and a little more") {
  Writer writer(32 * kMiB, kMiB);
  writer.write_all();
  CHECK(writer.end >= 8 * kMiB);
  CHECK(writer.end <= 8 * kMiB + WriterWindow::kFirst);
  const std::uint64_t before = writer.end;
  writer.acknowledge(8 * kMiB);
  writer.write_all();
  CHECK(writer.end == before + 8 * kMiB);
}

TEST_CASE("bytes on disk hold no memory") {
  Writer writer(32 * kMiB, 1024 * kMiB);
  writer.write(4 * kMiB);
  CHECK(writer.budget.held() == 4 * kMiB);
  writer.stored = 3 * kMiB;
  writer.move();
  CHECK(writer.budget.held() == kMiB);
  writer.window.hold(writer.end, writer.end);
  CHECK(writer.budget.held() == 0);
}

TEST_CASE("an end holds what is still needed, and releases it") {
  Writer writer(32 * kMiB, 1024 * kMiB);
  writer.write(3 * kMiB);
  writer.window.hold(writer.end, 0);
  CHECK(writer.budget.held() == 3 * kMiB);
  writer.window.release();
  CHECK(writer.budget.held() == 0);
  writer.window.hold(writer.end, 0);  // after the end nothing is held again
  CHECK(writer.budget.held() == 0);
}

TEST_CASE("a writer that was refused memory hears when there is room") {
  Writer writer(32 * kMiB, 40 * kMiB);
  MemoryBudget::Share other(writer.budget);
  other.hold(40 * kMiB);
  writer.write_all();
  const std::uint64_t before = writer.end;
  CHECK(before < 16 * kMiB);
  CHECK(writer.rooms == 0);
  other.hold(0);
  CHECK(writer.rooms == 1);
  writer.move();
  writer.write_all();
  CHECK(writer.end == 32 * kMiB);
}

TEST_CASE("a window smaller than the first is all there is") {
  Writer writer(2 * kMiB, 1024 * kMiB);
  writer.write_all();
  CHECK(writer.end == 2 * kMiB);
}

}  // namespace
}  // namespace hflush::s3
