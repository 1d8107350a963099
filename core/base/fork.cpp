// fork: counts threads in sections, which fork() waits for, and the forks that led to this process.
#include "base/fork.h"

#ifndef _WIN32
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <new>

namespace gz {
namespace {

struct Sections {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  int inside = 0;   // threads
  int waiting = 0;  // forks, which no thread that comes later gets ahead of
};

Sections& g_sections = *new Sections;  // never destroyed: other threads may run while statics are
std::atomic<uint64_t> g_forks{0};
thread_local int t_depth = 0;  // of nested sections

void before() {
  std::unique_lock lock(g_sections.mutex);
  ++g_sections.waiting;
  const int own = t_depth > 0 ? 1 : 0;
  g_sections.changed.wait(lock, [&] { return g_sections.inside == own; });
  lock.release();  // unlocked after the fork
}

void after() {
  --g_sections.waiting;
  g_sections.changed.notify_all();
  g_sections.mutex.unlock();
}

void in_child() {
  g_forks.fetch_add(1);
  g_sections.waiting = 0;
  new (&g_sections.changed) std::condition_variable;  // threads that wait for it do not exist here
  g_sections.mutex.unlock();
}

// When the library is loaded: handlers that are registered while another thread is in fork() are not called by it.
[[maybe_unused]] const int g_registered = pthread_atfork(before, after, in_child);

}  // namespace

void NoFork::enter() {
  if (t_depth++ > 0) return;
  std::unique_lock lock(g_sections.mutex);
  g_sections.changed.wait(lock, [] { return g_sections.waiting == 0; });
  ++g_sections.inside;
}

void NoFork::leave() {
  if (--t_depth > 0) return;
  const std::lock_guard lock(g_sections.mutex);
  --g_sections.inside;
  if (g_sections.waiting > 0) g_sections.changed.notify_all();
}

uint64_t forks() { return g_forks.load(std::memory_order_relaxed); }

}  // namespace gz

#else

void gz::NoFork::enter() {}
void gz::NoFork::leave() {}
uint64_t gz::forks() { return 0; }

#endif
