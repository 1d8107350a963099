// divide: the alternatives for dividing a budget, and their costs.
#include "budget/divide.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "budget/uses.h"
#include "gather/row_reader.h"
#include "sample/merged/merged.h"
#include "sweep/rank_peers.h"
#include "sweep/row_window.h"

namespace gz {
namespace {

constexpr uint64_t kMB = uint64_t{1} << 20;
constexpr uint64_t kLists = kMB;  // of a reader, in addition to its buffers
constexpr uint64_t kReader = kArena + kLists;
constexpr uint64_t kFewArenas = 64;             // readers get large buffers if so many would fit into the budget
constexpr uint64_t kLeastPublished = 12 * kMB;  // of recent reads that ranks of a host share
constexpr uint64_t kLeastSpare = 128 * kMB;     // for the model and its steps, whose size is unknown
constexpr uint64_t kStep = 32 * kMB;  // of a training step, in addition to what grows with its batch: see step_bytes()
constexpr uint64_t kMostWindow = 1024;    // batches
constexpr uint64_t kMostGroup = 512;      // batches sampled together,
constexpr uint64_t kMostGroupAlone = 64;  // by the only thread, which does nothing else meanwhile
constexpr uint64_t kOrder = 17 * kMB;     // to sort their reads into file order: see FileOrder
constexpr uint64_t kMostDirect = 2;       // batches read individually at first,
constexpr double kFewDirect = 4;          // one for each time that so many fit into a circle of the sweep
constexpr int kWindowDepth = 2;           // finished batches next to a window: complete claims need only a copy

// Computes one alternative.
class Divider {
 public:
  Divider(const Facts& facts, const Sizes& sizes) : facts_(facts), sizes_(sizes) {
    const bool chosen = facts.memory > 0;
    spare_ = chosen ? 0 : facts.available / 8 + std::min(facts_.ranks * kLeastSpare, facts.available / 4);
    usable_ = minus(facts.available, spare_);
    for (size_t i = 0; i < facts.parts.size(); ++i) uses_.push_back(uses_of(*facts.parts[i], sizes, i));
    if (facts.may_merge) {
      const double rows = sizes.lookups > 0 ? sizes.lookups : facts.rows_looked_up;
      lookups_.emplace(rows, sizes.lookups_shared, facts.topology_rows);
    }
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
    if (facts_.memory == 0) {  // less of the topology in the page cache, more rows held
      for (const uint64_t part : {2, 4, 16}) consider(facts_.topology / part, false);
      consider(0, false);
    }
    if (facts_.may_merge) {
      consider(0, true);
      consider(0, true, false);
    }
    return best;
  }

  // Approximate seconds of disk time per batch, to choose between divisions.
  double cost(const Division& d) const {
    const Disk& disk = facts_.disk;
    double seconds = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) {
      const auto rows = static_cast<double>(sizes_.rows[i]);
      if (d.ways[i] == Way::kWindow) {
        const double read = uses_[i].read_by_circle(static_cast<double>(d.window));
        seconds += swept_seconds(static_cast<double>(matrix_bytes(*facts_.parts[i])), rows, read, d.window, disk);
      } else if (d.ways[i] == Way::kDirect) {
        seconds += rows / disk.reads;
      }
    }
    const auto topology = static_cast<double>(facts_.topology);
    if (d.merges) {
      const double group = static_cast<double>(d.group), rows = lookups_->distinct(group);
      seconds += ordered_seconds(topology, 2 * rows, disk) / group;  // the bounds of each row, and the row
    } else {
      // Pages that do not fit are read again for each batch.
      const uint64_t room = minus(facts_.available, facts_.ranks * d.memory + mapped_bytes(d) + spare_ / 2);
      const double share = room >= facts_.topology ? 0 : 1 - static_cast<double>(room) / topology;
      seconds += share * facts_.rows_looked_up * 2 / disk.reads;
    }
    return seconds;
  }

 private:
  // Pages in the page cache count as available, so cached files are subtracted from the same sum: `topology` bytes are
  // left to the graph. Features that fit may leave that memory to larger groups of batches.
  Division with(uint64_t topology, bool merges, bool maps = true) const {
    Division d;
    d.merges = merges;
    d.sizes = sizes_;
    d.sizes.merged = std::max(sizes_.merged, sizes_.packed);
    const uint64_t least = static_cast<uint64_t>(facts_.threads) * d.sizes.sampling + (facts_.held + 1) * d.sizes.batch;
    choose_ways(d, maps ? minus(usable_, topology + facts_.ranks * least) : 0);
    const bool reads = std::any_of(d.ways.begin(), d.ways.end(), [](Way w) { return w != Way::kMapped; });
    d.threads = facts_.threads;
    const uint64_t reader = reads || d.merges ? kReader : 0;
    d.fixed_bytes = static_cast<uint64_t>(d.threads) * reader + facts_.tables;
    d.memory = facts_.memory / facts_.ranks;
    if (facts_.memory == 0) {
      const uint64_t room = minus(usable_, topology + mapped_bytes(d)) / facts_.ranks;
      d.memory = reads ? room : std::min(room, most_for_batches(d));
      // If memory is short, batches come first, then the reserve for everything else.
      const uint64_t needed = least_of(d) + d.sizes.sampling + d.sizes.batch;
      d.memory = std::max(d.memory, std::min(needed, facts_.available / facts_.ranks / 10 * 9));
      d.memory = std::min(d.memory, minus(facts_.available / facts_.ranks, step_bytes()));
    }
    for (; d.threads > 1 && d.memory < d.fixed_bytes + d.sizes.sampling + (facts_.held + 2) * d.sizes.batch;
         --d.threads) {
      d.fixed_bytes -= reader;
    }
    if (d.memory >= kFewArenas * kLargeArena) d.read_bytes = kLargeArena;
    if (d.merges) d.fixed_bytes += static_cast<uint64_t>(std::min(d.threads, kMostRings)) * (d.read_bytes - kArena);
    divide(d, maps);
    return d;
  }

  uint64_t least_of(const Division& d) const {
    return d.fixed_bytes + d.sizes.sampling + (facts_.held + 1) * d.sizes.batch;
  }

  // Memory of a training step in addition to its batch: with less, a kernel that enforces a limit kills the process.
  // Measured with HeteroSAGE: as much as is planned for a batch, up to a sixth more (benchmarks/typed_outofcore).
  uint64_t step_bytes() const { return kStep + sizes_.batch; }

  uint64_t most_for_batches(const Division& d) const {
    const auto depth = facts_.prefetch + facts_.held;
    const auto sampled = static_cast<uint64_t>(facts_.threads) + 2 + facts_.ahead;
    return d.fixed_bytes + sampled * d.sizes.sampling + depth * d.sizes.batch + 64 * kMB;
  }

  std::vector<size_t> by_size() const {  // parts, the smallest first
    std::vector<size_t> order(facts_.parts.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto bytes = [&](size_t i) { return matrix_bytes(*facts_.parts[i]); };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes(a) < bytes(b); });
    return order;
  }

  // Small files first: those that fit into the page cache are read from it.
  void choose_ways(Division& d, uint64_t room) const {
    d.ways.assign(facts_.parts.size(), Way::kMapped);
    if (facts_.io == Io::kMmap) return;
    for (const size_t i : by_size()) {
      const bool forced = facts_.cache == CacheMode::kOn || facts_.io != Io::kAuto;
      const uint64_t bytes = matrix_bytes(*facts_.parts[i]);
      if (!forced && bytes <= room / 100 * 95) {
        room -= bytes;
        continue;
      }
      d.ways[i] = facts_.cache == CacheMode::kOff ? Way::kDirect : Way::kWindow;
    }
  }

  void divide(Division& d, bool may_copy) const {
    const auto threads = static_cast<uint64_t>(d.threads);
    const uint64_t least = least_of(d);
    if (d.memory < least) refuse(d, least);
    uint64_t room = d.memory - least;
    const uint64_t samplers = std::min((threads - 1) * d.sizes.sampling, room / 4);
    room -= samplers;
    const uint64_t copied = copy_small(d, room);
    room -= copied;
    const uint64_t windowed = window_rows_bytes(d);
    if (windowed > 0) {
      divide_window(d, room, windowed, may_copy);
    } else {
      use_without_window(d, room);
    }
    (shares_pages() ? d.shared_bytes : d.store_bytes) += copied;
  }

  // Finished batches first, then batches that are sampled together: a quarter of the rest.
  void use_without_window(Division& d, uint64_t room) const {
    d.depth = 1 + static_cast<int>(std::min<uint64_t>(facts_.prefetch - 1, room / d.sizes.batch));
    if (!d.merges) return;
    const uint64_t rest = minus(room, static_cast<uint64_t>(d.depth - 1) * d.sizes.batch);
    d.group = std::clamp<uint64_t>(minus(rest / 4, kOrder) / std::max<uint64_t>(d.sizes.merged, 1), 1, most_group(d));
  }

  [[noreturn]] void refuse(const Division& d, uint64_t least) const {
    const std::string parts = text(amount(d.fixed_bytes + d.sizes.sampling), " for reading and sampling and ",
                                   amount(d.sizes.batch), " for each of ", facts_.held + 1, " batches");
    if (facts_.memory > 0) {
      throw BudgetError(text("memory is ", amount(d.memory), of_ranks(d), ", but the loader needs ", parts,
                             "; raise memory to ", amount(facts_.ranks * least), " or lower batch_size or fanouts"),
                        facts_.ranks * least);
    }
    const uint64_t needed = facts_.ranks * std::max(least + step_bytes(), least / 9 * 10 + 10);
    throw BudgetError(
        text(amount(facts_.available), " of memory available, but the loader needs ", amount(needed),
             facts_.ranks == 1 ? ": " : text(" for the ", facts_.ranks, " ranks of this host, each "), parts,
             ", plus about ", amount(step_bytes()), " for a training step. Raise the memory limit by ",
             amount(minus(needed, facts_.available)), ", lower batch_size or fanouts, or set memory (to at least ",
             amount(facts_.ranks * least), ") if a training step needs less"),
        facts_.ranks * least);
  }

  // Several ranks keep a file that fits in the page cache, which they share, instead of a copy each.
  bool shares_pages() const { return facts_.ranks > 1 && facts_.io == Io::kAuto; }

  // A part that is smaller than the buffers of a sweep is copied: typed graphs have many of these.
  uint64_t copy_small(Division& d, uint64_t room) const {
    uint64_t bytes = 0;
    for (const size_t i : by_size()) {
      const uint64_t whole = WholeRows::bytes_for(*facts_.parts[i]);
      if (d.ways[i] != Way::kWindow || whole > kReader || bytes + whole > room / 4) continue;
      d.ways[i] = shares_pages() ? Way::kMapped : Way::kWhole;
      bytes += shares_pages() ? whole / facts_.ranks : whole;
    }
    return bytes;
  }

  // The sum of bytes(i) over the parts that are read in this way.
  template <class Bytes>
  static auto sum(const Division& d, Way way, const Bytes& bytes) {
    decltype(bytes(0)) total = 0;
    for (size_t i = 0; i < d.ways.size(); ++i) total += d.ways[i] == way ? bytes(i) : 0;
    return total;
  }
  // Bytes that windows need for the rows of a batch, that whole copies would take instead, and of features in the page
  // cache.
  uint64_t window_rows_bytes(const Division& d) const {
    return sum(d, Way::kWindow, [&](size_t i) { return sizes_.rows[i] * RowWindow::row_cost(*facts_.parts[i]); });
  }
  uint64_t whole_bytes(const Division& d) const {
    return sum(d, Way::kWindow, [&](size_t i) { return WholeRows::bytes_for(*facts_.parts[i]); });
  }
  uint64_t mapped_bytes(const Division& d) const {
    return sum(d, Way::kMapped, [&](size_t i) { return matrix_bytes(*facts_.parts[i]); });
  }

  // A batch of the window holds half of its rows on average. Finished batches come second: if memory is scarce there is
  // one in addition to the batch in use, and the next is copied while that is being used.
  void divide_window(Division& d, uint64_t room, uint64_t rows, bool may_copy) const {
    d.depth = 1 + static_cast<int>(std::min<uint64_t>(std::min(facts_.prefetch, uint64_t{kWindowDepth}) - 1,
                                                      room / 16 / d.sizes.batch));
    room -= static_cast<uint64_t>(d.depth - 1) * d.sizes.batch;
    const auto sweeps = static_cast<uint64_t>(std::count(d.ways.begin(), d.ways.end(), Way::kWindow));
    d.published_bytes =
        facts_.shares_reads ? std::clamp(d.memory / 16 & ~(kMB - 1), kLeastPublished, kMostPublished) : 0;
    const uint64_t reader = facts_.shares_reads ? d.published_bytes + kLists : d.read_bytes + kLists;
    // Each thread has a reader if the first batches are read individually; otherwise one reader suffices for all.
    const uint64_t idle = may_go_direct(d) ? 0 : static_cast<uint64_t>(d.threads - 1) * kReader;
    room = minus(room + idle, sweeps * reader);
    if (const uint64_t whole = whole_bytes(d) / (shares_pages() ? facts_.ranks : 1);
        may_copy && whole <= minus(room, idle)) {
      for (Way& way : d.ways) way = way != Way::kWindow ? way : shares_pages() ? Way::kMapped : Way::kWhole;
      (shares_pages() ? d.shared_bytes : d.store_bytes) = whole;
      return use_without_window(d, minus(room, idle + whole));
    }
    if (d.merges) room = minus(room, kOrder);
    const uint64_t complete = static_cast<uint64_t>(d.depth) * rows;  // not yet delivered
    const auto window_of = [&] { return most_claims(d, minus(room, waiting_bytes(d) + complete)); };
    if (d.merges) d.group = best_group(d, window_of);
    d.window = window_of();
    if (d.window < 2) {
      for (Way& way : d.ways) way = way == Way::kWindow ? Way::kDirect : way;
      d.window = 0;
      return use_without_window(d, minus(room, idle));
    }
    d.direct = direct_of(d);
    d.fixed_bytes += sweeps * reader - idle;
    d.store_bytes = minus(room, waiting_bytes(d) + sure_window(d.window) * d.sizes.packed);
  }

  // Claims that fit. A little is left for what the estimate misses: a window that is too full stalls, one that is not
  // full grows.
  uint64_t most_claims(const Division& d, uint64_t room) const {
    constexpr double kMore = 1.04;  // of the rows
    const auto fits = [&](uint64_t claims) {
      const double held = sum(d, Way::kWindow, [&](size_t i) {
        return RowWindow::bytes_for(*facts_.parts[i], kMore * uses_[i].held_by_window(static_cast<double>(claims)));
      });
      return held + static_cast<double>(sure_window(claims) * d.sizes.packed) <= static_cast<double>(room);
    };
    uint64_t low = 0, high = std::min(facts_.batches, kMostWindow) + 1;
    while (high - low > 1) (fits((low + high) / 2) ? low : high) = (low + high) / 2;
    return low;
  }

  // Batches that are read individually, so that the first ones do not wait for a circle of the sweep: none if that
  // takes no longer than a few of them.
  uint64_t direct_of(const Division& d) const {
    return std::min({kMostDirect, d.window / 4, static_cast<uint64_t>(circle_in_batches(d) / kFewDirect)});
  }
  bool may_go_direct(const Division& d) const { return circle_in_batches(d) >= kFewDirect; }

  // How many batches could be read individually in the time of one circle.
  double circle_in_batches(const Division& d) const {
    const double circle = sum(d, Way::kWindow, [&](size_t i) {
      return static_cast<double>(matrix_bytes(*facts_.parts[i])) / facts_.disk.bytes;
    });
    const double alone =
        sum(d, Way::kWindow, [&](size_t i) { return static_cast<double>(sizes_.rows[i]) / facts_.disk.reads; });
    return alone > 0 ? std::min(circle / alone, 1e9) : 0;
  }

  // Memory of batches that are being sampled, or were sampled but not yet admitted to the window.
  static uint64_t waiting_bytes(const Division& d) {
    return d.merges ? d.group * d.sizes.merged + lead_of(d.group) * d.sizes.packed : 2 * d.sizes.packed;
  }

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

  bool topology_fits_beside_all(const Division& d) const {
    const uint64_t mapped = mapped_bytes(d);
    const auto is_read = [](Way way) { return way == Way::kWindow || way == Way::kDirect; };
    const bool reads = std::any_of(d.ways.begin(), d.ways.end(), is_read);
    const uint64_t taken = facts_.memory > 0 ? facts_.ranks * std::min(d.memory, most_needed(d)) : 0;
    if (facts_.memory > 0) return facts_.topology + mapped + taken <= facts_.available / 100 * 95;
    return !reads && facts_.topology + mapped <= usable_;
  }
  uint64_t most_needed(const Division& d) const { return d.window > 0 ? d.memory : most_for_batches(d); }

  std::string of_ranks(const Division& d) const {
    return facts_.ranks == 1
               ? ""
               : text(" (of ", amount(facts_.ranks * d.memory), " for ", facts_.ranks, " ranks of this host)");
  }

  const Facts& facts_;
  const Sizes& sizes_;
  uint64_t spare_ = 0, usable_ = 0;
  std::vector<Uses> uses_;       // one per part
  std::optional<Uses> lookups_;  // of the topology's rows, if batches may be sampled together
};

}  // namespace

const char* way_name(Way way) {
  constexpr std::array<const char*, 4> names{"mapped", "whole", "window", "direct"};
  return names[static_cast<size_t>(way)];
}

Uses uses_of(const Matrix& matrix, const Sizes& sizes, size_t part) {
  const double shared = part < sizes.shared.size() ? sizes.shared[part] : 0;
  return {static_cast<double>(sizes.rows[part]), shared, static_cast<double>(matrix.rows)};
}

Division divide(const Facts& facts, const Sizes& sizes) { return Divider(facts, sizes).best(); }

double disk_seconds(const Facts& facts, const Sizes& sizes, const Division& d) { return Divider(facts, sizes).cost(d); }

double ordered_seconds(double bytes, double rows, const Disk& disk) {
  const double pages = std::max(bytes / static_cast<double>(kPageBytes), 1.0);
  const double gap = static_cast<double>(disk.gap() / kPageBytes);
  const double absent = std::exp(-rows / pages);  // the share of pages that are not needed
  const double reads = pages * (1 - absent) * std::pow(absent, gap);
  return reads / disk.reads + bytes * (1 - std::pow(absent, gap + 1)) / disk.bytes;
}

double swept_seconds(double bytes, double rows, double read, uint64_t window, const Disk& disk) {
  return std::min(ordered_seconds(bytes, read, disk) / static_cast<double>(window), rows / disk.reads);
}

std::string amount(uint64_t bytes) {
  if (bytes < 10'000'000) return text((bytes + 999) / 1000, "KB");
  return text((bytes + 999'999) / 1'000'000, "MB");
}

}  // namespace gz
