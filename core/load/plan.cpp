// plan: argument checks, and the contents of a batch.
#include "load/plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "load/budget.h"
#include "sample/merged/merged.h"

namespace gz {
namespace {

constexpr int kLeastPrefetch = 4;

// What a device caches. Planning takes a quarter of the processors' time: large batches are planned by several threads.
void add_device_rows(LoadPlan& plan) {
  constexpr uint64_t kRowsPerThread = 50'000;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const uint64_t threads =
        std::min<uint64_t>(plan.division.sizes.rows[i] / kRowsPerThread, static_cast<uint64_t>((plan.threads + 1) / 3));
    plan.device_rows.push_back(
        std::make_shared<DeviceRows>(matrix_of(plan.parts[i]).rows, std::max(static_cast<uint32_t>(threads), 1u)));
  }
}

// Edge rows can be delivered only if it is known which edge a row belongs to. Ids may have gaps, or be the same for
// both directions of an edge, so only the largest one determines how many rows are needed; it is computed where that is
// cheap, and a gather checks each id in any case.
void check_edge_part(const SampleGraph& graph, const Part& part, const LoadOptions& options) {
  const Topology& topology = graph.topology(part.type);
  constexpr uint64_t kCheap = uint64_t{1} << 20;
  const uint64_t rows = matrix_of(part).rows, edges = topology.num_edges();
  const std::string& path = topology.file().path();
  const auto what = text(part.file->file().path(), ": '", part.matrix, "' has ", rows, " rows, but ");
  topology.visit(direction_of(graph, part.type, options.sample), [&](const auto& csr) {
    if (options.edge_order == EdgeOrder::kFile) {
      if (csr.has_edge_ids()) fail<ArgumentError>("edge_order is 'file', but ", path, " has edge ids; omit edge_order");
      if (rows != edges) fail<ArgumentError>(what, path, " has ", edges, " edges");
      return;
    }
    if (!csr.has_edge_ids()) {
      fail<ArgumentError>(
          path, " was compiled without edge ids, so the rows of ", part.file->file().path(),
          " cannot be matched to its edges; compile it with edge_ids=True, or pass edge_order=\"file\" if "
          "row i belongs to the i-th edge in the order of the file");
    }
    if (edges > kCheap) return;
    uint64_t largest = 0;
    for (uint64_t i = 0; !csr.changed && i < edges; ++i) largest = std::max(largest, csr.stored_edge_id(i));
    for (uint64_t node = 0; csr.changed && node < csr.num_nodes; ++node) {
      const auto row = csr.row(node);
      for (uint64_t i = row.begin; i < row.end; ++i) largest = std::max(largest, csr.stored_edge_id(i));
    }
    topology.file().check();
    if (edges > 0 && rows <= largest) fail<ArgumentError>(what, path, " has edge ids up to ", largest);
  });
}

}  // namespace

void check_load(const SampleGraph& graph, const std::vector<Part>& parts, const SeedSource& seeds,
                const LoadOptions& options) {
  if (graph.typed()) {
    check_hetero(graph.node_types(), graph.edge_types(), seeds.timed(), options.sample);
  } else {
    check_options(graph.topology(0), options.sample, seeds.timed());
  }
  resolve_threads(options.threads);
  if (options.batch_size == 0) fail<ArgumentError>("batch_size is 0, expected at least 1");
  if (options.prefetch < 0) fail<ArgumentError>("prefetch is ", options.prefetch, ", expected at least 1");
  seeds.check(graph);
  for (const Part& part : parts) {
    if (part.type >= (part.by_edge ? graph.edge_types().size() : graph.node_types().size())) {
      fail<ArgumentError>("part '", part.name, "' has type ", part.type, ", which does not exist");
    }
    if (part.by_edge) {
      check_edge_part(graph, part, options);
      continue;
    }
    const uint64_t nodes = graph.node_types()[part.type].num_nodes, rows = matrix_of(part).rows;
    if (rows < nodes) {
      fail<ArgumentError>(part.file->file().path(), ": '", part.matrix, "' has ", rows, " rows, but ",
                          graph.typed() ? graph.where(part.type) : "the graph", " has ", nodes, " nodes");
    }
  }
}

GatherOptions gather_options(const Part& part) {
  GatherOptions options;
  options.out_dtype = part.out_dtype;
  return options;
}

std::span<const int64_t> ids_of(const Part& part, const HeteroSubgraph& graph) {
  return part.by_edge ? graph.edges[part.type].edge.span() : graph.nodes[part.type].node.span();
}

uint64_t array_bytes(const std::vector<BatchArray>& arrays) {
  uint64_t bytes = 0;
  for (const BatchArray& array : arrays) bytes += array.buffer->size();
  return bytes;
}

BatchSeeds batch_seeds(const LoadPlan& plan, uint64_t epoch, uint64_t number, std::span<const int64_t> input) {
  BatchSeeds batch;
  batch.key = batch_seed(plan.options.seed, epoch, number);
  batch.dependent = {plan.options.sample.dependent.batches, number, epoch_seed(plan.options.seed, epoch)};
  plan.seeds->fill(input, batch);
  return batch;
}

HeteroSubgraph sample_batch(const LoadPlan& plan, const BatchSeeds& batch, bool narrow_edges) {
  SampleOptions options = plan.options.sample;
  options.narrow_edges = narrow_edges;
  options.seed = batch.key;
  options.dependent = batch.dependent;
  options.threads = 1;  // the pipeline samples several batches at once instead
  if (!plan.graph.typed()) {
    const SeedsOfType& seeds = batch.seeds.at(0);
    options.exclude = batch.exclude_of(0);
    return sample_neighbours(plan.graph.topology(0), seeds.nodes, seeds.times, options);
  }
  std::vector<TypedSeeds> seeds;
  for (const SeedsOfType& part : batch.seeds) seeds.push_back({part.type, part.nodes, part.times});
  const bool timed = plan.seeds->timed();
  if (batch.exclude.empty()) {
    return sample_hetero(plan.graph.node_types(), plan.graph.edge_types(), seeds, timed, options);
  }
  std::vector<EdgeType> edge_types = plan.graph.edge_types();
  for (size_t e = 0; e < edge_types.size(); ++e) edge_types[e].exclude = batch.exclude_of(e);
  return sample_hetero(plan.graph.node_types(), edge_types, seeds, timed, options);
}

EpochBatches epoch_batches(const LoadPlan& plan, uint64_t epoch, const Share& share) {
  const LoadOptions& options = plan.options;
  const EpochOrder order(plan.seeds->count(), options.shuffle, options.seed, epoch);
  return {order, options.batch_size, options.drop_last, share};
}

std::shared_ptr<LoadPlan> make_outline(SampleGraph graph, std::vector<Part> parts,
                                       std::shared_ptr<const SeedSource> seeds, const LoadOptions& options,
                                       PageLock page_lock) {
  auto plan = std::make_shared<LoadPlan>();
  plan->graph = std::move(graph);
  plan->parts = std::move(parts);
  plan->seeds = std::move(seeds);
  plan->options = options;
  plan->threads = resolve_threads(options.threads);
  // Each batch is built by one thread: with a smaller depth, threads would be idle.
  if (options.prefetch == 0) {
    plan->options.prefetch = std::max(kLeastPrefetch, plan->threads + 2);
    // They are delivered in order, so one that takes longer makes all wait: measured in
    // docs/how-the-gpu-tier-works.md.
    plan->depth_of_ids = 3 * plan->threads;
  }
  plan->windows.resize(plan->parts.size());
  plan->wholes.resize(plan->parts.size());
  check_load(plan->graph, plan->parts, *plan->seeds, options);
  BufferPool::of_process().clear();  // idle buffers are memory for the loader
  plan->feeds_device = static_cast<bool>(page_lock);
  plan->pool = std::make_shared<BufferPool>(BufferPool::kNoLimit - 1, BufferPool::kNoLimit, std::move(page_lock));
  plan->ledger = std::make_shared<Ledger>(plan->pool, options.held);
  return plan;
}

std::shared_ptr<LoadPlan> make_plan(SampleGraph graph, std::vector<Part> parts, std::shared_ptr<const SeedSource> seeds,
                                    const LoadOptions& options, PageLock page_lock, Progress* progress,
                                    const std::vector<std::shared_ptr<LoadPlan>>& guests) {
  auto plan = make_outline(std::move(graph), std::move(parts), std::move(seeds), options, std::move(page_lock));
  first_division(*plan, guests, progress);
  if (plan->options.device_bytes > 0) add_device_rows(*plan);
  return plan;
}

Added add_pipeline(LoadPlan& plan, Pipeline* pipeline) {
  const std::lock_guard lock(plan.mutex);
  plan.pipelines.push_back(pipeline);
  return {plan.pipelines.size() == 1, plan.released};
}

void remove_pipeline(LoadPlan& plan, Pipeline* pipeline) {
  const std::lock_guard lock(plan.mutex);
  if (std::erase(plan.pipelines, pipeline) == 0 || !plan.pipelines.empty()) return;
  for (auto& window : plan.windows) {
    plan.released |= window != nullptr;
    window.reset();
  }
}

bool release(LoadPlan& plan, bool copies) {
  const std::lock_guard lock(plan.mutex);
  if (!plan.pipelines.empty()) return false;
  const auto is_there = [](const auto& rows) { return rows != nullptr; };
  const bool holds =
      std::ranges::any_of(plan.windows, is_there) || (copies && std::ranges::any_of(plan.wholes, is_there));
  const bool had = holds || plan.pool->idle_bytes() > 0;
  plan.pool->clear();
  for (auto& window : plan.windows) window.reset();
  for (auto& whole : plan.wholes) whole = copies ? nullptr : whole;
  plan.released |= holds;
  return had;
}

bool can_share_pipeline(const LoadPlan& a, const LoadPlan& b) {
  const auto same_part = [](const Part& p, const Part& q) {
    return p.file == q.file && p.matrix == q.matrix && p.by_edge == q.by_edge && p.out_dtype == q.out_dtype &&
           p.type == q.type;
  };
  const auto& edges = a.graph.edge_types();
  if (a.graph.typed() != b.graph.typed() || edges.size() != b.graph.edge_types().size()) return false;
  for (size_t e = 0; e < edges.size(); ++e) {
    if (&a.graph.topology(e) != &b.graph.topology(e)) return false;
  }
  return std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part) &&
         a.options.edge_order == b.options.edge_order && a.options.io == b.options.io &&
         a.options.cache == b.options.cache && a.options.held == b.options.held && a.feeds_device == b.feeds_device &&
         a.options.device_bytes == b.options.device_bytes &&
         merged_supported(a.options.sample, a.seeds->timed()) == merged_supported(b.options.sample, b.seeds->timed());
}

std::shared_ptr<const Epoch> EpochQueue::of(uint64_t batch) const {
  const auto after = [&](const auto& epoch) { return batch < epoch->end(); };
  const auto it = std::find_if(epochs_.begin(), epochs_.end(), after);
  return it != epochs_.end() ? *it : epochs_.back();
}

void EpochQueue::add(std::shared_ptr<LoadPlan> plan, uint64_t number, const Share& share) {
  const EpochBatches batches = epoch_batches(*plan, number, share);
  const uint64_t begin = epochs_.empty() ? 0 : end();
  epochs_.push_back(std::make_shared<const Epoch>(Epoch{std::move(plan), number, share, batches, begin}));
}

bool EpochQueue::is_next(const LoadPlan& plan, uint64_t number, const Share& share) const {
  return epochs_.size() > 1 && epochs_[1]->plan.get() == &plan && epochs_[1]->number == number &&
         epochs_[1]->share == share;
}

}  // namespace gz
