// Small writes of many bare threads, without a lock of their own: each byte once and in order, each
// record in one piece, and an end that is a point in time. Run under the thread sanitizer.
#include "hflush/stream/lone_writer.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/stream/output_stream.h"
#include "testing/bytes.h"
#include "testing/recording_sink.h"

namespace hflush::stream {
namespace {

using testing::Answer;
using testing::RecordingSink;
using testing::Store;

constexpr std::size_t kMaxWriters = 16;

// The number of its writer, the number of the record among the writer's, a length, and so many
// bytes that carry the writer's number.
struct Record {
  static constexpr std::size_t kHead = 7;

  // Small most often; sometimes of several packets, or larger than half the window.
  static std::size_t size_of(std::uint32_t number) {
    if (number % 64 == 63) return 3000;
    return number % 16 == 15 ? 600 : number * 7 % 40;
  }
  static std::vector<std::byte> make(std::size_t writer, std::uint32_t number) {
    const auto size = static_cast<std::uint16_t>(size_of(number));
    std::vector<std::byte> record(kHead + size, static_cast<std::byte>(writer));
    std::memcpy(record.data() + 1, &number, sizeof number);
    std::memcpy(record.data() + 5, &size, sizeof size);
    return record;
  }
};

using Counts = std::array<std::uint32_t, kMaxWriters>;

// How many records of each writer `file` holds. Requires them whole and in order; the last one may
// be cut short where `may_end_early`.
Counts count_records(const std::vector<std::byte>& file, bool may_end_early = false) {
  Counts counts{};
  for (std::size_t at = 0; at < file.size();) {
    const auto writer = static_cast<std::size_t>(file[at]);
    REQUIRE(writer < kMaxWriters);
    const auto expected = Record::make(writer, counts[writer]);
    const std::size_t size = std::min(expected.size(), file.size() - at);
    REQUIRE((may_end_early || size == expected.size()));
    REQUIRE(std::memcmp(file.data() + at, expected.data(), size) == 0);
    if (size == expected.size()) ++counts[writer];
    at += size;
  }
  return counts;
}

class NoInterrupt final : public Interrupt {
 private:
  Status check() override { return {}; }
};

Geometry small_packets() {
  Geometry geometry;
  geometry.packet_bytes = 256;
  geometry.batch_bytes = 1024;
  geometry.window_bytes = 4096;
  return geometry;
}

TEST_CASE("a small write succeeds only where the packet has room and is not shut") {
  BufferPool pool(1 << 20);
  LoneWriter writer(small_packets(), pool);
  std::vector<Packet> sealed;
  CHECK_FALSE(writer.append(testing::bytes_of("x")));  // no packet yet
  writer.append(testing::bytes_of("x"), sealed);
  CHECK(writer.append(testing::bytes_of("yz")));
  CHECK(writer.position() == 3);
  {
    const LoneWriter::Shut outer(writer);
    const LoneWriter::Shut inner(writer);
    CHECK_FALSE(writer.append(testing::bytes_of("x")));
  }
  CHECK_FALSE(writer.append(testing::pattern(253)));  // a packet never fills up there
  CHECK(writer.append(testing::pattern(252)));
  CHECK(writer.position() == 255);
  CHECK(sealed.empty());
  CHECK(writer.cut(Cut::kEverything, sealed) == 255);
  CHECK(sealed.size() == 1);
  writer.shut();
  CHECK_FALSE(writer.append({}));
}

TEST_CASE("16 threads at one packet: every byte once, records in one piece and in order") {
  constexpr std::size_t kWriters = 13;
  constexpr std::uint32_t kRecords = 2000;
  BufferPool pool(1 << 20);
  LoneWriter packet(small_packets(), pool);
  Mutex mutex;
  std::vector<std::byte> file;  // guarded by `mutex`
  std::vector<Packet> sealed;   // guarded by `mutex`
  const auto drain = [&] {
    for (const Packet& full : sealed) {
      file.insert(file.end(), full.data().begin(), full.data().end());
    }
    sealed.clear();
  };
  std::atomic<std::size_t> at_work{kWriters};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(kMaxWriters);
  for (std::size_t id = 0; id < kWriters; ++id) {
    threads.emplace_back([&, id] {
      for (std::uint32_t number = 0; number < kRecords; ++number) {
        const auto record = Record::make(id, number);
        if (packet.append(record)) continue;
        const MutexLock lock(mutex);
        const LoneWriter::Shut shut(packet);  // in two pieces, which nothing may come between
        packet.append({record.data(), 3}, sealed);
        std::this_thread::yield();
        packet.append({record.data() + 3, record.size() - 3}, sealed);
      }
      --at_work;
    });
  }
  for (int cutters = 0; cutters < 2; ++cutters) {
    threads.emplace_back([&] {
      while (at_work > 0) {
        const MutexLock lock(mutex);
        const std::uint64_t before = packet.position();
        if (packet.cut(Cut::kEverything, sealed) < before) ++wrong;
        drain();
      }
    });
  }
  threads.emplace_back([&] {
    std::uint64_t seen = 0;
    while (at_work > 0) {
      const MutexLock lock(mutex);
      const std::uint64_t position = packet.position();
      if (position < seen) ++wrong;
      seen = position;
    }
  });
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(mutex);
  packet.cut(Cut::kFinal, sealed);
  drain();
  CHECK(wrong == 0);
  CHECK(file.size() == packet.position());
  const Counts counts = count_records(file);
  for (std::size_t id = 0; id < kWriters; ++id) CHECK(counts[id] == kRecords);
}

// A stream of a store in memory, and 16 threads that use it until it ends.
class Crowd {
 public:
  static constexpr std::size_t kWriters = 10;

  enum class End { kClose, kAbort };

  void run(End end) {
    for (std::size_t id = 0; id < kWriters; ++id) {
      threads_.emplace_back([this, id] { write_until_refused(id); });
    }
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { hflush_until_refused(); });
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { probe_until_ended(); });
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this, end] { finish(end); });
    for (std::thread& thread : threads_) thread.join();
  }

  const Counts& accepted() const { return accepted_; }
  int late() const { return late_; }
  int early() const { return early_; }
  int uncovered() const { return uncovered_; }
  int backward() const { return backward_; }
  int failed() const { return failed_; }
  std::vector<std::byte> file() {
    const MutexLock lock(store_.mutex);
    return store_.file;
  }
  int finishes() {
    const MutexLock lock(store_.mutex);
    return store_.finishes;
  }
  State state() const { return stream_.state(); }
  std::uint64_t position() const { return stream_.position(); }

 private:
  void write_until_refused(std::size_t id) {
    NoInterrupt patient;
    for (std::uint32_t number = 0; failed_ == 0; ++number) {
      const auto record = Record::make(id, number);
      const bool ended_before = has_ended_;
      const bool accepted = stream_.try_write(record) || stream_.write(record, patient).ok();
      if (accepted && ended_before) ++late_;
      if (!accepted) {
        if (!is_ending_) ++early_;
        return;
      }
      accepted_[id] = number + 1;
    }
  }

  void hflush_until_refused() {
    NoInterrupt patient;
    while (failed_ == 0) {
      const std::uint64_t written = stream_.position();
      if (!stream_.hflush(patient).ok()) {
        if (!is_ending_) ++early_;
        return;
      }
      if (store_.length() < written) ++uncovered_;
    }
  }

  void probe_until_ended() {
    std::uint64_t seen = 0;
    while (failed_ == 0 && !is_final(stream_.state())) {
      const std::uint64_t position = stream_.position();
      const std::int64_t counted = stream_.statistics().at("stream_write_bytes");
      if (position < seen || std::cmp_less(counted, position)) ++backward_;
      seen = position;
    }
  }

  void finish(End end) {
    while (stream_.position() < kEnough) std::this_thread::yield();
    is_ending_ = true;
    NoInterrupt patient;
    AbortResult result;
    const Status ended = end == End::kClose ? stream_.close(patient) : stream_.abort(result);
    has_ended_ = true;
    if (!ended.ok()) ++failed_;
  }

  static constexpr std::uint64_t kEnough = 200'000;

  BufferPool pool_{1 << 20};
  struct AbortableStore : Store {
    AbortableStore() : Store(Answer::kAtOnce, small_packets()) { abortable = true; }
  };
  AbortableStore store_;
  OutputStream stream_{"/file", std::make_unique<RecordingSink>(store_), pool_,
                       env::steady_clock()};
  std::vector<std::thread> threads_;
  Counts accepted_{};  // each its writer's, then read when the threads are gone
  std::atomic<bool> is_ending_{false};
  std::atomic<bool> has_ended_{false};
  std::atomic<int> late_{0};       // writes accepted that began after the end
  std::atomic<int> early_{0};      // calls refused that returned before it began
  std::atomic<int> uncovered_{0};  // hflush that left out what was written before
  std::atomic<int> backward_{0};   // positions
  std::atomic<int> failed_{0};     // ends
};

TEST_CASE("CONC-1, CONC-2, CONC-6: 16 bare threads write, hflush, look and close one stream") {
  for (int round = 0; round < 10; ++round) {
    Crowd crowd;
    crowd.run(Crowd::End::kClose);
    CHECK(crowd.late() == 0);
    CHECK(crowd.early() == 0);
    CHECK(crowd.uncovered() == 0);
    CHECK(crowd.backward() == 0);
    CHECK(crowd.failed() == 0);
    CHECK(crowd.state() == State::kClosed);
    CHECK(crowd.finishes() == 1);
    const auto file = crowd.file();
    CHECK(file.size() == crowd.position());
    CHECK(count_records(file) == crowd.accepted());
  }
}

TEST_CASE("ABORT-1: 16 bare threads, of which two abort: nothing is accepted afterwards") {
  for (int round = 0; round < 10; ++round) {
    Crowd crowd;
    crowd.run(Crowd::End::kAbort);
    CHECK(crowd.late() == 0);
    CHECK(crowd.early() == 0);
    CHECK(crowd.uncovered() == 0);
    CHECK(crowd.backward() == 0);
    CHECK(crowd.failed() == 0);
    CHECK(crowd.state() == State::kAborted);
    CHECK(crowd.finishes() == 0);
    const Counts counts = count_records(crowd.file(), true);
    for (std::size_t id = 0; id < Crowd::kWriters; ++id) {
      CHECK(counts[id] <= crowd.accepted()[id] + 1);  // one may have been under way
    }
  }
}

}  // namespace
}  // namespace hflush::stream
