// weighted: several different positions of a row, drawn by weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace gz {

// Scratch of draw_weighted_distinct, kept between rows.
struct WeightedScratch {
  std::vector<uint64_t> chosen;  // ascending
  std::vector<double> tree;
};

// Up to `count` different positions, each drawn by its share of the weight that is left: successive sampling, exactly
// as if the chosen were taken out of the row. `cumulative` are the running sums of the row's weights. Gives fewer when
// fewer positions have weight. Time is O(count^2 + count log n), and never more than O(n + count log n).
size_t draw_weighted_distinct(Random& random, std::span<const double> cumulative, size_t count, int64_t* out,
                              WeightedScratch& scratch);

// The positions that have weight, in order: what a draw of all of them gives. Returns how many, at most `most`: running
// sums of a damaged file may rise more often than draws from them found out.
size_t all_weighted(std::span<const double> cumulative, size_t most, int64_t* out);

}  // namespace gz
