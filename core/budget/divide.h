// divide: divides one budget: the facts and sizes it is based on, and the choice between alternatives. A function of
// its arguments alone.
//
// Priorities: the batches being built, waiting and in training; the topology in the page cache, if it fits; the
// features in the page cache, if they fit too; otherwise rows held for coming batches, as many as the remaining memory
// can hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "budget/uses.h"
#include "gather/gather.h"
#include "storage/disk_speed.h"
#include "storage/features.h"

namespace gz {

enum class CacheMode { kAuto, kOff, kOn };

// How the rows of a part are fetched in an epoch.
enum class Way {
  kMapped,  // copied from the mapping: the file is in the page cache, or fits
  kWhole,   // copied from a whole copy in the loader's own memory
  kWindow,  // read in the order of the file for many batches at once
  kDirect,  // read batch by batch
};
const char* way_name(Way way);

// What a division is based on.
struct Facts {
  // What the user set:
  uint64_t memory = 0;  // 0: chosen from what is available
  uint64_t ranks = 1;   // of this host, which share `memory`
  uint64_t held = 1;    // batches that the consumer holds
  uint64_t prefetch = 1;
  int threads = 1;
  Io io = Io::kAuto;
  CacheMode cache = CacheMode::kAuto;
  std::vector<const Matrix*> parts;  // whose rows a batch has

  // The sample:
  bool may_merge = false;     // many batches may be sampled together
  double rows_looked_up = 0;  // in the topology, for a batch, if all rows were alike
  double topology_rows = 0;   // in all
  uint64_t ahead = 0;         // batches to sample ahead of those that are built, for a device's cache of rows,
  uint64_t tables = 0;        // and the memory that keeps track of it

  // The machine:
  uint64_t available = 0;               // to this process, including what the loader already holds
  uint64_t topology = 0;                // bytes of its files
  std::vector<double> topology_cached;  // share of each edge type's file
  std::vector<double> cached;           // share of each part
  uint64_t batches = 0;                 // of an epoch
  bool shares_reads = false;            // with other ranks
  Disk disk;                            // of the files, or assumed speeds
};

// The memory and rows of one batch.
struct Sizes {
  uint64_t sampling = 0;       // the most that sampling it takes, including its subgraph
  uint64_t packed = 0;         // sampled, while it waits
  uint64_t merged = 0;         // sampled together with others, until it is in the window
  uint64_t batch = 0;          // finished
  std::vector<uint64_t> rows;  // one per part
  std::vector<double> shared;  // one per part: rows that two batches have in common; none: as if all were used alike
  double lookups = 0, lookups_shared = 0;  // rows of the topology, if known
};

struct Division {
  Sizes sizes;                   // of the batches that it is made for
  uint64_t memory = 0;           // in total; this rank's share if ranks of one host share it
  uint64_t fixed_bytes = 0;      // read buffers
  uint64_t store_bytes = 0;      // rows held: windows and whole copies
  uint64_t read_bytes = kArena;  // of each reader of a sweep, or of batches that are sampled together
  uint64_t published_bytes = 0;  // recent reads that each sweep shares with other ranks of this host
  uint64_t shared_bytes = 0;     // this rank's share of rows that the ranks of the host keep in the page cache instead
  int threads = 1;               // that build batches: fewer if their buffers would not fit
  int depth = 1;                 // finished or partly built batches that may exist at once
  uint64_t window = 0;           // batches whose rows are read together; 0: no window
  uint64_t direct = 0;           // the first batches, which are read individually in the meantime
  bool merges = false;           // the topology is not in RAM: many batches are sampled together
  uint64_t group = 1;            // how many
  Disk disk;                     // the speed that was assumed: decides which gaps are read over
  std::vector<Way> ways;         // one per part
  std::string why;               // in words, for stats()
};

// How often batches use the rows of a part of the given sizes.
Uses uses_of(const Matrix& matrix, const Sizes& sizes, size_t part);

// The best division. Throws BudgetError if the budget is below the minimum.
Division divide(const Facts& facts, const Sizes& sizes);

// The most claims that a window planned for so many may hold: batches may share more rows than was estimated, the more
// batches there are.
inline uint64_t most_window(uint64_t window) { return window + window / (window < 32 ? 4 : 2) + 1; }
// Those that memory is set aside for: batches may share a little more rows than estimated.
inline uint64_t sure_window(uint64_t window) { return window + window / 16 + 1; }

// Batches that wait for the window when the next group is started: the window is filled from them until that is done.
inline uint64_t lead_of(uint64_t group) { return group / 2; }

// Seconds of disk time per batch under a division, once the files that fit are in RAM.
double disk_seconds(const Facts& facts, const Sizes& sizes, const Division& d);

// Seconds of disk time to read so many rows, spread over a file of so many bytes, in file order and over short gaps: a
// request takes time, and so does each byte.
double ordered_seconds(double bytes, double rows, const Disk& disk);

// The same for each batch of `rows` rows of a window, whose circle reads `read` rows.
double swept_seconds(double bytes, double rows, double read, uint64_t window, const Disk& disk);

inline uint64_t minus(uint64_t a, uint64_t b) { return a - std::min(a, b); }  // 0 if b is larger
inline uint64_t matrix_bytes(const Matrix& matrix) { return matrix.rows * matrix.row_bytes; }

std::string amount(uint64_t bytes);  // rounded up, so that the amount in an error suffices

}  // namespace gz
