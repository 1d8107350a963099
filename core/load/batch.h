// batch: a delivered batch, a batch under construction, the steps that build it, and the queue of those that are being
// built. A batch belongs to one thread at a time. Memory comes from the thread's pool, which may throw PoolFull.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "gather/row_reader.h"
#include "load/narrow.h"
#include "load/plan.h"
#include "load/schedule.h"
#include "sample/subgraph/packed.h"

namespace gz {

struct GatheredPart {
  std::shared_ptr<Buffer> buffer;
  uint64_t rows = 0, columns = 0;
  bool is_vector = false;
  DType dtype = DType::kFloat32;
  std::shared_ptr<OnDevice> device;  // if the device assembles the rows: these are those that it lacks, as stored
};

struct LoadedBatch {
  uint64_t number = 0;   // in its epoch, among those that this pipeline delivers
  Int64Array input;      // positions of the batch's seeds among the loader's seeds
  HeteroSubgraph graph;  // of one node type and one edge type where the graph is homogeneous
  NarrowIds narrow;      // its ids, if the device caches rows
  std::vector<GatheredPart> parts;
  std::vector<BatchArray> arrays;  // of the seed source
  GatherStats gathered;
};

uint64_t bytes_of(const LoadedBatch& batch);
std::vector<std::weak_ptr<Buffer>> buffers_of(const LoadedBatch& batch);

using Readers = std::vector<std::shared_ptr<RowReader>>;  // one per part
using Requests = std::vector<std::shared_ptr<RowRequest>>;

// A batch under construction. The status is guarded by the pipeline's lock; the other members belong to the thread that
// works on it while it is busy, and are guarded by the lock otherwise.
struct Batch : BatchStatus {
  uint64_t number = 0;  // among all batches of the pipeline
  std::shared_ptr<const Epoch> epoch;
  std::vector<int64_t> input;
  HeteroSubgraph graph;                          // or packed, while it waits for its rows
  std::shared_ptr<const PackedSubgraph> packed;  // null otherwise
  NarrowIds narrow;  // where it is made when the batch is sampled: its edges are then freed, unless rows need them
  std::vector<BatchArray> arrays;
  Requests requests;                   // one per part, null if its reader takes no requests
  LoadedBatch loaded;                  // kReady
  std::exception_ptr error;            // kFailed
  std::atomic<bool> cancelled{false};  // while it is busy: its results are discarded

  void go_back();  // to kPlanned: it is rebuilt from the start
};

// The seeds of a batch, by its number in the pipeline.
struct DrawnSeeds {
  std::vector<int64_t> input;  // their positions among the loader's seeds
  BatchSeeds seeds;
};
DrawnSeeds draw_seeds(uint64_t number, const Epoch& epoch);

// Draws the seeds and samples around them. `waits`: the batch is compressed while it waits for its rows, see shrink().
void sample(Batch& batch, const LoadPlan& plan, bool waits);

// Creates the requests for the rows of a sampled batch; submits them, in the order of batches.
void prepare_requests(Batch& batch, const std::vector<Part>& parts, const Readers& readers);
void submit_requests(const Batch& batch, const Readers& readers);
// Makes a sampled batch smaller: compresses it while it waits, or keeps its ids as int32 for a device.
void shrink(Batch& batch, const LoadPlan& plan, bool waits);

// Copies its rows, or reads those that were not requested. If memory is short, `batch` is unchanged.
LoadedBatch finish(Batch& batch, const LoadPlan& plan, const Readers& readers, Progress& cancel);

// Cancels work on a batch that is no longer needed: the epoch was stopped, or the batch is discarded.
class Cancel : public Progress {
 public:
  Cancel(const std::atomic<bool>& stopping, const Batch& batch) : stopping_(stopping), batch_(batch) {}
  void report(const char*, uint64_t, uint64_t) override {
    if (stopping_ || batch_.cancelled) throw Cancelled();
  }

 private:
  const std::atomic<bool>& stopping_;
  const Batch& batch_;
};

// The outcome of a step that allocates memory.
struct Outcome {
  std::exception_ptr error;
  uint64_t needed = 0;  // bytes that would have been needed, if memory was short
  bool is_good() const { return !error && needed == 0; }
};

template <class Step>
Outcome attempt(const Step& step) {
  try {
    step();
    return {};
  } catch (const PoolFull& full) {
    return {nullptr, full.needed};
  } catch (...) {
    return {std::current_exception(), 0};
  }
}

// The batches of a pipeline from the next one in line on, by number, and the ways from one state to another. Guarded by
// the pipeline's lock. References to batches stay valid until they are delivered.
class BatchQueue {
 public:
  void start_requests_at(uint64_t number) { first_request_ = next_request_ = number; }  // those before make none

  const std::deque<Batch>& batches() const { return batches_; }
  uint64_t front() const { return front_; }  // the number of the next batch in line
  BatchState front_state() const { return batches_.empty() ? BatchState::kPlanned : batches_.front().state; }
  bool front_is_done() const { return front_state() == BatchState::kReady || front_state() == BatchState::kFailed; }
  bool is_idle() const { return sampling_ == 0 && finishing_ == 0; }  // no thread works on a batch
  uint64_t num_ready() const;
  uint64_t num_sampling() const { return sampling_; }
  Batch& at(uint64_t number);
  bool has(uint64_t number) const { return number >= front_ && number - front_ < batches_.size(); }
  void fill(ScheduleView& view);  // fills in what the queue knows

  // kPlanned -> kSampled, or kRequested where there is nothing to request.
  std::vector<Batch*> begin_sampling(uint64_t first, uint64_t count, const EpochQueue& epochs);
  void end_sampling(const std::vector<Batch*>& batches, bool sampled);
  // kSampled -> kRequested, in the order of numbers.
  void request(const std::function<void(Batch&)>& submit);
  // kRequested -> kReady; without `loaded`, it stays as it was.
  Batch& begin_finishing(uint64_t number);
  void end_finishing(Batch& batch, std::optional<LoadedBatch> loaded);
  void set_ready(Batch& batch, LoadedBatch&& loaded);
  LoadedBatch deliver();  // the next one in line, which is kReady
  void fail(uint64_t number, std::exception_ptr error);

  // Back to kPlanned; both return how many will be rebuilt. Those that a thread works on go back when it is done.
  uint64_t cancel_after(uint64_t number);  // of those that are not finished
  uint64_t cancel_all();
  void skip_request(uint64_t number);  // it is finished without one
  void clear() { batches_.clear(); }

 private:
  void go_back(Batch& batch);

  std::deque<Batch> batches_;
  uint64_t front_ = 0;
  uint64_t next_ = 0;  // all batches before this one are begun
  uint64_t first_request_ = 0, next_request_ = 0;
  uint64_t failed_ = UINT64_MAX;           // the first that failed
  uint64_t sampling_ = 0, finishing_ = 0;  // batches that threads work on
};

}  // namespace gz
