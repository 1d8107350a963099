// pipeline: one epoch in flight: seeds -> sampled -> gathered -> delivered in order.
//
// A few threads share two kinds of work: gather the earliest batch that is sampled and not taken, else sample the next
// one, as far ahead as the window and the budget allow. Sampling ahead is what makes the reads know their future: rows
// are announced to the cache before they are needed. Batches are a function of (seed, epoch, number) alone, so threads
// change when a batch is made, never what is in it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "load/order.h"
#include "load/plan.h"

namespace gz {

// Memory for one gathered part: `owner` keeps `data` alive.
struct PartBuffer {
  std::byte* data = nullptr;
  std::shared_ptr<void> owner;
};
// Where gathered rows go; called from the pipeline's threads. The default takes from the BufferPool; the bindings have
// one that takes page-locked memory from torch.
using Allocate = std::function<PartBuffer(size_t bytes)>;

struct GatheredPart {
  PartBuffer buffer;
  uint64_t rows = 0, columns = 0;
  bool is_vector = false;
  DType dtype = DType::kFloat32;
};

struct LoadedBatch {
  uint64_t number = 0;         // among those that this pipeline delivers
  std::vector<int64_t> input;  // positions of the batch's seeds among the loader's seeds
  SampledSubgraph graph;
  std::vector<GatheredPart> parts;
  uint64_t bytes = 0;  // of the subgraph and the parts
};

struct LoadStats {
  uint64_t batches = 0;  // delivered
  uint64_t nodes = 0, edges = 0;
  double sample_seconds = 0;    // of all threads, as are the next three
  double read_seconds = 0;      // waiting for the disk
  double copy_seconds = 0;      // planning and copying rows
  double blocked_seconds = 0;   // threads with nothing they may do: the queue or the budget is full
  double starved_seconds = 0;   // the consumer waiting for a batch
  double consumer_seconds = 0;  // between two calls of next(): the training step
  double depth_sum = 0;         // finished batches waiting, summed over calls of next()
  uint64_t peak_bytes = 0;      // of undelivered batches
  GatherStats gather;
};

class Pipeline {
 public:
  Pipeline(std::shared_ptr<const LoadPlan> plan, uint64_t epoch, const Share& share, Allocate allocate);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();  // stops and joins

  uint64_t num_batches() const { return batches_.count(); }

  enum class State { kReady, kNotYet, kEnd };
  // Waits up to `milliseconds` for the next batch in order and moves it to `out`. Throws what made the batch fail.
  State next(LoadedBatch& out, int milliseconds);

  void stop();  // asks the threads to stop and waits for them; idempotent
  LoadStats stats() const;

 private:
  void work();
  // Both are called with the lock held, do their work without it, and return with it held.
  void sample_one(std::unique_lock<std::mutex>& lock);
  void gather_one(std::unique_lock<std::mutex>& lock);
  bool may_sample() const;
  bool may_gather() const;
  void announce(LoadedBatch&& batch);
  void keep_error(uint64_t number);

  const std::shared_ptr<const LoadPlan> plan_;
  const uint64_t epoch_;
  const Allocate allocate_;
  const EpochBatches batches_;
  bool announces_;  // whether the caches hear of this epoch; changed by stop() alone, when the threads are gone

  std::atomic<bool> stopping_{false};  // set under mutex_, read anywhere
  mutable std::mutex mutex_;
  std::condition_variable work_ready_, batch_ready_;
  // All below: guarded by mutex_.
  uint64_t next_to_sample_ = 0, next_to_deliver_ = 0;
  uint64_t sampling_ = 0;                          // batches being sampled now
  std::map<uint64_t, LoadedBatch> sampled_;        // not yet taken by a gather
  std::map<uint64_t, LoadedBatch> ready_;          // finished
  std::map<uint64_t, std::exception_ptr> errors_;  // of failed batches
  uint64_t held_bytes_ = 0;                        // of undelivered batches
  LoadStats stats_;
  std::chrono::steady_clock::time_point returned_{};  // when next() last handed out a batch

  std::mutex announce_mutex_;                    // taken before mutex_
  uint64_t next_to_announce_ = 0;                // guarded by announce_mutex_
  std::map<uint64_t, LoadedBatch> unannounced_;  // sampled before an earlier one was; guarded by announce_mutex_

  std::vector<std::thread> threads_;
};

}  // namespace gz
