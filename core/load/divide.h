// divide: divides one budget: the facts and sizes it is based on, and the choice between alternatives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "load/plan.h"
#include "storage/disk_speed.h"

namespace gz {

struct Facts {
  uint64_t available = 0;               // to this process, including what the loader already holds
  uint64_t topology = 0;                // bytes of its files
  std::vector<double> topology_cached;  // share of each edge type's file
  std::vector<double> cached;           // share of each part
  uint64_t batches = 0;                 // of an epoch
  Disk disk;                            // of the files, or assumed speeds
};

// The memory and rows of one batch.
struct Sizes {
  uint64_t sampling = 0, packed = 0, batch = 0;
  std::vector<uint64_t> rows;  // one per part
};

// The best division. Throws BudgetError if the budget is below the minimum.
Division divide(const LoadPlan& plan, const Facts& facts, const Sizes& sizes);

// The most claims that a window planned for so many may hold: batches share rows, which leaves space for more claims,
// the more batches there are.
inline uint64_t most_window(uint64_t window) { return window + window / (window < 32 ? 4 : 2) + 1; }
// Those that fit in any case: when packed, most are smaller than planned.
inline uint64_t sure_window(uint64_t window) { return window + window / 8 + 1; }

// Batches that wait for the window when the next group is started, so that the window does not run empty.
inline uint64_t lead_of(uint64_t group) { return group / 4; }

// Seconds of disk time per batch under a division, once the files that fit are in RAM.
double disk_seconds(const LoadPlan& plan, const Facts& facts, const Sizes& sizes, const Division& d, const Disk& disk);

// The same for `rows` rows of a file of so many bytes that is swept for `window` batches at once.
double swept_seconds(double bytes, double rows, uint64_t window, const Disk& disk);

inline uint64_t minus(uint64_t a, uint64_t b) { return a - std::min(a, b); }
inline const Matrix& matrix_of(const Part& part) { return part.file->matrix(part.matrix); }
inline uint64_t matrix_bytes(const Matrix& matrix) { return matrix.rows * matrix.row_bytes; }

std::string amount(uint64_t bytes);  // rounded up, so that the amount in an error suffices

}  // namespace gz
