// draw: the random choices that every sampler makes in a row: distinct positions, weighted positions.
//
// Everything here is a pure function of the Random it is given, so callers decide with their keys what depends on what.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/open_table.h"
#include "base/random.h"
#include "storage/topology.h"

namespace gz {

// Positions seen so far, for draws too long to look back through. Kept between rows: clearing costs what was put in.
class PositionSet {
 public:
  void begin(size_t most) { table_.reset(most); }  // empty, with capacity for `most`
  bool insert(uint64_t position) {                 // false when it was there
    const uint64_t stored = position + 1;          // 0 is an empty slot
    uint64_t& slot = table_.find(mix(position), [=](uint64_t s) { return s == 0 || s == stored; });
    const bool is_new = slot == 0;
    slot = stored;
    return is_new;
  }

 private:
  OpenTable<uint64_t> table_;
};

// `count` distinct positions out of [0, n), count <= n, into `out`: Robert Floyd's method, in O(count) whatever n is.
// Every set is equally likely; the order within the set is not random. `seen` is scratch.
template <class Position>
void draw_distinct(Random& random, uint64_t n, size_t count, Position* out, PositionSet& seen) {
  constexpr size_t kLookBack = 64;  // up to here a linear look-back beats any set
  if (n <= 64) {                    // most rows: one word says what was drawn
    uint64_t taken = 0;
    for (size_t j = 0; j < count; ++j) {
      const uint64_t last = n - count + j;
      uint64_t drawn = random.below(last + 1);
      drawn ^= (drawn ^ last) & (0 - (taken >> drawn & 1));  // `last` for a repeat, without a branch to guess wrong
      taken |= uint64_t{1} << drawn;
      out[j] = static_cast<Position>(drawn);
    }
    return;
  }
  if (count <= kLookBack) {
    for (size_t j = 0; j < count; ++j) {
      const uint64_t last = n - count + j;
      const auto drawn = static_cast<Position>(random.below(last + 1));
      bool repeat = false;
      for (size_t i = 0; i < j; ++i) repeat |= out[i] == drawn;
      out[j] = repeat ? static_cast<Position>(last) : drawn;  // `last` itself cannot have been drawn before
    }
    return;
  }
  seen.begin(count);
  for (size_t j = 0; j < count; ++j) {
    const uint64_t last = n - count + j;
    uint64_t drawn = random.below(last + 1);
    if (!seen.insert(drawn)) {
      drawn = last;
      seen.insert(drawn);
    }
    out[j] = static_cast<Position>(drawn);
  }
}

// The total of a row's running sums; 0 for an empty row. Throws FormatError when it is not finite.
double total_weight(std::span<const double> cumulative, const std::string& path);

// One position of a row by weight, given the running sums of its weights and their total > 0: a binary search. The
// chance of a position is its share of the total to within 2^-53, so a weight of zero is never drawn.
inline size_t draw_weighted(Random& random, std::span<const double> cumulative) {
  const double total = cumulative.back(), target = random.unit() * total;
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), target);
  if (at != cumulative.end()) [[likely]] {
    return static_cast<size_t>(at - cumulative.begin());
  }
  return static_cast<size_t>(std::lower_bound(cumulative.begin(), cumulative.end(), total) - cumulative.begin());
}

// The running sums of one row: the file's own, or summed here (O(degree)) where the file keeps only weights, as those
// from GraphZero 0.2 do. The span is valid until the next call.
class RowWeights {
 public:
  template <class Csr>
  std::span<const double> of(const Csr& csr, typename Csr::Row row) {
    if (csr.cumulative != nullptr) return {csr.cumulative + row.begin, static_cast<size_t>(row.degree())};
    return summed(csr, row);
  }

  // The same numbers from the weights, for callers that read those anyway. The file has weights.
  template <class Csr>
  std::span<const double> summed(const Csr& csr, typename Csr::Row row) {
    sums_.resize(static_cast<size_t>(row.degree()));
    double sum = 0;
    for (size_t i = 0; i < sums_.size(); ++i) {
      const double weight = csr.weights[row.begin + i];
      if (weight > 0) sum += weight;  // files of 0.2 were never checked for negatives and NaN
      sums_[i] = sum;
    }
    return sums_;
  }

 private:
  std::vector<double> sums_;
};

// The weight at a position in the file; from the running sums of the row if the file has only those.
template <class Csr>
double weight_at(const Csr& csr, uint64_t row_begin, uint64_t position) {
  if (csr.weights != nullptr) return csr.weights[position];
  return csr.cumulative[position] - (position == row_begin ? 0.0 : csr.cumulative[position - 1]);
}

// Throws ArgumentError if a topology has no weights.
template <class Csr>
void need_weights(const Csr& csr) {
  if (csr.weights == nullptr && csr.cumulative == nullptr) {
    fail<ArgumentError>(csr.file->path(), ": edges have no weights; compile the graph with weights to sample by them");
  }
}

// -- several different positions of a row, drawn by weight

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
