// divide: the alternatives for dividing a budget, and their costs.
#include "load/divide.h"

#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/error.h"
#include "sample/merged/merged.h"
#include "sweep/shared_ring.h"

namespace gz {
namespace {

constexpr uint64_t kMB = uint64_t{1} << 20;
constexpr uint64_t kRing = 9 * kMB;          // a reader's buffers and lists
constexpr uint64_t kLeastShown = 12 * kMB;   // of recent reads that ranks of a host share
constexpr uint64_t kLeastSpare = 128 * kMB;  // for the model and its steps, whose size is unknown
constexpr uint64_t kStep = 32 * kMB;  // of a training step, in addition to what grows with its batch: see step_bytes()
constexpr uint64_t kMostWindow = 1024;    // batches
constexpr uint64_t kMostGroup = 512;      // batches sampled together,
constexpr uint64_t kMostGroupAlone = 64;  // by the only thread, which does nothing else meanwhile
constexpr uint64_t kOrder = 17 * kMB;     // to sort their reads into file order: see FileOrder
constexpr uint64_t kMostDirect = 2;       // batches read individually at first,
constexpr double kFewDirect = 4;          // one for each time that so many fit into a pass of the sweep
constexpr int kWindowDepth = 2;           // finished batches next to a window: complete claims need only a copy

// Computes one alternative.
class Divider {
 public:
  Divider(const LoadPlan& plan, const Facts& facts, const Sizes& sizes) : plan_(plan), facts_(facts), sizes_(sizes) {
    const bool chosen = plan.options.memory > 0;
    spare_ = chosen ? 0 : facts.available / 8 + std::min(ranks() * kLeastSpare, facts.available / 4);
    usable_ = minus(facts.available, spare_);
  }

  Division best() const {
    Division best = with(facts_.topology, false);
    if (topology_fits_beside_all(best)) return best;
    double least = cost(best);
    const auto consider = [&](uint64_t topology, bool merges, bool maps = true) {
      try {
        Division other = with(topology, merges, maps);
        const double seconds = cost(other);
        if (seconds >= least) return;
        least = seconds;
        best = std::move(other);
      } catch (const BudgetError&) {  // this alternative does not fit, the first one does
      }
    };
    if (plan_.options.memory == 0) {  // less of the topology in the page cache, more rows held
      for (const uint64_t part : {2, 4, 16}) consider(facts_.topology / part, false);
      consider(0, false);
    }
    const bool may_merge = !plan_.graph.typed() && plan_.options.sample.io == TopologyIo::kAuto &&
                           merged_supported(plan_.options.sample, plan_.seeds->timed());
    if (may_merge) {
      consider(0, true);
      consider(0, true, false);
    }
    return best;
  }

 private:
  // Pages in the page cache count as available, so cached files are subtracted from the same sum: `topology` bytes are
  // left to the graph. Features that fit may leave that memory to larger groups of batches.
  Division with(uint64_t topology, bool merges, bool maps = true) const {
    Division d;
    d.merges = merges;
    d.sampling_bytes = sizes_.sampling;
    d.packed_bytes = sizes_.packed;
    if (merges) d.merged_bytes = std::max(merged_batch_bytes(), d.packed_bytes);
    d.batch_bytes = sizes_.batch;
    const uint64_t least = static_cast<uint64_t>(plan_.threads) * d.sampling_bytes + (held() + 1) * d.batch_bytes;
    choose_ways(d, maps ? minus(usable_, topology + ranks() * least) : 0);
    const bool reads = std::any_of(d.ways.begin(), d.ways.end(), [](Way w) { return w != Way::kMapped; });
    d.threads = plan_.threads;
    const uint64_t ring = reads || d.merges ? kRing : 0;
    d.fixed_bytes = static_cast<uint64_t>(d.threads) * ring;
    d.memory = plan_.options.memory / ranks();
    if (plan_.options.memory == 0) {
      const uint64_t room = minus(usable_, topology + mapped_bytes(d)) / ranks();
      d.memory = reads ? room : std::min(room, most_for_batches(d));
      // If memory is short, batches come first, then the reserve for everything else.
      const uint64_t needed = least_of(d) + d.sampling_bytes + d.batch_bytes;
      d.memory = std::max(d.memory, std::min(needed, facts_.available / ranks() / 10 * 9));
      d.memory = std::min(d.memory, minus(facts_.available / ranks(), step_bytes()));
    }
    for (; d.threads > 1 && d.memory < d.fixed_bytes + d.sampling_bytes + (held() + 2) * d.batch_bytes; --d.threads) {
      d.fixed_bytes -= ring;
    }
    divide(d, maps);
    return d;
  }

  uint64_t ranks() const { return plan_.options.local.count; }  // of this host: files are cached once for all of them
  uint64_t held() const { return static_cast<uint64_t>(plan_.options.held) + (plan_.ledger->keeps_more() ? 1 : 0); }
  uint64_t least_of(const Division& d) const { return d.fixed_bytes + d.sampling_bytes + (held() + 1) * d.batch_bytes; }

  // Memory of a training step in addition to its batch: with less, a kernel that enforces a limit kills the process.
  // Measured with HeteroSAGE: as much as is planned for a batch, up to a sixth more (benchmarks/typed_outofcore).
  uint64_t step_bytes() const { return kStep + sizes_.batch; }

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

  // Small files first: those that fit into the page cache are read from it.
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

  void divide(Division& d, bool may_copy) const {
    const auto threads = static_cast<uint64_t>(d.threads);
    const uint64_t least = least_of(d);
    if (d.memory < least) refuse(d, least);
    uint64_t room = d.memory - least;
    const uint64_t samplers = std::min((threads - 1) * d.sampling_bytes, room / 4);
    room -= samplers;
    const uint64_t copied = copy_small(d, room);
    room -= copied;
    const uint64_t windowed = rows_of(d, Way::kWindow);
    if (windowed > 0) {
      divide_window(d, room, windowed, may_copy);
    } else {
      d.depth = 1 + static_cast<int>(
                        std::min<uint64_t>(static_cast<uint64_t>(plan_.options.prefetch) - 1, room / d.batch_bytes));
      if (d.merges) d.group = group_of(d, minus(room, static_cast<uint64_t>(d.depth - 1) * d.batch_bytes));
    }
    (shares_pages() ? d.shared_bytes : d.store_bytes) += copied;
  }

  [[noreturn]] void refuse(const Division& d, uint64_t least) const {
    const std::string parts = text(amount(d.fixed_bytes + d.sampling_bytes), " for reading and sampling and ",
                                   amount(d.batch_bytes), " for each of ", held() + 1, " batches");
    if (plan_.options.memory > 0) {
      throw BudgetError(text("memory is ", amount(d.memory), of_ranks(d), ", but the loader needs ", parts,
                             "; raise memory to ", amount(ranks() * least), " or lower batch_size or fanouts"),
                        ranks() * least);
    }
    const uint64_t needed = ranks() * std::max(least + step_bytes(), least / 9 * 10 + 10);
    throw BudgetError(
        text(amount(facts_.available), " of memory available, but the loader needs ", amount(needed),
             ranks() == 1 ? ": " : text(" for the ", ranks(), " ranks of this host, each "), parts, ", plus about ",
             amount(step_bytes()), " for a training step. Raise the memory limit by ",
             amount(minus(needed, facts_.available)), ", lower batch_size or fanouts, or set memory (to at least ",
             amount(ranks() * least), ") if a training step needs less"),
        ranks() * least);
  }

  // Several ranks keep a file that fits in the page cache, which they share, instead of a copy each.
  bool shares_pages() const { return ranks() > 1 && plan_.options.io == Io::kAuto; }

  bool shares_reads() const { return plan_.group != nullptr; }

  // A part that is smaller than the buffers of a sweep is copied: typed graphs have many of these.
  uint64_t copy_small(Division& d, uint64_t room) const {
    uint64_t bytes = 0;
    for (const size_t i : by_size()) {
      const uint64_t whole = WholeRows::bytes_for(matrix_of(plan_.parts[i]));
      if (d.ways[i] != Way::kWindow || whole > kRing || bytes + whole > room / 4) continue;
      d.ways[i] = shares_pages() ? Way::kMapped : Way::kWhole;
      bytes += shares_pages() ? whole / ranks() : whole;
    }
    return bytes;
  }

  // Bytes that a window needs for the rows of a batch, summed over the parts read in this way.
  uint64_t rows_of(const Division& d, Way way) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      if (d.ways[i] == way) bytes += sizes_.rows[i] * RowWindow::row_cost(matrix_of(plan_.parts[i]));
    }
    return bytes;
  }

  // A batch of the window holds half of its rows on average. Finished batches come second: if memory is scarce there is
  // one in addition to the batch in use, and the next is copied while that is being used.
  void divide_window(Division& d, uint64_t room, uint64_t rows, bool may_copy) const {
    d.depth = 1 + static_cast<int>(std::min<uint64_t>(
                      std::min(static_cast<uint64_t>(plan_.options.prefetch), uint64_t{kWindowDepth}) - 1,
                      room / 16 / d.batch_bytes));
    room -= static_cast<uint64_t>(d.depth - 1) * d.batch_bytes;
    const auto sweeps = static_cast<uint64_t>(std::count(d.ways.begin(), d.ways.end(), Way::kWindow));
    d.ring_bytes = shares_reads() ? std::clamp(d.memory / 16 & ~(kMB - 1), kLeastShown, kMostRing) : 0;
    const uint64_t ring = shares_reads() ? d.ring_bytes + kMB : kRing;
    // Each thread has a reader if the first batches are read individually; otherwise one reader suffices for all.
    const uint64_t idle = may_go_direct(d) ? 0 : static_cast<uint64_t>(d.threads - 1) * kRing;
    room = minus(room + idle, sweeps * ring);
    if (const uint64_t whole = whole_bytes(d) / (shares_pages() ? ranks() : 1);
        may_copy && whole <= minus(room, idle)) {
      for (Way& way : d.ways) way = way != Way::kWindow ? way : shares_pages() ? Way::kMapped : Way::kWhole;
      (shares_pages() ? d.shared_bytes : d.store_bytes) = whole;
      d.depth = 1 + static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(plan_.options.prefetch) - 1,
                                                        minus(room, idle + whole) / d.batch_bytes));
      if (d.merges) {
        d.group = group_of(d, minus(room, idle + whole + static_cast<uint64_t>(d.depth - 1) * d.batch_bytes));
      }
      return;
    }
    if (d.merges) room = minus(room, kOrder);
    const uint64_t complete = static_cast<uint64_t>(d.depth) * rows;  // not yet delivered
    const auto window_of = [&] {
      const uint64_t claims = minus(room, waiting_bytes(d) + complete) / (rows / 2 + d.packed_bytes);
      return std::min({claims, facts_.batches, kMostWindow});
    };
    if (d.merges) d.group = best_group(d, window_of);
    d.window = window_of();
    if (d.window < 2) {
      for (Way& way : d.ways) way = way == Way::kWindow ? Way::kDirect : way;
      d.window = 0;
      d.depth = 1 + static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(plan_.options.prefetch) - 1,
                                                        minus(room, idle) / d.batch_bytes));
      if (d.merges) d.group = group_of(d, minus(room, idle + static_cast<uint64_t>(d.depth - 1) * d.batch_bytes));
      return;
    }
    d.direct = direct_of(d);
    d.fixed_bytes += sweeps * ring - idle;
    d.store_bytes = minus(room, waiting_bytes(d) + sure_window(d.window) * d.packed_bytes);
  }

  // Batches that are read individually, so that the first ones do not wait for a pass of the sweep: none if a pass
  // takes no longer than a few of them.
  uint64_t direct_of(const Division& d) const {
    return std::min({kMostDirect, d.window / 4, static_cast<uint64_t>(circle_in_batches(d) / kFewDirect)});
  }
  bool may_go_direct(const Division& d) const { return circle_in_batches(d) >= kFewDirect; }

  // How many batches could be read individually in the time of one pass.
  double circle_in_batches(const Division& d) const {
    double circle = 0, alone = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      if (d.ways[i] != Way::kWindow) continue;
      circle += static_cast<double>(matrix_bytes(matrix_of(plan_.parts[i]))) / facts_.disk.bytes;
      alone += static_cast<double>(sizes_.rows[i]) / facts_.disk.reads;
    }
    return alone > 0 ? std::min(circle / alone, 1e9) : 0;
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

  // Memory of batches that are being sampled, or were sampled but not yet admitted to the window.
  static uint64_t waiting_bytes(const Division& d) { return d.merges ? d.group * d.merged_bytes : 2 * d.packed_bytes; }

  uint64_t most_group(const Division& d) const {
    return std::clamp<uint64_t>(facts_.batches, 1, d.threads > 1 ? kMostGroup : kMostGroupAlone);
  }

  // Larger groups read less of the topology and leave less memory for the window.
  template <class WindowOf>
  uint64_t best_group(Division& d, const WindowOf& window_of) const {
    uint64_t best = 1;
    double least = std::numeric_limits<double>::infinity();
    for (uint64_t group = 1; group <= most_group(d); group += std::max<uint64_t>(group / 8, 1)) {
      d.group = group;
      d.window = window_of();
      if (d.window < 2) break;
      if (const double seconds = cost(d); seconds < least) least = seconds, best = group;
    }
    return best;
  }

  // Without a window: a quarter of the memory.
  uint64_t group_of(const Division& d, uint64_t room) const {
    return std::clamp<uint64_t>(minus(room / 4, kOrder) / std::max<uint64_t>(d.merged_bytes, 1), 1, most_group(d));
  }

  uint64_t mapped_bytes(const Division& d) const {  // of features in the page cache
    uint64_t bytes = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      bytes += d.ways[i] == Way::kMapped ? matrix_bytes(matrix_of(plan_.parts[i])) : 0;
    }
    return bytes;
  }

  bool topology_fits_beside_all(const Division& d) const {
    const uint64_t mapped = mapped_bytes(d);
    const auto is_read = [](Way way) { return way == Way::kWindow || way == Way::kDirect; };
    const bool reads = std::any_of(d.ways.begin(), d.ways.end(), is_read);
    const uint64_t taken = plan_.options.memory > 0 ? ranks() * std::min(d.memory, most_needed(d)) : 0;
    if (plan_.options.memory > 0) return facts_.topology + mapped + taken <= facts_.available / 100 * 95;
    return !reads && facts_.topology + mapped <= usable_;
  }
  uint64_t most_needed(const Division& d) const { return d.window > 0 ? d.memory : most_for_batches(d); }

  // Approximate seconds of disk time per batch, to choose between divisions.
  double cost(const Division& d) const { return cost(d, facts_.disk); }

 public:
  double cost(const Division& d, const Disk& disk) const {
    double seconds = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      const auto rows = static_cast<double>(sizes_.rows[i]);
      if (d.ways[i] == Way::kWindow) {
        seconds += swept_seconds(static_cast<double>(matrix_bytes(matrix_of(plan_.parts[i]))), rows, d.window, disk);
      } else if (d.ways[i] == Way::kDirect) {
        seconds += rows / disk.reads;
      }
    }
    const auto reads =
        expected_reads(plan_.graph, plan_.options.sample, plan_.seeds->types(), plan_.options.batch_size).at(0);
    const auto topology = static_cast<double>(facts_.topology);
    if (d.merges) {
      const double hops = static_cast<double>(plan_.options.sample.fanouts.size());
      seconds += std::min(hops * topology / static_cast<double>(d.group) / disk.bytes, reads.rows * 2 / disk.reads);
    } else {
      // Pages that do not fit are read again for each batch.
      const uint64_t room = minus(facts_.available, ranks() * d.memory + mapped_bytes(d) + spare_ / 2);
      const double share = room >= facts_.topology ? 0 : 1 - static_cast<double>(room) / topology;
      seconds += share * reads.rows * 2 / disk.reads;
    }
    return seconds;
  }

 private:
  std::string of_ranks(const Division& d) const {
    return ranks() == 1 ? "" : text(" (of ", amount(ranks() * d.memory), " for ", ranks(), " ranks of this host)");
  }

  const LoadPlan& plan_;
  const Facts& facts_;
  const Sizes& sizes_;
  uint64_t spare_ = 0, usable_ = 0;
};

}  // namespace

Division divide(const LoadPlan& plan, const Facts& facts, const Sizes& sizes) {
  return Divider(plan, facts, sizes).best();
}

double disk_seconds(const LoadPlan& plan, const Facts& facts, const Sizes& sizes, const Division& d, const Disk& disk) {
  return Divider(plan, facts, sizes).cost(d, disk);
}

// One pass for `window` batches reads the pages that they share once, and reads over short gaps.
double swept_seconds(double bytes, double rows, uint64_t window, const Disk& disk) {
  const double pages = std::max(bytes / static_cast<double>(kPageBytes), 1.0), batches = static_cast<double>(window);
  const double gap = static_cast<double>(disk.gap() / kPageBytes);
  const double absent = std::exp(-rows * batches / pages);  // the share of pages that no batch needs
  const double reads = pages * (1 - absent) * std::pow(absent, gap);
  const double read = bytes * (1 - std::pow(absent, gap + 1));
  const double circle = std::max(reads / disk.reads, read / disk.bytes);
  return std::min(circle / batches, rows / disk.reads);
}

std::string amount(uint64_t bytes) {
  if (bytes < 10'000'000) return text((bytes + 999) / 1000, "KB");
  return text((bytes + 999'999) / 1'000'000, "MB");
}

}  // namespace gz
