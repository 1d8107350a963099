// threads: the pool behind parallel_for.
#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/per_process.h"
#include "base/system.h"

#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gz {
namespace {

constexpr int kMostThreads = 1024;

constexpr auto kSpin = std::chrono::microseconds(200);  // how long a thread that is awake looks for work

// Spins until `ready()` or until kSpin is over; returns whether it became ready.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
#if defined(__x86_64__) && !defined(_MSC_VER)
      __builtin_ia32_pause();
#endif
    }
    std::this_thread::yield();  // there may be more threads than processors
  } while (std::chrono::steady_clock::now() < until);
  return ready();
}

// One parallel_for in flight, or a background task.
struct Job {
  Job(size_t n_, size_t grain_, int helpers_, const Body& body_, Interruptible* interruptible_)
      : n(n_), grain(grain_), seats(helpers_), body(&body_), interruptible(interruptible_) {}

  const size_t n, grain;
  std::atomic<size_t> next{0};    // start of the first chunk that is not taken
  std::atomic<bool> stop{false};  // an exception was thrown
  int seats;                      // helpers that may still join; guarded by Pool::mutex_
  std::atomic<int> helpers{0};    // helpers at work; changed with Pool::mutex_ held
  int worker_ids = 0;             // ids given to helpers; guarded by Pool::mutex_
  std::exception_ptr error;       // the first one; guarded by Pool::mutex_
  std::condition_variable idle;   // helpers reached 0
  const Body* body;
  Interruptible* const interruptible;  // the caller's, or null

  void run(int worker, std::mutex& mutex) {
    const Interruptible::Joined joined(interruptible);
    try {
      while (!stop.load(std::memory_order_relaxed)) {
        if (interruptible != nullptr) interruptible->look();
        const size_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= n) break;
        (*body)(begin, std::min(begin + grain, n), worker);
      }
    } catch (...) {
      stop = true;
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }
};

class Pool {
 public:
  std::atomic<int> awake{0};  // StayAwakes that live

  void run(Job& job, int threads) {
    {
      std::lock_guard lock(mutex_);
      most_helpers_ = std::max(most_helpers_, threads - 1);
      post(job);
    }
    for (int i = 1; i < threads; ++i) wake_.notify_one();
    finish(job);
  }

  void start_background(Job& job) {
    {
      std::lock_guard lock(mutex_);
      ++background_;
      post(job);
    }
    wake_.notify_one();
  }

  void finish_background(Job& job) {
    finish(job);
    std::lock_guard lock(mutex_);
    --background_;
  }

 private:
  void post(Job& job) {  // mutex_ held
    // No more threads for background tasks than processors: each keeps its stack, and wait() does what is left.
    grow(most_helpers_ + std::min(background_, default_threads()));
    jobs_.push_back(&job);
    ++posted_;
  }

  // Does what is left of a job, and waits for its helpers.
  void finish(Job& job) {
    job.run(0, mutex_);
    {
      std::lock_guard lock(mutex_);
      jobs_.remove(&job);  // no helper joins after this
    }
    if (awake > 0) spin_until([&] { return job.helpers == 0; });
    std::unique_lock lock(mutex_);  // also lets go the helper that has just counted itself off
    job.idle.wait(lock, [&] { return job.helpers == 0; });
  }

  void grow(int helpers) {  // mutex_ held
    while (started_ < helpers) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        return;  // no more threads to be had: the callers do the work themselves
      }
      ++started_;
    }
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      Job* job = wait_for_job(lock);
      --job->seats;
      ++job->helpers;
      const int worker = ++job->worker_ids;
      lock.unlock();
      job->run(worker, mutex_);
      lock.lock();
      if (--job->helpers == 0) job->idle.notify_one();
      if (awake > 0) {
        const unsigned seen = posted_;
        lock.unlock();
        spin_until([&] { return posted_ != seen || awake == 0; });
        lock.lock();
      }
    }
  }

  Job* wait_for_job(std::unique_lock<std::mutex>& lock) {
    Job* job = nullptr;
    wake_.wait(lock, [&] {
      const auto open = std::find_if(jobs_.begin(), jobs_.end(), [](Job* j) { return j->seats > 0; });
      if (open != jobs_.end()) job = *open;
      return job != nullptr;
    });
    return job;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Job*> jobs_;             // guarded by mutex_
  std::atomic<unsigned> posted_{0};  // jobs so far; changed with mutex_ held
  int started_ = 0;                  // guarded by mutex_
  int most_helpers_ = 0;             // guarded by mutex_: that a parallel_for asked for
  int background_ = 0;               // guarded by mutex_: tasks that were not waited for
};

std::atomic<int> g_default{0};

Pool& pool() {
  return per_process([] { return new Pool; });
}

int machine_threads() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
#endif
  if (const auto quota = cpu_quota()) count = std::min(count, static_cast<int>(*quota + 0.5));
  return std::clamp(count, 1, kMostThreads);
}

}  // namespace

StayAwake::StayAwake() : pool_(&pool()) { ++static_cast<Pool*>(pool_)->awake; }
StayAwake::~StayAwake() { --static_cast<Pool*>(pool_)->awake; }

void parallel_for(size_t n, size_t grain, int threads, const Body& body) {
  if (n == 0) return;
  grain = std::max<size_t>(grain, 1);
  const size_t chunks = (n - 1) / grain + 1;
  threads = static_cast<int>(std::min<size_t>(chunks, static_cast<size_t>(std::max(threads, 1))));
  if (threads == 1) {
    for (size_t begin = 0; begin < n; begin += grain) {
      check_interrupt();
      body(begin, std::min(begin + grain, n), 0);
    }
    return;
  }
  Job job(n, grain, threads - 1, body, Interruptible::current());
  pool().run(job, threads);
  if (job.error) std::rethrow_exception(job.error);
}

struct BackgroundTask::State {
  explicit State(std::function<void()> work_)
      : work(std::move(work_)), body([this](size_t, size_t, int) { work(); }), job(1, 1, 1, body, nullptr) {}
  const std::function<void()> work;
  const Body body;
  Job job;
  Pool& threads = pool();
};

BackgroundTask::BackgroundTask() = default;
BackgroundTask::BackgroundTask(std::function<void()> work) : state_(std::make_unique<State>(std::move(work))) {
  state_->threads.start_background(state_->job);
}
BackgroundTask::BackgroundTask(BackgroundTask&& other) noexcept = default;

BackgroundTask& BackgroundTask::operator=(BackgroundTask&& other) noexcept {
  if (state_) state_->threads.finish_background(state_->job);
  state_ = std::move(other.state_);
  return *this;
}

BackgroundTask::~BackgroundTask() {
  if (state_) state_->threads.finish_background(state_->job);
}

void BackgroundTask::wait() {
  if (!state_) return;
  state_->threads.finish_background(state_->job);
  const auto done = std::move(state_);
  if (done->job.error) std::rethrow_exception(done->job.error);
}

int default_threads() {
  static std::atomic<int> machine{0};  // no initialiser that a forked child could find half run
  if (const int set = g_default.load(); set > 0) return set;
  if (machine == 0) machine = machine_threads();
  return machine;
}

void set_default_threads(int threads) {
  if (threads < 0 || threads > kMostThreads) {
    fail<ArgumentError>("num_threads is ", threads, ", expected 1 to ", kMostThreads, " (0: one per processor)");
  }
  g_default = threads;
}

int resolve_threads(int requested) {
  if (requested < 0 || requested > kMostThreads) {
    fail<ArgumentError>("num_threads is ", requested, ", expected 1 to ", kMostThreads, " (None: one per processor)");
  }
  return requested > 0 ? requested : default_threads();
}

void lower_thread_priority() noexcept {
#ifdef __linux__
  constexpr int kLater = 5;  // a third of the weight of a thread that did not change its own
  const auto self = static_cast<id_t>(syscall(SYS_gettid));
  const int now = getpriority(PRIO_PROCESS, self);
  setpriority(PRIO_PROCESS, self, now + kLater);
#endif
}

uint64_t processors_left(uint64_t processors, uint64_t ranks) {
  constexpr uint64_t kMany = 8;
  return ranks > 0 && processors / kMany >= ranks ? ranks : 0;
}

void leave_processors([[maybe_unused]] uint64_t ranks) noexcept {
#ifdef __linux__
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;  // more processors than the set holds
  uint64_t left = processors_left(static_cast<uint64_t>(CPU_COUNT(&mine)), ranks);
  for (int i = CPU_SETSIZE - 1; i >= 0 && left > 0; --i) {
    if (!CPU_ISSET(i, &mine)) continue;
    CPU_CLR(i, &mine);
    --left;
  }
  sched_setaffinity(0, sizeof mine, &mine);
#endif
}

}  // namespace gz
