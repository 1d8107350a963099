// fork: sections that fork() waits for. A child has only the thread that forked: a lock that another thread held stays
// locked there, and what it was changing stays half changed.
#pragma once

#include <cstdint>
#include <mutex>

namespace gz {

// How many forks led to this process since the library was loaded: another number than that of the parent.
uint64_t forks();

// While one exists, fork() waits in other threads. For short sections, which may be nested.
class NoFork {
 public:
  NoFork() { enter(); }
  ~NoFork() { leave(); }
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

  static void enter();
  static void leave();
};

// A mutex that a forked child finds unlocked: fork() waits until it is.
class ForkSafeMutex {
 public:
  void lock() {
    NoFork::enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    NoFork::leave();
  }

 private:
  std::mutex mutex_;
};

}  // namespace gz
