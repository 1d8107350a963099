// row_range: runs spilled by other processes -> some rows of a .gl file with many writers.
//
// How a cluster compiles: tasks turn parts of the source into runs (GraphBuilder::finish_runs); after the last one, the
// number of edges of each range of rows is known, the file is created, and other tasks write a range of rows each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compile/build/graph_layout.h"
#include "compile/sort/run.h"
#include "compile/write/range_writer.h"

namespace gz {

// Rows [row_begin, row_end) of one side. The runs' offsets are those of the buckets that cover these rows alone: bucket
// b of a run with shift `shift` has the rows from row_begin + (b << shift) on.
struct RowRange {
  std::string side;  // "out." or "in."
  uint64_t row_begin = 0, row_end = 0;
  uint32_t bucket_bits = 10;
  uint32_t shift = 0;  // the largest of the runs'
  uint64_t largest_neighbour = 0;
  std::vector<Run> runs;  // in source order
};

struct RowRangeOptions {
  uint64_t memory = uint64_t{1} << 30;
  int threads = 1;
  std::string spill_folder;
  Progress* progress = nullptr;
};

// The number of distinct (row, neighbour) pairs in the range.
uint64_t count_distinct(const RowRange& range, const RowRangeOptions& options);

struct RowRangeReport {
  uint64_t edges = 0, duplicates = 0;  // written and dropped
  uint64_t peak_bytes = 0;
  std::vector<std::string> arrays;  // the arrays of `written`
  std::vector<RangeWriter::Written> written;
};

// Writes the range into the file at `path`, which was created for `shape`. `edges_before` are the edges of the rows
// before it, `edges` its own.
RowRangeReport write_row_range(const std::string& path, const GraphShape& shape, const RowRange& range,
                               uint64_t edges_before, uint64_t edges, const RowRangeOptions& options);

}  // namespace gz
