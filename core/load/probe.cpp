// probe: samples a few batches, and counts their bytes, their rows and the rows that they share.
#include "load/probe.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "load/rows.h"
#include "sample/merged/merged.h"
#include "sample/subgraph/packed.h"
#include "sweep/claim.h"

namespace gz {
namespace {

constexpr double kLeastMargin = 0.04,
                 kMostMargin = 0.15;  // for batches that vary in size: twice the spread of the probed ones

uint64_t scaled(uint64_t bytes, double by) { return static_cast<uint64_t>(static_cast<double>(bytes) * by); }

// The rows that probed batches have in common, counted over a random choice of ids where there are many.
class Overlap {
 public:
  void add(std::span<const int64_t> ids) {
    constexpr size_t kMost = size_t{1} << 16;
    if (batches_.empty()) every_ = ids.size() / kMost + 1;
    most_ = std::max(most_, ids.size());
    std::vector<int64_t> rows;
    std::ranges::copy_if(ids, std::back_inserter(rows),
                         [&](int64_t id) { return mix(static_cast<uint64_t>(id)) % every_ == 0; });
    std::ranges::sort(rows);
    batches_.push_back(std::move(rows));
  }

  size_t most() const { return most_; }  // rows of a batch

  double shared() const {  // by two batches, on average over all pairs
    double sum = 0, pairs = 0;
    for (size_t a = 0; a < batches_.size(); ++a) {
      for (size_t b = 0; b < a; ++b, ++pairs) sum += static_cast<double>(common(batches_[a], batches_[b]));
    }
    return pairs > 0 ? sum * static_cast<double>(every_) / pairs : 0;
  }

 private:
  static size_t common(std::span<const int64_t> a, std::span<const int64_t> b) {
    size_t count = 0;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      count += a[i] == b[j] ? 1 : 0;
      const bool first = a[i] <= b[j], second = b[j] <= a[i];
      i += first ? 1 : 0;
      j += second ? 1 : 0;
    }
    return count;
  }

  std::vector<std::vector<int64_t>> batches_;
  uint64_t every_ = 1;
  size_t most_ = 0;
};

// The nodes whose neighbours were sampled: all but those of the last hop.
std::span<const int64_t> looked_up(const HeteroSubgraph& graph) {
  const SampledNodes& nodes = graph.nodes.at(0);
  const std::span<const int64_t> all(nodes.node.data(), nodes.node.size);
  const auto last = nodes.num_sampled_nodes.empty() ? 0 : static_cast<size_t>(nodes.num_sampled_nodes.back());
  return all.first(all.size() - std::min(last, all.size()));
}

}  // namespace

Sizes probe(const LoadPlan& plan, BufferPool& pool, Progress* progress) {
  Sizes sizes;
  sizes.rows.resize(plan.parts.size());
  std::vector<Overlap> rows_used(plan.parts.size());
  Overlap lookups;
  uint64_t least = UINT64_MAX, rounding = 0;  // the smallest batch; the slack of its buffers
  const EpochBatches batches = epoch_batches(plan, 0, Share{});
  const uint64_t count = std::min(batches.count(), kProbeBatches);
  const BufferPool::Use use(pool);
  for (uint64_t i = 0; i < count; ++i) {
    if (progress != nullptr) progress->report("planning", i, count);
    // From the whole epoch, including its end, since seeds may be sorted by time. The last batch may be short.
    const uint64_t number = count < 2 ? 0 : i * (batches.count() - (batches.count() > count ? 2 : 1)) / (count - 1);
    pool.reset_peak();
    const BatchSeeds seeds = batch_seeds(plan, 0, number, batches.input(number));
    auto graph = sample_batch(plan, seeds);
    sizes.sampling = std::max(sizes.sampling, pool.peak_bytes());
    if (!plan.graph.typed()) {
      lookups.add(looked_up(graph));
      sizes.merged = std::max(sizes.merged, merged_bytes(plan.graph.topology(0), plan.options.sample, graph));
    }
    const uint64_t arrays = array_bytes(seeds.arrays);
    uint64_t bytes = subgraph_bytes(graph) + arrays, claims = 0, roomy = arrays;
    for_each_array(graph, [&](const Int64Array& a) { roomy += BufferPool::roomy_bytes(a.size * sizeof(int64_t)); });
    for (size_t p = 0; p < plan.parts.size(); ++p) {
      const auto ids = ids_of(plan.parts[p], graph);
      const uint64_t rows = ids.size();
      rows_used[p].add(ids);
      uint64_t part = rows * gathered_row_bytes(matrix_of(plan.parts[p]), gather_options(plan.parts[p]));
      if (plan.options.device_bytes > 0) part += OnDevice::list_bytes(rows, rows);
      sizes.rows[p] = std::max(sizes.rows[p], rows);
      bytes += part;
      roomy += BufferPool::roomy_bytes(part);
      claims += BufferPool::roomy_bytes(rows * Claim::row_bytes(), Purpose::kTables);
      if (plan.options.device_bytes > 0) claims += BufferPool::roomy_bytes(rows * DeviceReader::kRowBytes);
    }
    const uint64_t packed = PackedSubgraph(std::move(graph)).bytes();
    sizes.packed = std::max(sizes.packed, BufferPool::roomy_bytes(packed, Purpose::kTables) + claims + arrays);
    sizes.batch = std::max(sizes.batch, bytes);
    rounding = std::max(rounding, minus(roomy, bytes));
    least = std::min(least, bytes);
  }
  for (const Overlap& part : rows_used) sizes.shared.push_back(part.shared());
  sizes.lookups = static_cast<double>(lookups.most());
  sizes.lookups_shared = lookups.shared();
  const double spread = static_cast<double>(sizes.batch - std::min(least, sizes.batch)) /
                        static_cast<double>(std::max<uint64_t>(sizes.batch, 1));
  const double margin = 1 + std::clamp(2 * spread, kLeastMargin, kMostMargin);
  sizes.sampling = scaled(sizes.sampling, 1 + kMostMargin);
  sizes.packed = scaled(sizes.packed, margin);
  sizes.merged = scaled(sizes.merged, margin);
  sizes.batch = std::max<uint64_t>(scaled(sizes.batch, margin) + rounding, 1);
  return sizes;
}

Sizes first_probe(LoadPlan& plan, const std::vector<std::shared_ptr<LoadPlan>>& guests, Progress* progress) {
  const uint64_t free = available_memory();
  if (plan.options.memory == 0 && free > 0) plan.pool->set_limit(free / 10 * 9);
  try {
    Sizes sizes = probe(plan, *plan.pool, progress);
    for (const auto& guest : guests) {  // memory for the largest
      const Sizes more = probe(*guest, *plan.pool, progress);
      sizes.sampling = std::max(sizes.sampling, more.sampling);
      sizes.packed = std::max(sizes.packed, more.packed);
      sizes.merged = std::max(sizes.merged, more.merged);
      sizes.batch = std::max(sizes.batch, more.batch);
      for (size_t i = 0; i < sizes.rows.size(); ++i) sizes.rows[i] = std::max(sizes.rows[i], more.rows[i]);
    }
    return sizes;
  } catch (const PoolFull& full) {
    throw BudgetError(text(amount(free), " of memory available, but sampling one batch needs more than ",
                           amount(full.needed), "; raise the memory limit, or lower batch_size or fanouts"),
                      full.needed);
  }
}

}  // namespace gz
