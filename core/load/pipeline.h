// pipeline: an epoch in flight: seeds -> sampled -> rows requested -> ready -> delivered in order.
//
// Batches stand in a ring by number, each with one state (load/ring.h). A few threads share the work: next_job()
// (load/schedule.h) says what comes next. Sampling ahead is what makes the reads know their future. Threads
// change when a batch is made, never what is in it, and one that was made ahead may be thrown away and made again when
// memory is short. A batch that does not fit beside others is built exclusively: everything made ahead is thrown away,
// other epochs of the loader pause, what their consumers hold is not counted any more, and at last the rows that are
// held make room.
//
// Where it is told which epoch follows, be it of this loader or of another one over the same files, it goes on into
// that at the end of this one, and the window never runs empty.
//
// Locks are taken in this order: LoadPlan::mutex, Pipeline::mutex_ (never two of them), then those of readers, of the
// ledger and of its pool, under which nothing is called. A sweep's thread, whom the holder of LoadPlan::mutex may be
// waiting for, takes that only by try_lock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "load/batch.h"
#include "load/passes.h"
#include "load/plan.h"
#include "load/ring.h"
#include "load/stats.h"

namespace gz {

class Pipeline {
 public:
  // Delivers an epoch of `source`, or of the plan itself, within the plan's budget. Learns anew how that is divided
  // where no other epoch of the plan is in flight.
  Pipeline(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share, Progress* progress = nullptr,
           const std::shared_ptr<LoadPlan>& source = nullptr);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();  // stops and joins

  uint64_t num_batches() const;  // of the epoch that it is in

  enum class State { kReady, kNotYet, kEnd };
  // Waits up to `milliseconds` for the next batch in order and moves it to `out`. Throws what made the batch fail.
  State next(LoadedBatch& out, int milliseconds);

  // Says what will be asked for after all that is known so far. False where that cannot be made ahead: rows are not
  // read by a window, or the other loader delivers other rows.
  bool expect(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share);
  bool looks_ahead() const;  // something is expected
  // Begins the epoch that was expected next, when all of this one was delivered. False where another one was expected,
  // the rows of the window were released, or the budget would be divided otherwise by now: then a new pipeline is due.
  bool go_on(const LoadPlan& plan, uint64_t epoch, const Share& share);

  const LoadPlan& plan() const { return *plan_; }

  void stop();  // asks the threads to stop and waits for them; idempotent
  // Throws away what was made ahead, waits for what is being made, and makes nothing more until next() is called:
  // another epoch of the loader needs the memory.
  void pause();
  LoadStats stats() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void start_threads();
  Readers start_readers(uint64_t requests);
  void begin_to_count();

  // All below are called with mutex_ held; those that take the lock work without it for a while.
  ScheduleView view();
  void work(Lock& lock);
  void wait_for_work(Lock& lock);
  void sample_some(uint64_t first, uint64_t count, Lock& lock);
  void finish_one(uint64_t number, Lock& lock);
  void count_batch(const LoadedBatch& batch, const GatherStats& gathered);
  void cancel_all(Lock& lock);
  void build_exclusively(Lock& lock);
  // Without it:
  bool begin_exclusive();
  void end_exclusive();
  void give_rows_to_batches();

  const std::shared_ptr<LoadPlan> plan_;
  uint64_t first_request_ = 0;  // batches before this one are read by themselves and need not wait for a circle

  std::atomic<bool> stopping_{false};  // set under mutex_, read anywhere
  mutable std::mutex mutex_;
  std::condition_variable work_ready_, batch_ready_;
  // All below: guarded by mutex_, but for what threads read while batches are in their hands.
  Division division_;  // the plan's, when this epoch began; sizes grow
  Readers readers_;    // one a part
  Passes passes_;
  BatchRing ring_;
  bool too_large_ = false;  // the next batch in line did not fit beside the others
  bool exclusive_ = false;  // it is being built by itself
  bool paused_ = false;     // until next() is called
  int cancelling_ = 0;      // requests are being cancelled: new ones must not be among them
  bool consumer_waits_ = false;
  LoadStats stats_;
  std::vector<WindowStats> reads_before_;             // when the epoch began, one a part
  std::chrono::steady_clock::time_point returned_{};  // when next() last handed out a batch

  std::vector<std::thread> threads_;
};

}  // namespace gz
