// uses: how often batches use the rows of a file, as a power law that is fitted to what two batches share.
//
// From it follows how many rows several batches have in common. Where batches share far more rows than even use would
// explain, the power law is cut off: most rows of such graphs are hardly used at all. The cutoff fits the published hit
// rates of caches on ogbn-papers100M (benchmarks/hit_rates.py).
#pragma once

#include <cstdint>
#include <vector>

namespace gz {

class Uses {
 public:
  // A batch uses `rows` of `total` rows, two batches have `shared` of them in common: rows * rows / total if all rows
  // are used alike.
  Uses(double rows, double shared, double total);

  // Rows that at least one of so many batches uses.
  double distinct(double batches) const;
  // For a sweep whose window has so many batches, admitted evenly spaced: the rows that are held for them at the same
  // time, and those that are read by a circle.
  double held_by_window(double window) const;
  double read_by_circle(double window) const;
  // The share of a batch's rows that a cache of so many slots has, if it knows the next batches up to a horizon, keeps
  // the rows whose next use comes soonest, and fills what is left with those that are used most
  // (device/row_calendar.h).
  double hits(double slots, double horizon) const;

 private:
  struct Level {
    double count = 0, rate = 0;  // rows, and the share of batches that use each of them
    double log_unused = 0;       // log(1 - rate)
  };
  void set_rates(double exponent, double cutoff);

  double rows_;
  std::vector<Level> levels_;  // the hottest first
};

}  // namespace gz
