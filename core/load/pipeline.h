// pipeline: an epoch in flight: seeds -> sampled -> rows claimed -> finished -> delivered in order.
//
// A few threads share two kinds of work: finish the earliest batch whose rows are there, else sample the next ones, as
// far ahead as the window and the budget allow. Sampling ahead is what makes the reads know their future. Batches are a
// function of (seed, epoch, number) alone, so threads change when a batch is made, never what is in it; and one that
// was made ahead may be thrown away and made again when memory is short.
//
// Where it is told which epoch follows, be it of this loader or of another one over the same files, it goes on into
// that at the end of this one: the reads of the window never come to rest, and nobody waits for them to begin again.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "load/order.h"
#include "load/packed.h"
#include "load/passes.h"
#include "load/plan.h"

namespace gz {

struct GatheredPart {
  std::shared_ptr<Buffer> buffer;
  uint64_t rows = 0, columns = 0;
  bool is_vector = false;
  DType dtype = DType::kFloat32;
};

struct LoadedBatch {
  uint64_t number = 0;   // in its epoch, among those that this pipeline delivers
  Int64Array input;      // positions of the batch's seeds among the loader's seeds
  HeteroSubgraph graph;  // of one node type and one edge type where the graph is homogeneous
  std::vector<GatheredPart> parts;
  std::vector<BatchArray> arrays;  // of the seed source
};

struct LoadStats {
  uint64_t batches = 0;  // delivered
  uint64_t nodes = 0, edges = 0;
  double sample_seconds = 0;         // of all threads, as are the next three
  double read_seconds = 0;           // waiting for the disk
  double copy_seconds = 0;           // planning and copying rows
  double blocked_seconds = 0;        // threads with nothing they may do: the queue, the window or the budget is full
  double starved_seconds = 0;        // the consumer waiting for a batch
  double consumer_seconds = 0;       // between two calls of next(): the training step
  double depth_sum = 0;              // finished batches waiting, summed over calls of next()
  uint64_t peak_bytes = 0;           // of batches, with those that the consumer holds
  uint64_t remade = 0;               // batches that were thrown away for want of memory and made again
  uint64_t topology_bytes_read = 0;  // by explicit reads
  GatherStats gather;
  std::vector<WindowStats> windows;  // one a part that has one
};

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
  // the rows of the window were given up, or the budget would be divided otherwise by now: then a new pipeline is due.
  bool go_on(const LoadPlan& plan, uint64_t epoch, const Share& share);

  const LoadPlan& plan() const { return *plan_; }

  void stop();  // asks the threads to stop and waits for them; idempotent
  // Throws away what was made ahead, waits for what is being made, and makes nothing more until next() is called:
  // another epoch of the loader needs the memory.
  void shed();
  LoadStats stats() const;

 private:
  // A batch in the making.
  struct Draft {
    uint64_t number = 0;
    std::shared_ptr<const Pass> pass;
    std::vector<int64_t> input;
    HeteroSubgraph graph;  // or packed, where it waits in a window
    std::shared_ptr<const PackedSubgraph> packed;
    std::vector<BatchArray> arrays;
    std::vector<std::shared_ptr<RowWindow::Claim>> claims;  // one a part, null where it has none
    size_t open_claims = 0;                                 // not complete; guarded by mutex_
  };
  class Cancel;

  void begin_to_count();
  void start_threads();
  void work();
  void sweep(size_t part);
  // These are called with the lock held, do their work without it, and return with it held.
  void sample_some(std::unique_lock<std::mutex>& lock);
  void finish_one(std::map<uint64_t, Draft>::const_iterator which, std::unique_lock<std::mutex>& lock);
  void make_alone(std::unique_lock<std::mutex>& lock);

  bool must_rest() const;
  bool may_sample() const;
  std::map<uint64_t, Draft>::const_iterator may_finish() const;
  bool must_be_alone() const;
  bool has_work() const;
  uint64_t room_for_the_next() const;
  uint64_t sampling_room(uint64_t more = 0) const;
  uint64_t ahead() const;  // batches that may be sampled and not delivered
  uint64_t finished_bytes(const Draft& draft) const;
  void wait_for_batches_to_leave(uint64_t wanted, Progress& cancel) const;

  std::vector<Draft> sample(uint64_t first, uint64_t count, Progress& cancel);
  void sample_together(std::vector<Draft>& drafts, const std::vector<BatchSeeds>& seeds, Progress& cancel);
  Draft draft_of(uint64_t number, BatchSeeds& seeds) const;
  void claim_rows(Draft& draft);
  LoadedBatch finish(Draft& draft, Progress& cancel, GatherStats& stats);
  void take_parts(const HeteroSubgraph& graph, LoadedBatch& batch) const;
  void gather_part(size_t part, const Draft& draft, LoadedBatch& batch, Progress& cancel, GatherStats& stats);
  void hand_on(std::vector<Draft>&& drafts, uint64_t generation);
  bool is_known(uint64_t number) const;  // sampled, or further
  bool has_failed(uint64_t number) const;
  void skip_known();
  void keep_error(uint64_t number, std::exception_ptr error);
  void rewind(uint64_t number);
  void give_up_rows();
  void drop_all(std::unique_lock<std::mutex>& lock);
  bool claim_the_room();
  void leave_the_room();
  void add_windows(LoadStats& stats) const;
  void learn(const LoadedBatch& batch);

  const std::shared_ptr<LoadPlan> plan_;
  bool registered_ = false;                          // among the plan's epochs
  Division division_;                                // the plan's, when this epoch began; sizes grow under mutex_
  std::vector<std::shared_ptr<RowWindow>> windows_;  // this epoch's: none where another epoch sweeps
  std::vector<std::shared_ptr<WholeRows>> wholes_;
  uint64_t first_claim_ = 0;  // batches before this one are read directly, so that nobody waits for the first circle

  std::atomic<bool> stopping_{false};    // set under mutex_, read anywhere
  std::atomic<uint64_t> generation_{0};  // raised under mutex_ when what was made ahead is thrown away
  mutable std::mutex mutex_;
  std::condition_variable work_ready_, batch_ready_;
  // All below: guarded by mutex_.
  Passes passes_;
  uint64_t next_to_sample_ = 0, next_to_deliver_ = 0, next_to_offer_ = 0;
  uint64_t sampling_ = 0, finishing_ = 0;  // batches in the making now
  std::set<uint64_t> in_hand_;             // those being finished
  std::map<uint64_t, Draft> drafts_;       // sampled
  std::map<uint64_t, LoadedBatch> ready_;  // finished
  std::map<uint64_t, std::exception_ptr> errors_;
  bool too_large_ = false;  // the next batch in line did not fit beside the others
  bool alone_ = false;      // it is being made by itself
  bool quiet_ = false;      // nothing is made until next() is called
  int dropping_ = 0;        // what was made ahead is being thrown away: nothing new may meet it
  bool consumer_waits_ = false;
  LoadStats stats_;
  std::vector<WindowStats> windows_before_;           // when the epoch began
  std::chrono::steady_clock::time_point returned_{};  // when next() last handed out a batch

  std::vector<std::thread> threads_, sweeps_;
};

}  // namespace gz
