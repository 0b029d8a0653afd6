// ReceivePieces: the places that one receive fills, one after the other. Those of what comes next
// for certain are first; behind them may be those of packets that are only expected ("ahead"): what
// has come there is taken piece by piece. Thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"

namespace hflush::hdfs {

class ReceivePieces {
 public:
  static constexpr std::size_t kMax = 64;

  std::span<const MutableByteView> all() const noexcept { return std::span(pieces_).first(count_); }
  std::size_t room() const noexcept { return kMax - count_; }

  // Requires: room() > 0.
  void add(MutableByteView piece) noexcept {
    HFLUSH_DCHECK(room() > 0);
    pieces_[count_++] = piece;
  }
  // Data and head of one packet after the other: the data goes to `data`, which has room for all of
  // it. Requires: room() >= 2 * packets.
  void add_packets(std::size_t packets, MutableByteView data, std::size_t data_size,
                   std::size_t head_size) {
    HFLUSH_DCHECK(room() >= 2 * packets && data.size() >= packets * data_size);
    heads_.resize(packets * head_size);
    for (std::size_t i = 0; i < packets; ++i) {
      add(data.subspan(i * data_size, data_size));
      add(MutableByteView(heads_).subspan(i * head_size, head_size));
    }
  }
  void clear() noexcept { count_ = 0; }

  // `size` bytes have come in the pieces from the `first` one on.
  void came_ahead(std::size_t first, std::size_t size) noexcept {
    next_ = first;
    ahead_ = size;
  }
  bool has_ahead() const noexcept { return ahead_ > 0; }
  // What has come in the next of these pieces. Requires: has_ahead().
  MutableByteView take_ahead() noexcept {
    HFLUSH_DCHECK(has_ahead());
    const MutableByteView piece = pieces_[next_++];
    const std::size_t size = std::min(ahead_, piece.size());
    ahead_ -= size;
    return piece.first(size);
  }

 private:
  std::array<MutableByteView, kMax> pieces_;
  std::size_t count_ = 0;
  std::size_t next_ = 0;   // the piece that the next byte ahead is at the front of
  std::size_t ahead_ = 0;  // bytes
  std::vector<std::byte> heads_;
};

}  // namespace hflush::hdfs
