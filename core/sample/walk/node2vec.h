// node2vec: walks whose steps need searches: by the weights of edges, by node2vec's p and q.
//
// A step of node2vec weighs a neighbour x of the node it is on by where it came from: 1/p when x is the node
// before, 1 when the node before has an edge to x, 1/q otherwise. Drawing x without that bias and accepting it with
// probability bias / greatest bias gives the same distribution without a table (rejection); the test of the edge is a
// binary search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sample/rows/draw.h"
#include "sample/rows/row_search.h"
#include "sample/walk/walk.h"

namespace gz {

constexpr uint64_t kNoNode = ~uint64_t{0};

struct Bias {
  double back = 1, near = 1, far = 1;  // 1/p, 1, 1/q
  double most = 1;

  Bias(double p, double q) : back(1 / p), far(1 / q), most(std::max({back, near, far})) {}
  bool first_order() const { return back == 1 && far == 1; }
  double of(bool is_previous, bool is_near) const { return is_previous ? back : is_near ? near : far; }
  // Accepted, or refused, whether the edge is there or not.
  double surely() const { return std::min(near, far); }
  double never() const { return std::max(near, far); }
};

// Rejection is given up after this many refusals, and the step is drawn from the enumerated row instead. Refusals say
// nothing about the next draw, so the distribution stays exact, and a tiny p or a huge q cannot hang a walk.
inline uint64_t most_refusals(uint64_t degree) { return 64 + std::min<uint64_t>(degree, 1024); }

// A neighbour's position drawn from the row with every bias written out: what rejection falls back on. `weights` are
// the row's running sums, empty for a walk that ignores them.
template <class Id>
uint64_t draw_enumerated(const Csr<Id>& csr, typename Csr<Id>::Row row, std::span<const double> weights,
                         uint64_t previous, typename Csr<Id>::Row previous_row, const Bias& bias, Random& random) {
  const auto share = [&](uint64_t i) {
    const uint64_t x = csr.indices[row.begin + i];
    const double weight = weights.empty() ? 1.0 : weights[i] - (i == 0 ? 0.0 : weights[i - 1]);
    return weight * bias.of(x == previous, x != previous && row_holds(csr, previous_row, x));
  };
  double total = 0;
  for (uint64_t i = 0; i < row.degree(); ++i) total += share(i);
  const double target = random.unit() * total;
  uint64_t last = 0;
  double sum = 0;
  for (uint64_t i = 0; i < row.degree() && sum <= target; ++i) {
    const double s = share(i);
    if (s > 0) last = i;
    sum += s;
  }
  return row.begin + last;
}

// Walks [begin, end) of the batch, many in flight, each memory access prefetched one round before it is used. With
// `pages`, for a cold file, all of them are in flight, and the pages of each access are prefetched; uniform walks too
// come here then.
template <class Id>
void walk_searching(const Csr<Id>& csr, const WalkBatch& batch, size_t begin, size_t end, PagePrefetcher* pages);

}  // namespace gz
