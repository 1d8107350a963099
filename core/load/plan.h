// plan: what a loader delivers, and how its memory budget is divided before the first batch is made.
//
// The budget covers all that the engine holds for the loader: batches being made and waiting, the one in training and
// the one before it, the sampler's tables, the read rings, and the row caches, which get what is left.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/progress.h"
#include "gather/gather.h"
#include "gather/row_cache.h"
#include "load/numbers.h"
#include "load/order.h"
#include "sample/neighbours.h"
#include "storage/features.h"
#include "storage/topology.h"

namespace gz {

// One tensor of a batch: rows of `matrix`, by node id or by edge id.
struct Part {
  std::string name;
  std::shared_ptr<const FeatureFile> file;
  std::string matrix;
  bool by_edge = false;
  std::optional<DType> out_dtype;
};

// What the rows of edge features stand for: edge ids that the graph keeps, or the edges as the file stores them.
enum class EdgeOrder { kIds, kFile };
enum class CacheMode { kAuto, kOff, kOn };

struct LoadOptions {
  SampleOptions sample;  // its seed and threads are set for each batch
  uint64_t batch_size = 1024;
  bool shuffle = false;
  bool drop_last = false;
  uint64_t seed = 0;
  uint64_t memory = uint64_t{2} << 30;
  int prefetch = 4;  // finished batches that may wait, memory permitting
  int threads = 0;   // 0: one per processor
  Io io = Io::kAuto;
  CacheMode cache = CacheMode::kAuto;
  EdgeOrder edge_order = EdgeOrder::kIds;
};

// What a loader is made of; shared by its epochs. Immutable after make_plan(), but for the caches, which guard
// themselves.
struct LoadPlan {
  std::shared_ptr<const Topology> topology;
  std::vector<Part> parts;
  Numbers seeds;
  Numbers times;  // one a seed for temporal sampling, else empty
  LoadOptions options;
  int threads = 1;
  int depth = 1;                                   // finished or half-made batches that may exist at once
  int window = 1;                                  // batches sampled ahead of the gather
  uint64_t batch_bytes = 0;                        // what one batch was measured to take, with a margin
  uint64_t batches_budget = 0;                     // bytes that undelivered batches may take together
  std::vector<std::shared_ptr<RowCache>> caches;   // one a part, null where the part has none
  std::optional<BufferPool::Allowance> allowance;  // for the batches in flight
  // An epoch tells the caches which rows are to come. One at a time: those that run beside it share the rows alone.
  mutable std::atomic<bool> announcing{false};
};

// Throws what make_plan() would throw at once: ArgumentError, IndexError. `times` is how many there are.
void check_load(const Topology& topology, const std::vector<Part>& parts, const Numbers& seeds, uint64_t times,
                const LoadOptions& options);

// Checks the arguments, reads a topology into RAM that fits well and will be needed whole, samples a few batches of
// epoch 0 to learn their size and their hot rows, divides the budget and pins the hot rows. Throws ArgumentError,
// IndexError, BudgetError.
std::shared_ptr<const LoadPlan> make_plan(std::shared_ptr<const Topology> topology, std::vector<Part> parts,
                                          Numbers seeds, Numbers times, const LoadOptions& options, Progress* progress);

// The batches of `epoch` that `share` delivers.
EpochBatches epoch_batches(const LoadPlan& plan, uint64_t epoch, const Share& share);

// Batch `number` of `epoch`, around the seeds at these positions.
SampledSubgraph sample_batch(const LoadPlan& plan, uint64_t epoch, uint64_t number, std::span<const int64_t> input);
uint64_t subgraph_bytes(const SampledSubgraph& graph);

// The ids whose rows `part` needs.
std::span<const int64_t> ids_of(const Part& part, const SampledSubgraph& graph);

}  // namespace gz
