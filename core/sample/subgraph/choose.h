// choose: which edges of one row a hop takes. The rules of replace, weighted, temporal and layer-neighbour sampling are
// here and nowhere else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sample/rows/draw.h"
#include "sample/subgraph/neighbours.h"

namespace gz {

// A row as a hop sees it: all its edges, or `population` of them by time, from rank `first` on.
struct HopRow {
  uint64_t begin = 0, degree = 0, population = 0, first = 0;
};

// The key that all draws of a hop share. Type 0 is as if there were no types; no node has a number like ~type.
inline uint64_t hop_key(const SampleOptions& options, size_t hop) {
  const uint64_t key = make_key(options.dependent.batches > 1 ? options.dependent.seed : options.seed, hop);
  // Layer-neighbour sampling agrees on the sources that edge types share too.
  const uint64_t type = options.choice == Choice::kLabor ? options.source_type : options.edge_type;
  return type == 0 ? key : absorb(key, ~type);
}

// The random number that each neighbour has for all rows of a hop, where batches depend on each other.
class DependentNumbers {
 public:
  DependentNumbers(const DependentDraws& draws, uint64_t key)
      : batches_(draws.batches),
        renewed_(draws.number % draws.batches),
        phase_(absorb(key, ~uint64_t{0})),
        before_(absorb(key, draws.number / draws.batches)),
        after_(absorb(key, draws.number / draws.batches + 1)) {}

  uint64_t operator()(uint64_t neighbour) const {
    const bool is_renewed = multiply_high(absorb(phase_, neighbour), batches_) < renewed_;
    return absorb(is_renewed ? after_ : before_, neighbour);
  }

 private:
  uint64_t batches_, renewed_, phase_, before_, after_;
};

// The neighbours of a row that layer-neighbour sampling takes: those with the smallest random numbers. Equal numbers (a
// neighbour twice in the row) go by place. Kept between rows for its memory.
class SmallestNumbers {
 public:
  struct Candidate {
    uint64_t number, place, neighbour;
    bool operator<(const Candidate& other) const {
      return number != other.number ? number < other.number : place < other.place;
    }
  };

  void begin(size_t count) {
    count_ = count;
    heap_.clear();
  }

  void offer(const Candidate& candidate) {
    if (heap_.size() < count_) {
      heap_.push_back(candidate);
      std::push_heap(heap_.begin(), heap_.end());
    } else if (candidate < heap_.front()) {
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.back() = candidate;
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

  std::span<const Candidate> by_place() {
    std::sort(heap_.begin(), heap_.end(), [](const Candidate& a, const Candidate& b) { return a.place < b.place; });
    return heap_;
  }

 private:
  size_t count_ = 0;
  std::vector<Candidate> heap_;  // the largest on top
};

// The latest time that is too old for a seed of this time.
inline int64_t window_start(int64_t time, uint64_t window) {
  const uint64_t since_first = static_cast<uint64_t>(time) - static_cast<uint64_t>(INT64_MIN);
  return since_first < window ? INT64_MIN : static_cast<int64_t>(static_cast<uint64_t>(time) - window);
}

// Memory that drawing needs, one per worker, kept between rows.
struct ChooseScratch {
  PositionSet seen;
  RowWeights weights;
  WeightedScratch weighted;
  std::vector<double> sums;
  std::vector<uint64_t> listed, latest, holes;
  std::vector<int64_t> wide;  // what is drawn by weight, before it is narrowed
  SmallestNumbers smallest;
};

template <class Csr>
class RowChooser {
 public:
  RowChooser(const Csr& csr, const SampleOptions& options, size_t hop, bool timed)
      : csr_(csr),
        options_(options),
        timed_(timed),
        all_(options.fanouts[hop] < 0),
        fanout_(all_ ? 0 : static_cast<uint64_t>(options.fanouts[hop])),
        key_(hop_key(options, hop)) {}

  HopRow bounds(uint64_t node) const { return bounds(csr_.row(node)); }
  static HopRow bounds(typename Csr::Row row) { return {row.begin, row.degree(), row.degree()}; }

  // Leaves the row the edges that are no later than `time`, and not too old for the window.
  void limit(HopRow& row, int64_t time) const {
    if (!timed_) return;
    if (options_.window) row.first = no_later_than(row, window_start(time, *options_.window));
    row.population = no_later_than(row, time);
    row.population -= std::min(row.first, row.population);
  }

  // The most positions that choose() returns; fewer if weights are zero, nodes too late or edges excluded.
  uint64_t most(const HopRow& row) const {
    if (all_ || row.population == 0) return row.population;
    return options_.replace ? fanout_ : std::min(fanout_, row.population);
  }

  // Whether every edge of the row is taken, without a draw (except those of weight zero).
  bool takes_all(const HopRow& row) const { return all_ || (!options_.replace && fanout_ >= row.population); }

  // Whether choose() reads all neighbours of the row in order to choose some of them.
  bool reads_neighbours(const HopRow& row, uint64_t node) const {
    if (options_.choice != Choice::kLabor || takes_all(row)) return false;
    return options_.exclude == nullptr || options_.exclude->of(node).empty();
  }

  // For such a row, if its neighbours come from somewhere else, in parts: offers `count` of them, which
  // neighbour_at(i) returns, at places from `first` on. All parts together leave what choose() would choose.
  template <class NeighbourAt>
  void offer(uint64_t first, uint64_t count, const NeighbourAt& neighbour_at, SmallestNumbers& smallest) const {
    with_numbers([&](const auto number_of) {
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t neighbour = neighbour_at(i);
        smallest.offer({number_of(neighbour), first + i, neighbour});
      }
    });
  }

  // Writes the chosen positions (into the file's arrays) and returns how many. `batch` is 0 unless disjoint; `time` is
  // the seed's, for sampling by node times.
  size_t choose(const HopRow& row, uint64_t node, uint64_t batch, auto* out, ChooseScratch& scratch,
                int64_t time = 0) const {
    if (fanout_ == 0 && !all_) return 0;
    if (options_.exclude != nullptr) [[unlikely]] {
      const auto refused = options_.exclude->of(node);
      if (!refused.empty()) return choose_past(refused, row, node, batch, out, scratch, time);
    }
    return choose_from(candidates(row, time, scratch), row, node, batch, out, scratch);
  }

 private:
  // What is chosen from: ranks of the row (by time, if rows are timed), or positions that were listed one by one.
  struct Candidates {
    uint64_t skip, count;
    const uint64_t* listed;
    bool plain() const { return listed == nullptr; }
  };
  // Ranks of the row that are not holes, which is what excluded edges leave. A type of its own: rows without holes are
  // nearly all, and a look at whether there are any would cost a tenth of a uniform draw (benchmarks/sampling).
  struct PastHoles {
    uint64_t count;
    std::span<const uint64_t> holes;  // ranks, ascending
    bool plain() const { return false; }
  };

  template <class From, class Out>
  size_t choose_from(const From& from, const HopRow& row, uint64_t node, uint64_t batch, Out* out,
                     ChooseScratch& scratch) const {
    const uint64_t population = from.count;
    if (population == 0) return 0;
    const bool take_all = takes_all({row.begin, row.degree, population, 0});
    const auto count = static_cast<size_t>(fanout_);
    uint64_t key = absorb(key_, node);
    if (options_.disjoint) key = absorb(key, batch);
    Random random(key);
    size_t chosen = count;
    if (options_.weighted) {
      chosen = choose_weighted(random, row, from, take_all, out, scratch);
    } else if (take_all) {
      chosen = static_cast<size_t>(population);
      for (size_t i = 0; i < chosen; ++i) out[i] = static_cast<Out>(i);
    } else if (options_.replace) {
      for (size_t i = 0; i < count; ++i) out[i] = static_cast<Out>(random.below(population));
    } else if (options_.choice == Choice::kLabor) {
      choose_labor(row, from, count, out, scratch.smallest);
    } else {
      choose_distinct(random, population, count, out, scratch);
    }
    to_positions(row, from, out, chosen);
    return chosen;
  }

  // The same from a row with neighbours that must not be taken.
  size_t choose_past(std::span<const uint64_t> refused, const HopRow& row, uint64_t node, uint64_t batch, auto* out,
                     ChooseScratch& scratch, int64_t time) const {
    scratch.holes.clear();
    if (row.degree > 0) find_places(csr_, row.begin, row.degree, refused, scratch.holes);
    const std::span<const uint64_t> holes = scratch.holes;
    if (timed_ || !options_.node_times.empty()) {
      list_by_time(row, time, holes, scratch.listed);
      const Candidates from = latest({0, scratch.listed.size(), scratch.listed.data()}, row, scratch);
      return choose_from(from, row, node, batch, out, scratch);
    }
    return choose_from(PastHoles{row.population - holes.size(), holes}, row, node, batch, out, scratch);
  }

  Candidates candidates(const HopRow& row, int64_t time, ChooseScratch& scratch) const {
    if (options_.node_times.empty()) return latest({row.first, row.population, nullptr}, row, scratch);
    list_by_time(row, time, {}, scratch.listed);
    return latest({0, scratch.listed.size(), scratch.listed.data()}, row, scratch);
  }

  // The last `fanout` of the candidates for "last"; only of those with weight, if weights count.
  Candidates latest(Candidates from, const HopRow& row, ChooseScratch& scratch) const {
    const bool ordered = timed_ || from.listed != nullptr;
    if (!ordered || options_.temporal != Temporal::kLast || all_ || from.count <= fanout_) return from;
    if (!options_.weighted) return {from.skip + from.count - fanout_, fanout_, from.listed};
    auto& kept = scratch.latest;
    kept.clear();
    for (uint64_t i = from.count; i > 0 && kept.size() < fanout_; --i) {
      const uint64_t position = position_of(row, from, i - 1);
      if (weight_at(csr_, row.begin, position) > 0) kept.push_back(position);
    }
    std::reverse(kept.begin(), kept.end());
    return {0, kept.size(), kept.data()};
  }

  // The row's positions, holes apart, whose neighbours are early enough. In the order of the edges' times, of the
  // nodes' times for "last", or else of the row. Reads the whole row: it is not sorted by this.
  void list_by_time(const HopRow& row, int64_t time, std::span<const uint64_t> holes,
                    std::vector<uint64_t>& listed) const {
    const bool by_node = !options_.node_times.empty();
    const auto at = [&](uint64_t position) { return options_.node_times[csr_.neighbour(position)]; };
    const bool windowed = options_.window.has_value() && !timed_;
    const int64_t too_old = windowed ? window_start(time, *options_.window) : INT64_MIN;
    listed.clear();
    for (uint64_t i = row.first; i < row.first + row.population; ++i) {
      const uint64_t position = timed_ ? position_by_time(row, i) : row.begin + i;
      if (!holes.empty() && std::binary_search(holes.begin(), holes.end(), position - row.begin)) continue;
      const int64_t found = by_node ? at(position) : time;
      if (found <= time && (!windowed || found > too_old)) listed.push_back(position);
    }
    if (timed_ || options_.temporal != Temporal::kLast) return;
    std::stable_sort(listed.begin(), listed.end(), [&](uint64_t a, uint64_t b) { return at(a) < at(b); });
  }

  uint64_t position_of(const HopRow& row, const Candidates& from, uint64_t i) const {
    if (from.listed != nullptr) return from.listed[from.skip + i];
    return timed_ ? position_by_time(row, from.skip + i) : row.begin + i;
  }

  // Before hole j there are holes[j] - j edges that are not holes.
  uint64_t position_of(const HopRow& row, const PastHoles& from, uint64_t i) const {
    const auto holes = from.holes;
    uint64_t low = 0, high = holes.size();
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (holes[middle] - middle <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return row.begin + i + low;
  }

  uint64_t position_by_time(const HopRow& row, uint64_t rank) const {
    const uint64_t offset = csr_.by_time(row.begin + rank);
    if (offset >= row.degree) [[unlikely]] {
      csr_.file->check();
      fail<FormatError>(csr_.file->path(), ": by_time[", row.begin + rank, "] = ", offset, " is past a row of ",
                        row.degree, ": the file is damaged, see graphzero verify");
    }
    return row.begin + offset;
  }

  uint64_t no_later_than(const HopRow& row, int64_t time) const {
    uint64_t low = 0, high = row.degree;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (csr_.times[position_by_time(row, middle)] <= time) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  template <class From, class Out>
  void to_positions(const HopRow& row, const From& from, Out* out, size_t count) const {
    if (timed_ || !from.plain()) {
      for (size_t i = 0; i < count; ++i) {
        out[i] = static_cast<Out>(position_of(row, from, static_cast<uint64_t>(out[i])));
      }
    } else {
      const auto begin = static_cast<Out>(row.begin);
      for (size_t i = 0; i < count; ++i) out[i] += begin;
    }
  }

  template <class Out>
  void choose_distinct(Random& random, uint64_t population, size_t count, Out* out, ChooseScratch& scratch) const {
    if (count <= 64 && population <= UINT32_MAX) {  // 32-bit look-backs: half the compares of 64-bit ones
      uint32_t drawn[64];
      draw_distinct(random, population, count, drawn, scratch.seen);
      for (size_t i = 0; i < count; ++i) out[i] = static_cast<Out>(drawn[i]);
    } else {
      draw_distinct(random, population, count, out, scratch.seen);
    }
  }

  template <class From>
  size_t choose_weighted(Random& random, const HopRow& row, const From& from, bool take_all, int32_t* out,
                         ChooseScratch& scratch) const {
    scratch.wide.resize(static_cast<size_t>(take_all ? from.count : fanout_));
    const size_t chosen = choose_weighted(random, row, from, take_all, scratch.wide.data(), scratch);
    for (size_t i = 0; i < chosen; ++i) out[i] = static_cast<int32_t>(scratch.wide[i]);
    return chosen;
  }

  template <class From>
  size_t choose_weighted(Random& random, const HopRow& row, const From& from, bool take_all, int64_t* out,
                         ChooseScratch& scratch) const {
    const auto weight_of = [&](size_t i) { return weight_at(csr_, row.begin, position_of(row, from, i)); };
    if (take_all) {
      const auto population = static_cast<size_t>(from.count);
      return all_weighted(population, weight_of, population, out);
    }
    const bool partly = timed_ || !from.plain();
    const auto sums =
        partly ? sums_of(row, from, scratch.sums) : scratch.weights.of(csr_, {row.begin, row.begin + row.degree});
    if (!(total_weight(sums, csr_.file->path()) > 0)) return 0;
    const auto count = static_cast<size_t>(fanout_);
    if (!options_.replace) return draw_weighted_distinct(random, sums, weight_of, count, out, scratch.weighted);
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<int64_t>(draw_weighted(random, sums));
    return count;
  }

  // Running sums of the candidates, in their order. O(population): the file's sums go by position.
  template <class From>
  std::span<const double> sums_of(const HopRow& row, const From& from, std::vector<double>& sums) const {
    sums.resize(static_cast<size_t>(from.count));
    double sum = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const double weight = weight_at(csr_, row.begin, position_of(row, from, i));
      if (weight > 0) sum += weight;
      sums[i] = sum;
    }
    return sums;
  }

  // LABOR-0 with a fixed size (sequential Poisson sampling): the `count` neighbours whose shared random numbers are
  // smallest. For one row that is a uniform draw without replacement; rows with common neighbours tend to agree. Reads
  // the whole row.
  template <class From, class Out>
  void choose_labor(const HopRow& row, const From& from, size_t count, Out* out, SmallestNumbers& smallest) const {
    smallest.begin(count);
    offer(
        0, from.count,
        [&](uint64_t i) {
          if constexpr (std::is_same_v<From, PastHoles>) return csr_.neighbour(position_of(row, from, i));
          return csr_.neighbour(row.begin + i);  // times and layer-neighbour sampling do not go together
        },
        smallest);
    for (const auto& candidate : smallest.by_place()) *out++ = static_cast<Out>(candidate.place);
  }

  // The function that gives each neighbour its random number, the same for all rows of the hop.
  template <class Use>
  void with_numbers(const Use& use) const {
    if (options_.dependent.batches > 1) {
      use(DependentNumbers(options_.dependent, key_));
    } else {
      use([key = key_](uint64_t neighbour) { return absorb(key, neighbour); });
    }
  }

  const Csr& csr_;
  const SampleOptions& options_;
  const bool timed_, all_;
  const uint64_t fanout_;
  const uint64_t key_;
};

}  // namespace gz
