// Cutting: every byte in exactly one packet, at the geometry's boundaries, with the right sums.
#include "hflush/stream/packetizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "hflush/crc/checksum.h"
#include "testing/bytes.h"

namespace hflush::stream {
namespace {

using testing::pattern;

Geometry small_geometry(crc::Kind kind, std::size_t chunk = 8, std::size_t packet = 32) {
  Geometry geometry;
  geometry.checksum = kind;
  geometry.bytes_per_checksum = chunk;
  geometry.packet_bytes = packet;
  geometry.batch_bytes = packet;
  geometry.window_bytes = 4 * packet;
  return geometry;
}

// The file that the packets describe, and a check of what each of them promises.
std::vector<std::byte> assemble(const Geometry& geometry, const std::vector<Packet>& packets) {
  std::vector<std::byte> file;
  for (const Packet& packet : packets) {
    REQUIRE(packet.offset() - geometry.start <= file.size());  // no gap; a replay may overlap
    file.resize(packet.offset() - geometry.start);
    file.insert(file.end(), packet.data().begin(), packet.data().end());
    CHECK(packet.data().size() <= geometry.packet_bytes);
    CHECK(packet.sums().data() + packet.sums().size() == packet.data().data());
    if (geometry.has_checksums()) {
      std::vector<std::byte> sums(packet.sums().size());
      REQUIRE(sums.size() == crc::kSumSize * crc::checksum_count(packet.data().size(),
                                                                 geometry.bytes_per_checksum));
      crc::chunk_sums(geometry.checksum, packet.data(), geometry.bytes_per_checksum, sums.data());
      CHECK(std::equal(sums.begin(), sums.end(), packet.sums().begin()));
    } else {
      CHECK(packet.sums().empty());
    }
    if (geometry.has_chunks()) {
      std::uint64_t into_block = packet.offset() - geometry.block_start;
      if (geometry.block_bytes != 0) into_block %= geometry.block_bytes;
      const std::size_t into_chunk = into_block % geometry.bytes_per_checksum;
      if (into_chunk != 0) {
        CHECK(packet.data().size() <= geometry.bytes_per_checksum - into_chunk);
      }
    }
    if (geometry.block_bytes != 0) {
      const std::uint64_t begin = packet.offset() - geometry.block_start;
      const std::uint64_t last = packet.end() - 1 - geometry.block_start;
      CHECK(begin / geometry.block_bytes == last / geometry.block_bytes);
    }
  }
  return file;
}

TEST_CASE("any split of the input gives the same file") {
  BufferPool pool(1 << 20);
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose
  const auto no_chunks = small_geometry(crc::Kind::kNone, 0, 8192);
  const auto no_sums = small_geometry(crc::Kind::kNone, 512, 8192);
  const auto crc32 = small_geometry(crc::Kind::kCrc32, 512, 8192);
  const auto crc32c = small_geometry(crc::Kind::kCrc32c, 512, 8192);
  const auto large_chunks = small_geometry(crc::Kind::kCrc32c, 4096, 8192);
  for (Geometry geometry : {no_chunks, no_sums, crc32, crc32c, large_chunks}) {
    for (int round = 0; round < 200; ++round) {
      geometry.block_bytes = round % 3 == 0 ? 20480 : 0;
      Packetizer packetizer(geometry, pool);
      const auto data = pattern(std::uniform_int_distribution<std::size_t>(0, 60000)(random));
      std::vector<Packet> sealed;
      std::size_t done = 0;
      while (done < data.size()) {
        const std::size_t largest = round % 2 == 0 ? 300 : 20000;
        const std::size_t count = std::min(
            data.size() - done, std::uniform_int_distribution<std::size_t>(1, largest)(random));
        if (count < packetizer.room()) {
          packetizer.append_within({data.data() + done, count});
        } else {
          packetizer.append({data.data() + done, count}, sealed);
        }
        done += count;
        CHECK(packetizer.position() == done);
        if (round % 5 == 0) packetizer.cut(Cut::kEverything, sealed);
        if (round % 7 == 0) packetizer.cut(Cut::kWholeChunks, sealed);
      }
      packetizer.cut(Cut::kFinal, sealed);
      CHECK(assemble(geometry, sealed) == data);
    }
  }
}

TEST_CASE("whole chunks: the partial chunk is kept back") {
  BufferPool pool(0);
  Packetizer packetizer(small_geometry(crc::Kind::kCrc32), pool);
  std::vector<Packet> sealed;
  packetizer.append(pattern(21), sealed);
  CHECK(sealed.empty());
  CHECK(packetizer.position_after(Cut::kWholeChunks) == 16);
  packetizer.cut(Cut::kWholeChunks, sealed);
  REQUIRE(sealed.size() == 1);
  CHECK(sealed[0].data().size() == 16);
  packetizer.cut(Cut::kWholeChunks, sealed);
  CHECK(sealed.size() == 1);
  packetizer.cut(Cut::kFinal, sealed);
  REQUIRE(sealed.size() == 2);
  CHECK(sealed[1].offset() == 16);
  CHECK(sealed[1].data().size() == 5);
}

TEST_CASE("HDFS-13: a partial chunk cut by a flush comes again, extended") {
  BufferPool pool(0);
  Packetizer packetizer(small_geometry(crc::Kind::kCrc32c), pool);
  std::vector<Packet> sealed;
  packetizer.append(pattern(10), sealed);
  packetizer.cut(Cut::kEverything, sealed);
  packetizer.cut(Cut::kEverything, sealed);  // nothing new: nothing sealed
  REQUIRE(sealed.size() == 1);
  CHECK(sealed[0].end() == 10);
  const auto rest = pattern(20);
  packetizer.append({rest.data() + 10, 10}, sealed);
  packetizer.cut(Cut::kEverything, sealed);
  REQUIRE(sealed.size() == 2);
  CHECK(sealed[1].offset() == 8);
  CHECK(sealed[1].end() == 20);
  CHECK(assemble(small_geometry(crc::Kind::kCrc32c), sealed) == rest);
}

TEST_CASE("HDFS-13: chunks without sums are cut and come again like those with sums") {
  BufferPool pool(0);
  const Geometry geometry = small_geometry(crc::Kind::kNone);
  Packetizer packetizer(geometry, pool);
  std::vector<Packet> sealed;
  const auto data = pattern(40);
  packetizer.append({data.data(), 10}, sealed);
  CHECK(packetizer.position_after(Cut::kWholeChunks) == 8);
  packetizer.cut(Cut::kEverything, sealed);
  packetizer.append({data.data() + 10, 30}, sealed);
  REQUIRE(sealed.size() == 2);
  CHECK(sealed[0].end() == 10);
  CHECK(sealed[1].offset() == 8);
  CHECK(sealed[1].end() == 40);
  CHECK(sealed[1].sums().empty());
  CHECK(assemble(geometry, sealed) == data);
}

TEST_CASE("without chunks a packet ends anywhere, and nothing comes again") {
  BufferPool pool(0);
  const Geometry geometry = small_geometry(crc::Kind::kNone, 0);
  Packetizer packetizer(geometry, pool);
  std::vector<Packet> sealed;
  const auto data = pattern(42);
  packetizer.append({data.data(), 10}, sealed);
  CHECK(packetizer.position_after(Cut::kWholeChunks) == 10);
  packetizer.cut(Cut::kWholeChunks, sealed);
  packetizer.append({data.data() + 10, 32}, sealed);
  REQUIRE(sealed.size() == 2);
  CHECK(sealed[1].offset() == 10);
  CHECK(sealed[1].end() == 42);
  CHECK(assemble(geometry, sealed) == data);
}

TEST_CASE("an append inside a chunk ends that chunk with its first packet") {
  BufferPool pool(0);
  Geometry geometry;
  SUBCASE("with sums") { geometry = small_geometry(crc::Kind::kCrc32c); }
  SUBCASE("without") { geometry = small_geometry(crc::Kind::kNone); }
  geometry.start = 21;
  Packetizer packetizer(geometry, pool);
  std::vector<Packet> sealed;
  packetizer.append(pattern(60), sealed);
  packetizer.cut(Cut::kFinal, sealed);
  REQUIRE(sealed.size() == 3);
  CHECK(sealed[0].data().size() == 3);
  CHECK(sealed[1].offset() == 24);
  CHECK(assemble(geometry, sealed) == pattern(60));
}

TEST_CASE("blocks and chunks are counted from where the block begins, not from the file's start") {
  BufferPool pool(0);
  Geometry geometry = small_geometry(crc::Kind::kCrc32c);
  geometry.block_bytes = 40;
  SUBCASE("a new block behind a short one") { geometry.block_start = geometry.start = 21; }
  SUBCASE("inside a chunk of a block behind a short one") {
    geometry.block_start = 21;
    geometry.start = 32;
  }
  SUBCASE("at the end of a chunk") {
    geometry.block_start = 21;
    geometry.start = 37;
  }
  SUBCASE("a chunk before the block's end") {
    geometry.block_start = 3;
    geometry.start = 40;
  }
  CAPTURE(geometry.start);
  Packetizer packetizer(geometry, pool);
  std::vector<Packet> sealed;
  const auto data = pattern(130);
  for (const std::byte& one : data) {
    packetizer.append({&one, 1}, sealed);
    if (packetizer.position() % 11 == 0) packetizer.cut(Cut::kEverything, sealed);
  }
  packetizer.cut(Cut::kFinal, sealed);
  CHECK(assemble(geometry, sealed) == data);
  bool aligned = false;
  for (const Packet& packet : sealed) {
    const std::uint64_t into_block = (packet.offset() - geometry.block_start) % 40;
    const std::uint64_t into_chunk = into_block % 8;
    if (aligned) CHECK(into_chunk == 0);
    if (into_chunk != 0) CHECK(packet.data().size() <= 8 - into_chunk);
    aligned = aligned || (packet.end() - geometry.block_start) % 8 == 0;
  }
}

TEST_CASE("HSYNC-17: a block that ends early: the next packet begins another one, and a chunk") {
  BufferPool pool(0);
  Geometry geometry = small_geometry(crc::Kind::kCrc32c);
  geometry.block_bytes = 40;
  Packetizer packetizer(geometry, pool);
  std::vector<Packet> sealed;
  const auto data = pattern(100);
  packetizer.append({data.data(), 11}, sealed);
  SUBCASE("at once") {}
  SUBCASE("after a flush of all but a byte") {
    packetizer.cut(Cut::kEverything, sealed);
    packetizer.append({data.data() + 11, 1}, sealed);
  }
  SUBCASE("after a flush of all of it") { packetizer.cut(Cut::kEverything, sealed); }
  const std::uint64_t end = packetizer.position();
  CHECK(packetizer.position_after(Cut::kBlock) == end);
  packetizer.cut(Cut::kBlock, sealed);
  CHECK(packetizer.position() == end);
  CHECK(packetizer.room() == 0);
  REQUIRE_FALSE(sealed.empty());
  CHECK(sealed.back().end() == end);
  const std::size_t before = sealed.size();
  packetizer.cut(Cut::kBlock, sealed);  // nothing to end
  CHECK(sealed.size() == before);

  packetizer.append({data.data() + end, 100 - end}, sealed);
  packetizer.cut(Cut::kFinal, sealed);
  REQUIRE(sealed.size() > before + 2);
  CHECK(sealed[before].offset() == end);
  CHECK(sealed[before].end() == end + 32);
  CHECK(sealed[before + 1].end() == end + 40);  // a full block
  CHECK(sealed[before + 2].offset() == end + 40);
  CHECK(sealed.back().end() == 100);
}

TEST_CASE("HSYNC-17: a block that ends in the first chunk of an append, flushed or not") {
  for (const bool flushed : {false, true}) {
    CAPTURE(flushed);
    BufferPool pool(1 << 20);
    Geometry geometry = small_geometry(crc::Kind::kCrc32c);
    geometry.start = 18;  // two bytes in the chunk
    geometry.block_bytes = 40;
    Packetizer packetizer(geometry, pool);
    std::vector<Packet> sealed;
    const auto data = pattern(50);
    packetizer.append({data.data(), 3}, sealed);
    if (flushed) packetizer.cut(Cut::kEverything, sealed);
    packetizer.cut(Cut::kBlock, sealed);
    REQUIRE(sealed.size() == 1);
    CHECK(sealed[0].offset() == 18);
    CHECK(sealed[0].end() == 21);
    sealed.clear();
    CHECK(pool.cached_bytes() > 0);  // no buffer is kept for what was sealed
    packetizer.append({data.data() + 3, 45}, sealed);
    packetizer.cut(Cut::kFinal, sealed);
    REQUIRE(sealed.size() == 3);  // not cut where the old chunk or the old block would have ended
    CHECK(sealed[0].offset() == 21);
    CHECK(sealed[0].end() == 53);
    CHECK(sealed[1].end() == 61);
    CHECK(sealed[2].end() == 66);
  }
}

TEST_CASE("HSYNC-17: any blocks, cut anywhere: no packet crosses their ends or a chunk's") {
  BufferPool pool(1 << 20);
  std::mt19937 random(17);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    Geometry geometry = small_geometry(round % 3 == 0 ? crc::Kind::kNone : crc::Kind::kCrc32c);
    geometry.block_bytes = 80;
    geometry.block_start = below(5);
    geometry.start = geometry.block_start + below(80);
    Packetizer packetizer(geometry, pool);
    const auto data = pattern(1 + below(900));
    std::vector<Packet> sealed;
    std::vector<std::uint64_t> starts{geometry.block_start};
    std::size_t done = 0;
    while (done < data.size()) {
      const std::size_t count = std::min(data.size() - done, 1 + below(round % 2 == 0 ? 9 : 90));
      packetizer.append({data.data() + done, count}, sealed);
      done += count;
      if (below(3) == 0) packetizer.cut(Cut::kEverything, sealed);
      if (below(3) == 0) packetizer.cut(Cut::kWholeChunks, sealed);
      if (below(4) == 0) {
        packetizer.cut(Cut::kBlock, sealed);
        starts.push_back(packetizer.position());
      }
    }
    packetizer.cut(Cut::kFinal, sealed);
    std::vector<std::byte> file;
    for (const Packet& packet : sealed) {
      const auto behind = std::ranges::upper_bound(starts, packet.offset());
      if (behind != starts.end()) CHECK(packet.end() <= *behind);
      const std::uint64_t into_block = (packet.offset() - *(behind - 1)) % 80;
      const std::uint64_t size = packet.data().size();
      CHECK(size > 0);
      CHECK(into_block + size <= 80);
      if (into_block % 8 != 0) CHECK(size <= 8 - into_block % 8);
      REQUIRE(packet.offset() - geometry.start <= file.size());
      file.resize(packet.offset() - geometry.start);
      file.insert(file.end(), packet.data().begin(), packet.data().end());
    }
    CHECK(file == data);
  }
}

TEST_CASE("a wire header fits in front of sums and data, in one run of memory") {
  BufferPool pool(0);
  Packetizer packetizer(small_geometry(crc::Kind::kCrc32c), pool);
  std::vector<Packet> sealed;
  packetizer.append(pattern(9), sealed);
  packetizer.cut(Cut::kFinal, sealed);
  const MutableByteView header = sealed[0].header_room(33);
  CHECK(header.data() + header.size() == sealed[0].sums().data());
  CHECK(sealed[0].sums().size() == 8);
}

TEST_CASE("references stand where they were appended, end with blocks, and hold their owner") {
  BufferPool pool(0);
  Geometry geometry = small_geometry(crc::Kind::kCrc32c);
  geometry.block_bytes = 48;
  geometry.takes_references = true;
  Packetizer packetizer(geometry, pool);
  const auto data = pattern(200);
  const ByteView all(data);
  const Owner owner = std::make_shared<int>();

  std::vector<Packet> sealed;
  packetizer.append(all.first(5), sealed);
  packetizer.append_reference(all.subspan(5, 70), owner, sealed);
  CHECK(packetizer.position() == 75);
  packetizer.append(all.subspan(75, 20), sealed);
  packetizer.append_reference(all.subspan(95, 105), owner, sealed);
  packetizer.cut(Cut::kFinal, sealed);

  std::uint64_t end = 0;
  std::vector<std::uint64_t> ends;
  for (const Packet& packet : sealed) {
    CHECK(packet.offset() == end);
    end = packet.end();
    const auto offset = static_cast<std::size_t>(packet.offset());
    CHECK(std::ranges::equal(packet.data(), all.subspan(offset, packet.data().size())));
    const bool is_there = packet.data().data() == all.data() + packet.offset();
    CHECK(is_there == packet.is_reference());
    std::vector<std::byte> sums(packet.sums().size());
    REQUIRE(sums.size() == crc::kSumSize * crc::checksum_count(packet.data().size(), 8));
    crc::chunk_sums(crc::Kind::kCrc32c, packet.data(), 8, sums.data());
    CHECK(std::ranges::equal(packet.sums(), sums));
    if (packet.is_reference()) ends.push_back(packet.end());
  }
  CHECK(end == data.size());
  CHECK(ends == std::vector<std::uint64_t>{37, 48, 75, 96, 128, 144, 176, 192, 200});
  CHECK(owner.use_count() == 1 + static_cast<long>(ends.size()));
  sealed.clear();
  CHECK(owner.use_count() == 1);
}

TEST_CASE("buffers return to the pool with their packets") {
  BufferPool pool(1 << 20);
  {
    Packetizer packetizer(small_geometry(crc::Kind::kNone), pool);
    std::vector<Packet> sealed;
    packetizer.append(pattern(100), sealed);
    CHECK(pool.cached_bytes() == 0);
    sealed.clear();
    CHECK(pool.cached_bytes() > 0);
  }
  CHECK(pool.cached_bytes() > 0);
}

TEST_CASE("geometry: defaults around odd chunk sizes are valid") {
  for (const std::size_t chunk : {1U, 400U, 512U, 65536U, 1U << 24U}) {
    CAPTURE(chunk);
    CHECK(Geometry::with_checksums(crc::Kind::kCrc32, chunk).valid());
  }
  CHECK(Geometry{}.valid());
  CHECK_FALSE(small_geometry(crc::Kind::kCrc32c, 8, 30).valid());
  CHECK_FALSE(small_geometry(crc::Kind::kNone, 8, 30).valid());
  CHECK_FALSE(small_geometry(crc::Kind::kCrc32c, 0).valid());
  CHECK(small_geometry(crc::Kind::kNone, 0, 30).valid());
  Geometry ragged_block = small_geometry(crc::Kind::kCrc32c);
  ragged_block.block_bytes = 100;
  CHECK_FALSE(ragged_block.valid());
  Geometry later_block = small_geometry(crc::Kind::kCrc32c);
  later_block.block_start = 1;
  CHECK_FALSE(later_block.valid());
}

}  // namespace
}  // namespace hflush::stream
