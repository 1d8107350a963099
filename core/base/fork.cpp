// fork: threads in a section share a lock, which fork() takes for itself.
#include "base/fork.h"

#ifndef _WIN32
#include <pthread.h>

#include <new>
#include <shared_mutex>

namespace gz {
namespace {

std::shared_mutex g_forking;
thread_local int t_depth = 0;  // of nested sections: where writers go first, a second shared lock could wait for ever

// When the library is loaded, so that no thread can be doing this during a fork.
// The child makes the lock anew: it has another thread number than the thread that took it.
[[maybe_unused]] const int g_registered =
    pthread_atfork([] { g_forking.lock(); }, [] { g_forking.unlock(); }, [] { new (&g_forking) std::shared_mutex; });

}  // namespace

void NoFork::enter() {
  if (t_depth++ == 0) g_forking.lock_shared();
}

void NoFork::leave() {
  if (--t_depth == 0) g_forking.unlock_shared();
}

}  // namespace gz

#else

void gz::NoFork::enter() {}
void gz::NoFork::leave() {}

#endif
