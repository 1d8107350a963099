// plan: learn what a batch takes, then divide the budget.
#include "load/plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "storage/preload.h"

namespace gz {
namespace {

constexpr uint64_t kProbeBatches = 8;                 // sampled to learn sizes and hot rows
constexpr uint64_t kThreadBytes = uint64_t{8} << 20;  // a thread's ring and its buffers
constexpr uint64_t kLeastCache = uint64_t{16} << 20;  // a cache below this is not worth its upkeep
constexpr uint64_t kAnnouncedBytes = 32;              // what an announced row takes in a cache's tables
constexpr double kPinnedShare = 0.5;                  // of a cache: hot rows; the rest follows the epoch
constexpr double kMargin = 1.15;                      // batches vary in size

// How many edges an epoch is likely to read.
uint64_t expected_edges(const LoadPlan& plan) {
  const Topology& graph = *plan.topology;
  const auto expected =
      expected_reads(plan.options.sample.fanouts, plan.seeds.size(), graph.num_nodes(), graph.num_edges());
  return static_cast<uint64_t>(std::min(expected.edges, 1e18));
}

GatherOptions gather_options(const Part& part) {
  GatherOptions options;
  options.out_dtype = part.out_dtype;
  return options;
}

// What the first batches of epoch 0 are like.
struct Probe {
  uint64_t subgraph_bytes = 0, batch_bytes = 0;  // the largest
  uint64_t scratch_bytes = 0;                    // the most that sampling one took beside it
  std::vector<std::vector<int64_t>> ids;         // one list a part: all ids that were needed
  std::vector<uint64_t> part_bytes;              // one a part: bytes gathered
};

Probe probe_batches(const LoadPlan& plan, bool keep_ids, Progress* progress) {
  Probe probe;
  probe.ids.resize(plan.parts.size());
  probe.part_bytes.resize(plan.parts.size());
  const EpochBatches batches = epoch_batches(plan, 0, Share{});
  const uint64_t count = std::min(batches.count(), keep_ids ? kProbeBatches : 1);
  for (uint64_t number = 0; number < count; ++number) {
    if (progress != nullptr) progress->report("planning", number, count);
    const auto graph = sample_batch(plan, 0, number, batches.input(number));
    uint64_t bytes = subgraph_bytes(graph);
    probe.subgraph_bytes = std::max(probe.subgraph_bytes, bytes);
    probe.scratch_bytes = std::max(probe.scratch_bytes, graph.scratch_bytes);
    for (size_t i = 0; i < plan.parts.size(); ++i) {
      const Part& part = plan.parts[i];
      const auto ids = ids_of(part, graph);
      const uint64_t rows = ids.size() * gathered_row_bytes(part.file->matrix(part.matrix), gather_options(part));
      bytes += rows;
      probe.part_bytes[i] += rows;
      if (keep_ids) probe.ids[i].insert(probe.ids[i].end(), ids.begin(), ids.end());
    }
    probe.batch_bytes = std::max(probe.batch_bytes, bytes);
  }
  return probe;
}

// The share of a matrix that is in RAM already, by looking at pages here and there.
double resident_share(const FeatureFile& file, const Matrix& matrix) {
  constexpr uint64_t kLooks = 512;
  const uint64_t bytes = matrix.rows * matrix.row_bytes;
  if (bytes == 0) return 1;
  Random random(make_key(bytes));
  uint64_t found = 0;
  for (uint64_t i = 0; i < kLooks; ++i) {
    unsigned char page = 0;
    if (!file.file().mapping().resident(matrix.offset + random.below(bytes), 1, &page)) return 0;
    found += page & 1;
  }
  return static_cast<double>(found) / kLooks;
}

// Ids by how often they were needed, often first; those needed once are left out.
std::vector<int64_t> hottest(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  std::vector<std::pair<uint32_t, int64_t>> counted;
  for (size_t i = 0; i < ids.size();) {
    size_t j = i;
    while (j < ids.size() && ids[j] == ids[i]) ++j;
    if (j - i > 1) counted.emplace_back(static_cast<uint32_t>(j - i), ids[i]);
    i = j;
  }
  std::stable_sort(counted.begin(), counted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> hot(counted.size());
  std::transform(counted.begin(), counted.end(), hot.begin(), [](const auto& c) { return c.second; });
  return hot;
}

// Rounded up, so that what an error asks for will do.
std::string amount(uint64_t bytes) {
  if (bytes < 10'000'000) return text((bytes + 999) / 1000, "KB");
  return text((bytes + 999'999) / 1'000'000, "MB");
}

// Batches first, as many as `prefetch` asks for but at most half of the budget; then look-ahead; caches get the rest.
uint64_t divide_budget(LoadPlan& plan, const Probe& probe, bool want_cache) {
  const uint64_t memory = plan.options.memory;
  const uint64_t fixed = static_cast<uint64_t>(plan.threads) * (kThreadBytes + probe.scratch_bytes);
  plan.batch_bytes = std::max<uint64_t>(static_cast<uint64_t>(static_cast<double>(probe.batch_bytes) * kMargin), 1);
  const uint64_t least = fixed + 3 * plan.batch_bytes;  // one in training, the one before it, one in the making
  if (memory < least) {
    throw BudgetError(
        text("memory is ", amount(memory), ", ", plan.threads, " threads take ", amount(fixed), " and one batch takes ",
             amount(plan.batch_bytes), ", of which three must fit: raise memory to ", amount(least),
             " or lower num_threads, batch_size or fanouts"),
        least);
  }
  const uint64_t spare = memory - least;
  const uint64_t for_batches = want_cache ? spare / 2 : spare;
  plan.depth = 1 + static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(plan.options.prefetch) - 1,
                                                       for_batches / plan.batch_bytes));
  const uint64_t ahead_bytes = std::max<uint64_t>(probe.subgraph_bytes + probe.subgraph_bytes / 8 * kAnnouncedBytes, 1);
  const uint64_t after_batches = spare - static_cast<uint64_t>(plan.depth - 1) * plan.batch_bytes;
  const uint64_t most_ahead = want_cache ? 8 : 2;
  const auto ahead = static_cast<int>(std::min<uint64_t>(most_ahead, after_batches / 4 / ahead_bytes));
  plan.window = plan.depth + std::max(ahead, 1);
  plan.batches_budget = static_cast<uint64_t>(plan.depth) * plan.batch_bytes +
                        static_cast<uint64_t>(std::max(ahead, 1)) * probe.subgraph_bytes;
  return after_batches - static_cast<uint64_t>(ahead) * ahead_bytes;
}

void make_caches(LoadPlan& plan, Probe& probe, uint64_t room, Progress* progress) {
  uint64_t total = 0;
  for (size_t i = 0; i < plan.parts.size(); ++i) total += probe.part_bytes[i];
  for (size_t i = 0; i < plan.parts.size() && total > 0; ++i) {
    const Part& part = plan.parts[i];
    const Matrix& matrix = part.file->matrix(part.matrix);
    const auto share = static_cast<double>(probe.part_bytes[i]) / static_cast<double>(total);
    const auto budget = static_cast<uint64_t>(static_cast<double>(room) * share);
    if (budget < kLeastCache) continue;
    if (plan.options.cache == CacheMode::kAuto && resident_share(*part.file, matrix) > 0.98) continue;
    auto cache = std::make_shared<RowCache>(part.file, matrix, budget);
    if (progress != nullptr) progress->report("pinning hot rows", i, plan.parts.size());
    GatherOptions options;
    options.io = plan.options.io == Io::kMmap ? Io::kAuto : plan.options.io;
    options.threads = plan.threads;
    cache->pin(hottest(std::move(probe.ids[i])), options, kPinnedShare);
    plan.caches[i] = std::move(cache);
  }
}

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

std::span<const int64_t> ids_of(const Part& part, const SampledSubgraph& graph) {
  return part.by_edge ? graph.edge.span() : graph.node.span();
}

uint64_t subgraph_bytes(const SampledSubgraph& graph) {
  return 8 * (graph.node.size + graph.edge_index.size + graph.edge.size + graph.batch.size);
}

SampledSubgraph sample_batch(const LoadPlan& plan, uint64_t epoch, uint64_t number, std::span<const int64_t> input) {
  std::vector<int64_t> seeds(input.size()), times;
  for (size_t i = 0; i < input.size(); ++i) seeds[i] = plan.seeds.at(static_cast<uint64_t>(input[i]));
  if (!plan.times.empty()) {
    times.resize(input.size());
    for (size_t i = 0; i < input.size(); ++i) times[i] = plan.times.at(static_cast<uint64_t>(input[i]));
  }
  SampleOptions options = plan.options.sample;
  options.seed = batch_seed(plan.options.seed, epoch, number);
  options.threads = 1;  // the pipeline samples several batches at once instead
  return sample_neighbours(*plan.topology, seeds, times, options);
}

EpochBatches epoch_batches(const LoadPlan& plan, uint64_t epoch, const Share& share) {
  const LoadOptions& options = plan.options;
  const EpochOrder order(plan.seeds.size(), options.shuffle, options.seed, epoch);
  return {order, options.batch_size, options.drop_last, share};
}

std::shared_ptr<const LoadPlan> make_plan(std::shared_ptr<const Topology> topology, std::vector<Part> parts,
                                          Numbers seeds, Numbers times, const LoadOptions& options,
                                          Progress* progress) {
  auto plan = std::make_shared<LoadPlan>();
  plan->topology = std::move(topology);
  plan->parts = std::move(parts);
  plan->seeds = std::move(seeds);
  plan->times = std::move(times);
  plan->options = options;
  plan->threads = resolve_threads(options.threads);
  plan->caches.resize(plan->parts.size());
  check_load(*plan->topology, plan->parts, plan->seeds, plan->times.size(), options);
  const bool want_cache = options.cache != CacheMode::kOff && options.io != Io::kMmap && !plan->parts.empty();
  const MountedFile& graph = plan->topology->file();
  const bool look_ahead = options.sample.io == TopologyIo::kAuto;
  if (look_ahead && worth_preloading(graph, expected_edges(*plan), options.memory)) {
    preload(graph, plan->threads, progress);
  }
  Probe probe = probe_batches(*plan, want_cache, progress);
  const uint64_t room = divide_budget(*plan, probe, want_cache);
  plan->allowance.emplace(plan->batches_budget + 2 * plan->batch_bytes);
  if (want_cache) make_caches(*plan, probe, room, progress);
  return plan;
}

}  // namespace gz
