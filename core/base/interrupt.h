// interrupt: Ctrl-C for long calls.
//
// A caller of the core that wants to be able to stop it opens an Interruptible. Every parallel_for of the call
// then looks at it between chunks, and long loops look by check_interrupt(), on whichever thread they run. Without an
// Interruptible, the check is a null test.
#pragma once

#include <atomic>
#include <exception>
#include <thread>

#include "base/progress.h"

namespace gz {

// While one lives, the work that its thread does or has others do asks `progress` whether to go on. The question is put
// on this thread alone; what it throws stops the other threads too.
class Interruptible {
 public:
  explicit Interruptible(Progress& progress);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  static Interruptible* current();  // this thread's, or null
  void look();                      // throws what `progress` threw

  // For the helpers of a parallel_for: the caller's Interruptible is theirs too while one lives. Null is allowed.
  class Joined {
   public:
    explicit Joined(Interruptible* scope);
    ~Joined();
    Joined(const Joined&) = delete;
    Joined& operator=(const Joined&) = delete;

   private:
    Interruptible* const before_;
  };

 private:
  Progress& progress_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::exception_ptr why_;  // written before stopped_ is set, read after
  std::atomic<bool> stopped_{false};
  const Joined joined_;
};

// Throws when the call that this thread works for was interrupted. For loops that go on for long without a
// parallel_for: some 10,000 times a second is often enough, and costs nothing.
inline void check_interrupt() {
  if (Interruptible* scope = Interruptible::current()) scope->look();
}

}  // namespace gz
