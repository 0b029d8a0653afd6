#include "hflush/hdfs/read/block_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "hdfs/read_answers.h"
#include "hflush/base/endian.h"
#include "testing/bytes.h"

namespace hflush::hdfs {
namespace {

using hflush::testing::bytes_of;
using hflush::testing::pattern;
using testing::accepting_reply;
using testing::answer_to_read;
using testing::last_packet;
using testing::packet;
using testing::refusing_reply;
using testing::StoredReplica;

// A connection on which all of `bytes` has arrived, and which gives at most `most` at a time.
class Feed {
 public:
  explicit Feed(std::string_view bytes, std::size_t most = SIZE_MAX)
      : rest_(as_bytes(bytes)), most_(most) {}

  // One receive. False if the reader wants nothing, or nothing is left.
  bool step(BlockReader& reader, Status& status) {
    const auto wanted = reader.wanted();
    if (wanted.empty() || rest_.empty()) return false;
    std::size_t taken = 0;
    for (const MutableByteView piece : wanted) {
      const std::size_t size = std::min({piece.size(), rest_.size(), most_ - taken});
      std::copy_n(rest_.begin(), size, piece.begin());
      rest_ = rest_.subspan(size);
      taken += size;
    }
    status = reader.received(taken);
    return status.ok();
  }

  Status run(BlockReader& reader) {
    Status status;
    while (step(reader, status)) {
    }
    return status;
  }

  std::size_t left() const { return rest_.size(); }

 private:
  ByteView rest_;
  std::size_t most_;
};

std::string unhex(std::string_view text) {
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      bytes += static_cast<char>(high * 16 + digit);
      high = -1;
    }
  }
  return bytes;
}

// Reads all of a range with reads of `piece` bytes, received `most` at a time.
std::vector<std::byte> read_range(const std::string& answer, std::uint64_t offset,
                                  std::size_t length, std::size_t piece, std::size_t most) {
  BlockReader reader(offset, length);
  Feed feed(answer, most);
  std::vector<std::byte> result;
  while (reader.remaining() > 0) {
    const std::size_t size = std::min<std::uint64_t>(piece, reader.remaining());
    std::vector<std::byte> out(size);
    REQUIRE(reader.deliver(out).ok());
    REQUIRE(feed.run(reader).ok());
    REQUIRE(reader.delivered());
    result.insert(result.end(), out.begin(), out.end());
    REQUIRE(reader.position() == offset + result.size());
  }
  REQUIRE(feed.run(reader).ok());
  CHECK(reader.done());
  CHECK(feed.left() == 0);
  return result;
}

std::vector<std::byte> part(const std::vector<std::byte>& bytes, std::size_t offset,
                            std::size_t length) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

// The recorded answer of a DataNode 3.5.0 to a read of 10 bytes at 1020, of a block of 1032.
std::string recorded_answer() {
  std::string answer = unhex("0e0800 220a 0a050802108004 108004");
  answer += unhex("00000214 0019 090002000000000000 110000000000000000 1800 2508020000");
  answer += unhex("ae10ee5a 7f9dfe7e");
  for (int i = 512; i < 1025; ++i) answer += static_cast<char>(i % 256);
  answer += "hello!!";
  answer += unhex("00000004 0019 090804000000000000 110100000000000000 1801 2500000000");
  return answer;
}

TEST_CASE("block reader: the recorded conversation, cut into any two pieces") {
  const std::string answer = recorded_answer();
  const auto expected = bytes_of(unhex("fcfdfeff00") + "hello");
  for (std::size_t cut = 1; cut <= answer.size(); ++cut) {
    CAPTURE(cut);
    BlockReader reader(1020, 10);
    std::vector<std::byte> out(10);
    REQUIRE(reader.deliver(out).ok());
    REQUIRE(Feed(std::string_view(answer).substr(0, cut)).run(reader).ok());
    CHECK(reader.done() == (cut == answer.size()));
    REQUIRE(Feed(std::string_view(answer).substr(cut)).run(reader).ok());
    CHECK(reader.done());
    CHECK(reader.checksum() == ChecksumParameters{crc::Kind::kCrc32c, 512});
    CHECK(out == expected);
    CHECK(reader.end_of_read() == unhex("020806"));  // CHECKSUM_OK
  }
}

TEST_CASE("block reader: the recorded conversation, byte by byte") {
  const auto expected = bytes_of(unhex("fcfdfeff00") + "hello");
  for (const std::size_t piece : {1U, 3U, 10U}) {
    CHECK(read_range(recorded_answer(), 1020, 10, piece, 1) == expected);
  }
}

TEST_CASE("block reader: every range of a block, in reads and receives of every kind of size") {
  const StoredReplica replica(pattern(5000), {crc::Kind::kCrc32c, 512}, 1024);
  const std::size_t edges[] = {0, 1, 511, 512, 513, 1023, 1024, 1025, 4607, 4608, 4999};
  for (const bool send_checksums : {true, false}) {
    for (const std::size_t begin : edges) {
      for (const std::size_t last : edges) {
        if (last < begin) continue;
        const std::size_t length = last - begin + 1;
        const std::string answer = answer_to_read(replica, begin, length, send_checksums);
        for (const std::size_t piece : {std::size_t{100}, std::size_t{512}, std::size_t{700},
                                        std::size_t{2048}, std::size_t{5000}}) {
          for (const std::size_t most : {std::size_t{7}, std::size_t{600}, SIZE_MAX}) {
            CAPTURE(begin);
            CAPTURE(length);
            CAPTURE(piece);
            CAPTURE(most);
            CHECK(read_range(answer, begin, length, piece, most) ==
                  part(replica.bytes, begin, length));
          }
        }
      }
    }
  }
}

TEST_CASE("block reader: chunks of any size, and both kinds of sums") {
  const auto bytes = pattern(300'000);
  for (const auto kind : {crc::Kind::kCrc32, crc::Kind::kCrc32c, crc::Kind::kNone}) {
    for (const std::uint32_t chunk : {1U, 16U, 700U, 65536U, 1U << 20U}) {
      const std::size_t packet_size = std::max<std::size_t>(65536 / chunk, 1) * chunk;
      const StoredReplica replica(bytes, {kind, chunk}, packet_size);
      const std::string answer = answer_to_read(replica, 1234, 200'000);
      CAPTURE(chunk);
      CHECK(read_range(answer, 1234, 200'000, 65536, 30'000) == part(bytes, 1234, 200'000));
    }
  }
}

TEST_CASE("block reader: whole chunks are received straight into the caller's memory") {
  const StoredReplica replica(pattern(1 << 20U));
  const std::string answer = answer_to_read(replica, 0, 1 << 20U);
  BlockReader reader(0, 1 << 20U);
  std::vector<std::byte> out(1 << 20U);
  REQUIRE(reader.deliver(out).ok());
  std::size_t direct = 0;
  std::size_t receives = 0;
  ByteView rest = as_bytes(answer);
  while (!rest.empty()) {
    std::size_t taken = 0;
    for (const MutableByteView piece : reader.wanted()) {
      const std::size_t size = std::min(piece.size(), rest.size());
      std::copy_n(rest.begin(), size, piece.begin());
      const bool is_callers = piece.data() >= out.data() && piece.data() < out.data() + out.size();
      if (is_callers) direct += size;
      rest = rest.subspan(size);
      taken += size;
    }
    REQUIRE(reader.received(taken).ok());
    ++receives;
  }
  CHECK(out == replica.bytes);
  CHECK(reader.done());
  // All but what came with the reply; then as many packets at once as there are.
  CHECK(direct > out.size() - 4096);
  CHECK(receives == 2);
}

TEST_CASE("block reader: packets of any sizes, one after the other, in any split") {
  const StoredReplica replica(pattern(300'000));
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t sizes[] = {512, 1024, 4096, 4096, 65536};
    // Long runs of one size, so that the next packet's place is guessed right, and then is not.
    std::vector<std::size_t> packets;
    while (packets.size() < 600) packets.insert(packets.end(), random() % 40, sizes[random() % 5]);
    const std::size_t begin = random() % 2000;
    const std::size_t length = 1 + random() % (replica.bytes.size() - begin);
    const bool send_checksums = random() % 4 != 0;
    const std::string answer = testing::answer_in_packets(
        replica, begin, length, send_checksums,
        [&](std::int64_t n) { return packets[static_cast<std::size_t>(n)]; });
    const std::size_t piece = 1 + random() % length;
    const std::size_t most = random() % 2 == 0 ? SIZE_MAX : 1 + random() % 100'000;
    CAPTURE(round);
    if (length / piece > 2000) continue;
    CHECK(read_range(answer, begin, length, piece, most) == part(replica.bytes, begin, length));
  }
}

TEST_CASE("block reader: a damaged packet among those that came at once") {
  const StoredReplica good(pattern(1 << 20U));
  for (const std::size_t at : {std::size_t{70'000}, std::size_t{500'000}, std::size_t{1'048'575}}) {
    StoredReplica bad = good;
    bad.bytes[at] ^= std::byte{2};
    BlockReader reader(0, 1 << 20U);
    std::vector<std::byte> out(1 << 20U);
    REQUIRE(reader.deliver(out).ok());
    const Status failure = Feed(answer_to_read(bad, 0, 1 << 20U)).run(reader);
    REQUIRE(failure.code() == StatusCode::kChecksum);
    CHECK(failure.checksum_mismatch()->position == at / 512 * 512);
    CHECK(reader.position() == at / 65536 * 65536);
    CHECK(part(out, 0, reader.position()) == part(good.bytes, 0, reader.position()));
  }
}

TEST_CASE("block reader: packet headers with a field that is not known yet") {
  const StoredReplica replica(pattern(1 << 20U));
  std::string answer = answer_to_read(replica, 0, 1 << 20U);
  // In the sixth packet's header, after the first five were like each other.
  const std::size_t reply = accepting_reply(replica.checksum, 0).size();
  const std::size_t header = reply + 5 * (31 + 512 + 65536);
  answer[header + 5] = static_cast<char>(answer[header + 5] + 3);
  answer.insert(header + 31, std::string("\x80\x01\x07", 3));  // field 16: 7
  CHECK(read_range(answer, 0, 1 << 20U, 1 << 20U, SIZE_MAX) == replica.bytes);
  CHECK(read_range(answer, 0, 1 << 20U, 1 << 20U, 200'000) == replica.bytes);
}

TEST_CASE("block reader: what still comes is never less than it says") {
  const StoredReplica replica(pattern(200'000));
  for (const std::size_t most : {std::size_t{1'000}, std::size_t{70'000}, SIZE_MAX}) {
    const std::string answer = answer_to_read(replica, 700, 190'000);
    BlockReader reader(700, 190'000);
    Feed feed(answer, most);
    std::vector<std::byte> out(190'000);
    REQUIRE(reader.deliver(out).ok());
    Status status;
    CHECK(reader.still_to_come() == 190'000);
    while (feed.step(reader, status)) CHECK(reader.still_to_come() <= feed.left());
    CHECK(reader.done());
    CHECK(reader.still_to_come() == 0);
  }
}

TEST_CASE("block reader: nothing is asked for while the caller wants nothing") {
  const StoredReplica replica(pattern(200'000));
  const std::string answer = answer_to_read(replica, 0, 200'000);
  BlockReader reader(0, 200'000);
  Feed feed(answer);
  REQUIRE(feed.run(reader).ok());  // the reply, before anything is to be delivered
  CHECK(reader.accepted());
  CHECK(reader.wanted().empty());
  std::vector<std::byte> out(200'000);
  for (const std::size_t size : {std::size_t{65536}, std::size_t{65024}}) {
    const MutableByteView next = MutableByteView(out).subspan(reader.position(), size);
    REQUIRE(reader.deliver(next).ok());
    REQUIRE(feed.run(reader).ok());
    CHECK(reader.delivered());
    CHECK(reader.wanted().empty());
    CHECK_FALSE(reader.done());
  }
  REQUIRE(reader.deliver(MutableByteView(out).subspan(reader.position())).ok());
  REQUIRE(feed.run(reader).ok());
  CHECK(out == replica.bytes);
  CHECK(reader.done());
}

TEST_CASE("block reader: a flipped bit anywhere in the data is found, and where") {
  const StoredReplica good(pattern(3000), {crc::Kind::kCrc32c, 512}, 1024);
  for (const std::size_t at : {0U, 511U, 512U, 1024U, 2047U, 2999U}) {
    for (const std::size_t piece : {100U, 1500U, 3000U}) {
      CAPTURE(at);
      CAPTURE(piece);
      StoredReplica bad = good;
      bad.bytes[at] ^= std::byte{0x10};
      const std::string answer = answer_to_read(bad, 0, 3000);
      BlockReader reader(0, 3000);
      Feed feed(answer);
      Status status;
      std::vector<std::byte> out(3000);
      while (status.ok()) {
        const std::size_t size = std::min<std::uint64_t>(piece, reader.remaining());
        REQUIRE(size > 0);
        status = reader.deliver(MutableByteView(out).subspan(reader.position(), size));
        if (status.ok()) status = feed.run(reader);
      }
      CHECK(status.code() == StatusCode::kChecksum);
      CHECK(reader.position() <= at);
      CHECK(part(out, 0, reader.position()) == part(good.bytes, 0, reader.position()));
      const std::size_t chunk = at / 512;
      const ByteView bytes = ByteView(bad.bytes).subspan(chunk * 512);
      REQUIRE(status.checksum_mismatch() != nullptr);
      CHECK(status.checksum_mismatch()->position == chunk * 512);
      CHECK(status.checksum_mismatch()->expected == load_be32(good.sums.data() + chunk * 4));
      CHECK(status.checksum_mismatch()->actual ==
            crc::extend(crc::Kind::kCrc32c, 0,
                        bytes.first(std::min<std::size_t>(512, bytes.size()))));
      CHECK(reader.wanted().empty());
      CHECK_FALSE(reader.done());
    }
  }
}

TEST_CASE("block reader: a flipped bit in a chunk of which one byte is wanted is found") {
  StoredReplica bad(pattern(1024));
  bad.bytes[0] ^= std::byte{1};
  BlockReader reader(511, 1);
  std::vector<std::byte> out(1);
  REQUIRE(reader.deliver(out).ok());
  CHECK(Feed(answer_to_read(bad, 511, 1)).run(reader).code() == StatusCode::kChecksum);
}

TEST_CASE("block reader: without checksums nothing is verified, and it says so") {
  StoredReplica bad(pattern(1000));
  bad.bytes[7] ^= std::byte{1};
  const std::string answer = answer_to_read(bad, 0, 1000, false);
  BlockReader reader(0, 1000);
  std::vector<std::byte> out(1000);
  REQUIRE(reader.deliver(out).ok());
  REQUIRE(Feed(answer).run(reader).ok());
  CHECK(out == bad.bytes);
  CHECK(reader.end_of_read() == unhex("020800"));  // SUCCESS
}

TEST_CASE("block reader: a replica without checksums is not read where they are required") {
  const StoredReplica replica(pattern(1000));
  const std::string answer = answer_to_read(replica, 0, 1000, false);
  BlockReader reader(0, 1000, Sums::kRequired);
  std::vector<std::byte> out(1000);
  REQUIRE(reader.deliver(out).ok());
  const Status refusal = Feed(answer).run(reader);
  CHECK(is_without_sums(refusal));
  CHECK(refusal.message().find("no checksums") != std::string::npos);
  CHECK(reader.position() == 0);
  CHECK_FALSE(reader.accepted());
  const std::string summed = answer_to_read(replica, 0, 1000);
  BlockReader content(0, 1000, Sums::kRequired);
  REQUIRE(content.deliver(out).ok());
  CHECK(Feed(summed).run(content).ok());
  CHECK(out == replica.bytes);
}

TEST_CASE("block reader: a refusal says which, and why") {
  const auto refused = [](TransferStatus status, std::string_view why) {
    BlockReader reader(0, 10);
    std::vector<std::byte> out(10);
    REQUIRE(reader.deliver(out).ok());
    const Status failure = Feed(refusing_reply(status, why)).run(reader);
    CHECK_FALSE(reader.accepted());
    CHECK_FALSE(reader.done());
    CHECK(reader.wanted().empty());
    return failure;
  };
  const Status error = refused(TransferStatus::kError, "no such replica");
  CHECK(error.code() == StatusCode::kIo);
  CHECK(error.message() == "refused with ERROR: no such replica");
  const Status token = refused(TransferStatus::kErrorAccessToken, "");
  CHECK(token.code() == StatusCode::kPermissionDenied);
  CHECK(token.message() == "refused with ERROR_ACCESS_TOKEN");
  // The text of an exception may be longer than what is received at once.
  CHECK(refused(TransferStatus::kError, std::string(20'000, 'x')).message().size() > 20'000);
}

struct Broken {
  std::string what;
  std::string answer;
  std::string message;  // part of the failure's
};

PacketHeader header_of(std::uint64_t offset, std::int64_t sequence_number, std::uint32_t data_size,
                       std::uint32_t sums_size) {
  PacketHeader header;
  header.offset_in_block = offset;
  header.sequence_number = sequence_number;
  header.data_size = data_size;
  header.sums_size = sums_size;
  return header;
}

std::vector<Broken> broken_answers() {
  const ChecksumParameters sums{crc::Kind::kCrc32c, 512};
  const std::string reply = accepting_reply(sums, 512);  // to a read of 1000 bytes at 600
  const StoredReplica replica(pattern(4096));
  const auto at = [&](std::uint64_t offset, std::size_t size) {
    return ByteView(replica.bytes).subspan(offset, size);
  };
  const auto sums_at = [&](std::uint64_t offset, std::size_t size) {
    return ByteView(replica.sums).subspan(offset / 512 * 4, size);
  };
  const auto good = packet(header_of(512, 0, 512, 4), sums_at(512, 4), at(512, 512));
  return {
      {"no message", std::string("\x01\xff", 2), "BlockOpResponse"},
      {"a message without end", std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), ""},
      {"a message too long", std::string("\xff\xff\xff\x7f"), ""},
      {"HTTP", "HTTP/1.1 400 Bad Request\r\n" + std::string(60, '-') + "\r\n\r\n", ""},
      {"an empty reply", std::string(1, '\0'), "BlockOpResponse"},
      {"success without checksum", unhex("020800"), "without saying how the block is summed"},
      {"chunks of no bytes", accepting_reply({crc::Kind::kCrc32, 0}, 600), "ChecksumProto"},
      {"starts after the range", accepting_reply(sums, 601), "starts at 601"},
      {"starts a chunk early", accepting_reply(sums, 88), "starts at 88"},
      {"starts far too early", accepting_reply(sums, 0), "starts at 0"},
      {"starts beyond all", accepting_reply(sums, ~0ULL), "ReadOpChecksumInfoProto"},
      {"starts early without sums", accepting_reply({crc::Kind::kNone, 1}, 599), "starts at 599"},
      {"wrong first sequence number", reply + packet(header_of(512, 1, 512, 4), {}, {}),
       "packet 0 was due"},
      {"negative sequence number", reply + packet(header_of(512, -1, 512, 4), {}, {}),
       "packet 0 was due"},
      {"wrong offset", reply + packet(header_of(0, 0, 512, 4), {}, {}), "offset 512 was due"},
      {"repeated packet", reply + good + good, "packet 1 was due"},
      {"a gap", reply + good + packet(header_of(1536, 1, 512, 4), {}, {}), "offset 1024 was due"},
      {"beyond the range", reply + packet(header_of(512, 0, 2048, 16), {}, {}),
       "the range ends at 1600"},
      {"too few sums", reply + packet(header_of(512, 0, 1024, 4), {}, {}),
       "4 bytes of checksums where 8 belong"},
      {"too many sums", reply + packet(header_of(512, 0, 512, 8), {}, {}),
       "8 bytes of checksums where 4 belong"},
      {"no sums", reply + packet(header_of(512, 0, 512, 0), {}, {}),
       "0 bytes of checksums where 4 belong"},
      {"sums where there are none",
       accepting_reply({crc::Kind::kNone, 512}, 512) + packet(header_of(512, 0, 512, 4), {}, {}),
       "4 bytes of checksums where 0 belong"},
      {"an empty packet", reply + packet(header_of(512, 0, 0, 0), {}, {}),
       "empty, and not the last one"},
      {"the last one too early", reply + good + last_packet(1, 1024), "576 bytes early"},
      {"the last one at once", reply + last_packet(0, 512), "1088 bytes early"},
      {"no header", reply + std::string("\x00\x00\x00\x04\x00\x02\xff\xff", 8), ""},
      {"a packet of 2 GiB", reply + std::string("\x7f\xff\xff\xff\x00\x19", 6), ""},
      {"a length that does not count itself", reply + std::string("\x00\x00\x00\x03\x00\x19", 6),
       ""},
  };
}

TEST_CASE("block reader: what breaks the protocol is refused, in every split") {
  for (const Broken& broken : broken_answers()) {
    for (const std::size_t most : {std::size_t{1}, std::size_t{3}, std::size_t{100}, SIZE_MAX}) {
      CAPTURE(broken.what);
      CAPTURE(most);
      BlockReader reader(600, 1000);
      std::vector<std::byte> out(1000);
      REQUIRE(reader.deliver(out).ok());
      const Status failure = Feed(broken.answer, most).run(reader);
      CHECK(failure.code() == StatusCode::kIo);
      CAPTURE(failure.message());
      CHECK(failure.message().find(broken.message) != std::string::npos);
      CHECK(reader.wanted().empty());
      CHECK_FALSE(reader.done());
    }
  }
}

TEST_CASE("block reader: the last packet must be empty, and nothing may follow it") {
  const StoredReplica replica(pattern(512));
  const std::string answer = answer_to_read(replica, 0, 512);
  std::vector<std::byte> out(512);

  const std::string head = answer.substr(0, answer.size() - 31);
  PacketHeader full = header_of(512, 1, 512, 4);
  full.last_in_block = true;
  BlockReader reader(0, 512);
  REQUIRE(reader.deliver(out).ok());
  const Status failure = Feed(head + packet(full, {}, {})).run(reader);
  CHECK(failure.message().find("the last one is not empty") != std::string::npos);
  CHECK(reader.position() == 512);  // what was asked for is there all the same
  CHECK(out == replica.bytes);

  BlockReader followed(0, 512);
  REQUIRE(followed.deliver(out).ok());
  REQUIRE(Feed(answer + "x").run(followed).ok());
  CHECK(followed.remaining() == 0);
  CHECK_FALSE(followed.done());
}

TEST_CASE("block reader: any bytes at all end in a result or a clear failure") {
  std::mt19937 random(4);
  const StoredReplica replica(pattern(2000), {crc::Kind::kCrc32c, 512}, 1024);
  const std::string good = answer_to_read(replica, 100, 1500);
  std::size_t failures = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string answer = good;
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      answer[random() % std::min<std::size_t>(answer.size(), 60)] = static_cast<char>(random());
    }
    BlockReader reader(100, 1500);
    std::vector<std::byte> out(1500);
    REQUIRE(reader.deliver(out).ok());
    const Status status = Feed(answer, 1 + random() % 2000).run(reader);
    if (!status.ok()) {
      ++failures;
      CHECK_FALSE(status.message().empty());
    } else if (reader.remaining() == 0 && reader.end_of_read() == unhex("020806")) {
      CHECK(out == part(replica.bytes, 100, 1500));
    }
  }
  CHECK(failures > 10'000);
}

}  // namespace
}  // namespace hflush::hdfs
