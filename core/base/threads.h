// threads: one small pool of threads for the whole process.
//
// Started on the first parallel call, grown to what calls ask for, abandoned and started anew in a forked child. Any
// number of callers may use it at once; the caller always works too, so a busy pool means less help, never a deadlock.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace gz {

// body(begin, end, worker): `worker` is below the thread count of the call and unique among the bodies that run at the
// same time, so it can index scratch space.
using Body = std::function<void(size_t begin, size_t end, int worker)>;

// Runs `body` over [0, n) in chunks of `grain` on up to `threads` threads, the caller included. Chunks begin at
// multiples of `grain` whatever the thread count. The first exception stops further chunks and is thrown here; so does
// an interrupt (base/interrupt.h), between chunks.
void parallel_for(size_t n, size_t grain, int threads, const Body& body);

// Work that a thread of the pool does while its owner continues. wait() does it itself if no thread has begun it yet,
// and throws what the work threw. What the work refers to must outlive the task; a task that is destroyed waits too.
class BackgroundTask {
 public:
  BackgroundTask();
  explicit BackgroundTask(std::function<void()> work);
  BackgroundTask(BackgroundTask&& other) noexcept;
  BackgroundTask& operator=(BackgroundTask&& other) noexcept;  // waits for its own work first
  ~BackgroundTask();

  bool valid() const { return state_ != nullptr; }  // has work that was not waited for
  void wait();                                      // does nothing unless valid()

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// While one lives, threads of the pool that are done look out for the next job for a moment before they sleep: for
// calls of several short steps, each of which would otherwise begin with waking them, which takes as long as some
// steps.
class StayAwake {
 public:
  StayAwake();
  ~StayAwake();
  StayAwake(const StayAwake&) = delete;
  StayAwake& operator=(const StayAwake&) = delete;

 private:
  void* pool_;  // the pool that was kept awake: a forked child has another
};

// What num_threads=None means: the processors this process may run on (affinity and cgroup quota), or what was set.
int default_threads();
void set_default_threads(int threads);  // 0 returns to the machine's count

// `requested` if positive, the default if 0; throws ArgumentError for negatives and absurd counts.
int resolve_threads(int requested);

// Lowers the scheduling priority of this thread from now on. For threads that prefetch for another thread, which must
// not wait for the processor. Does nothing where threads have no priority of their own. Training out of core
// (benchmarks/outofcore.py: 24 M nodes in 3 GB, 2 cores) takes 112 to 115 ms per batch with it, 125 to 133 without.
void lower_thread_priority() noexcept;

// From now on this thread runs on all its processors but one for each of `ranks` processes: for threads that feed a
// device, next to those that launch its kernels. Priority alone does not keep a processor free for them. On
// an H200 with 16 processors, bfloat16 training with a fifth of the rows there makes 170 and 185 steps per second if
// the loader's threads are confined to 15 of them, and 163 and 173 if not. Does nothing with fewer than 8 processors
// per rank, and where threads cannot choose.
void leave_processors(uint64_t ranks) noexcept;
// How many it leaves, of so many.
uint64_t processors_left(uint64_t processors, uint64_t ranks);

}  // namespace gz
