// Local sinks over files that fail: nothing acknowledged is lost, no failure is a success.
#include "hflush/local/local_sink.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

#include "hflush/base/endian.h"
#include "hflush/crc/checksum.h"
#include "hflush/local/sidecar.h"
#include "hflush/stream/output_stream.h"
#include "testing/bytes.h"
#include "testing/faulty_file.h"

namespace hflush::local {
namespace {

using testing::bytes_of;
using testing::Disk;
using testing::FaultyFile;
using testing::pattern;

class NoInterrupt final : public stream::Interrupt {
 private:
  Status check() override { return {}; }
};

// Hours pass between two calls: the drain policy always finds the caller away.
class RushingClock final : public env::Clock {
 public:
  env::TimePoint now() const noexcept override {
    return env::TimePoint{std::chrono::seconds(++seconds_)};
  }

 private:
  mutable std::atomic<int> seconds_{0};
};

// No time passes: the caller is never away.
class StoppedClock final : public env::Clock {
 public:
  env::TimePoint now() const noexcept override { return env::TimePoint{std::chrono::seconds(1)}; }
};

struct Fixture {
  stream::OutputStream& open_raw(const env::Clock& clock = env::steady_clock()) {
    return open(make_raw_destination(std::make_unique<FaultyFile>(disk), "/file"), {}, clock);
  }
  stream::OutputStream& open_checksummed(std::uint32_t bytes_per_checksum) {
    LocalSinkOptions options;
    options.geometry = stream::Geometry::with_checksums(crc::Kind::kCrc32, bytes_per_checksum);
    options.syncable = false;
    return open(make_checksummed_destination(std::make_unique<FaultyFile>(disk), "/file",
                                             std::make_unique<FaultyFile>(sidecar), "/.file.crc",
                                             bytes_per_checksum),
                std::move(options), env::steady_clock());
  }
  stream::OutputStream& open(std::unique_ptr<Destination> destination, LocalSinkOptions options,
                             const env::Clock& clock) {
    auto sink =
        std::make_unique<LocalSink>(std::move(destination), std::move(options), workers, clock, 2);
    stream = std::make_unique<stream::OutputStream>("/file", std::move(sink), pool, clock);
    return *stream;
  }

  NoInterrupt patient;
  Disk disk;
  Disk sidecar;
  BufferPool pool{8U << 20U};
  env::WorkerPool workers{2};
  std::unique_ptr<stream::OutputStream> stream;
};

TEST_CASE("the same bytes arrive whoever writes them") {
  for (const bool away : {false, true}) {
    Fixture fixture;
    const RushingClock rushing;
    const StoppedClock stopped;
    stream::OutputStream& stream =
        fixture.open_raw(away ? static_cast<const env::Clock&>(rushing) : stopped);
    const auto data = pattern((9U << 20U) + 12345);
    std::size_t done = 0;
    for (std::size_t size = 1; done < data.size(); size = size * 3 % 1700000 + 1) {
      const ByteView piece = ByteView(data).subspan(done, std::min(size, data.size() - done));
      REQUIRE(stream.write(piece, fixture.patient).ok());
      done += piece.size();
    }
    CHECK(stream.close(fixture.patient).ok());
    CHECK(fixture.disk.content() == data);
    if (!away) CHECK(stream.statistics().at("file_writes_by_worker") == 0);
  }
}

TEST_CASE("HSYNC-3, HSYNC-9: hsync syncs what was written, once while nothing is new") {
  Fixture fixture;
  stream::OutputStream& stream = fixture.open_raw();
  REQUIRE(stream.write(bytes_of("abc"), fixture.patient).ok());
  CHECK(stream.hsync(fixture.patient).ok());
  {
    MutexLock lock(fixture.disk.mutex);
    CHECK(fixture.disk.synced == 3);
    CHECK(fixture.disk.syncs == 1);
  }
  CHECK(stream.hsync(fixture.patient).ok());
  REQUIRE(stream.write(bytes_of("d"), fixture.patient).ok());
  CHECK(stream.hsync(fixture.patient).ok());
  MutexLock lock(fixture.disk.mutex);
  CHECK(fixture.disk.synced == 4);
  CHECK(fixture.disk.syncs == 2);
}

TEST_CASE("HSYNC-12: a failed sync sticks; the bytes are never called durable") {
  Fixture fixture;
  stream::OutputStream& stream = fixture.open_raw();
  {
    MutexLock lock(fixture.disk.mutex);
    fixture.disk.sync_answers = {EIO};
  }
  REQUIRE(stream.write(bytes_of("abc"), fixture.patient).ok());
  CHECK(stream.hsync(fixture.patient).error_number() == EIO);
  CHECK(stream.hsync(fixture.patient).code() == StatusCode::kClosed);
  CHECK(stream.close(fixture.patient).error_number() == EIO);
  CHECK(stream.close(fixture.patient).ok());
  MutexLock lock(fixture.disk.mutex);
  CHECK(fixture.disk.syncs == 1);
  CHECK(fixture.disk.closes == 1);
}

TEST_CASE("HSYNC-12: a mount without a sync refuses each hsync, and the stream goes on") {
  for (const int error_number : {EINVAL, ENOSYS, ENOTSUP}) {
    Fixture fixture;
    stream::OutputStream& stream = fixture.open_raw();
    {
      MutexLock lock(fixture.disk.mutex);
      fixture.disk.sync_answers = {error_number};
    }
    for (int round = 0; round < 3; ++round) {
      REQUIRE(stream.write(bytes_of("abc"), fixture.patient).ok());
      const Status refused = stream.hsync(fixture.patient);
      CHECK(refused.code() == StatusCode::kUnsupported);
      CHECK(refused.error_number() == error_number);
      CHECK(stream.hflush(fixture.patient).ok());
    }
    CHECK(stream.close(fixture.patient).ok());
    CHECK(fixture.disk.content().size() == 9);
    MutexLock lock(fixture.disk.mutex);
    CHECK(fixture.disk.syncs == 1);
  }
}

TEST_CASE(
    "FAIL-1: a disk that fills up under a worker is told to the writer, at the latest in close") {
  for (const std::size_t capacity : {0U, 1U << 20U, (5U << 20U) + 1U}) {
    Fixture fixture;
    const RushingClock rushing;
    stream::OutputStream& stream = fixture.open_raw(rushing);
    {
      MutexLock lock(fixture.disk.mutex);
      fixture.disk.capacity = capacity;
    }
    const auto piece = pattern(100000);
    Status told;
    for (int i = 0; i < 200 && told.ok(); ++i) told = stream.write(piece, fixture.patient);
    CHECK(told.error_number() == ENOSPC);
    CHECK(told.path() == "/file");
    CHECK(stream.close(fixture.patient).error_number() == ENOSPC);
    CHECK(fixture.disk.content().size() == capacity);
  }
}

TEST_CASE("CLOSE-6, CLOSE-8: a close that fails is told once and has released the files") {
  Fixture fixture;
  stream::OutputStream& stream = fixture.open_checksummed(512);
  {
    MutexLock lock(fixture.disk.mutex);
    fixture.disk.close_answers = {EIO};
  }
  {
    MutexLock lock(fixture.sidecar.mutex);
    fixture.sidecar.close_answers = {ENOSPC};
  }
  const Status told = stream.close(fixture.patient);
  CHECK(told.error_number() == EIO);
  REQUIRE(told.others().size() == 1);
  CHECK(told.others()[0].error_number() == ENOSPC);
  CHECK(stream.close(fixture.patient).ok());
  MutexLock lock(fixture.disk.mutex);
  CHECK(fixture.disk.closes == 1);
}

TEST_CASE("LOCAL-1: sidecars hold the magic, the chunk size and CRC-32 sums, big-endian") {
  for (const std::uint32_t chunk : {1U, 128U, 512U, 100000U}) {
    for (const std::size_t size : {0U, 1U, 511U, 512U, 513U, 1024U, 100000U, 3000000U}) {
      CAPTURE(chunk);
      CAPTURE(size);
      Fixture fixture;
      stream::OutputStream& stream = fixture.open_checksummed(chunk);
      const auto data = pattern(size);
      REQUIRE(stream.write(ByteView(data).first(size / 3), fixture.patient).ok());
      REQUIRE(stream.write(ByteView(data).subspan(size / 3), fixture.patient).ok());
      REQUIRE(stream.close(fixture.patient).ok());
      CHECK(fixture.disk.content() == data);
      const auto sums = fixture.sidecar.content();
      REQUIRE(sums.size() == sidecar_length(size, chunk));
      CHECK(as_text(ByteView(sums).first(4)) == std::string_view("crc\0", 4));
      CHECK(load_be32(sums.data() + 4) == chunk);
      bool all_match = true;
      for (std::size_t i = 0; i * chunk < size; ++i) {
        const std::size_t length = std::min<std::size_t>(chunk, size - i * chunk);
        const std::uint32_t expected =
            crc::extend(crc::Kind::kCrc32, 0, ByteView(data).subspan(i * chunk, length));
        all_match = all_match && load_be32(sums.data() + 8 + 4 * i) == expected;
      }
      CHECK(all_match);
    }
  }
}

TEST_CASE("FLUSH-5: a checksummed stream passes on whole chunks and keeps the rest") {
  Fixture fixture;
  stream::OutputStream& stream = fixture.open_checksummed(512);
  REQUIRE(stream.write(pattern(1300), fixture.patient).ok());
  CHECK(stream.flush(fixture.patient).ok());
  CHECK(fixture.disk.content().size() == 1024);
  CHECK(fixture.sidecar.content().size() == 8 + 2 * 4);
  CHECK(stream.hsync(fixture.patient).code() == StatusCode::kUnsupported);
  CHECK(stream.close(fixture.patient).ok());
  CHECK(fixture.disk.content() == pattern(1300));
}

TEST_CASE("CLOSE-11: after a failure the sidecar covers what is left of the data") {
  for (const bool sums_fail : {false, true}) {
    Fixture fixture;
    stream::OutputStream& stream = fixture.open_checksummed(512);
    Disk& full = sums_fail ? fixture.sidecar : fixture.disk;
    REQUIRE(stream.write(pattern(1024), fixture.patient).ok());
    REQUIRE(stream.flush(fixture.patient).ok());
    {
      MutexLock lock(full.mutex);
      full.capacity = full.bytes.size() + 3;
    }
    REQUIRE(stream.write(pattern(5000), fixture.patient).ok());
    CHECK(stream.close(fixture.patient).error_number() == ENOSPC);
    CHECK(fixture.disk.content() == pattern(1024));
    CHECK(fixture.sidecar.content().size() == sidecar_length(1024, 512));
  }
}

TEST_CASE("CLOSE-21: a dropped stream writes nothing more and closes its file") {
  Fixture fixture;
  REQUIRE(fixture.open_raw().write(bytes_of("abc"), fixture.patient).ok());
  fixture.stream.reset();
  CHECK(fixture.disk.content().empty());
  MutexLock lock(fixture.disk.mutex);
  CHECK(fixture.disk.closes == 1);
}

TEST_CASE("WAL: appenders, a syncer and a closer; what was synced is on the disk") {
  for (int round = 0; round < 20; ++round) {
    Fixture fixture;
    const RushingClock rushing;
    stream::OutputStream& stream = fixture.open_raw(rushing);
    std::atomic<std::uint64_t> durable = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        NoInterrupt patient;
        const auto record = pattern(30000);
        for (int n = 0; n < 60; ++n) {
          if (!stream.write(record, patient).ok()) return;
        }
      });
    }
    threads.emplace_back([&] {
      NoInterrupt patient;
      while (true) {  // until the stream is closed
        const std::uint64_t position = stream.position();
        if (!stream.hsync(patient).ok()) return;
        durable = position;
      }
    });
    while (durable == 0) std::this_thread::yield();
    CHECK(stream.close(fixture.patient).ok());
    for (std::thread& thread : threads) thread.join();
    CHECK(fixture.disk.content().size() >= durable);
    CHECK(fixture.disk.content().size() == stream.position());
    MutexLock lock(fixture.disk.mutex);
    CHECK(fixture.disk.synced >= durable);
  }
}

}  // namespace
}  // namespace hflush::local
