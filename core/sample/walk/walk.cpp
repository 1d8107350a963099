// walk: the checks, the plain walk, and the interleaved uniform walk.
#include "sample/walk/walk.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "base/ids.h"
#include "base/interrupt.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/rows/cold_rows.h"
#include "sample/walk/node2vec.h"

namespace gz {
namespace {

constexpr size_t kLanes = 64;              // walks in flight (benchmarks/walks: flat from 48 to 96)
constexpr uint64_t kChunkSteps = 1 << 14;  // below this a second thread costs more than it brings
constexpr uint64_t kStepsALook = 1024;     // a very long walk can be interrupted too

// The walk as it reads in a book. Draws, in order: the restart's coin (if any); then until accepted, the neighbour and,
// from the second step on when p or q says so, the acceptance.
template <class Id>
void walk_plain(const Csr<Id>& csr, const WalkBatch& batch, size_t walk) {
  using Row = typename Csr<Id>::Row;
  const WalkOptions& o = batch.options;
  const Bias bias(o.p, o.q);
  RowWeights row_weights;
  Random random = batch.random(walk);
  const uint64_t start = batch.start(walk);
  int64_t* out = batch.row(walk);
  uint64_t node = start, previous = kNoNode;
  Row previous_row{0, 0};
  out[0] = static_cast<int64_t>(start);
  for (uint64_t step = 1; step <= o.length; out[step++] = static_cast<int64_t>(node)) {
    if (step % kStepsALook == 0) check_interrupt();
    if (o.restart > 0 && random.unit() < o.restart) {
      node = start;
      previous = kNoNode;
      continue;
    }
    const Row row = csr.row(node);
    const std::span<const double> weights = o.weighted ? row_weights.of(csr, row) : std::span<const double>();
    if (row.begin == row.end || (o.weighted && !(total_weight(weights, csr.file->path()) > 0))) continue;  // stay
    const bool free = previous == kNoNode || bias.first_order();
    uint64_t position = row.begin;
    for (uint64_t refusals = 0;; ++refusals) {
      if (refusals == most_refusals(row.degree())) {
        position = draw_enumerated(csr, row, weights, previous, previous_row, bias, random);
        break;
      }
      position = row.begin + (o.weighted ? draw_weighted(random, weights) : random.below(row.degree()));
      if (free) break;
      const uint64_t x = csr.neighbour(position);
      const double limit = random.unit() * bias.most;
      if (limit < bias.of(x == previous, x != previous && row_holds(csr, previous_row, x))) break;
    }
    previous = node;
    previous_row = row;
    node = csr.neighbour(position);
  }
}

// Uniform steps, kLanes walks abreast. A step is two passes over the lanes: look up the row and draw a position, asking
// for that neighbour's line; then read the neighbour, asking for its row's line. By the time a line is read it is
// there.
template <class Id, bool kRestart>
void walk_uniform(const Csr<Id>& csr, const WalkBatch& batch, size_t begin, size_t end) {
  constexpr uint64_t kStay = ~uint64_t{0};
  struct Lane {
    Random random{0};
    uint64_t node = 0, position = 0;
  };
  const uint64_t length = batch.options.length, stride = length + 1;
  std::array<Lane, kLanes> lanes;
  for (size_t first = begin; first < end; first += kLanes) {
    const size_t count = std::min(kLanes, end - first);
    int64_t* out = batch.row(first);
    for (size_t i = 0; i < count; ++i) {
      lanes[i] = {batch.random(first + i), batch.start(first + i), 0};
      prefetch_row(csr, lanes[i].node);
      out[i * stride] = static_cast<int64_t>(lanes[i].node);
    }
    for (uint64_t step = 1; step <= length; ++step) {
      if (step % kStepsALook == 0) check_interrupt();
      for (size_t i = 0; i < count; ++i) {
        Lane& lane = lanes[i];
        if constexpr (kRestart) {
          if (lane.random.unit() < batch.options.restart) {
            lane.node = batch.start(first + i);
            lane.position = kStay;
            continue;
          }
        }
        const auto row = csr.row(lane.node);
        if (row.begin == row.end) [[unlikely]] {
          lane.position = kStay;
          continue;
        }
        lane.position = row.begin + lane.random.below(row.degree());
        prefetch(csr.indices + lane.position);
      }
      for (size_t i = 0; i < count; ++i) {
        Lane& lane = lanes[i];
        if (lane.position != kStay) [[likely]] {
          lane.node = csr.neighbour(lane.position);
        }
        prefetch_row(csr, lane.node);
        out[i * stride + step] = static_cast<int64_t>(lane.node);
      }
    }
  }
}

bool positive(double x) { return x > 0 && std::isfinite(x); }

void check_options(const Topology& topology, const WalkOptions& o) {
  topology.need_square("walks need");
  if (!positive(o.p)) fail<ArgumentError>("p is ", o.p, ", expected a positive, finite number");
  if (!positive(o.q)) fail<ArgumentError>("q is ", o.q, ", expected a positive, finite number");
  if (!(o.restart >= 0 && o.restart <= 1)) {
    fail<ArgumentError>("restart is ", o.restart, ", expected a probability from 0 to 1");
  }
  topology.visit(o.direction, [&](const auto& csr) {
    if (o.weighted) need_weights(csr);
  });
}

template <class Id>
void walk_range(const Csr<Id>& csr, const WalkBatch& batch, size_t begin, size_t end) {
  const WalkOptions& o = batch.options;
  if (o.plain) {
    for (size_t i = begin; i < end; ++i) walk_plain(csr, batch, i);
  } else if (o.weighted || !Bias(o.p, o.q).first_order()) {
    walk_searching(csr, batch, begin, end, nullptr);
  } else if (o.restart > 0) {
    walk_uniform<Id, true>(csr, batch, begin, end);
  } else {
    walk_uniform<Id, false>(csr, batch, begin, end);
  }
}

}  // namespace

void random_walks(const Topology& topology, std::span<const int64_t> starts, const WalkOptions& options,
                  std::span<int64_t> out) {
  check_options(topology, options);
  check_ids(starts, "start_nodes", {topology.num_nodes(), "nodes", topology.file().path()});
  const WalkBatch batch{starts, out, options};
  const uint64_t steps = options.length + 1;
  const size_t grain = static_cast<size_t>(round_up(std::max<uint64_t>(kChunkSteps / steps, 1), kLanes));
  const int threads = resolve_threads(options.threads);
  const ColdReads reads{starts, starts.size() * options.length, 1, options.weighted, options.io};
  topology.visit(options.direction, [&](const auto& csr) {
    if (!options.plain && options.length > 0 && ask_ahead(csr, reads, threads)) {
      return parallel_for(starts.size(), cold_grain(starts.size(), threads), threads,
                          [&](size_t begin, size_t end, int) {
                            PagePrefetcher pages(*csr.file, 1);
                            walk_searching(csr, batch, begin, end, &pages);
                          });
    }
    parallel_for(starts.size(), grain, threads,
                 [&](size_t begin, size_t end, int) { walk_range(csr, batch, begin, end); });
  });
  topology.file().check();
}

}  // namespace gz
