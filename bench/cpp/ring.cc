// The worker behind bench/test_crc.py's ring cases: copies packets into a ring, by orders on
// standard input, so that the two ways can be timed in turn and in one process.
//
// A packet is 64 KiB and the ring has 16 of them, adjacent, 1 MiB in all. Each line is one pass:
//   memcpy cold | fused cold     64 MiB of source, which is in no cache
//   memcpy hot  | fused hot      64 MiB again, out of 256 KiB which stay in the second-level cache
// and is answered by "done". "check" is answered by "equal" if the fused way, cold, left the
// source's bytes in the ring and each packet's sums are what summing the source alone gives.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/crc/checksum.h"

namespace {

using hflush::ByteView;
using hflush::crc::Kind;

constexpr std::size_t kChunk = 512;
constexpr std::size_t kPacket = std::size_t{64} << 10;
constexpr std::size_t kPackets = 16;
constexpr std::size_t kMoved = std::size_t{64} << 20;
constexpr std::size_t kHot = std::size_t{256} << 10;

using Sums =
    std::array<std::byte, hflush::crc::checksum_count(kPacket, kChunk) * hflush::crc::kSumSize>;

struct alignas(4096) Packet {
  std::array<std::byte, kPacket> data;
};

struct Ring {
  std::array<Packet, kPackets> packets{};
  std::array<Sums, kPackets> sums{};
};

void copy(Ring& ring, ByteView source, bool fused) {
  for (std::size_t at = 0; at < kMoved; at += kPacket) {
    const ByteView packet = source.subspan(at % source.size(), kPacket);
    const std::size_t slot = at / kPacket % kPackets;
    std::byte* const destination = ring.packets[slot].data.data();
    if (fused) {
      hflush::crc::copy_and_sum(Kind::kCrc32c, destination, packet, kChunk, ring.sums[slot].data());
    } else {
      std::memcpy(destination, packet.data(), kPacket);
    }
  }
}

// Requires: a fused, cold pass just before.
bool holds_the_end_of(const Ring& ring, ByteView source) {
  const ByteView last = source.last(kPackets * kPacket);
  for (std::size_t slot = 0; slot < kPackets; ++slot) {
    const ByteView packet = last.subspan(slot * kPacket, kPacket);
    Sums sums;
    hflush::crc::chunk_sums(Kind::kCrc32c, packet, kChunk, sums.data());
    if (!std::ranges::equal(ring.packets[slot].data, packet) || ring.sums[slot] != sums) {
      return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  std::vector<std::byte> source(kMoved);
  std::uint64_t random = 1;
  for (auto& byte : source) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(random >> 56);
  }
  const auto ring = std::make_unique<Ring>();
  const ByteView cold(source);
  for (std::string order; std::getline(std::cin, order);) {
    if (order == "check") {
      copy(*ring, cold, true);
      std::cout << (holds_the_end_of(*ring, cold) ? "equal\n" : "different\n") << std::flush;
      continue;
    }
    const bool hot = order.ends_with(" hot");
    copy(*ring, hot ? cold.first(kHot) : cold, order.starts_with("fused "));
    std::cout << "done\n" << std::flush;
  }
}
