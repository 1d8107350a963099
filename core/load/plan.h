// plan: what a loader delivers, and how its memory budget is divided before the first batch is built.
//
// The budget covers everything the engine holds for the loader: batches being built and waiting, the one in training,
// the sampler's tables, the read buffers, and the rows held for coming batches, which get the remaining memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/progress.h"
#include "budget/divide.h"
#include "budget/ledger.h"
#include "device/device_rows.h"
#include "gather/row_reader.h"
#include "load/seeds.h"
#include "sample/subgraph/graph.h"
#include "storage/features.h"
#include "storage/local_ranks.h"
#include "sweep/row_window.h"

namespace gz {

class Pipeline;

// One tensor of a batch: rows of `matrix`, by the node ids or by the edge ids of a type.
struct Part {
  std::string name;  // unique among the parts; in a typed graph it includes the type
  std::shared_ptr<const FeatureFile> file;
  std::string matrix;
  bool by_edge = false;
  std::optional<DType> out_dtype;
  size_t type = 0;  // node type, or edge type
};

// What the rows of edge features are indexed by: the graph's edge ids, or the edges in the order of the file.
enum class EdgeOrder { kIds, kFile };

struct LoadOptions {
  SampleOptions sample;  // seed and threads are set per batch; a typed graph uses only the number of fanouts
  uint64_t batch_size = 1024;
  bool shuffle = false;
  bool drop_last = false;
  uint64_t seed = 0;
  uint64_t memory = 0;  // of the host; 0: chosen from the memory available to the machine and the container
  int prefetch = 0;     // finished batches that may wait, memory permitting; 0: threads + 2
  int threads = 0;      // 0: one per processor
  int held = 1;         // batches that the consumer holds while it requests the next one
  Io io = Io::kAuto;
  CacheMode cache = CacheMode::kAuto;
  EdgeOrder edge_order = EdgeOrder::kIds;
  static constexpr uint64_t kFreeBytes = UINT64_MAX;
  uint64_t device_bytes = 0;  // for rows that the device caches: LoadPlan::device_rows; kFreeBytes: as it has free
  LocalRanks local;           // the other ranks on this host: `memory` is for all of them together
};

// The state of a loader; shared by its epochs. Immutable after make_plan(), except where noted.
struct LoadPlan {
  SampleGraph graph;
  std::vector<Part> parts;
  std::shared_ptr<const SeedSource> seeds;
  LoadOptions options;
  int threads = 1;
  bool feeds_device = false;  // batches are copied to a device
  // Finished batches that may wait if all their rows are on the device: they are ids alone, and small.
  int depth_of_ids = 0;

  mutable std::mutex mutex;
  Division division;                                     // guarded by mutex; updated by each epoch that runs alone
  std::vector<std::shared_ptr<RowWindow>> windows;       // guarded by mutex: one per part, or null
  std::vector<std::shared_ptr<WholeRows>> wholes;        // guarded by mutex: one per part, or null
  std::vector<std::shared_ptr<DeviceRows>> device_rows;  // one per part, or none; set by make_plan()
  std::shared_ptr<LocalGroup> group;                     // guarded by mutex: other ranks of this host, or null
  std::vector<Pipeline*> pipelines;                      // guarded by mutex: those in flight
  bool outgrown = false;                                 // guarded by mutex: a batch needed the memory of the held rows
  bool released = false;                                 // guarded by mutex: rows were freed, divide again
  std::shared_ptr<BufferPool> pool;                      // of all batches, finished or not
  std::shared_ptr<Ledger> ledger;                        // accounts for what they hold
};

// Checks the arguments as make_plan() does. Throws ArgumentError, IndexError.
void check_load(const SampleGraph& graph, const std::vector<Part>& parts, const SeedSource& seeds,
                const LoadOptions& options);

// Checks the arguments, reads a topology into RAM if it fits and will be needed in full, samples a few batches of epoch
// 0 to measure their size, and divides the budget. `page_lock` page-locks batches for a device. `guests` are plans
// whose batches will also be built within this budget: see can_share_pipeline(). Throws ArgumentError, IndexError,
// BudgetError.
std::shared_ptr<LoadPlan> make_plan(SampleGraph graph, std::vector<Part> parts, std::shared_ptr<const SeedSource> seeds,
                                    const LoadOptions& options, PageLock page_lock, Progress* progress,
                                    const std::vector<std::shared_ptr<LoadPlan>>& guests = {});

// The same without dividing the budget: for estimates.
std::shared_ptr<LoadPlan> make_outline(SampleGraph graph, std::vector<Part> parts,
                                       std::shared_ptr<const SeedSource> seeds, const LoadOptions& options,
                                       PageLock page_lock);

// Frees idle buffers and held rows (whole copies only if `copies`) unless an epoch is in flight. Returns whether there
// were any. The next epoch divides the budget again.
bool release(LoadPlan& plan, bool copies = true);

// Adds a pipeline, and returns whether it is the only one and whether rows were freed before; removes it. The rows of a
// window are held while a pipeline exists: the last one frees them.
struct Added {
  bool is_first = false, released = false;
};
Added add_pipeline(LoadPlan& plan, Pipeline* pipeline);
void remove_pipeline(LoadPlan& plan, Pipeline* pipeline);

// The batches of `epoch` that `share` delivers.
EpochBatches epoch_batches(const LoadPlan& plan, uint64_t epoch, const Share& share);

// Batch `number` of `epoch`, with the seeds at these positions.
BatchSeeds batch_seeds(const LoadPlan& plan, uint64_t epoch, uint64_t number, std::span<const int64_t> input);
HeteroSubgraph sample_batch(const LoadPlan& plan, const BatchSeeds& batch, bool narrow_edges = false);
uint64_t array_bytes(const std::vector<BatchArray>& arrays);

inline const Matrix& matrix_of(const Part& part) { return part.file->matrix(part.matrix); }
GatherOptions gather_options(const Part& part);  // its dtype

// The ids whose rows `part` needs.
std::span<const int64_t> ids_of(const Part& part, const HeteroSubgraph& graph);

// Whether batches of both can be built by one pipeline: the same graph, and the same rows of the same files, read
// alike.
bool can_share_pipeline(const LoadPlan& a, const LoadPlan& b);

// An epoch of a loader, or what is left of it. In a pipeline, its batches are numbered on from those of the epoch
// before.
struct Epoch {
  std::shared_ptr<LoadPlan> plan;  // of the seeds and the sampling; memory is that of the pipeline's own plan
  uint64_t number;
  Share share;
  EpochBatches batches;
  uint64_t begin;

  uint64_t end() const { return begin + batches.count(); }
};

// What a pipeline delivers: an epoch, and those that are known to follow it. No locks.
class EpochQueue {
 public:
  EpochQueue(std::shared_ptr<LoadPlan> plan, uint64_t number, const Share& share) {
    add(std::move(plan), number, share);
  }

  const Epoch& current() const { return *epochs_.front(); }
  bool is_last() const { return epochs_.size() == 1; }
  uint64_t end() const { return epochs_.back()->end(); }  // past the last batch that is known to come
  std::shared_ptr<const Epoch> of(uint64_t batch) const;  // the epoch of a batch of the pipeline

  void add(std::shared_ptr<LoadPlan> plan, uint64_t number, const Share& share);
  bool is_next(const LoadPlan& plan, uint64_t number, const Share& share) const;
  void advance() { epochs_.pop_front(); }

 private:
  std::deque<std::shared_ptr<const Epoch>> epochs_;
};

}  // namespace gz
