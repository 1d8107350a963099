// weighted: several different positions of a row, drawn by weight.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace gz {

// Scratch of the draws below, kept between rows.
struct WeightedScratch {
  std::vector<uint64_t> chosen;  // ascending
  std::vector<double> tree;
  std::vector<uint64_t> left;  // positions that were not drawn yet, where the row is cut down to them
  std::vector<double> sums;    // of their weights
};

// Up to `count` different positions, each drawn by its share of the weight that is left: successive sampling, exactly
// as if the chosen were taken out of the row. `cumulative` are the running sums of the row's weights. Gives fewer when
// fewer positions have weight, and stops when the remaining weight is too small relative to the row for its sums to
// separate the positions. Time is O(count^2 + count log n), and never more than O(n + count log n).
size_t draw_by_sums(Random& random, std::span<const double> cumulative, size_t count, int64_t* out,
                    WeightedScratch& scratch);

// The same without the stop: once the heavy positions are drawn, the light ones get sums of their own. weight_of(i) is
// the weight of position i. Gives fewer than `count` only when fewer positions have weight.
template <class WeightOf>
size_t draw_weighted_distinct(Random& random, std::span<const double> cumulative, const WeightOf& weight_of,
                              size_t count, int64_t* out, WeightedScratch& scratch) {
  size_t drawn = draw_by_sums(random, cumulative, count, out, scratch);
  while (drawn < count) {
    auto& chosen = scratch.chosen;
    chosen.assign(out, out + drawn);
    std::sort(chosen.begin(), chosen.end());
    scratch.left.clear();
    scratch.sums.clear();
    double sum = 0;
    for (size_t i = 0, next = 0; i < cumulative.size(); ++i) {
      const bool taken = next < chosen.size() && chosen[next] == i;
      next += taken ? 1 : 0;
      const double weight = weight_of(i);
      if (taken || !(weight > 0) || !std::isfinite(weight)) continue;  // a file may never have been verified
      scratch.left.push_back(i);
      scratch.sums.push_back(sum += weight);
    }
    if (scratch.left.empty()) break;
    const size_t more = draw_by_sums(random, scratch.sums, count - drawn, out + drawn, scratch);
    for (size_t i = 0; i < more; ++i)
      out[drawn + i] = static_cast<int64_t>(scratch.left[static_cast<size_t>(out[drawn + i])]);
    drawn += more;
  }
  return drawn;
}

// The positions below `n` that have weight, in order: what a draw of all of them gives. From the weights themselves:
// next to a weight of 1e20 a running sum does not rise by 1. Returns how many, at most `most`.
template <class WeightOf>
size_t all_weighted(size_t n, const WeightOf& weight_of, size_t most, int64_t* out) {
  size_t found = 0;
  for (size_t i = 0; i < n && found < most; ++i) {
    if (weight_of(i) > 0) out[found++] = static_cast<int64_t>(i);
  }
  return found;
}

}  // namespace gz
