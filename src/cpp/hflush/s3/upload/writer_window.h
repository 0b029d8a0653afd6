// WriterWindow: how far the writer of an object may be ahead of what is acknowledged.
//
// The stream counts a small window from the offset that is reported to it as acknowledged:
// reporting a larger offset moves the writer's limit. The limit is always beyond the end of the
// part that is uploaded next, or no part would ever be full; and, as far as the process has memory,
// a little ahead of the writer, up to the stream's own budget.
//
// Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "hflush/s3/memory_budget.h"
#include "hflush/s3/upload/part_sizes.h"

namespace hflush::s3 {

class WriterWindow {
 public:
  // The bytes that a writer may always have unacknowledged: the stream's window is this at most. A
  // writer asks for up to half of it at once.
  static constexpr std::uint64_t kFirst = std::uint64_t{4} << 20U;

  // `whole`: the most bytes that may be unacknowledged. `budget` outlives the
  // window. `begin`: where the writer begins.
  WriterWindow(std::uint64_t whole, const PartSizes& sizes, MemoryBudget& budget,
               std::uint64_t begin = 0) noexcept;

  std::uint64_t whole() const noexcept { return whole_; }
  void acknowledged(std::uint64_t offset) noexcept { acknowledged_ = offset; }

  // Memory is held from the first bytes on. `on_room` is called, on any thread, when memory that
  // was refused is there.
  void open(std::function<void()> on_room) { share_.emplace(budget_, std::move(on_room)); }
  bool is_open() const noexcept { return share_.has_value(); }
  // The writer is at `end`, and bytes below `stored` are out of memory. Returns the offset to
  // report to the stream as acknowledged, if it has changed. Requires: is_open().
  std::optional<std::uint64_t> move(std::uint64_t end, std::uint64_t stored);
  // The writer has ended, its bytes are still needed.
  void hold(std::uint64_t end, std::uint64_t stored);
  // They are not needed.
  void release() noexcept { share_.reset(); }

 private:
  std::uint64_t first() const noexcept;
  std::uint64_t in_memory_from(std::uint64_t end, std::uint64_t stored) const noexcept;

  const std::uint64_t whole_;
  const PartSizes sizes_;
  MemoryBudget& budget_;
  std::uint64_t limit_;
  std::uint64_t granted_ = 0;  // of that, by the budget of the process
  std::uint64_t acknowledged_;
  std::optional<MemoryBudget::Share> share_;
};

}  // namespace hflush::s3
