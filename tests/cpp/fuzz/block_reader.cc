#include "hflush/hdfs/read/block_reader.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fuzz/targets.h"

namespace hflush::fuzz {
namespace {

using hdfs::BlockReader;

struct Range {
  std::uint64_t offset;
  std::uint64_t length;
};

// What became of a read.
struct Outcome {
  bool failed = false;
  bool complete = false;
  std::vector<std::byte> data;  // what was delivered
};

// Puts the front of `bytes` where the reader wants it, `piece` bytes at most; how many that were.
std::size_t fill(BlockReader& reader, ByteView bytes, std::size_t piece) {
  bytes = bytes.first(std::min(bytes.size(), piece));
  std::size_t filled = 0;
  for (const MutableByteView& wanted : reader.wanted()) {
    const std::size_t size = std::min(wanted.size(), bytes.size() - filled);
    if (size > 0) std::memcpy(wanted.data(), bytes.data() + filled, size);
    filled += size;
  }
  return filled;
}

// Reads the range as `bytes` tell it, received in pieces of `piece` bytes and asked for in parts of
// `part` bytes.
Outcome read(Range range, ByteView bytes, std::size_t piece, std::size_t part) {
  BlockReader reader(range.offset, range.length);
  std::vector<std::byte> data(range.length);
  Status status;
  while (status.ok() && (!reader.done() || reader.remaining() > 0)) {
    if (reader.delivered() && reader.remaining() > 0) {
      const std::size_t at = reader.position() - range.offset;
      const std::size_t size = std::min<std::uint64_t>(part, reader.remaining());
      status = reader.deliver(MutableByteView(data).subspan(at, size));
      continue;
    }
    const std::size_t filled = fill(reader, bytes, piece);
    if (filled == 0) break;
    bytes = bytes.subspan(filled);
    status = reader.received(filled);
  }
  require(reader.position() >= range.offset);
  require(reader.position() + reader.remaining() == range.offset + range.length);
  data.resize(reader.position() - range.offset);
  return {.failed = !status.ok(), .complete = reader.remaining() == 0, .data = std::move(data)};
}

}  // namespace

void block_reader(ByteView input) {
  constexpr std::size_t kFront = 4;
  if (input.size() < kFront) return;
  const auto front = [&](std::size_t i) { return std::to_integer<std::size_t>(input[i]); };
  const Range range{.offset = front(0) * 17, .length = 1 + front(1) * 5};
  const ByteView bytes = input.subspan(kFront);
  const Outcome whole = read(range, bytes, bytes.size(), range.length);
  const Outcome cut = read(range, bytes, 1 + front(2), 1 + front(3));
  // How the bytes are cut, and how much is asked for at once, changes nothing but how far a read
  // comes that fails.
  require(whole.failed || cut.failed || whole.complete == cut.complete);
  const auto [one, other] = std::ranges::mismatch(whole.data, cut.data);
  require(one == whole.data.end() || other == cut.data.end());
}

}  // namespace hflush::fuzz
