#include "hflush/env/parent_only.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace hflush::env {

// Slots are used again, and never freed: a child walks them without a lock, which a thread that it
// has not got might hold.
struct ParentOnly::Slot {
  static Slot* take(ParentOnly* owner);

  static inline std::atomic<Slot*> first{nullptr};

  std::atomic<ParentOnly*> owner;  // null: free
  Slot* next;
};

ParentOnly::Slot* ParentOnly::Slot::take(ParentOnly* owner) {
  for (Slot* slot = first.load(); slot != nullptr; slot = slot->next) {
    ParentOnly* none = nullptr;
    if (slot->owner.compare_exchange_strong(none, owner)) return slot;
  }
  Slot* fresh = new Slot{owner, first.load()};
  while (!first.compare_exchange_weak(fresh->next, fresh)) {
  }
  return fresh;
}

void ParentOnly::close_all() noexcept {
  for (Slot* slot = Slot::first.load(); slot != nullptr; slot = slot->next) {
    ParentOnly* const owner = slot->owner.exchange(nullptr);
    if (owner != nullptr) ::close(std::exchange(owner->descriptor_, -1));
  }
}

// When the library is loaded: a child that is forked meanwhile would wait for ever.
const int ParentOnly::registered_ = pthread_atfork(nullptr, nullptr, &ParentOnly::close_all);

ParentOnly::ParentOnly(int descriptor) : descriptor_(descriptor), slot_(Slot::take(this)) {}

ParentOnly::~ParentOnly() {
  if (!is_closed()) slot_->owner.store(nullptr);  // else the child may have given it to another
}

}  // namespace hflush::env
