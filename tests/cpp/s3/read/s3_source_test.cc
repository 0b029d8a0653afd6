// S3Source against a store that does as it is told: which ranges are asked for, and that nothing
// but the object's bytes is ever returned.
#include "hflush/s3/read/s3_source.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/crc/checksum.h"
#include "hflush/env/process.h"
#include "hflush/s3/call/encoding.h"
#include "s3/scripted_s3.h"

namespace hflush::s3 {
namespace {

using env::testing::drain;
using env::testing::kPatience;
using env::testing::pattern;
using env::testing::Shared;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AfterRequests;
using testing::Answer;
using testing::Gate;
using testing::Request;
using testing::ScriptedS3;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

std::shared_ptr<Client> make_client(std::uint16_t port) {
  Settings settings = testing::loopback_settings(port);
  settings.stall_timeout = kPatience;
  settings.retry.limit = 3;
  Result<std::shared_ptr<Client>> client = Client::make(
      std::move(settings), std::make_shared<CredentialStore>(Credentials{"AK", "SK", ""}));
  REQUIRE_MESSAGE(client.ok(), client.status().to_string());
  return *std::move(client);
}

ReadOptions options_of(const std::string& content) {
  ReadOptions options;
  options.bucket = "b";
  options.key = "dir/k";
  options.path = "s3a://b/dir/k";
  options.size = content.size();
  options.etag = "\"e1\"";
  return options;
}

std::unique_ptr<S3Source> open(const std::shared_ptr<Client>& client, ReadOptions options) {
  Result<std::unique_ptr<S3Source>> file = S3Source::open(client, std::move(options));
  REQUIRE_MESSAGE(file.ok(), file.status().to_string());
  return *std::move(file);
}

struct Asked {
  std::uint64_t begin = 0;
  std::uint64_t last = 0;
};

Asked asked(const Request& request) {
  const std::string text = request.header("range");
  if (text.empty()) return {0, UINT64_MAX - 1};
  const std::size_t dash = text.find('-');
  return {std::stoull(text.substr(6, dash - 6)), std::stoull(text.substr(dash + 1))};
}

// As a store answers that works.
Answer object_answer(const Request& request, const std::string& content,
                     const std::string& etag = "\"e1\"") {
  const std::string wanted = request.header("if-match");
  if (!wanted.empty() && wanted != etag) return Answer::error(412, "PreconditionFailed");
  const auto [begin, last] = asked(request);
  if (begin >= content.size()) return Answer::error(416, "InvalidRange");
  const std::uint64_t end = std::min<std::uint64_t>(last + 1, content.size());
  return {.status = 206,
          .headers = {{"ETag", etag},
                      {"Content-Range", "bytes " + std::to_string(begin) + "-" +
                                            std::to_string(end - 1) + "/" +
                                            std::to_string(content.size())}},
          .body = content.substr(begin, end - begin)};
}

// And one that has never heard of ranges.
Answer whole_answer(const std::string& content) {
  return {.headers = {{"ETag", "\"e1\""}}, .body = content};
}

Result<std::string> try_read(S3Source& file, std::uint64_t position, std::size_t size,
                             env::Interrupt& interrupt) {
  std::string out(size, '?');
  HFLUSH_ASSIGN_OR_RETURN(
      const std::size_t count,
      file.read_at(position, std::as_writable_bytes(std::span(out.data(), out.size())), interrupt));
  out.resize(count);
  return out;
}

Result<std::string> try_read(S3Source& file, std::uint64_t position, std::size_t size) {
  env::Uninterrupted interrupt;
  return try_read(file, position, size, interrupt);
}

std::string read(S3Source& file, std::uint64_t position, std::size_t size) {
  Result<std::string> text = try_read(file, position, size);
  REQUIRE_MESSAGE(text.ok(), text.status().to_string());
  return *std::move(text);
}

Status failure_of(S3Source& file, std::uint64_t position, std::size_t size) {
  Result<std::string> text = try_read(file, position, size);
  REQUIRE_FALSE(text.ok());
  return text.status();
}

std::int64_t statistic(const S3Source& file, const std::string& name) {
  Statistics statistics;
  file.add_statistics(statistics);
  REQUIRE(statistics.contains(name));
  return statistics[name];
}

// A store with one object, a client and a file.
struct World {
  explicit World(std::string its_content, ScriptedS3::Handler handler = {})
      : World(std::move(its_content), std::move(handler), {}) {}
  World(std::string its_content, ScriptedS3::Handler handler,
        const std::function<void(ReadOptions&)>& change)
      : content(std::move(its_content)),
        server(handler
                   ? std::move(handler)
                   : [this](const Request& request) { return object_answer(request, content); }),
        client(make_client(server.port())) {
    ReadOptions options = options_of(content);
    if (change) change(options);
    file = open(client, std::move(options));
  }

  const std::string content;
  ScriptedS3 server;
  const std::shared_ptr<Client> client;
  std::unique_ptr<S3Source> file;
};

TEST_CASE("reads in order are served from one response") {
  World world(pattern(0, 3 * kMiB + 12345));
  std::string all;
  std::minstd_rand random(7);
  while (all.size() < world.content.size()) {
    const std::size_t size = 1 + random() % 200'000;
    const std::string piece = read(*world.file, all.size(), size);
    CHECK(piece.size() == std::min(size, world.content.size() - all.size()));
    all += piece;
  }
  CHECK(all == world.content);
  CHECK(read(*world.file, all.size(), 10).empty());
  CHECK(read(*world.file, all.size() + 1000, 10).empty());
  CHECK(*world.file->length() == world.content.size());
  const std::vector<Request> requests = world.server.requests();
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].target == "/b/dir/k");
  CHECK_FALSE(requests[0].headers.contains("range"));
  CHECK(requests[0].header("if-match") == "\"e1\"");
  CHECK(statistic(*world.file, "stream_read_opened") == 1);
  CHECK(statistic(*world.file, "stream_read_total_bytes") ==
        static_cast<std::int64_t>(world.content.size()));
  CHECK(statistic(*world.file, "stream_aborted") == 0);
}

TEST_CASE("everything at once, and one byte at a time") {
  World world(pattern(0, 300'000));
  CHECK(read(*world.file, 0, 1'000'000) == world.content);
  const auto again = open(world.client, options_of(world.content));
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::string byte = read(*again, i, 1);
    REQUIRE(byte.size() == 1);
    REQUIRE(byte[0] == world.content[i]);
  }
  CHECK(world.server.request_count() == 2);
}

TEST_CASE("other reads ask for just their range, over one connection") {
  World world(pattern(0, 2 * kMiB));
  std::minstd_rand random(3);
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t position = 1 + random() % (world.content.size() - 1);
    const std::size_t size = 1 + random() % (64 * kKiB);
    CHECK(read(*world.file, position, size) == world.content.substr(position, size));
    const Asked range = asked(world.server.requests().back());
    CHECK(range.begin == position);
    CHECK(range.last == std::min<std::uint64_t>(position + size, world.content.size()) - 1);
  }
  CHECK(world.server.request_count() == 50);
  CHECK(world.server.connection_count() == 1);
  CHECK(statistic(*world.file, "stream_aborted") == 0);
}

TEST_CASE("a small step forward is read over, a large one asked around") {
  World world(pattern(0, 8 * kMiB));
  const auto at = [&](std::uint64_t position, std::size_t size) {
    CHECK(read(*world.file, position, size) == world.content.substr(position, size));
  };
  at(0, 1000);
  at(1000 + 100, 1000);
  at(500'000, 10);
  at(500'010 + kMiB, 10);
  CHECK(world.server.request_count() == 1);
  CHECK(statistic(*world.file, "stream_read_seek_bytes_skipped") ==
        static_cast<std::int64_t>(100 + 500'000 - 2100 + kMiB));
  at(500'020 + 2 * kMiB + 1, 10);  // one byte too far
  CHECK(world.server.request_count() == 2);
  CHECK(asked(world.server.requests()[1]).last == 500'020 + 2 * kMiB + 10);
  at(500'020 + kMiB, 10);  // the stream is still there
  CHECK(world.server.request_count() == 2);
  at(4 * kMiB, 10);
  at(4 * kMiB + 10, 10);  // in order from here on
  CHECK(world.server.request_count() == 4);
  CHECK(asked(world.server.requests()[3]).last == 8 * kMiB - 1);
  at(8 * kMiB - 5, 100);
}

TEST_CASE("an empty object is never asked for") {
  World world("");
  CHECK(read(*world.file, 0, 10).empty());
  CHECK(world.server.request_count() == 0);
}

TEST_CASE("what pins the object goes with every request") {
  World world(pattern(0, 1000), {}, [](ReadOptions& options) {
    options.etag = "e1";  // as some have it
    options.version_id = "v/1";
    options.request_headers = {{"x-amz-server-side-encryption-customer-algorithm", "AES256"}};
  });
  read(*world.file, 0, 100);
  read(*world.file, 500, 10);
  world.file->unbuffer();
  read(*world.file, 510, 10);
  const std::vector<Request> requests = world.server.requests();
  REQUIRE(requests.size() >= 2);
  for (const Request& request : requests) {
    CHECK(request.query.at("versionId") == "v/1");
    CHECK(request.header("if-match") == "\"e1\"");
    CHECK(request.header("x-amz-server-side-encryption-customer-algorithm") == "AES256");
  }
  World unpinned(pattern(0, 1000), {}, [](ReadOptions& options) { options.etag.clear(); });
  read(*unpinned.file, 0, 100);
  CHECK_FALSE(unpinned.server.requests()[0].headers.contains("if-match"));
}

TEST_CASE("a replaced object is an error, never a mixture") {
  const std::string content = pattern(0, 2 * kMiB);
  const std::string other = pattern(5, 2 * kMiB);
  std::atomic<int> version{1};
  const auto check = [&](World& world) {
    CHECK(read(*world.file, 10, 100) == content.substr(10, 100));
    version = 2;
    for (const std::uint64_t position : {std::uint64_t{0}, std::uint64_t{110}, kMiB}) {
      const Status failure = failure_of(*world.file, position, 1000);
      CHECK(failure.code() == StatusCode::kPreconditionFailed);
      CHECK(failure.error_number() == ESTALE);
      CHECK(failure.path() == "s3a://b/dir/k");
      CHECK(failure.message().find("replaced") != std::string::npos);
      CHECK(failure.message().find(std::to_string(content.size())) != std::string::npos);
    }
    CHECK(statistic(*world.file, "stream_read_version_mismatches") == 3);
    version = 1;
    CHECK(read(*world.file, 10, 100) == content.substr(10, 100));  // the file is as it was
  };
  SUBCASE("told by the store") {
    World world(content, [&](const Request& request) {
      return version == 1 ? object_answer(request, content)
                          : object_answer(request, other, "\"e2\"");
    });
    check(world);
    version = 2;
    CHECK(failure_of(*world.file, 5, 5).remote_class() == "PreconditionFailed");
  }
  SUBCASE("seen in the etag of a store that ignores If-Match") {
    World world(content, [&](const Request& request) {
      Answer answer = object_answer(request, version == 1 ? content : other);
      if (version == 2) answer.headers["ETag"] = "\"e2\"";
      return answer;
    });
    check(world);
  }
  SUBCASE("seen in its length, without an etag") {
    const std::string longer = other + "x";
    World world(content, [&](const Request& request) {
      Answer answer = object_answer(request, version == 1 ? content : longer);
      answer.headers.erase("ETag");
      return answer;
    });
    check(world);
  }
  SUBCASE("seen in its length, of a store without ranges") {
    const std::string longer = other + "x";
    World world(content, [&](const Request&) {
      Answer answer = whole_answer(version == 1 ? content : longer);
      answer.headers = {{"x-amz-request-id", "1"}};
      return answer;
    });
    check(world);
  }
}

TEST_CASE("a page in the place of an object is asked for again") {
  const std::string content = pattern(0, 1000);
  std::atomic<int> answers = 0;
  World world(content, [&](const Request& request) {
    const bool is_page = answers++ == 0;
    return is_page ? Answer{.headers = {{"Content-Type", "text/html"}}, .body = "<html></html>"}
                   : object_answer(request, content);
  });
  CHECK(read(*world.file, 0, 1000) == content);
  CHECK(answers == 2);
}

TEST_CASE("an object that became shorter") {
  World world(pattern(0, 1000),
              [](const Request& request) { return object_answer(request, pattern(0, 100)); });
  const Status failure = failure_of(*world.file, 500, 10);
  CHECK(failure.code() == StatusCode::kPreconditionFailed);
  CHECK(failure.remote_class() == "InvalidRange");
}

TEST_CASE("an object that is gone") {
  World world(pattern(0, 1000), [](const Request&) { return Answer::error(404, "NoSuchKey"); });
  const Status failure = failure_of(*world.file, 0, 10);
  CHECK(failure.code() == StatusCode::kNotFound);
  CHECK(failure.path() == "s3a://b/dir/k");
}

TEST_CASE("a store without ranges gives the right bytes") {
  const std::string content = pattern(0, kMiB);
  World world(content, [&](const Request&) { return whole_answer(content); });
  CHECK(read(*world.file, 1000, 5000) == content.substr(1000, 5000));
  CHECK(read(*world.file, 6000, 700'000) == content.substr(6000, 700'000));
  CHECK(read(*world.file, 900'000, 200'000) == content.substr(900'000));
}

TEST_CASE("a store without ranges that breaks off in front of what is wanted is given up") {
  const std::string content = pattern(0, 3 * kMiB);
  World world(content, [&](const Request&) {
    Answer answer = whole_answer(content);
    answer.cut_after = 2 * kMiB;  // more than what counts as progress
    return answer;
  });
  CHECK(read(*world.file, 1000, 5000) == content.substr(1000, 5000));
  const std::size_t before = world.server.request_count();
  CHECK(failure_of(*world.file, 5 * kMiB / 2, 5000).code() != StatusCode::kOk);
  const auto limit = static_cast<std::size_t>(world.client->settings().retry.limit);
  CHECK(world.server.request_count() == before + limit + 1);
}

// The whole object, with the sum of `summed`.
Answer summed_answer(const std::string& content, const std::string& summed, crc::Kind kind,
                     const std::string& type = "FULL_OBJECT") {
  Answer answer = whole_answer(content);
  const std::string name = kind == crc::Kind::kCrc32 ? "crc32" : "crc32c";
  answer.headers["x-amz-checksum-" + name] = crc_header(crc::extend(kind, 0, as_bytes(summed)));
  if (!type.empty()) answer.headers["x-amz-checksum-type"] = type;
  return answer;
}

TEST_CASE("the whole of an object is compared with the sum that the store keeps of it") {
  const std::string content = pattern(0, kMiB);
  std::string flipped = content;
  flipped[777'777] = static_cast<char>(flipped[777'777] ^ 1);
  for (const crc::Kind kind : {crc::Kind::kCrc32c, crc::Kind::kCrc32}) {
    for (const char* type : {"FULL_OBJECT", ""}) {
      World good(content,
                 [&](const Request&) { return summed_answer(content, content, kind, type); });
      CHECK(read(*good.file, 0, 1000) == content.substr(0, 1000));
      CHECK(read(*good.file, 500'000, 2 * kMiB) == content.substr(500'000));  // skipped, but summed
      CHECK(good.server.requests()[0].header("x-amz-checksum-mode") == "ENABLED");

      World bad(content,
                [&](const Request&) { return summed_answer(flipped, content, kind, type); });
      CHECK(read(*bad.file, 0, 1000) == content.substr(0, 1000));
      const Status failure = failure_of(*bad.file, 1000, content.size() - 1000);
      CHECK(failure.code() == StatusCode::kChecksum);
      CHECK(failure.error_number() == EIO);
      CHECK(failure.path() == "s3a://b/dir/k");
      CHECK(failure.message().find("bytes 0 to 1048576") != std::string::npos);
      CHECK(statistic(*bad.file, "stream_read_corrupt_objects") == 1);
    }
  }
}

TEST_CASE("one read of everything asks once more") {
  const std::string content = pattern(0, 200'000);
  std::string flipped = content;
  flipped[100'000] = static_cast<char>(flipped[100'000] ^ 1);
  for (const int bad : {1, 2}) {
    CAPTURE(bad);
    std::atomic<int> count{0};
    World world(content, [&](const Request&) {
      return summed_answer(count++ < bad ? flipped : content, content, crc::Kind::kCrc32c);
    });
    const Result<std::string> all = try_read(*world.file, 0, content.size());
    CHECK(world.server.request_count() == 2);
    CHECK(statistic(*world.file, "stream_read_corrupt_objects") == bad);
    CHECK(all.status().code() == (bad == 1 ? StatusCode::kOk : StatusCode::kChecksum));
    if (all.ok()) CHECK(*all == content);
  }
}

TEST_CASE("sums of something else are not compared, and only the whole is") {
  const std::string content = pattern(0, 200'000);
  const auto check_unheeded = [&](const Answer& answer) {
    World world(content, [&](const Request&) { return answer; });
    CHECK(read(*world.file, 0, 200'000) == content);
  };
  const Answer wrong = summed_answer(content, "", crc::Kind::kCrc32c, "COMPOSITE");
  check_unheeded(wrong);
  Answer of_parts = whole_answer(content);
  of_parts.headers["x-amz-checksum-crc32c"] = "AAAAAA==-2";
  check_unheeded(of_parts);
  Answer other = whole_answer(content);
  other.headers["x-amz-checksum-sha256"] = "AAAAAAAA";
  check_unheeded(other);

  World part(content);
  read(*part.file, 100, 1000);
  read(*part.file, 1100, 1000);
  for (const Request& request : part.server.requests()) {
    CHECK_FALSE(request.headers.contains("x-amz-checksum-mode"));
    CHECK(request.headers.contains("range"));
  }
}

TEST_CASE("a response that is begun anew is summed anew") {
  const std::string content = pattern(0, 200'000);
  std::atomic<int> count{0};
  World world(content, [&](const Request&) {
    Answer answer = summed_answer(content, content, crc::Kind::kCrc32c);
    if (count++ == 0) answer.cut_after = 0;
    return answer;
  });
  CHECK(read(*world.file, 0, 200'000) == content);
  CHECK(world.server.request_count() == 2);
}

TEST_CASE("another range than was asked for is refused") {
  const std::string content = pattern(0, 10'000);
  for (const char* range :
       {"bytes 101-199/10000", "bytes 100-200/10000", "bytes 99-199/10000", "bytes 100-99/10000",
        "bytes */10000", "bytes 100-199", "100-199/10000", "bytes 100-199/10000x", ""}) {
    CAPTURE(range);
    World world(content, [&](const Request&) {
      return Answer{.status = 206,
                    .headers = {{"ETag", "\"e1\""}, {"Content-Range", range}},
                    .body = content.substr(100, 100)};
    });
    const Status failure = failure_of(*world.file, 100, 100);
    CHECK(failure.code() == StatusCode::kIo);
    CHECK(failure.error_number() == EPROTO);
    CHECK(failure.message().find("content-range") != std::string::npos);
  }
  // The total may be unknown.
  World world(content, [&](const Request&) {
    return Answer{.status = 206,
                  .headers = {{"Content-Range", "bytes 100-199/*"}},
                  .body = content.substr(100, 100)};
  });
  CHECK(read(*world.file, 100, 100) == content.substr(100, 100));
}

TEST_CASE("more or fewer bytes than the range has") {
  const std::string content = pattern(0, 10'000);
  const auto answer_of = [&](std::size_t size) {
    return [&content, size](const Request& request) {
      Answer answer = object_answer(request, content);
      const auto [begin, last] = asked(request);
      answer.body = content.substr(begin, size <= 40 ? std::min(size, last + 1 - begin) : size);
      return answer;
    };
  };
  World more(content, answer_of(101));
  CHECK(failure_of(*more.file, 100, 100).error_number() == EPROTO);
  World none(content, answer_of(0));
  const Status failure = failure_of(*none.file, 100, 100);
  CHECK(failure.code() == StatusCode::kIo);
  CHECK(none.server.request_count() == 4);  // and three retries
  World fewer(content, answer_of(40));      // what is missing is asked for
  CHECK(read(*fewer.file, 100, 100) == content.substr(100, 100));
  REQUIRE(fewer.server.request_count() == 3);
  CHECK(asked(fewer.server.requests()[1]).begin == 140);
  CHECK(asked(fewer.server.requests()[2]).begin == 180);
}

TEST_CASE("a shorter range than was asked for is gone on from") {
  const std::string content = pattern(0, 100'000);
  World world(content, [&](const Request& request) {
    Request shorter = request;
    const std::uint64_t begin = asked(request).begin;
    shorter.headers["range"] =
        "bytes=" + std::to_string(begin) + "-" + std::to_string(begin + 9'999);
    return object_answer(shorter, content);
  });
  CHECK(read(*world.file, 0, 100'000) == content);  // whatever the limit of retries
  CHECK(world.server.request_count() == 10);
}

TEST_CASE("a response that breaks off is asked for again from there") {
  const std::string content = pattern(0, 5 * kMiB);
  std::atomic<int> count{0};
  World world(content, [&](const Request& request) {
    Answer answer = object_answer(request, content);
    if (++count <= 3) answer.cut_after = 1'234'567;
    if (count == 2) answer.connection = Answer::Connection::kResets;
    return answer;
  });
  std::string all;
  while (all.size() < content.size()) all += read(*world.file, all.size(), 100'000);
  CHECK(all == content);
  const std::vector<Request> requests = world.server.requests();
  REQUIRE(requests.size() == 4);
  CHECK(asked(requests[1]).begin == 1'234'567);
  // A reset may take with it what the system has not handed over.
  CHECK(asked(requests[2]).begin > 1'234'567);
  CHECK(asked(requests[2]).begin <= 2 * 1'234'567);
  CHECK(asked(requests[3]).begin == asked(requests[2]).begin + 1'234'567);
}

TEST_CASE("a random read that breaks off is asked for again from there") {
  const std::string content = pattern(0, 200'000);
  World world(content, [&](const Request& request) {
    Answer answer = object_answer(request, content);
    if (asked(request).begin < 130'000) answer.cut_after = 30'000;
    return answer;
  });
  CHECK(read(*world.file, 100'000, 64 * kKiB) == content.substr(100'000, 64 * kKiB));
  CHECK(asked(world.server.requests().back()).last == 100'000 + 64 * kKiB - 1);
  CHECK(world.server.request_count() == 2);
}

TEST_CASE("a read goes on as long as each response brings its part") {
  const std::string content = pattern(0, kMiB);
  World world(content, [&](const Request& request) {
    Answer answer = object_answer(request, content);
    answer.cut_after = 100'000;
    return answer;
  });
  CHECK(read(*world.file, 0, kMiB) == content);
  CHECK(world.server.request_count() == 11);
}

TEST_CASE("a store that always breaks off is given up") {
  const std::string content = pattern(0, 200'000);
  World world(content, [&](const Request& request) {
    Answer answer = object_answer(request, content);
    answer.cut_after = 1;
    return answer;
  });
  const Status failure = failure_of(*world.file, 0, 1000);
  CHECK_FALSE(failure.ok());
  CHECK(failure.path() == "s3a://b/dir/k");
  CHECK(world.server.request_count() == 4);  // the limit is three retries
}

TEST_CASE("no more is taken ahead than the window has room for") {
  for (const std::uint64_t window : {std::uint64_t{1}, 64 * kKiB, kMiB}) {
    CAPTURE(window);
    World world(pattern(0, 8 * kMiB), {},
                [&](ReadOptions& options) { options.window_bytes = window; });
    CHECK(read(*world.file, 0, 10) == world.content.substr(0, 10));
    // Until it is paused, which takes as long as the bytes of a window.
    std::int64_t received = -1;
    const auto deadline = CondVar::Clock::now() + kPatience;
    while (statistic(*world.file, "stream_read_total_bytes") < static_cast<std::int64_t>(window)) {
      REQUIRE(CondVar::Clock::now() < deadline);
      drain(world.client->loop());
    }
    for (int i = 0; i < 20; ++i) drain(world.client->loop());
    received = statistic(*world.file, "stream_read_total_bytes");
    CHECK(received <= static_cast<std::int64_t>(window + 2 * kMiB));
    std::string all = read(*world.file, 0, 10);
    CHECK(world.server.request_count() == 2);
    while (all.size() < world.content.size()) {
      const std::string piece = read(*world.file, all.size(), 300'000);
      REQUIRE_FALSE(piece.empty());
      all += piece;
    }
    CHECK(all == world.content);
  }
}

TEST_CASE("unbuffer ends the response, and reads go on in order") {
  World world(pattern(0, 16 * kMiB));
  read(*world.file, 0, 1000);
  world.file->unbuffer();
  CHECK(statistic(*world.file, "stream_aborted") == 1);
  CHECK(statistic(*world.file, "stream_read_unbuffered") == 1);
  world.file->unbuffer();
  CHECK(statistic(*world.file, "stream_aborted") == 1);
  CHECK(read(*world.file, 1000, 1000) == world.content.substr(1000, 1000));
  CHECK(asked(world.server.requests().back()).begin == 1000);
  CHECK(asked(world.server.requests().back()).last == 16 * kMiB - 1);
}

TEST_CASE("a response that nobody reads gives its connection back") {
  World world(pattern(0, 16 * kMiB), {},
              [](ReadOptions& options) { options.idle_timeout = milliseconds(10); });
  CHECK(read(*world.file, 0, 1000) == world.content.substr(0, 1000));
  const auto deadline = CondVar::Clock::now() + kPatience;
  while (statistic(*world.file, "stream_aborted") == 0) {
    REQUIRE(CondVar::Clock::now() < deadline);
    drain(world.client->loop());
  }
  CHECK(world.server.request_count() == 1);
  std::string all = world.content.substr(0, 1000);
  while (all.size() < world.content.size()) all += read(*world.file, all.size(), 100'000);
  CHECK(all == world.content);
  REQUIRE(world.server.request_count() >= 2);
  CHECK(asked(world.server.requests()[1]).begin > 1000);  // what had come was not asked for again
}

TEST_CASE("a file that nobody reads keeps no more than was last asked for") {
  World world(pattern(0, 16 * kMiB), {}, [](ReadOptions& options) {
    options.idle_timeout = seconds(2);
    options.window_bytes = 4 * kMiB;
  });
  const auto wait_until = [&](const std::function<bool()>& is_so) {
    const auto deadline = CondVar::Clock::now() + kPatience;
    while (!is_so()) {
      REQUIRE(CondVar::Clock::now() < deadline);
      drain(world.client->loop());
    }
  };
  std::string all = read(*world.file, 0, 100'000);
  // Reads keep it from being idle until the window is full.
  wait_until([&] {
    all += read(*world.file, all.size(), 1);
    return statistic(*world.file, "stream_read_total_bytes") >= std::int64_t{4} << 20U;
  });
  all += read(*world.file, all.size(), 300'000);
  wait_until([&] { return statistic(*world.file, "stream_read_bytes_discarded_in_abort") > 0; });
  const std::size_t before = all.size();
  const std::size_t requests = world.server.request_count();
  all += read(*world.file, all.size(), 300'000);
  CHECK(world.server.request_count() == requests);  // that was kept
  while (all.size() < world.content.size()) all += read(*world.file, all.size(), 1'000'000);
  CHECK(all == world.content);
  CHECK(asked(world.server.requests()[requests]).begin >= before + 300'000);
  CHECK(asked(world.server.requests()[requests]).begin <= before + 300'000 + 512 * kKiB);
}

TEST_CASE("so does one whose response has come to its end") {
  World world(pattern(0, 2 * kMiB), {},
              [](ReadOptions& options) { options.idle_timeout = milliseconds(10); });
  std::string all = read(*world.file, 0, 1000);
  const auto deadline = CondVar::Clock::now() + kPatience;
  while (statistic(*world.file, "stream_read_bytes_discarded_in_abort") == 0) {
    REQUIRE(CondVar::Clock::now() < deadline);
    drain(world.client->loop());
  }
  while (all.size() < world.content.size()) all += read(*world.file, all.size(), 100'000);
  CHECK(all == world.content);
  CHECK(world.server.request_count() >= 2);
}

TEST_CASE("reads under way end when the file is closed, and none starts") {
  Gate gate;
  const std::string content = pattern(0, 1000);
  World world(content, [&](const Request& request) {
    gate.pass();
    return object_answer(request, content);
  });
  Shared<std::string> result;
  std::thread reader([&] {
    Result<std::string> text = try_read(*world.file, 100, 100);
    result.update(
        [&](std::string& value) { value = text.ok() ? *text : text.status().to_string(); });
  });
  REQUIRE(gate.wait_for_waiting(1));
  world.file->close();
  world.file->close();
  CHECK(world.file->length().status().code() == StatusCode::kClosed);
  CHECK(failure_of(*world.file, 0, 10).code() == StatusCode::kClosed);
  gate.open();
  reader.join();
  CHECK(result.get() == content.substr(100, 100));
  CHECK(world.server.request_count() == 1);
}

TEST_CASE("an interrupted read leaves the file as it was") {
  const std::string content = pattern(0, 2 * kMiB);
  std::atomic<bool> hangs{false};
  World world(content, [&](const Request& request) {
    Answer answer = object_answer(request, content);
    if (hangs) {
      answer.cut_after = 100;
      answer.connection = Answer::Connection::kHangs;
    }
    return answer;
  });
  CHECK(read(*world.file, 10, 10) == content.substr(10, 10));
  hangs = true;
  for (const std::uint64_t position : {std::uint64_t{20}, kMiB}) {
    AfterRequests interrupt(world.server, world.server.request_count() + 1);
    const Result<std::string> text = try_read(*world.file, position, 1000, interrupt);
    REQUIRE_FALSE(text.ok());
    CHECK(text.status().code() == StatusCode::kInterrupted);
  }
  CHECK(world.server.wait_for_gone(2));  // both were cancelled
  hangs = false;
  CHECK(read(*world.file, 20, 1000) == content.substr(20, 1000));
  CHECK(asked(world.server.requests().back()).last == 2 * kMiB - 1);  // still in order
}

TEST_CASE("many threads read at once") {
  World world(pattern(0, 4 * kMiB));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::minstd_rand random(thread + 1);
      std::uint64_t position = 0;
      for (int i = 0; i < 40; ++i) {
        if (i % 3 == 0) position = random() % world.content.size();
        const std::size_t size = 1 + random() % 100'000;
        const Result<std::string> text = try_read(*world.file, position, size);
        if (!text.ok() || *text != world.content.substr(position, size)) ++wrong;
        position = std::min<std::uint64_t>(position + size, world.content.size() - 1);
        if (i % 10 == 9) world.file->unbuffer();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a file may end while its response streams") {
  World world(pattern(0, 16 * kMiB));
  for (int i = 0; i < 20; ++i) {
    const auto file = open(world.client, options_of(world.content));
    CHECK(read(*file, 0, 100 * kKiB) == world.content.substr(0, 100 * kKiB));
  }
  drain(world.client->loop());
}

TEST_CASE("a forked child cannot read") {
  World world(pattern(0, 16 * kMiB));
  CHECK(read(*world.file, 0, 1000) == world.content.substr(0, 1000));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int failures = 0;
    const Result<std::string> text = try_read(*world.file, 1000, 10);
    if (text.ok() || text.status().code() != StatusCode::kForked) failures |= 1;
    world.file->unbuffer();
    world.file->close();
    if (S3Source::open(world.client, options_of("x")).status().code() != StatusCode::kForked) {
      failures |= 2;
    }
    world.file.reset();
    ::_exit(failures);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(read(*world.file, 1000, 5 * kMiB) == world.content.substr(1000, 5 * kMiB));
  CHECK(world.server.request_count() == 1);
}

}  // namespace
}  // namespace hflush::s3
