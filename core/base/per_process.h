// per_process: which process this is, and objects that a process makes on first use and a forked child makes anew.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/fork.h"

#ifndef _WIN32
#include <unistd.h>
#endif

namespace gz {

// The object that `make` returns the address of; there is one for each type of `make`, so pass a lambda. It is never
// destroyed: detached threads and Python may use it while statics are destroyed. A child process has none of the
// threads that used the parent's object and may have inherited a locked mutex, so it abandons that object.
template <class Make>
auto& per_process(const Make& make) {
  struct Made {
    uint64_t forks;  // of the process that it is for
    decltype(make()) object;
  };
  static std::atomic<const Made*> made{nullptr};
  const Made* found = made.load(std::memory_order_acquire);
  if (found != nullptr && found->forks == forks()) return *found->object;
  const Made* const fresh = new Made{forks(), make()};
  if (made.compare_exchange_strong(found, fresh)) return *fresh->object;
  delete fresh->object;  // another thread was first
  delete fresh;
  return *found->object;
}

// Which process this is, for objects that own threads. A forked child has copies of them, but not of the threads, and
// of locks and condition variables in whatever state those threads had them: it must leave them alone.
inline int64_t process_id() {
#ifdef _WIN32
  return 0;  // there is no fork
#else
  return getpid();
#endif
}

}  // namespace gz
