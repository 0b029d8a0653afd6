// ParentOnly: a descriptor that forked children close, so that a lock on its open file, and the
// space of a file without a name, end with the process that has them.
//
// A child that kept the descriptor would keep them, as a writer that lives. Children that
// execute another program close what is O_CLOEXEC by themselves. Thread-compatible; any number of
// threads have one each.
#pragma once

namespace hflush::env {

class ParentOnly {
 public:
  // May throw std::bad_alloc.
  explicit ParentOnly(int descriptor);
  // From now on children have the descriptor. Before it is closed: its number may be used again.
  ~ParentOnly();
  ParentOnly(const ParentOnly&) = delete;
  ParentOnly& operator=(const ParentOnly&) = delete;

 private:
  struct Slot;
  static void close_all() noexcept;

  Slot* const slot_;
};

}  // namespace hflush::env
