// budget: collects the facts, reads files before the first batch, and allocates the held rows.
#include "load/budget.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "load/rows.h"
#include "sample/merged/merged.h"
#include "sample/subgraph/packed.h"
#include "storage/page_requests.h"
#include "storage/residency.h"
#include "sweep/claim.h"

namespace gz {
namespace {

constexpr uint64_t kProbeBatches = 4;  // sampled to measure sizes
constexpr double kLeastMargin = 0.04,
                 kMostMargin = 0.15;  // for batches that vary in size: twice the spread of the probed ones
constexpr double kResident = 0.97;    // share of a file's pages that counts as resident

uint64_t scaled(uint64_t bytes, double by) { return static_cast<uint64_t>(static_cast<double>(bytes) * by); }

double cached_share(const MountedFile& file, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return 1;
  const auto cached = cached_bytes(file, offset, bytes);
  return cached ? static_cast<double>(*cached) / static_cast<double>(bytes) : 0;
}

Facts collect_facts(const LoadPlan& plan) {
  const LoadOptions& options = plan.options;
  Facts facts;
  facts.memory = options.memory;
  facts.ranks = options.local.count;
  facts.held = static_cast<uint64_t>(options.held) + (plan.ledger->keeps_more() ? 1 : 0);
  facts.prefetch = static_cast<uint64_t>(options.prefetch);
  facts.threads = plan.threads;
  facts.io = options.io;
  facts.cache = options.cache;
  facts.may_merge = !plan.graph.typed() && options.sample.io == TopologyIo::kAuto &&
                    merged_supported(options.sample, plan.seeds->timed());
  const auto reads = expected_reads(plan.graph, options.sample, plan.seeds->types(), options.batch_size);
  facts.rows_looked_up = reads.empty() ? 0 : reads[0].rows;
  if (facts.may_merge) facts.topology_rows = static_cast<double>(plan.graph.topology(0).num_nodes());
  facts.shares_reads = plan.group != nullptr;
  const uint64_t free = available_memory();
  facts.available = free == 0 ? UINT64_MAX / 4 : free + held_bytes(plan) + held_by_others(plan);
  facts.topology = plan.graph.file_bytes();
  for (size_t e = 0; e < plan.graph.edge_types().size(); ++e) {
    SampleOptions sample = options.sample;
    sample.direction = direction_of(plan.graph, e, sample);
    facts.topology_cached.push_back(resident_share(plan.graph.topology(e), sample).value_or(0));
  }
  for (const Part& part : plan.parts) {
    const Matrix& matrix = matrix_of(part);
    facts.parts.push_back(&matrix);
    facts.cached.push_back(cached_share(part.file->file(), matrix.offset, matrix_bytes(matrix)));
    if (options.device_rows) facts.tables += RowCalendar::bytes_for(matrix.rows, matrix.rows / 2);
  }
  facts.batches = std::max<uint64_t>(epoch_batches(plan, 0, Share{}).count(), 1);
  if (options.device_rows) facts.ahead = RowCalendar::kHorizon;
  return facts;
}

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

// The sizes of batches of `plan`, measured in `pool`.
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
      const uint64_t part = rows * gathered_row_bytes(matrix_of(plan.parts[p]), gather_options(plan.parts[p]));
      sizes.rows[p] = std::max(sizes.rows[p], rows);
      bytes += part;
      roomy += BufferPool::roomy_bytes(part);
      claims += BufferPool::roomy_bytes(rows * Claim::row_bytes());
      if (plan.options.device_rows) claims += BufferPool::roomy_bytes(rows * DeviceReader::kRowBytes);
    }
    sizes.packed =
        std::max(sizes.packed, BufferPool::roomy_bytes(PackedSubgraph(std::move(graph)).bytes()) + claims + arrays);
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

// The size of batches is unknown before the first sample; the limit keeps it from exhausting memory.
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

// Reads files that fit and will be needed.
void load_files(const LoadPlan& plan, const Facts& facts, const Sizes& sizes, const Division& d, Progress* progress) {
  const auto reads = expected_reads(plan.graph, plan.options.sample, plan.seeds->types(), plan.seeds->count());
  for (const size_t e : plan.graph.files()) {
    const MountedFile& topology = plan.graph.topology(e).file();
    if (!d.merges && plan.options.sample.io == TopologyIo::kAuto && facts.topology_cached[e] < kResident &&
        facts.topology <= minus(facts.available, plan.options.local.count * d.memory) &&
        std::min(reads[e].edges, 1e18) > static_cast<double>(topology.container().file_bytes / kPageBytes)) {
      preload(topology, plan.threads, progress);
    }
  }
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    if (d.ways[i] != Way::kMapped || plan.options.io == Io::kMmap || facts.cached[i] >= kResident) continue;
    const MountedFile& file = plan.parts[i].file->file();
    const double random = static_cast<double>(sizes.rows[i] * facts.batches) / facts.disk.reads;
    const double whole = static_cast<double>(file.container().file_bytes) / facts.disk.bytes;
    if (random > whole / 2 && file.container().file_bytes < available_memory()) preload(file, plan.threads, progress);
  }
}

std::string explain(const LoadPlan& plan, const Facts& facts, const Division& d) {
  const uint64_t ranks = plan.options.local.count;
  std::string why = plan.options.memory > 0
                        ? text("memory was set to ", amount(plan.options.memory))
                        : text("using ", amount(ranks * d.memory), " of ", amount(facts.available), " available");
  if (ranks > 1) why += text(" for the ", ranks, " ranks of this host (", amount(d.memory), " each)");
  why += d.merges
             ? text("; the topology (", amount(facts.topology), ") stays on disk, ", d.group,
                    " batches are sampled together")
             : text("; the topology (", amount(facts.topology),
                    facts.topology <= minus(facts.available, ranks * d.memory) ? ") is in the page cache"
                                                                               : ") is read through the page cache");
  for (size_t i = 0; i < d.ways.size(); ++i) {
    const std::string size = amount(matrix_bytes(matrix_of(plan.parts[i])));
    why += text("; '", plan.parts[i].name, "' (", size, ") ");
    switch (d.ways[i]) {
      case Way::kMapped:
        why += ranks > 1 ? "is in the page cache, once for all ranks" : "is in the page cache";
        break;
      case Way::kWhole:
        why += "is copied into memory";
        break;
      case Way::kWindow:
        why += text("is read in file order for ", d.window, " batches at once");
        break;
      case Way::kDirect:
        why += "is read batch by batch";
        break;
    }
  }
  return why;
}

// The largest file that a division reads from in every epoch; null if everything stays in RAM.
const MountedFile* largest_file_read(const LoadPlan& plan, const Division& d) {
  const MountedFile* largest = nullptr;
  const auto consider = [&](const MountedFile& file) {
    if (largest == nullptr || file.container().file_bytes > largest->container().file_bytes) largest = &file;
  };
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    if (d.ways[i] == Way::kWindow || d.ways[i] == Way::kDirect) consider(plan.parts[i].file->file());
  }
  if (d.merges) consider(plan.graph.topology(0).file());
  return largest;
}

void apply(LoadPlan& plan, const Sizes& sizes, Progress* progress) {
  Facts facts = collect_facts(plan);
  Division d = divide(facts, sizes);
  if (const MountedFile* file = largest_file_read(plan, d)) {
    facts.disk = disk_of(*file);
    d = divide(facts, sizes);
  }
  d.disk = facts.disk;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = matrix_of(plan.parts[i]);
    if (d.ways[i] == Way::kWindow && (!RowWindow::supports(matrix) || plan.outgrown)) d.ways[i] = Way::kDirect;
  }
  const auto room = [&] { return d.memory - d.fixed_bytes - d.store_bytes - d.shared_bytes; };
  plan.pool->set_limit(room());  // frees idle buffers of an epoch that released its rows: the memory is needed now
  plan.pool->set_limit(BufferPool::kNoLimit - 1);
  load_files(plan, facts, sizes, d, progress);
  hold_rows(plan, sizes, d, progress);
  if (std::find(d.ways.begin(), d.ways.end(), Way::kWindow) == d.ways.end()) d.window = 0;
  const bool holds =
      std::any_of(d.ways.begin(), d.ways.end(), [](Way w) { return w == Way::kWindow || w == Way::kWhole; });
  if (!holds) d.store_bytes = 0;
  plan.pool->set_limit(room());
  d.why = explain(plan, facts, d);
  d.rows = sizes.rows;
  plan.division = std::move(d);
  plan.sizes = sizes;
  publish_held_bytes(plan);
}

}  // namespace

void first_division(LoadPlan& plan, const std::vector<std::shared_ptr<LoadPlan>>& guests, Progress* progress) {
  const std::lock_guard lock(plan.mutex);
  join_local_ranks(plan);
  const auto reads = expected_reads(plan.graph, plan.options.sample, plan.seeds->types(), plan.seeds->count());
  // Before probing, which would otherwise read the same pages one by one.
  for (const size_t e : plan.graph.files()) {
    const MountedFile& topology = plan.graph.topology(e).file();
    if (plan.options.sample.io == TopologyIo::kAuto &&
        worth_preloading(topology, static_cast<uint64_t>(std::min(reads[e].edges, 1e18)), plan.options.memory)) {
      preload(topology, plan.threads, progress);
    }
  }
  apply(plan, first_probe(plan, guests, progress), progress);
}

Estimate estimate(LoadPlan& plan, const Disk& disk, Progress* progress) {
  const std::lock_guard lock(plan.mutex);
  const Sizes sizes = probe(plan, *plan.pool, progress);
  const auto begin = Clock::now();
  probe(plan, *plan.pool, progress);  // the same batches: their pages are in RAM now
  const double took = seconds_since(begin);
  Facts facts = collect_facts(plan);
  facts.disk = disk;
  Estimate e;
  e.division = divide(facts, sizes);
  e.division.rows = sizes.rows;
  e.batches = facts.batches;
  e.topology = facts.topology;
  e.sample_seconds = took / static_cast<double>(std::min(facts.batches, kProbeBatches));
  e.disk_seconds = disk_seconds(facts, sizes, e.division);
  if (!e.division.merges && facts.topology <= minus(facts.available, e.division.memory)) {
    e.load_seconds += static_cast<double>(facts.topology) / disk.bytes;
  }
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Way way = e.division.ways[i];
    const uint64_t bytes = matrix_bytes(matrix_of(plan.parts[i]));
    if (way == Way::kWindow) {
      e.swept += bytes;
      e.swept_rows += sizes.rows[i] * matrix_of(plan.parts[i]).row_bytes;
    }
    if (way != Way::kMapped && way != Way::kWhole) continue;
    if (way == Way::kMapped) e.mapped += bytes;
    const double random = static_cast<double>(sizes.rows[i] * facts.batches) / disk.reads;
    e.load_seconds += std::min(static_cast<double>(bytes) / disk.bytes, random);
  }
  e.division.why = explain(plan, facts, e.division);
  return e;
}

bool division_is_current(LoadPlan& plan) {
  const std::lock_guard lock(plan.mutex);
  const Division& now = plan.division;
  Facts facts = collect_facts(plan);
  facts.disk = now.disk;
  Sizes sizes = plan.sizes;
  sizes.batch = std::max(sizes.batch, plan.ledger->largest_batch());
  try {
    const Division d = divide(facts, sizes);
    return d.merges == now.merges && d.window <= now.window + now.window / 3 && now.window <= d.window + d.window / 3;
  } catch (const BudgetError&) {
    return true;  // a new pipeline would not help
  }
}

void divide_again(LoadPlan& plan, Progress* progress) {
  const std::lock_guard lock(plan.mutex);
  join_local_ranks(plan);
  Sizes sizes = plan.sizes;
  // Retry with the sizes of the last epoch: oversized batches are built one at a time.
  for (const uint64_t batch : {std::max(sizes.batch, plan.ledger->largest_batch()), sizes.batch}) {
    sizes.batch = batch;
    try {
      apply(plan, sizes, progress);
      plan.released = false;
      return;
    } catch (const BudgetError&) {
    }
  }
  if (!plan.released) return;
  // Other processes took the memory of the held rows: batches are read one by one.
  for (Way& way : plan.division.ways) way = way == Way::kWindow ? Way::kDirect : way;
  plan.division.window = 0;
}

std::exception_ptr batch_too_large(const LoadPlan& plan, uint64_t batch, uint64_t needed) {
  const uint64_t ranks = plan.options.local.count;
  const uint64_t least =
      ranks * ((needed + plan.division.fixed_bytes) / 8 * 9 + 8);  // other batches may be larger still
  return std::make_exception_ptr(
      BudgetError(text("batch ", batch, " does not fit into memory=", ranks * plan.division.memory,
                       " bytes; raise memory to ", least, " or lower batch_size or fanouts"),
                  least));
}

}  // namespace gz
