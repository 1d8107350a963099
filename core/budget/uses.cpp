// uses: the fit, and sums over levels of rows that are used alike.
#include "budget/uses.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gz {
namespace {

constexpr int kLevels = 48;
constexpr double kMostRate = 1 - 1e-12;
constexpr double kMostExponent = 4;
// Two batches share so many times the rows that they would share by even use: up to here the power law has no cutoff,
// from there on it is cut off at this share of all rows.
constexpr double kNotSkewed = 8, kSkewed = 32, kCutoff = 0.15;

// The x in [low, high] at which an increasing function reaches `wanted`.
template <class F>
double reach(double low, double high, double wanted, int steps, const F& f) {
  for (int i = 0; i < steps; ++i) {
    const double middle = (low + high) / 2;
    (f(middle) < wanted ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

Uses::Uses(double rows, double shared, double total) : rows_(std::clamp(rows, 0.0, std::max(total, 1.0))) {
  total = std::max(total, 1.0);
  double begin = 0;
  for (int i = 1; i <= kLevels; ++i) {
    const double end =
        i == kLevels ? total : std::min(std::floor(std::pow(total, static_cast<double>(i) / kLevels)), total);
    if (end <= begin) continue;
    levels_.push_back({.count = end - begin, .rate = (begin + end + 1) / 2});  // the rank, until set_rates()
    begin = end;
  }
  const double even = rows_ * rows_ / total;
  const double skew =
      std::log(std::max(shared, even) / std::max(even, 1e-9) / kNotSkewed) / std::log(kSkewed / kNotSkewed);
  const double cutoff = total * std::pow(kCutoff, std::clamp(skew, 0.0, 1.0));
  const std::vector<Level> ranks = levels_;
  const auto shared_by = [&](double exponent) {
    levels_ = ranks;
    set_rates(exponent, skew > 0 ? cutoff : std::numeric_limits<double>::infinity());
    double sum = 0;
    for (const Level& level : levels_) sum += level.count * level.rate * level.rate;
    return sum;
  };
  const double exponent = shared <= 1.05 * even ? 0 : reach(0, kMostExponent, shared, 24, shared_by);
  shared_by(exponent);
}

// rate = min(1, c / rank^exponent * exp(-rank / cutoff)), with the c by which the rates add up to the rows of a batch.
void Uses::set_rates(double exponent, double cutoff) {
  for (Level& level : levels_) level.rate = std::pow(level.rate, -exponent) * std::exp(-level.rate / cutoff);
  const auto sum = [&](double log_c) {
    double rows = 0;
    for (const Level& level : levels_) rows += level.count * std::min(kMostRate, std::exp(log_c) * level.rate);
    return rows;
  };
  const double c = std::exp(reach(-80, 80, rows_, 60, sum));
  for (Level& level : levels_) {
    level.rate = std::min(kMostRate, c * level.rate);
    level.log_unused = std::log1p(-level.rate);
  }
}

double Uses::distinct(double batches) const {
  double sum = 0;
  for (const Level& level : levels_) sum += level.count * -std::expm1(batches * level.log_unused);
  return sum;
}

// Let the batches of a window use a row u times on average: u = -window * log(1 - rate). At time t after the sweep
// passed it (t = 1: a circle), those admitted before, u * (1 - t) of the uses, hold it; those admitted since hold it if
// it was held then. With h(t), the probability that it is held, these are U(t) = u * (1 - t) + u * (integral of h from
// 0 to t) uses, and h = 1 - exp(-U), which solves to h(t) = 1 - 1 / (exp(u) - u * t). This is its mean: rows that are
// used rarely are held for half of a circle, those used often always. Simulated with batches of the preset papers100M
// (benchmarks/hit_rates.py --windows), windows of 58 to 116 batches hold up to 3 % more or less.
double Uses::held_by_window(double window) const {
  double sum = 0;
  for (const Level& level : levels_) {
    const double uses = -window * level.log_unused;
    if (uses > 0) sum += level.count * (1 + std::log1p(-uses * std::exp(-uses)) / uses);
  }
  return sum;
}

// When the sweep passes, it is not held with probability 1 - h(1), and read if it is also used.
double Uses::read_by_circle(double window) const {
  double sum = 0;
  for (const Level& level : levels_) {
    const double uses = -window * level.log_unused;
    sum += level.count * std::exp(-uses) * (1 / (1 - uses * std::exp(-uses)) - 1);
  }
  return sum;
}

// Belady's rule keeps a row from one use to the next if these are at most T batches apart, with the T at which that
// fills the slots. Gaps are distributed geometrically: at any time, a gap of a row with rate r is at most T batches
// long with probability 1 - (1 - r)^T * (1 + r * T), and T is found from the sum. If all gaps within the horizon leave
// slots empty, rows in longer gaps get them, the hottest first.
double Uses::hits(double slots, double horizon) const {
  const auto kept_at = [](const Level& level, double gap) {
    const double unused = gap * level.log_unused;
    return level.count * std::max(-std::expm1(unused) - level.rate * gap * std::exp(unused), 0.0);
  };
  const auto filled = [&](double gap) {
    double sum = 0;
    for (const Level& level : levels_) sum += kept_at(level, gap);
    return sum;
  };
  const double gap = filled(horizon) > slots ? reach(0, horizon, slots, 40, filled) : horizon;
  double left = std::max(slots - filled(gap), 0.0), found = 0, used = 0;
  for (const Level& level : levels_) {
    const double in_longer = level.count - kept_at(level, gap);
    const double share = in_longer > 0 ? std::min(left / in_longer, 1.0) : 0;
    left -= share * in_longer;
    const double uses = level.count * level.rate, late = std::exp(gap * level.log_unused);
    found += uses * (1 - late + share * late);
    used += uses;
  }
  return used > 0 ? std::clamp(found / used, 0.0, 1.0) : 0;
}

}  // namespace gz
