// budget: collects the facts, reads files before the first batch, and allocates the held rows.
#include "load/budget.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "load/probe.h"
#include "load/rows.h"
#include "sample/merged/merged.h"
#include "sample/subgraph/packed.h"
#include "storage/page_requests.h"
#include "storage/residency.h"
#include "sweep/claim.h"

namespace gz {
namespace {

double cached_share(const MountedFile& file, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return 1;
  const auto cached = cached_bytes(file, offset, bytes);
  return cached ? static_cast<double>(*cached) / static_cast<double>(bytes) : 0;
}

// Half of the rows, if it is not known yet how much memory the device has for them.
uint64_t most_slots(const Matrix& matrix, const LoadOptions& options) {
  if (options.device_bytes == LoadOptions::kFreeBytes) return matrix.rows / 2;
  return std::min(options.device_bytes / std::max<uint64_t>(matrix.row_bytes, 1), matrix.rows);
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
  facts.available = memory_for(plan);
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
    if (options.device_bytes > 0) facts.tables += RowCalendar::bytes_for(matrix.rows, most_slots(matrix, options));
  }
  facts.batches = std::max<uint64_t>(epoch_batches(plan, 0, Share{}).count(), 1);
  if (options.device_bytes > 0) facts.ahead = DeviceReader::kAhead;
  return facts;
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
  plan.division = std::move(d);
  publish_held_bytes(plan);
}

}  // namespace

uint64_t memory_for(const LoadPlan& plan) {
  const uint64_t free = available_memory();
  if (free == 0) return UINT64_MAX / 4;
  uint64_t locked = 0;  // of files in the page cache, which are counted whether they are locked or not
  std::set<const std::byte*> matrices;
  for (const Part& part : plan.parts) {
    const Matrix& matrix = matrix_of(part);
    const auto begin = reinterpret_cast<uintptr_t>(matrix.data);
    if (matrices.insert(matrix.data).second) locked += locked_pages(begin, begin + matrix_bytes(matrix));
  }
  return free + locked + held_bytes(plan) + held_by_others(plan);
}

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

Estimate estimate(LoadPlan& plan, const Disk& disk, uint64_t device_bytes, Progress* progress) {
  const std::lock_guard lock(plan.mutex);
  const Sizes sizes = probe(plan, *plan.pool, progress);
  const auto begin = Clock::now();
  probe(plan, *plan.pool, progress);  // the same batches: their pages are in RAM now
  const double took = seconds_since(begin);
  Facts facts = collect_facts(plan);
  facts.disk = disk;
  Estimate e;
  e.division = divide(facts, sizes);
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
  std::vector<SlotNeeds> needs;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = matrix_of(plan.parts[i]);
    needs.push_back({.rows = matrix.rows, .row_bytes = matrix.row_bytes, .per_batch = sizes.rows[i]});
  }
  e.slots = divide_slots(device_bytes, needs);
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = matrix_of(plan.parts[i]);
    const bool has_all = e.slots[i] >= matrix.rows;  // uploaded before the first batch
    const double hits = uses_of(matrix, sizes, i).hits(static_cast<double>(e.slots[i]), RowCalendar::kHorizon);
    e.hits.push_back(has_all ? 1 : hits);
  }
  e.division.why = explain(plan, facts, e.division);
  return e;
}

bool division_is_current(LoadPlan& plan) {
  const std::lock_guard lock(plan.mutex);
  const Division& now = plan.division;
  Facts facts = collect_facts(plan);
  facts.disk = now.disk;
  Sizes sizes = plan.division.sizes;
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
  Sizes sizes = plan.division.sizes;
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
