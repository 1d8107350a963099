// pipeline: an epoch in flight: seeds -> sampled -> rows requested -> ready -> delivered in order.
//
// Batches are kept in a queue by number, each with one state (load/batch.h). A few threads share the work: next_job()
// (load/schedule.h) chooses what comes next. Batches are sampled ahead so that the readers know which rows will be
// needed. Threads affect when a batch is built, never its contents, and a prefetched batch may be discarded and rebuilt
// when memory is short. A batch that does not fit next to others is built exclusively: all prefetched batches are
// discarded, other epochs of the loader pause, what their consumers hold is no longer counted, and finally the held
// rows are released.
//
// If the next epoch is known, of this loader or of another one over the same files, the pipeline continues with it at
// the end of this one, so that the window never runs empty.
//
// Locks are taken in this order: LoadPlan::mutex, Pipeline::mutex_ (never two of them), then those of readers, of the
// ledger and of its pool, under which nothing is called. The holder of LoadPlan::mutex may be waiting for a sweep's
// thread, which therefore takes that lock only by try_lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "load/batch.h"
#include "load/group_sampler.h"
#include "load/plan.h"

namespace gz {

// How the time of an epoch was spent, and what was read.
struct LoadStats {
  uint64_t batches = 0;  // delivered
  uint64_t nodes = 0, edges = 0;
  double sample_seconds = 0;         // of all threads, as are the next three
  double read_seconds = 0;           // waiting for the disk
  double copy_seconds = 0;           // planning and copying rows
  double blocked_seconds = 0;        // idle threads: the queue, the window or the budget is full
  double starved_seconds = 0;        // the consumer waiting for a batch
  double consumer_seconds = 0;       // between two calls of next(): the training step
  double depth_sum = 0;              // finished batches waiting, summed over calls of next()
  uint64_t peak_bytes = 0;           // of batches, including those that the consumer holds
  uint64_t remade = 0;               // batches that were discarded to free memory, and rebuilt
  uint64_t topology_bytes_read = 0;  // by explicit reads
  GatherStats gather;
  std::vector<WindowStats> windows;  // one per part with a window

  struct Device {
    uint64_t rows = 0;      // that batches needed,
    uint64_t hits = 0;      // of which the device had so many,
    uint64_t admitted = 0;  // and kept so many more
  };
  std::vector<Device> device;  // one per part

  void add(const LoadedBatch& batch);  // that is delivered
  // What the readers did since `before`.
  void add(const Readers& readers, const std::vector<WindowStats>& before);
};

class Pipeline {
 public:
  // Delivers an epoch of `source`, or of the plan itself, within the plan's budget. Divides the budget again if no
  // other epoch of the plan is in flight.
  Pipeline(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share, Progress* progress = nullptr,
           const std::shared_ptr<LoadPlan>& source = nullptr);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();  // stops and joins

  uint64_t num_batches() const {  // of the current epoch
    std::lock_guard lock(mutex_);
    return epochs_.current().batches.count();
  }

  enum class State { kReady, kNotYet, kEnd };
  // Waits up to `milliseconds` for the next batch in order and moves it to `out`. Rethrows the error of a failed batch.
  State next(LoadedBatch& out, int milliseconds);
  bool is_ready() const;  // whether next() would return at once

  // Announces the epoch that follows all known ones. False if it cannot be prefetched: rows are not read through a
  // window, or the other loader delivers different rows.
  bool expect(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share);
  bool has_next_epoch() const;  // another epoch was announced
  // Continues with the announced epoch once all of this one was delivered. False if a different epoch was announced,
  // the rows of the window were released, or the budget would now be divided differently: a new pipeline is needed.
  bool continue_with(const LoadPlan& plan, uint64_t epoch, const Share& share);

  const LoadPlan& plan() const { return *plan_; }

  void stop();  // asks the threads to stop and waits for them; idempotent
  // Discards prefetched batches, waits for those being built, and builds nothing more until next() is called: another
  // epoch of the loader needs the memory.
  void pause();
  LoadStats stats() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void start_threads();
  Readers start_readers(uint64_t requests);
  void reset_stats();

  // Called with mutex_ held; those that take the lock release it while they work.
  ScheduleView view();
  void work(Lock& lock);
  void wait_for_work(Lock& lock);
  void wake_worker();
  void report_end_of_job();
  void sample_some(uint64_t first, uint64_t count, Lock& lock);
  void finish_one(uint64_t number, Lock& lock);
  void note_size(const LoadedBatch& batch);
  void cancel_all(Lock& lock);
  void build_exclusively(Lock& lock);
  // Called without mutex_:
  bool begin_exclusive();
  void end_exclusive();
  void release_held_rows();

  const std::shared_ptr<LoadPlan> plan_;
  uint64_t first_request_ = 0;  // earlier batches are read individually and do not wait for a circle of the sweep

  std::atomic<bool> stopping_{false};  // set under mutex_, read anywhere
  mutable std::mutex mutex_;
  std::condition_variable work_ready_, batch_ready_, idle_;
  // Guarded by mutex_, except for what threads read of the batches they are working on:
  Division division_;  // the plan's when this epoch began; sizes grow
  Readers readers_;    // one per part
  EpochQueue epochs_;
  BatchQueue queue_;
  GroupSampler sampler_;      // used without the lock by the one thread that samples a group
  uint64_t begun_bytes_ = 0;  // what it held after the last group
  bool too_large_ = false;    // the next batch in line did not fit next to the others
  bool exclusive_ = false;    // it is being built exclusively
  bool paused_ = false;       // until next() is called
  int cancelling_ = 0;        // requests are being cancelled: new ones must not be among them
  bool consumer_waits_ = false;
  LoadStats stats_;
  std::vector<WindowStats> reads_before_;  // when the epoch began, one per part
  Clock::time_point returned_{};           // when next() last handed out a batch

  std::vector<std::thread> threads_;
};

}  // namespace gz
