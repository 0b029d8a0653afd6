// The front over a store in memory: promises of contract.md that hold whatever the store is.
#include "hflush/stream/output_stream.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "hflush/env/process.h"
#include "testing/bytes.h"
#include "testing/recording_sink.h"

namespace hflush::stream {
namespace {

using testing::Answer;
using testing::bytes_of;
using testing::pattern;
using testing::RecordingSink;
using testing::Store;

class NoInterrupt final : public Interrupt {
 private:
  Status check() override { return {}; }
};

class InterruptAtOnce final : public Interrupt {
 private:
  Status check() override { return Status(StatusCode::kInterrupted, "interrupted"); }
};

struct Fixture {
  explicit Fixture(Answer answer, Geometry geometry = {}) : store(answer, geometry) {}

  OutputStream& open() {
    stream = std::make_unique<OutputStream>("/file", std::make_unique<RecordingSink>(store), pool,
                                            env::steady_clock());
    return *stream;
  }
  std::vector<std::byte> file() {
    MutexLock lock(store.mutex);
    return store.file;
  }
  template <typename Report>
  void report(Report what) {  // once the store has been asked for something
    SinkEvents* events = nullptr;
    {
      MutexLock lock(store.mutex);
      while (store.events == nullptr) store.changed.wait(store.mutex);
      events = store.events;
    }
    what(*events);
  }

  BufferPool pool{1 << 20};
  Store store;
  NoInterrupt patient;
  std::unique_ptr<OutputStream> stream;
};

Geometry tiny_window() {
  Geometry geometry;
  geometry.packet_bytes = 64;
  geometry.batch_bytes = 128;
  geometry.window_bytes = 256;
  return geometry;
}

TEST_CASE("CLOSE-1: everything written is there after close, by either way of writing") {
  for (const bool takes_tails : {false, true}) {
    for (const std::size_t size : {0U, 1U, 65535U, 65536U, 1U << 20U, (3U << 20U) + 7U}) {
      Fixture fixture(Answer::kAtOnce);
      fixture.store.takes_tails = takes_tails;
      OutputStream& stream = fixture.open();
      const auto data = pattern(size);
      CHECK((stream.try_write({data.data(), size / 2}) ||
             stream.write({data.data(), size / 2}, fixture.patient).ok()));
      CHECK(stream.write({data.data() + size / 2, size - size / 2}, fixture.patient).ok());
      CHECK(stream.position() == size);
      CHECK(stream.close(fixture.patient).ok());
      CHECK(fixture.file() == data);
      CHECK(stream.state() == State::kClosed);
      CHECK(stream.position() == size);
    }
  }
}

TEST_CASE("a caller's own bytes are offered only where nothing asks for chunks") {
  for (const std::size_t chunk : {0U, 512U}) {
    Geometry geometry;
    geometry.bytes_per_checksum = chunk;
    Fixture fixture(Answer::kAtOnce, geometry);
    fixture.store.takes_tails = true;
    OutputStream& stream = fixture.open();
    const auto data = pattern((3U << 20U) + 7U);
    CHECK(stream.write({data.data(), 100}, fixture.patient).ok());
    CHECK(stream.write({data.data() + 100, data.size() - 100}, fixture.patient).ok());
    CHECK(stream.close(fixture.patient).ok());
    CHECK(fixture.file() == data);
    MutexLock lock(fixture.store.mutex);
    CHECK((fixture.store.tails > 0) == (chunk == 0));
  }
}

TEST_CASE("references are in the file among what is copied, and let go when the store has them") {
  for (const std::size_t size : {100U, 64U << 10U, 300U << 10U, (11U << 20U) + 7U}) {
    Geometry geometry;
    geometry.bytes_per_checksum = 512;
    geometry.takes_references = true;
    Fixture fixture(Answer::kAtOnce, geometry);
    OutputStream& stream = fixture.open();
    CHECK(stream.takes_references());
    const auto data = pattern(size + 2);
    const ByteView all(data);
    const Owner owner = std::make_shared<int>();
    const OutputStream::Piece middle{all.subspan(1, size), &owner};
    CHECK(stream.try_write(all.first(1)));
    CHECK((stream.try_write(middle) || stream.write(middle, fixture.patient).ok()));
    CHECK(stream.position() == size + 1);
    CHECK(stream.write(all.last(1), fixture.patient).ok());
    CHECK(stream.close(fixture.patient).ok());
    CHECK(fixture.file() == data);
    CHECK(owner.use_count() == 1);
  }
}

TEST_CASE("HFLUSH-2: hflush covers what was written, and asks the store once for it") {
  Fixture fixture(Answer::kAtOnce);
  OutputStream& stream = fixture.open();
  CHECK(stream.write(bytes_of("ab"), fixture.patient).ok());
  CHECK(fixture.file().empty());
  CHECK(stream.hflush(fixture.patient).ok());
  CHECK(fixture.file() == bytes_of("ab"));
  CHECK(stream.hflush(fixture.patient).ok());
  CHECK(stream.hsync(fixture.patient).ok());
  CHECK(stream.hflush(fixture.patient).ok());
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.syncs == std::vector<Level>{Level::kVisible, Level::kDurable});
}

TEST_CASE("HFLUSH-4: hflush waits for a store that answers later") {
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  CHECK(stream.write(bytes_of("abc"), fixture.patient).ok());
  std::atomic<bool> done = false;
  std::thread flusher([&] {
    CHECK(stream.hflush(fixture.patient).ok());
    done = true;
  });
  fixture.report([&](SinkEvents& events) {
    events.acknowledged(3);  // receipt alone is not what was asked for
    CHECK_FALSE(done);
    events.reached(Level::kVisible, 3);
  });
  flusher.join();
  CHECK(done);
}

TEST_CASE("HFLUSH-12: an interrupted wait breaks nothing") {
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  InterruptAtOnce impatient;
  CHECK(stream.write(bytes_of("abc"), fixture.patient).ok());
  CHECK(stream.hsync(impatient).code() == StatusCode::kInterrupted);
  CHECK(stream.state() == State::kOpen);
  fixture.report([](SinkEvents& events) { events.reached(Level::kDurable, 3); });
  CHECK(stream.hsync(fixture.patient).ok());
}

TEST_CASE("WRITE-22: a writer waits when the window is full, and an interrupt appends nothing") {
  Fixture fixture(Answer::kLater, tiny_window());
  OutputStream& stream = fixture.open();
  const auto record = pattern(100);
  CHECK(stream.write(record, fixture.patient).ok());
  CHECK(stream.write(record, fixture.patient).ok());
  InterruptAtOnce impatient;
  CHECK(stream.write(record, impatient).code() == StatusCode::kInterrupted);
  CHECK(stream.position() == 200);
  std::thread writer([&] { CHECK(stream.write(record, fixture.patient).ok()); });
  fixture.report([](SinkEvents& events) { events.acknowledged(128); });
  writer.join();
  CHECK(stream.position() == 300);
}

TEST_CASE("a write larger than the window goes on beside a packet that is being filled") {
  Geometry geometry = tiny_window();
  geometry.batch_bytes = geometry.window_bytes;
  Fixture fixture(Answer::kAtOnce, geometry);
  OutputStream& stream = fixture.open();
  const auto written = pattern(3000);
  InterruptAtOnce impatient;  // what is acknowledged at once is waited for by no write
  CHECK(stream.write(ByteView(written).first(30), impatient).ok());
  CHECK(stream.write(ByteView(written).subspan(30), impatient).ok());
  CHECK(stream.close(fixture.patient).ok());
  CHECK(fixture.file() == written);
}

TEST_CASE("WRITE-20: the first failure is told once as it was, then as a closed stream's cause") {
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  InterruptAtOnce impatient;
  CHECK(stream.hflush(impatient).code() == StatusCode::kInterrupted);
  fixture.report([](SinkEvents& events) {
    events.failed(Status::from_errno(ENOSPC, "write", "/file"));
    events.failed(Status::from_errno(EIO, "write", "/file"));
  });
  CHECK(stream.flush(fixture.patient).ok());
  const Status told = stream.write(bytes_of("x"), fixture.patient);
  CHECK(told.error_number() == ENOSPC);
  CHECK(told.others().size() == 1);
  const Status later = stream.write(bytes_of("x"), fixture.patient);
  CHECK(later.code() == StatusCode::kClosed);
  REQUIRE(later.cause() != nullptr);
  CHECK(later.cause()->error_number() == ENOSPC);
  CHECK_FALSE(stream.try_write(bytes_of("x")));
  CHECK(stream.close(fixture.patient).error_number() == ENOSPC);
  CHECK(stream.close(fixture.patient).ok());
  CHECK(to_string(stream.state()) == "failed");
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.finishes == 0);
  CHECK(fixture.store.abandons == 1);
}

TEST_CASE("CLOSE-6, CLOSE-7: a failed close is not tried again and leaves the stream closed") {
  Fixture fixture(Answer::kAtOnce);
  OutputStream& stream = fixture.open();
  {
    MutexLock lock(fixture.store.mutex);
    fixture.store.next_failure = Status::from_errno(EIO, "close", "/file");
  }
  CHECK(stream.close(fixture.patient).error_number() == EIO);
  CHECK(stream.close(fixture.patient).ok());
  CHECK(stream.write(bytes_of("x"), fixture.patient).code() == StatusCode::kClosed);
  CHECK(stream.hsync(fixture.patient).code() == StatusCode::kClosed);
  CHECK(stream.flush(fixture.patient).ok());
  CHECK(stream.has_capability("HSYNC"));
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.finishes == 1);
  CHECK(fixture.store.abandons == 1);
}

TEST_CASE("CLOSE-10: an interrupted close is a failure and publishes nothing more") {
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  InterruptAtOnce impatient;
  CHECK(stream.close(impatient).code() == StatusCode::kInterrupted);
  CHECK(stream.close(fixture.patient).ok());
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.abandons == 1);
}

// A signal handler that forks, and raises in both processes.
class Forking final : public Interrupt {
 public:
  pid_t child() const noexcept { return child_; }

 private:
  Status check() override {
    child_ = fork();
    return Status(StatusCode::kInterrupted, "interrupted");
  }

  pid_t child_ = -1;
};

TEST_CASE("CONC-12: a child that is forked inside close() leaves the sink to its parent") {
  static_cast<void>(env::Process::current());  // from now on forks are counted
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  Forking forking;
  const Status closed = stream.close(forking);
  if (forking.child() == 0) {
    MutexLock lock(fixture.store.mutex);
    _exit(fixture.store.abandons);
  }
  CHECK(closed.code() == StatusCode::kInterrupted);
  int status = -1;
  REQUIRE(waitpid(forking.child(), &status, 0) == forking.child());
  CHECK(status == 0);
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.abandons == 1);
}

TEST_CASE("CLOSE-22: of many closers one publishes") {
  for (int round = 0; round < 50; ++round) {
    Fixture fixture(Answer::kAtOnce);
    OutputStream& stream = fixture.open();
    CHECK(stream.write(bytes_of("abc"), fixture.patient).ok());
    std::vector<std::thread> closers;
    for (int i = 0; i < 4; ++i) {
      closers.emplace_back([&] {
        NoInterrupt patient;
        CHECK(stream.close(patient).ok());
        CHECK(stream.state() == State::kClosed);
      });
    }
    for (std::thread& closer : closers) closer.join();
    MutexLock lock(fixture.store.mutex);
    CHECK(fixture.store.finishes == 1);
  }
}

TEST_CASE("CONC-6: a write racing with close is wholly in the file or refused") {
  for (int round = 0; round < 100; ++round) {
    Fixture fixture(Answer::kAtOnce, tiny_window());
    OutputStream& stream = fixture.open();
    const auto record = pattern(300);
    std::size_t accepted = 0;
    std::thread writer([&] {
      NoInterrupt patient;
      while (stream.write(record, patient).ok()) accepted += record.size();
    });
    while (stream.position() == 0) std::this_thread::yield();
    CHECK(stream.close(fixture.patient).ok());
    writer.join();
    CHECK(fixture.file().size() == accepted);
  }
}

TEST_CASE("CONC-1, CONC-2: records of many threads are all there, each in one piece") {
  Fixture fixture(Answer::kAtOnce, tiny_window());
  OutputStream& stream = fixture.open();
  constexpr int kThreads = 4;
  constexpr std::uint32_t kRecords = 200;
  std::vector<std::thread> writers;
  for (int id = 0; id < kThreads; ++id) {
    writers.emplace_back([&, id] {
      NoInterrupt patient;
      for (std::uint32_t i = 0; i < kRecords; ++i) {
        // thread, length, then that many bytes of the thread's number
        std::vector<std::byte> record(2 + (i * 37) % 250, static_cast<std::byte>(id));
        record[1] = static_cast<std::byte>(record.size() - 2);
        CHECK((stream.try_write(record) || stream.write(record, patient).ok()));
        if (i % 16 == 0) CHECK(stream.hflush(patient).ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(stream.close(fixture.patient).ok());
  const auto file = fixture.file();
  std::uint32_t records = 0;
  for (std::size_t at = 0; at < file.size(); ++records) {
    const auto length = static_cast<std::size_t>(file[at + 1]);
    REQUIRE(at + 2 + length <= file.size());
    for (std::size_t i = 0; i < length; ++i) REQUIRE(file[at + 2 + i] == file[at]);
    at += 2 + length;
  }
  CHECK(records == kThreads * kRecords);
}

TEST_CASE("HFLUSH-1: a store that cannot is not asked") {
  Fixture fixture(Answer::kAtOnce);
  fixture.store.syncable = false;
  OutputStream& refusing = fixture.open();
  CHECK(refusing.hsync(fixture.patient).code() == StatusCode::kUnsupported);
  CHECK(refusing.state() == State::kOpen);
  CHECK_FALSE(refusing.has_capability("hflush"));
  CHECK(refusing.close(fixture.patient).ok());
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.syncs.empty());
}

TEST_CASE("ABORT-1, ABORT-3: abort where it is a capability, refusal elsewhere") {
  Fixture fixture(Answer::kAtOnce);
  AbortResult result;
  CHECK(fixture.open().abort(result).code() == StatusCode::kUnsupported);
  CHECK(fixture.stream->state() == State::kOpen);
  fixture.store.abortable = true;
  OutputStream& stream = fixture.open();
  CHECK(stream.write(bytes_of("x"), fixture.patient).ok());
  CHECK(stream.abort(result).ok());
  CHECK_FALSE(result.already_closed);
  CHECK(stream.abort(result).ok());
  CHECK(result.already_closed);
  CHECK(stream.close(fixture.patient).ok());
  CHECK(stream.write(bytes_of("x"), fixture.patient).code() == StatusCode::kClosed);
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.finishes == 0);
}

// Calls the stream from within a wait, as a Python signal handler may.
class Reentering final : public Interrupt {
 public:
  Reentering(OutputStream& stream, Status (*call)(OutputStream&, Interrupt&))
      : stream_(stream), call_(call) {}
  Status seen;

 private:
  Status check() override {
    NoInterrupt patient;
    seen = call_(stream_, patient);
    return Status(StatusCode::kInterrupted, "seen");
  }
  OutputStream& stream_;
  Status (*call_)(OutputStream&, Interrupt&);
};

TEST_CASE("a call from within a waiting call of the same thread is refused, and does not hang") {
  Fixture fixture(Answer::kLater, tiny_window());
  OutputStream& stream = fixture.open();
  CHECK(stream.write(pattern(200), fixture.patient).ok());
  Reentering closing(stream, [](OutputStream& s, Interrupt& i) { return s.close(i); });
  CHECK(stream.write(pattern(100), closing).code() == StatusCode::kInterrupted);
  CHECK(closing.seen.code() == StatusCode::kReentered);
  CHECK(closing.seen.path().empty());
  CHECK(stream.state() == State::kOpen);
  Reentering writing(stream, [](OutputStream& s, Interrupt& i) { return s.write(pattern(1), i); });
  CHECK(stream.write(pattern(100), writing).code() == StatusCode::kInterrupted);
  CHECK(writing.seen.code() == StatusCode::kReentered);
  Reentering closing_again(stream, [](OutputStream& s, Interrupt& i) { return s.close(i); });
  CHECK(stream.close(closing_again).code() == StatusCode::kInterrupted);
  CHECK(closing_again.seen.code() == StatusCode::kReentered);
}

TEST_CASE("after a failed close nothing is put any more, whoever was waiting") {
  Fixture fixture(Answer::kLater, tiny_window());
  OutputStream& stream = fixture.open();
  CHECK(stream.write(pattern(200), fixture.patient).ok());
  std::thread writer([&] {
    NoInterrupt patient;
    CHECK_FALSE(stream.write(pattern(200), patient).ok());
  });
  std::thread flusher([&] {
    NoInterrupt patient;
    CHECK_FALSE(stream.hsync(patient).ok());
  });
  fixture.report([](SinkEvents& events) { events.acknowledged(0); });
  InterruptAtOnce impatient;
  CHECK(stream.close(impatient).code() == StatusCode::kInterrupted);
  writer.join();
  flusher.join();
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.abandons == 1);
}

TEST_CASE("CLOSE-21: a stream that is dropped is abandoned, not published") {
  Fixture fixture(Answer::kAtOnce);
  CHECK(fixture.open().write(bytes_of("x"), fixture.patient).ok());
  fixture.stream.reset();
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.finishes == 0);
  CHECK(fixture.store.abandons == 1);
  CHECK(fixture.store.file.empty());
}

TEST_CASE("HSYNC-12: a sync that cannot be had now fails its callers, and nothing else") {
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  REQUIRE(stream.write(bytes_of("abc"), fixture.patient).ok());
  std::vector<std::thread> waiting;
  std::atomic<int> refused{0};
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&] {
      const Status status = stream.hsync(fixture.patient);
      CHECK(status.message() == "no disk now");
      ++refused;
    });
  }
  // Those who came after the request was made ask again, and are refused in their turn.
  while (refused < 4) {
    fixture.report([](SinkEvents& events) {
      events.not_reached(Level::kDurable, 3, Status(StatusCode::kIo, "no disk now"));
    });
  }
  for (std::thread& thread : waiting) thread.join();
  CHECK(stream.state() == State::kOpen);
  CHECK(stream.statistics().at("op_hsync.samples") == 0);
  CHECK(stream.statistics().at("stream_write_exceptions") == 0);

  const auto syncs = [&] {
    MutexLock lock(fixture.store.mutex);
    return fixture.store.syncs.size();
  };
  const std::size_t before = syncs();
  std::thread again([&] { CHECK(stream.hsync(fixture.patient).ok()); });
  while (syncs() == before) std::this_thread::yield();
  fixture.report([](SinkEvents& events) { events.reached(Level::kDurable, 3); });
  again.join();
  CHECK(stream.statistics().at("op_hsync.samples") == 1);

  REQUIRE(stream.write(bytes_of("d"), fixture.patient).ok());
  std::thread closing([&] { CHECK(stream.close(fixture.patient).ok()); });
  fixture.report([](SinkEvents& events) { events.finished(); });
  closing.join();
}

TEST_CASE("FLUSH-2: a flush that waits while another thread closes returns quietly") {
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  CHECK(stream.write(bytes_of("abc"), fixture.patient).ok());
  std::thread flushing([&] { CHECK(stream.flush(fixture.patient).ok()); });
  fixture.report([](SinkEvents& /*events*/) {});  // it has been asked for
  std::thread closing([&] { CHECK(stream.close(fixture.patient).ok()); });
  while (stream.state() != State::kClosing) std::this_thread::yield();
  fixture.report([](SinkEvents& events) { events.finished(); });
  closing.join();
  flushing.join();
}

TEST_CASE("group commit: threads that sync at the same time share requests") {
  Fixture fixture(Answer::kLater);
  OutputStream& stream = fixture.open();
  constexpr std::size_t kThreads = 8;
  std::atomic<std::size_t> written = 0;
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < kThreads; ++i) {
    writers.emplace_back([&] {
      NoInterrupt patient;
      CHECK(stream.write(bytes_of("abcd"), patient).ok());
      ++written;
      CHECK(stream.hsync(patient).ok());
    });
  }
  while (written < kThreads) std::this_thread::yield();
  std::uint64_t answered = 0;
  while (answered < 4 * kThreads) {
    const std::uint64_t length = fixture.store.length();
    if (length == answered) {
      std::this_thread::yield();
      continue;
    }
    answered = length;
    fixture.report([&](SinkEvents& events) { events.reached(Level::kDurable, length); });
  }
  for (std::thread& writer : writers) writer.join();
  // The first one asks for what there is; everybody who comes before the answer shares the second.
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.syncs.size() <= 2);
}

TEST_CASE("HSYNC-17: hsync ends a block where the store has blocks, and is an hsync of it all") {
  Geometry geometry = tiny_window();
  geometry.bytes_per_checksum = 16;
  Fixture fixture(Answer::kAtOnce, geometry);
  fixture.store.ends_blocks = true;
  OutputStream& stream = fixture.open();
  CHECK(stream.has_capability("FS.hdfs.capability.end.block"));
  const auto data = pattern(100);
  CHECK(stream.write({data.data(), 10}, fixture.patient).ok());
  CHECK(stream.hsync_and_end_block(fixture.patient).ok());
  CHECK(stream.hsync_and_end_block(fixture.patient).ok());  // nothing is new
  CHECK(stream.hsync(fixture.patient).ok());
  CHECK(stream.write({data.data() + 10, 90}, fixture.patient).ok());
  CHECK(stream.hsync(fixture.patient).ok());
  CHECK(stream.hsync_and_end_block(fixture.patient).ok());  // a block of which all is durable
  CHECK(stream.statistics().at("op_hsync.samples") == 5);
  CHECK(stream.close(fixture.patient).ok());
  CHECK(fixture.file() == data);
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.block_ends == std::vector<std::uint64_t>{10, 100});
  CHECK(fixture.store.syncs ==
        std::vector<Level>{Level::kBlockEnded, Level::kDurable, Level::kBlockEnded});
}

TEST_CASE("HSYNC-17: a store without blocks is not asked, and the stream goes on") {
  Fixture fixture(Answer::kAtOnce);
  fixture.store.syncable = false;
  SUBCASE("one that syncs") { fixture.store.syncable = true; }
  SUBCASE("one that does not") {}
  OutputStream& stream = fixture.open();
  CHECK(stream.write(bytes_of("abc"), fixture.patient).ok());
  const Status status = stream.hsync_and_end_block(fixture.patient);
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(status.path() == "/file");
  CHECK_FALSE(stream.has_capability(kEndBlock));
  CHECK(stream.state() == State::kOpen);
  CHECK(fixture.file().empty());
  CHECK(stream.close(fixture.patient).ok());
}

TEST_CASE("HSYNC-17: threads that end blocks at the same time share ends, and divide no record") {
  Geometry geometry = tiny_window();  // records are half of it at most
  geometry.bytes_per_checksum = 16;
  Fixture fixture(Answer::kAtOnce, geometry);
  fixture.store.ends_blocks = true;
  OutputStream& stream = fixture.open();
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kRecords = 200;
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < kThreads; ++i) {
    writers.emplace_back([&, i] {
      NoInterrupt patient;
      for (std::size_t n = 0; n < kRecords; ++n) {
        std::vector<std::byte> record(1 + (n * 37 + i) % 128, static_cast<std::byte>(i + 1));
        record.front() = std::byte{0};
        CHECK((stream.try_write(record) || stream.write(record, patient).ok()));
        if (n % 5 == i % 5) CHECK(stream.hsync_and_end_block(patient).ok());
        if (n % 7 == i % 7) CHECK(stream.hsync(patient).ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  REQUIRE(stream.hsync_and_end_block(fixture.patient).ok());
  REQUIRE(stream.close(fixture.patient).ok());
  const auto content = fixture.file();
  MutexLock lock(fixture.store.mutex);
  const std::vector<std::uint64_t> ends = fixture.store.block_ends;
  CHECK(std::ranges::is_sorted(ends));
  REQUIRE_FALSE(ends.empty());
  CHECK(ends.back() == content.size());
  for (const std::uint64_t end : ends) {
    if (end < content.size()) CHECK(content[end] == std::byte{0});  // a record begins there
  }
}

TEST_CASE("HSYNC-17: an interrupted end of a block breaks nothing, and is shared by the next") {
  Fixture fixture(Answer::kLater);
  fixture.store.ends_blocks = true;
  OutputStream& stream = fixture.open();
  REQUIRE(stream.write(bytes_of("abc"), fixture.patient).ok());
  InterruptAtOnce impatient;
  CHECK(stream.hsync_and_end_block(impatient).code() == StatusCode::kInterrupted);
  CHECK(stream.state() == State::kOpen);
  std::thread again([&] { CHECK(stream.hsync_and_end_block(fixture.patient).ok()); });
  fixture.report([](SinkEvents& events) { events.reached(Level::kBlockEnded, 3); });
  again.join();
  MutexLock lock(fixture.store.mutex);
  CHECK(fixture.store.block_ends == std::vector<std::uint64_t>{3});
}

TEST_CASE("statistics: bytes as they are written, and the sink's own") {
  Fixture fixture(Answer::kAtOnce);
  OutputStream& stream = fixture.open();
  CHECK(stream.statistics().at("stream_write_bytes") == 0);
  CHECK(stream.write(bytes_of("abc"), fixture.patient).ok());
  CHECK(stream.statistics().at("stream_write_bytes") == 3);
  CHECK(stream.hsync(fixture.patient).ok());
  const Statistics statistics = stream.statistics();
  CHECK(statistics.at("op_hsync.samples") == 1);
  CHECK(statistics.at("op_hsync.min_ns") <= statistics.at("op_hsync.max_ns"));
  CHECK(statistics.at("puts") == 1);
}

}  // namespace
}  // namespace hflush::stream
