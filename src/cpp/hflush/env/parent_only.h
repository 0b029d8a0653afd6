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

  // Whether this is a child's copy: its number is that of nothing, or of another file by now.
  bool is_closed() const noexcept { return descriptor_ < 0; }

 private:
  struct Slot;
  static void close_all() noexcept;
  static const int registered_;

  int descriptor_;
  Slot* const slot_;
};

}  // namespace hflush::env
