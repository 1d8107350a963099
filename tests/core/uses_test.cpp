// uses_test: what batches share, by the model that the division of memory is based on.
#include "budget/uses.h"

#include <cmath>

#include "check.h"

using namespace gz;

namespace {

bool is_near(double a, double b, double share) { return std::abs(a - b) <= share * std::abs(b); }

}  // namespace

TEST(rows_that_are_used_alike_are_shared_by_chance) {
  const Uses even(50'000, 50'000.0 * 50'000 / 24e6, 24e6);
  CHECK(is_near(even.distinct(1), 50'000, 0.001));
  CHECK(is_near(even.distinct(100), 24e6 * -std::expm1(100 * std::log1p(-50'000 / 24e6)), 0.001));
}

// The preset papers100M at a tenth of its size, [10, 10, 10] from 102 seeds: counted over an epoch.
TEST(the_fit_follows_a_skewed_graph) {
  const Uses fitted(42'498, 7'736, 11'105'996);
  const double batches[] = {10, 20, 40, 80, 160, 300, 600};
  const double counted[] = {284e3, 474e3, 769e3, 1187e3, 1739e3, 2338e3, 3068e3};
  for (size_t i = 0; i < std::size(batches); ++i) CHECK(is_near(fitted.distinct(batches[i]), counted[i], 0.05));
}

// The preset papers100M, [10, 10, 10] from 1,024 seeds by LABOR: simulated with sampled batches
// (benchmarks/hit_rates.py --windows).
TEST(a_window_holds_what_a_simulated_sweep_holds) {
  const Uses fitted(421'677, 76'500, 111'059'956);
  const double windows[] = {58, 80, 116};
  const double simulated[] = {7.93e6, 9.63e6, 12.02e6};
  for (size_t i = 0; i < std::size(windows); ++i) {
    CHECK(is_near(fitted.held_by_window(windows[i]), simulated[i], 0.05));
  }
}

// Rows that are hardly shared: each is read for one batch, and held for half of a circle on average.
TEST(a_window_without_shared_rows_holds_half_of_them) {
  const Uses even(1'000, 1e-3, 1e9);
  CHECK(is_near(even.held_by_window(100), 50'000, 0.001));
  CHECK(is_near(even.read_by_circle(100), 100'000, 0.001));
}

// A graph of 1 M nodes and 20 M edges by synthesize(), [15, 10, 5] from 102 seeds: counted by a loader of 250 batches.
TEST(a_cache_hits_what_a_loader_counted) {
  const Uses fitted(63'362, 9'618, 1e6);
  const double slots[] = {1e4, 5e4, 2e5, 3.5e5, 5e5, 8e5}, counted[] = {0.154, 0.379, 0.674, 0.807, 0.883, 0.964};
  for (size_t i = 0; i < std::size(slots); ++i) CHECK(is_near(fitted.hits(slots[i], 31), counted[i], 0.06));
  // The preset papers100M: a cache of 19 % of the rows of ogbn-papers100M hits 94 to 96 %.
  CHECK(is_near(Uses(421'677, 76'500, 111'059'956).hits(0.19 * 111'059'956, 31), 0.95, 0.02));
  // Rows that are used alike, and nothing is known ahead: as many hits as there are slots.
  CHECK(is_near(Uses(50'000, 50'000.0 * 50'000 / 24e6, 24e6).hits(6e6, 0), 0.25, 0.001));
}

TEST(uses_of_odd_numbers_are_finite_and_ordered) {
  for (const double total : {0.0, 1.0, 2.0, 47.0, 49.0, 1e3, 1e10}) {
    for (const double rows : {0.0, 1.0, total / 2, total, 2 * total}) {
      for (const double shared : {0.0, rows * rows / std::max(total, 1.0), rows / 2, rows, 2 * rows}) {
        const Uses uses(rows, shared, total);
        double before = 0;
        for (const double batches : {0.0, 0.5, 1.0, 8.0, 1e6}) {
          const double now = uses.distinct(batches);
          CHECK(now >= before && now <= std::max(total, 1.0) * 1.001);
          before = now;
        }
        for (const double window : {0.0, 1.0, 16.0, 1024.0}) {
          const double used = uses.distinct(window), held = uses.held_by_window(window);
          CHECK(held > -1e-3 && held <= used * 1.001 + 1e-3);
          const double read = uses.read_by_circle(window);
          CHECK(read >= 0 && read <= used * 1.001);
        }
        for (const double horizon : {0.0, 2.0, 31.0}) {
          for (const double slots : {0.0, 0.3, 1.0, total / 2, total, 2 * total}) {
            const double now = uses.hits(slots, horizon);
            CHECK(now >= 0 && now <= 1);
            CHECK(uses.hits(slots / 2, horizon) <= now + 1e-6 && uses.hits(slots, horizon / 2) <= now + 1e-6);
          }
          if (rows > 0 && total > 0) CHECK(is_near(uses.hits(std::max(total, 1.0), horizon), 1, 0.001));
        }
      }
    }
  }
}
