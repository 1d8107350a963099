// plan: the checks, and what a batch is.
#include "load/plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "load/budget.h"

namespace gz {
namespace {

// Edge rows follow their edge only where it is known which edge a row belongs to. Ids may leave out some or number both
// ways of an edge alike, so only the largest one says how many rows there must be; it is looked for where that is
// cheap, and a gather checks each id in any case.
void check_edge_part(const Topology& topology, const Part& part, const LoadOptions& options) {
  constexpr uint64_t kCheap = uint64_t{1} << 20;
  const uint64_t rows = part.file->matrix(part.matrix).rows, edges = topology.num_edges();
  const std::string& path = topology.file().path();
  const auto what = text(part.file->file().path(), ": '", part.matrix, "' has ", rows, " rows, ");
  topology.visit(options.sample.direction, [&](const auto& csr) {
    if (options.edge_order == EdgeOrder::kFile) {
      if (csr.has_edge_ids()) fail<ArgumentError>("edge_order is 'file', but ", path, " has edge ids: leave it out");
      if (rows != edges) fail<ArgumentError>(what, path, " has ", edges, " edges");
      return;
    }
    if (!csr.has_edge_ids()) {
      fail<ArgumentError>(
          path, " was compiled without edge ids, so the rows of ", part.file->file().path(),
          " cannot be matched to its edges: compile it with edge_ids=True, or pass edge_order=\"file\" if "
          "row i belongs to the i-th edge in the order of the file");
    }
    if (edges > kCheap) return;
    uint64_t largest = 0;
    for (uint64_t i = 0; i < edges; ++i) largest = std::max(largest, csr.edge_id(i));
    topology.file().check();
    if (edges > 0 && rows <= largest) fail<ArgumentError>(what, path, " has edge ids up to ", largest);
  });
}

}  // namespace

void check_load(const Topology& topology, const std::vector<Part>& parts, const Numbers& seeds, uint64_t times,
                const LoadOptions& options) {
  check_options(topology, options.sample, times > 0);
  resolve_threads(options.threads);
  if (options.batch_size == 0) fail<ArgumentError>("batch_size is 0, expected at least 1");
  if (options.prefetch < 1) fail<ArgumentError>("prefetch is ", options.prefetch, ", expected at least 1");
  if (times > 0 && times != seeds.size()) {
    fail<ArgumentError>("time has ", times, " entries, seeds has ", seeds.size());
  }
  const uint64_t nodes = topology.num_nodes();
  for (uint64_t i = seeds.is_range() ? std::min(nodes, seeds.size()) : 0; i < seeds.size(); ++i) {
    const int64_t seed = seeds.at(i);
    if (seed < 0 || static_cast<uint64_t>(seed) >= nodes) {
      fail<IndexError>("seeds[", i, "] = ", seed, " is out of range for ", topology.file().path(), " with ", nodes,
                       " nodes");
    }
  }
  for (const Part& part : parts) {
    if (part.by_edge) {
      check_edge_part(topology, part, options);
    } else if (part.file->matrix(part.matrix).rows < nodes) {
      fail<ArgumentError>(part.file->file().path(), ": '", part.matrix, "' has ", part.file->matrix(part.matrix).rows,
                          " rows, the graph has ", nodes, " nodes");
    }
  }
}

GatherOptions gather_options(const Part& part) {
  GatherOptions options;
  options.out_dtype = part.out_dtype;
  return options;
}

std::span<const int64_t> ids_of(const Part& part, const SampledSubgraph& graph) {
  return part.by_edge ? graph.edge.span() : graph.node.span();
}

uint64_t subgraph_bytes(const SampledSubgraph& graph) {
  return 8 * (graph.node.size + graph.edge_index.size + graph.edge.size + graph.batch.size);
}

BatchSeeds batch_seeds(const LoadPlan& plan, uint64_t epoch, uint64_t number, std::span<const int64_t> input) {
  BatchSeeds batch;
  batch.seeds.resize(input.size());
  for (size_t i = 0; i < input.size(); ++i) batch.seeds[i] = plan.seeds.at(static_cast<uint64_t>(input[i]));
  if (!plan.times.empty()) {
    batch.times.resize(input.size());
    for (size_t i = 0; i < input.size(); ++i) batch.times[i] = plan.times.at(static_cast<uint64_t>(input[i]));
  }
  batch.key = batch_seed(plan.options.seed, epoch, number);
  return batch;
}

SampledSubgraph sample_batch(const LoadPlan& plan, const BatchSeeds& batch) {
  SampleOptions options = plan.options.sample;
  options.seed = batch.key;
  options.threads = 1;  // the pipeline samples several batches at once instead
  return sample_neighbours(*plan.topology, batch.seeds, batch.times, options);
}

EpochBatches epoch_batches(const LoadPlan& plan, uint64_t epoch, const Share& share) {
  const LoadOptions& options = plan.options;
  const EpochOrder order(plan.seeds.size(), options.shuffle, options.seed, epoch);
  return {order, options.batch_size, options.drop_last, share};
}

void HandedOut::add(std::vector<std::weak_ptr<Buffer>> batch, int held) {
  const std::lock_guard lock(mutex_);
  batches_.push_back(std::move(batch));
  if (batches_.size() <= static_cast<size_t>(held)) return;
  for (const auto& weak : batches_.front()) {
    if (const auto buffer = weak.lock()) BufferPool::write_off(buffer);
  }
  batches_.pop_front();
}

std::shared_ptr<LoadPlan> make_plan(std::shared_ptr<const Topology> topology, std::vector<Part> parts, Numbers seeds,
                                    Numbers times, const LoadOptions& options, PageLock page_lock, Progress* progress) {
  auto plan = std::make_shared<LoadPlan>();
  plan->topology = std::move(topology);
  plan->parts = std::move(parts);
  plan->seeds = std::move(seeds);
  plan->times = std::move(times);
  plan->options = options;
  plan->threads = resolve_threads(options.threads);
  plan->windows.resize(plan->parts.size());
  plan->wholes.resize(plan->parts.size());
  check_load(*plan->topology, plan->parts, plan->seeds, plan->times.size(), options);
  BufferPool::of_process().clear();  // what lies idle is room for the loader
  plan->pool = std::make_shared<BufferPool>(BufferPool::kNoLimit - 1, BufferPool::kNoLimit, std::move(page_lock));
  first_division(*plan, progress);
  return plan;
}

const char* way_name(Way way) {
  constexpr std::array<const char*, 4> names{"mapped", "whole", "window", "direct"};
  return names[static_cast<size_t>(way)];
}

}  // namespace gz
