// in_order: chunks that any thread produces, and that one thread at a time finishes, in order.
//
// What depends on order is often the smaller half of the work. Done in a second pass it would need to be made parallel
// at the price of more work; done by one thread while the others make the next chunks, it costs nothing
// (benchmarks/sampling, 2 threads).
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/threads.h"

namespace gz {

// Calls make(chunk, worker) for every chunk below `chunks`, many at a time, and finish(chunk) for each after it was
// made: in ascending order, never two at a time. What an earlier finish wrote, a later one sees. No thread waits: one
// that has nothing to finish makes, and the one that makes the last chunk finishes what is left.
template <class Make, class Finish>
void make_and_finish(size_t chunks, int threads, const Make& make, const Finish& finish) {
  if (threads <= 1 || chunks <= 1) {
    for (size_t c = 0; c < chunks; ++c) {
      make(c, 0);
      finish(c);
    }
    return;
  }
  std::vector<std::atomic<bool>> made(chunks);
  std::atomic<size_t> next{0};
  std::atomic<bool> finishing{false}, failed{false};
  size_t done = 0;  // guarded by `finishing`

  // Finishes all that is ready, unless another thread is at it. That thread looks again after it has let go, so a chunk
  // made in between is not forgotten: hence the sequentially consistent order of `made` and `finishing`.
  const auto finish_ready = [&] {
    for (bool again = true; again && !failed;) {
      if (finishing.exchange(true)) return;
      while (done < chunks && made[done]) finish(done++);
      const size_t reached = done;
      finishing = false;
      again = reached < chunks && made[reached];
    }
  };
  const auto work = [&](int worker) {
    for (;;) {
      // One thread finishes while there is something to make: what it finishes with stays in its core's cache.
      if (worker == 0) finish_ready();
      const size_t c = next.fetch_add(1, std::memory_order_relaxed);
      if (c >= chunks || failed) break;
      make(c, worker);
      made[c] = true;
    }
    finish_ready();
  };
  parallel_for(static_cast<size_t>(threads), 1, threads, [&](size_t, size_t, int worker) {
    try {
      work(worker);
    } catch (...) {
      failed = true;
      throw;
    }
  });
}

}  // namespace gz
