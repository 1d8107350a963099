// draw: successive sampling over running sums.
#include "sample/rows/draw.h"

#include <algorithm>

namespace gz {
namespace {

// What is left of a row is drawn from while it weighs more than this share of the row: differences of sums, which have
// 53 bits, then still separate its positions.
constexpr double kFinest = 0x1p-24;

// Chosen positions cut the row into gaps, and what a gap weighs is a difference of two running sums. A draw picks a gap
// by weight and then a position inside it by binary search: nothing is subtracted from a total, so no rounding lets a
// chosen position, or one of weight zero, be drawn, and a row that is used up weighs exactly zero.
class Gaps {
 public:
  Gaps(std::span<const double> sums, std::vector<uint64_t>& chosen)
      : sums_(sums), least_(sums.empty() ? 0.0 : sums.back() * kFinest), chosen_(chosen) {
    chosen_.clear();
  }

  bool draw(Random& random, int64_t& out) {
    double left = 0;
    for (size_t g = 0; g <= chosen_.size(); ++g) left += weight(g);
    if (!(left > least_)) return false;
    double target = random.unit() * left;
    size_t gap = chosen_.size() + 1, heavy = gap;
    for (size_t g = 0; g <= chosen_.size(); ++g) {
      const double w = weight(g);
      if (!(w > 0)) continue;
      heavy = g;
      if (target < w) {
        gap = g;
        break;
      }
      target -= w;
    }
    if (gap > chosen_.size()) gap = heavy;  // rounding went past the last gap that weighs anything
    if (gap > chosen_.size()) return false;
    const uint64_t at = find(gap, before(begin(gap)) + target);
    chosen_.insert(chosen_.begin() + static_cast<std::ptrdiff_t>(gap), at);
    out = static_cast<int64_t>(at);
    return true;
  }

 private:
  uint64_t begin(size_t gap) const { return gap == 0 ? 0 : chosen_[gap - 1] + 1; }
  uint64_t end(size_t gap) const { return gap == chosen_.size() ? sums_.size() : chosen_[gap]; }
  double before(uint64_t position) const { return position == 0 ? 0.0 : sums_[position - 1]; }
  double weight(size_t gap) const { return begin(gap) == end(gap) ? 0.0 : sums_[end(gap) - 1] - before(begin(gap)); }
  uint64_t find(size_t gap, double target) const {
    const auto first = sums_.begin() + static_cast<std::ptrdiff_t>(begin(gap));
    const auto last = sums_.begin() + static_cast<std::ptrdiff_t>(end(gap));
    auto at = std::upper_bound(first, last, target);
    if (at == last) at = std::lower_bound(first, last, *(last - 1));  // rounding: the last that has weight
    return static_cast<uint64_t>(at - sums_.begin());
  }

  std::span<const double> sums_;
  double least_;                   // remaining weight that sums still resolve
  std::vector<uint64_t>& chosen_;  // ascending
};

// For draws that take a large share of the row: a binary tree of sums, from which a chosen leaf is taken out. Sums are
// added up anew on the way to the root, so an empty tree weighs exactly zero.
class SumTree {
 public:
  SumTree(std::span<const double> sums, std::vector<double>& tree) : tree_(tree) {
    while (leaves_ < sums.size()) leaves_ *= 2;
    tree_.assign(2 * leaves_, 0.0);
    double previous = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const double weight = sums[i] - previous;
      tree_[leaves_ + i] = weight > 0 ? weight : 0.0;
      previous = sums[i];
    }
    for (size_t i = leaves_ - 1; i > 0; --i) tree_[i] = tree_[2 * i] + tree_[2 * i + 1];
    least_ = tree_[1] * kFinest;
  }

  bool draw(Random& random, int64_t& out) {
    if (!(tree_[1] > least_)) return false;
    double target = random.unit() * tree_[1];
    size_t at = 1;
    while (at < leaves_) {
      const double left = tree_[2 * at];
      const bool go_left = left > 0 && (target < left || !(tree_[2 * at + 1] > 0));
      if (!go_left) target -= left;
      at = 2 * at + (go_left ? 0 : 1);
    }
    out = static_cast<int64_t>(at - leaves_);
    tree_[at] = 0;
    for (at /= 2; at > 0; at /= 2) tree_[at] = tree_[2 * at] + tree_[2 * at + 1];
    return true;
  }

 private:
  std::vector<double>& tree_;
  double least_ = 0;
  size_t leaves_ = 1;
};

template <class Source>
size_t draw_up_to(Random& random, Source source, size_t count, int64_t* out) {
  size_t drawn = 0;
  while (drawn < count && source.draw(random, out[drawn])) ++drawn;
  return drawn;
}

}  // namespace

double total_weight(std::span<const double> cumulative, const std::string& path) {
  const double total = cumulative.empty() ? 0.0 : cumulative.back();
  if (!std::isfinite(total)) {
    fail<FormatError>(path, ": a row's weights sum to ", total, ": the file is damaged, see graphzero verify");
  }
  return total;
}

size_t draw_by_sums(Random& random, std::span<const double> cumulative, size_t count, int64_t* out,
                    WeightedScratch& scratch) {
  // count^2 gap weights against n leaves and their sums: the tree is the cheaper one from about here.
  constexpr size_t kTreeFrom = 32;
  if (count > kTreeFrom && count > cumulative.size() / count) {
    return draw_up_to(random, SumTree(cumulative, scratch.tree), count, out);
  }
  return draw_up_to(random, Gaps(cumulative, scratch.chosen), count, out);
}

}  // namespace gz
