// budget: the facts, the choice between ways, and the arithmetic.
#include "load/budget.h"

#include <algorithm>

#include "base/error.h"
#include "sample/merged.h"
#include "storage/preload.h"
#include "storage/residency.h"
#include "storage/system_memory.h"

namespace gz {
namespace {

constexpr uint64_t kMB = uint64_t{1} << 20;
constexpr uint64_t kProbeBatches = 4;        // sampled to learn sizes
constexpr uint64_t kRing = 13 * kMB;         // a reader's buffers and lists
constexpr uint64_t kLeastSpare = 128 * kMB;  // for the model and its steps, where nothing is known of them
constexpr uint64_t kMostWindow = 1024;       // batches
constexpr uint64_t kMostGroup = 128;         // batches sampled together
constexpr int kWindowDepth = 2;              // finished batches beside a window: complete ones take only a copy
constexpr double kMargin = 1.15;             // batches vary in size
constexpr double kResident = 0.97;           // of a file's pages: good enough
constexpr double kReadsPerSecond = 200e3, kBytesPerSecond = 3e9;  // of a disk: what is worth reading whole

uint64_t scaled(uint64_t bytes, double by) { return static_cast<uint64_t>(static_cast<double>(bytes) * by); }
uint64_t minus(uint64_t a, uint64_t b) { return a - std::min(a, b); }

// Rounded up, so that what an error asks for will do.
std::string amount(uint64_t bytes) {
  if (bytes < 10'000'000) return text((bytes + 999) / 1000, "KB");
  return text((bytes + 999'999) / 1'000'000, "MB");
}

const Matrix& matrix_of(const Part& part) { return part.file->matrix(part.matrix); }
uint64_t matrix_bytes(const Matrix& matrix) { return matrix.rows * matrix.row_bytes; }

double cached_share(const MountedFile& file, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return 1;
  const auto cached = cached_bytes(file.file(), file.mapping(), offset, bytes);
  return cached ? static_cast<double>(*cached) / static_cast<double>(bytes) : 0;
}

struct Facts {
  uint64_t available = 0;               // to this process, with what the loader holds already
  uint64_t topology = 0;                // bytes of its files
  std::vector<double> topology_cached;  // share of each edge type's file
  std::vector<double> cached;           // share of each part
  uint64_t batches = 0;                 // of an epoch
};

Facts look(const LoadPlan& plan) {
  Facts facts;
  const uint64_t free = available_memory();
  uint64_t held = plan.pool->used_bytes() + plan.pool->idle_bytes();
  for (const auto& window : plan.windows) held += window ? window->stats().budget_bytes : 0;
  for (size_t i = 0; i < plan.parts.size(); ++i)
    held += plan.wholes[i] ? WholeRows::bytes_for(matrix_of(plan.parts[i])) : 0;
  facts.available = free == 0 ? UINT64_MAX / 4 : free + held;
  facts.topology = plan.graph.file_bytes();
  for (size_t e = 0; e < plan.graph.edge_types().size(); ++e) {
    SampleOptions options = plan.options.sample;
    options.direction = direction_of(plan.graph, e, options);
    facts.topology_cached.push_back(resident_share(plan.graph.topology(e), options).value_or(0));
  }
  for (const Part& part : plan.parts) {
    const Matrix& matrix = matrix_of(part);
    facts.cached.push_back(cached_share(part.file->file(), matrix.offset, matrix_bytes(matrix)));
  }
  facts.batches = std::max<uint64_t>(epoch_batches(plan, 0, Share{}).count(), 1);
  return facts;
}

// What one batch takes.
struct Sizes {
  uint64_t sampling = 0, packed = 0, batch = 0;
  std::vector<uint64_t> rows;  // one a part
};

Sizes probe(LoadPlan& plan, Progress* progress) {
  Sizes sizes;
  sizes.rows.resize(plan.parts.size());
  const EpochBatches batches = epoch_batches(plan, 0, Share{});
  const uint64_t count = std::min(batches.count(), kProbeBatches);
  const BufferPool::Use use(*plan.pool);
  for (uint64_t i = 0; i < count; ++i) {
    if (progress != nullptr) progress->report("planning", i, count);
    // From all over the epoch, its end included: seeds may be in order of time. The last one may be a short one.
    const uint64_t number = count < 2 ? 0 : i * (batches.count() - (batches.count() > count ? 2 : 1)) / (count - 1);
    plan.pool->reset_peak();
    const BatchSeeds seeds = batch_seeds(plan, 0, number, batches.input(number));
    const auto graph = sample_batch(plan, seeds);
    sizes.sampling = std::max(sizes.sampling, plan.pool->peak_bytes());
    uint64_t bytes = subgraph_bytes(graph);
    uint64_t packed = bytes / 2 + array_bytes(seeds.arrays);
    bytes += array_bytes(seeds.arrays);
    for (size_t p = 0; p < plan.parts.size(); ++p) {
      const uint64_t rows = ids_of(plan.parts[p], graph).size();
      sizes.rows[p] = std::max(sizes.rows[p], rows);
      bytes += rows * gathered_row_bytes(matrix_of(plan.parts[p]), gather_options(plan.parts[p]));
      packed += rows * RowWindow::claim_cost();
    }
    sizes.packed = std::max(sizes.packed, packed);
    sizes.batch = std::max(sizes.batch, bytes);
  }
  sizes.sampling = scaled(sizes.sampling, kMargin);
  sizes.packed = scaled(sizes.packed, kMargin);
  sizes.batch = std::max<uint64_t>(scaled(sizes.batch, 1.125 * kMargin), 1);  // buffers are a little larger than asked
  return sizes;
}

// One way to divide, before it is known to be the best.
class Divider {
 public:
  Divider(const LoadPlan& plan, const Facts& facts, const Sizes& sizes) : plan_(plan), facts_(facts), sizes_(sizes) {
    const bool chosen = plan.options.memory > 0;
    spare_ = chosen ? 0 : facts.available / 8 + std::min(kLeastSpare, facts.available / 4);
    usable_ = minus(facts.available, spare_);
  }

  Division best() const {
    Division mapped = with(true);
    if (plan_.graph.typed() || !merged_supported(plan_.options.sample, plan_.seeds->timed()) ||
        plan_.options.sample.io != TopologyIo::kAuto || topology_fits_beside_all(mapped)) {
      return mapped;
    }
    Division merged = with(false);
    return cost(merged) < cost(mapped) ? merged : mapped;
  }

 private:
  // What lies in the page cache counts as available, so files that are there take their room from the same sum.
  Division with(bool topology_in_ram) const {
    Division d;
    d.merges = !topology_in_ram;
    d.sampling_bytes = sizes_.sampling;
    d.packed_bytes = sizes_.packed;
    d.batch_bytes = sizes_.batch;
    const uint64_t topology = topology_in_ram ? facts_.topology : 0;
    const uint64_t least = static_cast<uint64_t>(plan_.threads) * d.sampling_bytes + (held() + 1) * d.batch_bytes;
    choose_ways(d, minus(usable_, topology + least));
    const bool reads = std::any_of(d.ways.begin(), d.ways.end(), [](Way w) { return w != Way::kMapped; });
    d.threads = plan_.threads;
    const uint64_t ring = reads || d.merges ? kRing : 0;
    d.fixed_bytes = static_cast<uint64_t>(d.threads) * ring;
    d.memory = plan_.options.memory;
    if (d.memory == 0) {
      uint64_t room = minus(usable_, topology);
      for (size_t i = 0; i < d.ways.size(); ++i) {
        room = minus(room, d.ways[i] == Way::kMapped ? matrix_bytes(matrix_of(plan_.parts[i])) : 0);
      }
      d.memory = reads ? room : std::min(room, most_for_batches(d));
      // Where little is left the batches come first, then the spare for others.
      const uint64_t needed = least_of(d) + d.sampling_bytes + d.batch_bytes;
      d.memory = std::max(d.memory, std::min(needed, facts_.available / 10 * 9));
    }
    for (; d.threads > 1 && d.memory < d.fixed_bytes + d.sampling_bytes + (held() + 2) * d.batch_bytes; --d.threads) {
      d.fixed_bytes -= ring;
    }
    divide(d);
    return d;
  }

  uint64_t held() const { return static_cast<uint64_t>(plan_.options.held); }
  uint64_t least_of(const Division& d) const { return d.fixed_bytes + d.sampling_bytes + (held() + 1) * d.batch_bytes; }

  uint64_t most_for_batches(const Division& d) const {
    const auto depth = static_cast<uint64_t>(plan_.options.prefetch) + held();
    return d.fixed_bytes + (static_cast<uint64_t>(plan_.threads) + 2) * d.sampling_bytes + depth * d.batch_bytes +
           64 * kMB;
  }

  std::vector<size_t> by_size() const {  // parts, the smallest first
    std::vector<size_t> order(plan_.parts.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto bytes = [&](size_t i) { return matrix_bytes(matrix_of(plan_.parts[i])); };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes(a) < bytes(b); });
    return order;
  }

  // Small files first: what fits into the page cache is read from there.
  void choose_ways(Division& d, uint64_t room) const {
    const LoadOptions& options = plan_.options;
    d.ways.assign(plan_.parts.size(), Way::kMapped);
    if (options.io == Io::kMmap) return;
    for (const size_t i : by_size()) {
      const bool forced = options.cache == CacheMode::kOn || options.io != Io::kAuto;
      const uint64_t bytes = matrix_bytes(matrix_of(plan_.parts[i]));
      if (!forced && bytes <= room / 100 * 95) {
        room -= bytes;
        continue;
      }
      d.ways[i] = options.cache == CacheMode::kOff ? Way::kDirect : Way::kWindow;
    }
  }

  void divide(Division& d) const {
    const auto threads = static_cast<uint64_t>(d.threads);
    const uint64_t least = least_of(d);
    if (d.memory < least) {
      throw BudgetError(
          text("memory is ", amount(d.memory), ", reading and sampling take ", amount(d.fixed_bytes + d.sampling_bytes),
               " and one batch takes ", amount(d.batch_bytes), ", of which ", held() + 1, " must fit: raise memory to ",
               amount(least), " or lower batch_size or fanouts"),
          least);
    }
    uint64_t room = d.memory - least;
    const uint64_t samplers = std::min((threads - 1) * d.sampling_bytes, room / 4);
    room -= samplers;
    const uint64_t copied = copy_small(d, room);
    room -= copied;
    const uint64_t windowed = rows_of(d, Way::kWindow);
    if (windowed > 0) {
      divide_window(d, room, windowed);
    } else {
      d.depth = 1 + static_cast<int>(
                        std::min<uint64_t>(static_cast<uint64_t>(plan_.options.prefetch) - 1, room / d.batch_bytes));
      if (d.merges) d.group = group_of(minus(room, static_cast<uint64_t>(d.depth - 1) * d.batch_bytes), 32);
    }
    d.store_bytes += copied;
  }

  // A part of which a whole copy is smaller than the buffers of a sweep is copied: typed graphs have many such.
  uint64_t copy_small(Division& d, uint64_t room) const {
    uint64_t bytes = 0;
    for (const size_t i : by_size()) {
      const uint64_t whole = WholeRows::bytes_for(matrix_of(plan_.parts[i]));
      if (d.ways[i] != Way::kWindow || whole > kRing || bytes + whole > room / 4) continue;
      d.ways[i] = Way::kWhole;
      bytes += whole;
    }
    return bytes;
  }

  // Bytes of the rows of a batch in all parts of a way, as a window holds them.
  uint64_t rows_of(const Division& d, Way way) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      if (d.ways[i] == way) bytes += sizes_.rows[i] * RowWindow::row_cost(matrix_of(plan_.parts[i]));
    }
    return bytes;
  }

  // A batch of the window holds half of its rows on average.
  void divide_window(Division& d, uint64_t room, uint64_t rows) const {
    d.depth = 1 + static_cast<int>(std::min<uint64_t>(
                      std::min(static_cast<uint64_t>(plan_.options.prefetch), uint64_t{kWindowDepth}) - 1,
                      room / 4 / d.batch_bytes));
    room -= static_cast<uint64_t>(d.depth - 1) * d.batch_bytes;
    const auto sweeps = static_cast<uint64_t>(std::count(d.ways.begin(), d.ways.end(), Way::kWindow));
    room = minus(room, sweeps * kRing);
    if (const uint64_t whole = whole_bytes(d); whole <= room) {
      for (Way& way : d.ways) way = way == Way::kWindow ? Way::kWhole : way;
      d.store_bytes = whole;
      d.depth = 1 + static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(plan_.options.prefetch) - 1,
                                                        (room - whole) / d.batch_bytes));
      return;
    }
    if (d.merges) {
      d.group = group_of(room, std::max<uint64_t>(room / (rows / 2 + d.packed_bytes) / 2, 1));
      room = minus(room, d.group * merged_batch_bytes());
    }
    const uint64_t waiting = d.merges ? d.group * d.packed_bytes : 2 * d.packed_bytes;  // sampled, not yet admitted
    d.window = std::min({minus(room, waiting) / (rows / 2 + d.packed_bytes), facts_.batches, kMostWindow});
    if (d.window < 2) {
      for (Way& way : d.ways) way = way == Way::kWindow ? Way::kDirect : way;
      d.window = 0;
      d.depth = 1 + static_cast<int>(
                        std::min<uint64_t>(static_cast<uint64_t>(plan_.options.prefetch) - 1, room / d.batch_bytes));
      return;
    }
    d.fixed_bytes += sweeps * kRing;
    d.store_bytes = minus(room, waiting + (d.window + d.window / 4) * d.packed_bytes);
  }

  uint64_t whole_bytes(const Division& d) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      if (d.ways[i] == Way::kWindow) bytes += WholeRows::bytes_for(matrix_of(plan_.parts[i]));
    }
    return bytes;
  }

  uint64_t merged_batch_bytes() const {
    return merged_bytes_per_batch(plan_.graph.topology(0), plan_.options.sample, plan_.options.batch_size);
  }
  uint64_t group_of(uint64_t room, uint64_t wanted) const {
    const uint64_t fits = room / 4 / std::max<uint64_t>(merged_batch_bytes(), 1);
    return std::clamp<uint64_t>(std::min(wanted, fits), 1, kMostGroup);
  }

  bool topology_fits_beside_all(const Division& d) const {
    uint64_t mapped = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      mapped += d.ways[i] == Way::kMapped ? matrix_bytes(matrix_of(plan_.parts[i])) : 0;
    }
    const bool windowed = d.window > 0;
    const uint64_t taken = plan_.options.memory > 0 ? std::min(plan_.options.memory, most_needed(d)) : 0;
    if (plan_.options.memory > 0) return facts_.topology + mapped + taken <= facts_.available / 100 * 95;
    return !windowed && facts_.topology + mapped <= usable_;
  }
  uint64_t most_needed(const Division& d) const { return d.window > 0 ? d.memory : most_for_batches(d); }

  // Seconds of disk a batch takes, roughly: what the choice between two divisions needs.
  double cost(const Division& d) const {
    double seconds = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      const Matrix& matrix = matrix_of(plan_.parts[i]);
      const auto rows = static_cast<double>(sizes_.rows[i]);
      const double bytes = static_cast<double>(matrix_bytes(matrix));
      if (d.ways[i] == Way::kWindow) {
        seconds += std::min(bytes / static_cast<double>(d.window) / kBytesPerSecond, rows / kReadsPerSecond);
      } else if (d.ways[i] == Way::kDirect) {
        seconds += rows / kReadsPerSecond;
      }
    }
    const auto reads =
        expected_reads(plan_.graph, plan_.options.sample, plan_.seeds->types(), plan_.options.batch_size).at(0);
    const auto topology = static_cast<double>(facts_.topology);
    if (d.merges) {
      const double hops = static_cast<double>(plan_.options.sample.fanouts.size());
      seconds +=
          std::min(hops * topology / static_cast<double>(d.group) / kBytesPerSecond, reads.rows * 2 / kReadsPerSecond);
    } else {
      // What does not fit is read page by page, again and again.
      const uint64_t room = minus(facts_.available, d.memory + spare_ / 2);
      const double share = room >= facts_.topology ? 0 : 1 - static_cast<double>(room) / topology;
      seconds += share * reads.rows * 2 / kReadsPerSecond;
    }
    return seconds;
  }

  const LoadPlan& plan_;
  const Facts& facts_;
  const Sizes& sizes_;
  uint64_t spare_ = 0, usable_ = 0;
};

// Reads files that fit and will be needed.
void load_files(const LoadPlan& plan, const Facts& facts, const Sizes& sizes, const Division& d, Progress* progress) {
  const auto reads = expected_reads(plan.graph, plan.options.sample, plan.seeds->types(), plan.seeds->count());
  for (const size_t e : plan.graph.files()) {
    const MountedFile& topology = plan.graph.topology(e).file();
    if (!d.merges && plan.options.sample.io == TopologyIo::kAuto && facts.topology_cached[e] < kResident &&
        facts.topology <= minus(facts.available, d.memory) &&
        std::min(reads[e].edges, 1e18) > static_cast<double>(topology.container().file_bytes / kPageBytes)) {
      preload(topology, plan.threads, progress);
    }
  }
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    if (d.ways[i] != Way::kMapped || plan.options.io == Io::kMmap || facts.cached[i] >= kResident) continue;
    const MountedFile& file = plan.parts[i].file->file();
    const double random = static_cast<double>(sizes.rows[i] * facts.batches) / kReadsPerSecond;
    const double whole = static_cast<double>(file.container().file_bytes) / kBytesPerSecond;
    if (random > whole / 2 && file.container().file_bytes < available_memory()) preload(file, plan.threads, progress);
  }
}

// The rows that are held, in memory of their own.
void hold_rows(LoadPlan& plan, const Sizes& sizes, Division& d, Progress* progress) {
  uint64_t rows = 0, copies = 0;
  const auto bytes_of = [&](size_t i) { return sizes.rows[i] * RowWindow::row_cost(matrix_of(plan.parts[i])); };
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    rows += d.ways[i] == Way::kWindow ? bytes_of(i) : 0;
    copies += d.ways[i] == Way::kWhole ? WholeRows::bytes_for(matrix_of(plan.parts[i])) : 0;
  }
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = matrix_of(plan.parts[i]);
    if (d.ways[i] != Way::kWhole) plan.wholes[i].reset();
    if (d.ways[i] != Way::kWindow) plan.windows[i].reset();
    if (d.ways[i] == Way::kWhole && !plan.wholes[i]) {
      plan.wholes[i] = std::make_shared<WholeRows>(plan.parts[i].file, matrix, progress);
    }
    if (d.ways[i] != Way::kWindow) continue;
    const double share = static_cast<double>(bytes_of(i)) / static_cast<double>(std::max<uint64_t>(rows, 1));
    const uint64_t budget = scaled(minus(d.store_bytes, copies), share);
    if (budget < RowWindow::least_bytes(matrix)) {  // an epoch of no batches, or another part that takes it all
      d.ways[i] = Way::kDirect;
      plan.windows[i].reset();
      continue;
    }
    const uint64_t before = plan.windows[i] ? plan.windows[i]->stats().budget_bytes : 0;
    if (before > 0 && before <= budget + budget / 8 && budget <= before + before / 8) continue;
    plan.windows[i].reset();
    plan.windows[i] = std::make_shared<RowWindow>(plan.parts[i].file, matrix, budget);
  }
}

std::string explain(const LoadPlan& plan, const Facts& facts, const Division& d) {
  std::string why = plan.options.memory > 0 ? text("memory was set to ", amount(d.memory))
                                            : text("memory is ", amount(d.memory), " of ", amount(facts.available),
                                                   " that the machine and the container leave");
  why += d.merges ? text("; the topology (", amount(facts.topology), ") stays on disk, ", d.group,
                         " batches are sampled together")
                  : text("; the topology (", amount(facts.topology), ") is in the page cache");
  for (size_t i = 0; i < d.ways.size(); ++i) {
    const std::string size = amount(matrix_bytes(matrix_of(plan.parts[i])));
    why += text("; '", plan.parts[i].name, "' (", size, ") ");
    switch (d.ways[i]) {
      case Way::kMapped:
        why += "is in the page cache";
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

void apply(LoadPlan& plan, const Sizes& sizes, Progress* progress) {
  const Facts facts = look(plan);
  Division d = Divider(plan, facts, sizes).best();
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = matrix_of(plan.parts[i]);
    if (d.ways[i] == Way::kWindow && (!RowWindow::supports(matrix) || plan.outgrown)) d.ways[i] = Way::kDirect;
  }
  plan.pool->set_limit(BufferPool::kNoLimit - 1);
  load_files(plan, facts, sizes, d, progress);
  hold_rows(plan, sizes, d, progress);
  if (std::find(d.ways.begin(), d.ways.end(), Way::kWindow) == d.ways.end()) d.window = 0;
  const bool holds =
      std::any_of(d.ways.begin(), d.ways.end(), [](Way w) { return w == Way::kWindow || w == Way::kWhole; });
  if (!holds) d.store_bytes = 0;
  plan.pool->set_limit(d.memory - d.fixed_bytes - d.store_bytes);
  d.why = explain(plan, facts, d);
  d.rows = sizes.rows;
  plan.division = std::move(d);
}

}  // namespace

void first_division(LoadPlan& plan, Progress* progress) {
  const std::lock_guard lock(plan.mutex);
  const auto reads = expected_reads(plan.graph, plan.options.sample, plan.seeds->types(), plan.seeds->count());
  // Before the probe, which would otherwise read the same pages one by one.
  for (const size_t e : plan.graph.files()) {
    const MountedFile& topology = plan.graph.topology(e).file();
    if (plan.options.sample.io == TopologyIo::kAuto &&
        worth_preloading(topology, static_cast<uint64_t>(std::min(reads[e].edges, 1e18)), plan.options.memory)) {
      preload(topology, plan.threads, progress);
    }
  }
  apply(plan, probe(plan, progress), progress);
}

void divide_again(LoadPlan& plan, Progress* progress) {
  const std::lock_guard lock(plan.mutex);
  const Division& d = plan.division;
  Sizes sizes{.sampling = d.sampling_bytes, .packed = d.packed_bytes, .batch = d.batch_bytes, .rows = d.rows};
  // What worked will do again: a batch of which three do not fit was made by itself, and will be.
  for (const uint64_t batch : {std::max(d.batch_bytes, plan.largest_batch.load()), d.batch_bytes}) {
    sizes.batch = batch;
    try {
      apply(plan, sizes, progress);
      return;
    } catch (const BudgetError&) {
    }
  }
}

}  // namespace gz
