#include "hflush/env/parent_only.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace hflush::env {
namespace {

constexpr int kNone = -1;

}  // namespace

// Slots are used again, and never freed: a child walks them without a lock, which a thread that it
// has not got might hold.
struct ParentOnly::Slot {
  static Slot* take(int descriptor);

  static inline std::atomic<Slot*> first{nullptr};

  std::atomic<int> descriptor;
  Slot* next;
};

ParentOnly::Slot* ParentOnly::Slot::take(int descriptor) {
  for (Slot* slot = first.load(); slot != nullptr; slot = slot->next) {
    int none = kNone;
    if (slot->descriptor.compare_exchange_strong(none, descriptor)) return slot;
  }
  Slot* fresh = new Slot{descriptor, first.load()};
  while (!first.compare_exchange_weak(fresh->next, fresh)) {
  }
  return fresh;
}

void ParentOnly::close_all() noexcept {
  for (Slot* slot = Slot::first.load(); slot != nullptr; slot = slot->next) {
    const int descriptor = slot->descriptor.exchange(kNone);
    if (descriptor != kNone) ::close(descriptor);
  }
}

ParentOnly::ParentOnly(int descriptor) : slot_(Slot::take(descriptor)) {
  static const int registered = pthread_atfork(nullptr, nullptr, &ParentOnly::close_all);
  static_cast<void>(registered);
}

ParentOnly::~ParentOnly() { slot_->descriptor.store(kNone); }

}  // namespace hflush::env
