// fanout: positions first, for a few dozen rows; then the ids at them, whose lines have arrived by then.
#include "sample/rows/fanout.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/ids.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/threads.h"
#include "sample/rows/cold_rows.h"
#include "sample/rows/draw.h"
#include "sample/rows/row_search.h"

namespace gz {
namespace {

constexpr uint64_t kStream = 0x756f6e6166;  // "fanou": separate from other draws of the same seed
constexpr size_t kAhead = 32;               // rows whose lines are in flight together (benchmarks/walks)
constexpr uint64_t kChunkIds = 1 << 15;     // below this a second thread costs more than it brings

constexpr size_t kNarrow = 64;

struct Scratch {
  std::array<uint32_t, kNarrow> narrow;
  PositionSet seen;
  RowWeights weights;
  WeightedScratch weighted;
};

// These draw positions in the row into `out` and return how many: `count` of them, or as many as there are to pad.
template <class Id>
uint64_t draw_by_weight(const Csr<Id>& csr, typename Csr<Id>::Row row, const FanoutOptions& o, Random& random,
                        int64_t* out, Scratch& scratch) {
  const bool whole = row.degree() < o.count;  // no draws, unless to fill up
  const std::span<const double> sums =
      whole && csr.weights != nullptr ? scratch.weights.summed(csr, row) : scratch.weights.of(csr, row);
  if (!(total_weight(sums, csr.file->path()) > 0)) return 0;
  const auto count = static_cast<size_t>(o.count);
  const auto weight_of = [&](size_t i) { return weight_at(csr, row.begin, row.begin + i); };
  size_t distinct = 0;
  if (!whole) distinct = draw_weighted_distinct(random, sums, weight_of, count, out, scratch.weighted);
  if (distinct < count) distinct = all_weighted(sums.size(), weight_of, count, out);
  if (o.pad) return distinct;
  for (size_t i = distinct; i < count; ++i) out[i] = static_cast<int64_t>(draw_weighted(random, sums));
  return count;
}

template <class Id>
uint64_t draw_uniform(const Csr<Id>&, typename Csr<Id>::Row row, const FanoutOptions& o, Random& random, int64_t* out,
                      Scratch& scratch) {
  const uint64_t degree = row.degree();
  if (degree >= o.count) {
    const auto count = static_cast<size_t>(o.count);
    if (count > kNarrow || degree >> 32 != 0) {
      draw_distinct(random, degree, count, out, scratch.seen);
    } else {  // half as wide, so that a look-back compares twice as many at a time
      draw_distinct(random, degree, count, scratch.narrow.data(), scratch.seen);
      std::copy_n(scratch.narrow.begin(), count, out);
    }
    return o.count;
  }
  for (uint64_t i = 0; i < degree; ++i) out[i] = static_cast<int64_t>(i);
  if (o.pad || degree == 0) return degree;
  for (uint64_t i = degree; i < o.count; ++i) out[i] = static_cast<int64_t>(random.below(degree));
  return o.count;
}

// Draws the positions of row `index` of the batch into its row of the result; `key` is the call's.
template <class Id>
uint64_t draw_row(const Csr<Id>& csr, typename Csr<Id>::Row row, const FanoutOptions& o, uint64_t key, size_t index,
                  int64_t* out, Scratch& scratch) {
  Random random(absorb(key, index));
  return o.weighted ? draw_by_weight(csr, row, o, random, out, scratch)
                    : draw_uniform(csr, row, o, random, out, scratch);
}

// Turns positions into ids and fills what was not drawn.
template <class Id>
void finish_row(const Csr<Id>& csr, uint64_t begin, uint64_t end, uint64_t drawn, int64_t node, const FanoutOptions& o,
                int64_t* out) {
  bool good = true;  // one look at all of them, not a branch for each
  for (uint64_t i = 0; i < drawn; ++i) {
    const uint64_t id = csr.indices[begin + static_cast<uint64_t>(out[i])];
    good &= id < csr.num_others;
    out[i] = static_cast<int64_t>(id);
  }
  if (!good) [[unlikely]] {
    for (uint64_t i = begin; i < end; ++i) csr.neighbour(i);  // throws, naming the first
  }
  std::fill(out + drawn, out + o.count, o.pad.value_or(node));
}

struct Pending {
  uint64_t begin, end, drawn;
};

// What the draws of these rows will read.
template <class Id>
void ask_for_draws(const Csr<Id>& csr, std::span<const int64_t> nodes, const FanoutOptions& o, PagePrefetcher& pages) {
  for (const int64_t node : nodes) add_bounds(pages, csr, static_cast<uint64_t>(node));
  pages.request_added();
  if (!o.weighted) return;
  for (const int64_t node : nodes) add_weights(pages, csr, csr.row(static_cast<uint64_t>(node)), o.count);
  pages.request_added();
}

// What was drawn, `positions` a row of the result after the other: all of a row that fits a page.
template <class Id>
void ask_for_drawn(const Csr<Id>& csr, std::span<const Pending> rows, uint64_t columns, const int64_t* positions,
                   PagePrefetcher& pages) {
  for (const Pending& row : rows) {
    const uint64_t degree = row.end - row.begin;
    if (row.drawn > 0 && degree * sizeof(Id) <= kPageBytes) {
      pages.add(csr.indices + row.begin, degree);
    } else {
      for (uint64_t k = 0; k < row.drawn; ++k) pages.add(csr.indices + row.begin + positions[k]);
    }
    positions += columns;
  }
  pages.request_added();
}

// Rows [begin, end) of the result; `pages` if the file is cold.
template <class Id>
void fanout_range(const Csr<Id>& csr, std::span<const int64_t> nodes, const FanoutOptions& o, int64_t* out,
                  size_t begin, size_t end, PagePrefetcher* pages) {
  const size_t group = pages != nullptr ? end - begin : o.plain ? 1 : kAhead;
  std::vector<Pending> pending(std::min(group, end - begin));
  Scratch scratch;
  constexpr uint64_t kLineIds = 64 / sizeof(Id), kShortRow = 4 * kLineIds;
  const uint64_t key = make_key(o.seed, kStream);
  for (size_t i = begin; i < std::min(begin + kAhead, end); ++i) prefetch_row(csr, static_cast<uint64_t>(nodes[i]));
  for (size_t first = begin; first < end; first += group) {
    const size_t count = std::min(group, end - first);
    if (pages != nullptr) ask_for_draws(csr, nodes.subspan(first, count), o, *pages);
    for (size_t i = 0; i < count; ++i) {
      const auto row = csr.row(static_cast<uint64_t>(nodes[first + i]));
      int64_t* positions = out + (first + i) * o.count;
      pending[i] = {row.begin, row.end, draw_row(csr, row, o, key, first + i, positions, scratch)};
      if (row.degree() <= kShortRow) {
        for (uint64_t k = row.begin; k < row.end; k += kLineIds) prefetch(csr.indices + k);
        if (row.begin < row.end) prefetch(csr.indices + row.end - 1);
      } else {
        for (uint64_t k = 0; k < pending[i].drawn; ++k) prefetch(csr.indices + row.begin + positions[k]);
      }
      if (first + i + kAhead < end) prefetch_row(csr, static_cast<uint64_t>(nodes[first + i + kAhead]));
    }
    if (pages != nullptr) ask_for_drawn(csr, {pending.data(), count}, o.count, out + first * o.count, *pages);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = first + i;
      finish_row(csr, pending[i].begin, pending[i].end, pending[i].drawn, nodes[at], o, out + at * o.count);
    }
  }
}

void check_options(const Topology& topology, const FanoutOptions& o) {
  topology.need_square("fanouts need");
  if (o.count == 0) fail<ArgumentError>("K is 0, expected 1 or more");
  topology.visit(o.direction, [&](const auto& csr) {
    if (o.weighted) need_weights(csr);
  });
}

}  // namespace

void random_fanout(const Topology& topology, std::span<const int64_t> nodes, const FanoutOptions& options,
                   std::span<int64_t> out) {
  check_options(topology, options);
  check_ids(nodes, "start_nodes", {topology.num_nodes(), "nodes", topology.file().path()});
  const int threads = resolve_threads(options.threads);
  const ColdReads reads{nodes, nodes.size(), options.count, options.weighted, options.io};
  topology.visit(options.direction, [&](const auto& csr) {
    const bool ahead = !options.plain && ask_ahead(csr, reads, threads);
    const auto warm_grain = static_cast<size_t>(std::max<uint64_t>(kChunkIds / options.count, 1));
    const size_t grain = ahead ? cold_grain(nodes.size(), threads) : warm_grain;
    parallel_for(nodes.size(), grain, threads, [&](size_t begin, size_t end, int) {
      PagePrefetcher pages(*csr.file, 1);
      fanout_range(csr, nodes, options, out.data(), begin, end, ahead ? &pages : nullptr);
    });
  });
  topology.file().check();
}

std::vector<int64_t> random_neighbours(const Topology& topology, int64_t node, const FanoutOptions& options) {
  check_options(topology, options);
  check_id(node, "start_node", {topology.num_nodes(), "nodes", topology.file().path()});
  std::vector<int64_t> out;
  topology.visit(options.direction, [&](const auto& csr) {
    Scratch scratch;
    PagePrefetcher pages(*csr.file, 1);
    const bool ahead = options.io == TopologyIo::kAuto;
    // A page or two per step give no queue depth, but a fault would bring in the device's whole readahead, twice.
    if (ahead) ask_for_draws(csr, {&node, 1}, options, pages);
    const auto row = csr.row(static_cast<uint64_t>(node));
    if (row.begin == row.end) return;
    FanoutOptions fitting = options;
    fitting.count = std::min(options.count, row.degree() + 1);  // one more than there are is as good as any more
    fitting.pad = node;                                         // no draws beyond the distinct ones
    out.resize(static_cast<size_t>(fitting.count));
    const uint64_t drawn = draw_row(csr, row, fitting, make_key(options.seed, kStream), 0, out.data(), scratch);
    if (ahead) ask_for_drawn(csr, std::array{Pending{row.begin, row.end, drawn}}, fitting.count, out.data(), pages);
    finish_row(csr, row.begin, row.end, drawn, node, fitting, out.data());
    out.resize(static_cast<size_t>(drawn));
  });
  topology.file().check();
  return out;
}

}  // namespace gz
