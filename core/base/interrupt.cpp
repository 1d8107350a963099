// interrupt: which Interruptible a thread works under.
#include "base/interrupt.h"

namespace gz {
namespace {

thread_local Interruptible* t_current = nullptr;

}  // namespace

Interruptible::Joined::Joined(Interruptible* scope) : before_(t_current) { t_current = scope; }
Interruptible::Joined::~Joined() { t_current = before_; }

Interruptible::Interruptible(Progress& progress) : progress_(progress), joined_(this) {}
Interruptible::~Interruptible() = default;

Interruptible* Interruptible::current() { return t_current; }

void Interruptible::look() {
  if (stopped_.load(std::memory_order_acquire)) std::rethrow_exception(why_);
  if (std::this_thread::get_id() != caller_) return;
  try {
    progress_.report("working", 0, 1);
  } catch (...) {
    why_ = std::current_exception();
    stopped_.store(true, std::memory_order_release);
    throw;
  }
}

}  // namespace gz
