// Progress: how far the bytes of a stream have got, and what its sink was asked for.
//
// Pure. Thread-compatible: the stream's mutex guards it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "hflush/base/status.h"
#include "hflush/stream/sink.h"

namespace hflush::stream {

class Progress {
 public:
  // The last request for a level that the sink refused.
  struct Refusal {
    std::uint64_t number = 0;  // counts them
    std::uint64_t offset = 0;  // covered
    Status why;
  };

  explicit Progress(std::uint64_t start) noexcept : acknowledged_(start) {}

  // What the sink reports. acknowledged(): true if the writer that waits for the window has room
  // now; with less room than it needs it would only wait again.
  bool acknowledged(std::uint64_t offset) noexcept;
  void reached(Level level, std::uint64_t offset) noexcept;
  // As if it had not been requested: the next thread that wants it requests it again.
  void refused(Level level, std::uint64_t offset, Status why) noexcept;
  void finished() noexcept { is_finished_ = true; }

  void requested(Level level, std::uint64_t offset) noexcept {
    of(level).requested.raise_to(offset);
  }
  // A writer waits until so much is acknowledged; nullopt: it waits no longer.
  void need(std::optional<std::uint64_t> offset) noexcept { needed_ = offset; }

  bool has_reached(Level level, std::uint64_t offset) const noexcept {
    return of(level).reached.covers(offset);
  }
  // No request for `level` is under way.
  bool is_answered(Level level) const noexcept {
    return of(level).reached.covers(of(level).requested);
  }
  const Refusal& refusal(Level level) const noexcept { return of(level).refusal; }
  std::uint64_t acknowledged() const noexcept { return acknowledged_; }
  bool is_finished() const noexcept { return is_finished_; }

 private:
  // The furthest offset for which something is known; none before the first time.
  class Mark {
   public:
    bool covers(std::uint64_t offset) const noexcept { return offset_ && *offset_ >= offset; }
    bool covers(const Mark& other) const noexcept {
      return !other.offset_ || covers(*other.offset_);
    }
    void raise_to(std::uint64_t offset) noexcept {
      if (!covers(offset)) offset_ = offset;
    }

   private:
    std::optional<std::uint64_t> offset_;
  };
  struct Marks {
    Mark requested;
    Mark reached;
    Refusal refusal;
  };

  Marks& of(Level level) noexcept { return marks_[static_cast<std::size_t>(level)]; }
  const Marks& of(Level level) const noexcept { return marks_[static_cast<std::size_t>(level)]; }

  std::array<Marks, kLevels> marks_;  // by Level
  std::uint64_t acknowledged_;
  std::optional<std::uint64_t> needed_;
  bool is_finished_ = false;
};

}  // namespace hflush::stream
