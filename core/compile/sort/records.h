// records: edges while they are sorted: (row, neighbour) and the values of each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gz {

// The values of an edge in addition to its two ends. `number` is its position in the source.
struct RecordShape {
  bool weights = false, times = false, numbers = false;
  size_t columns() const { return size_t{weights} + times + numbers; }
  size_t column_bytes() const { return (weights ? 4u : 0u) + (times ? 8u : 0u) + (numbers ? 8u : 0u); }
};

// Records in source order, as columns; null if the shape does not have the column.
struct Piece {
  size_t count = 0;
  const uint64_t* rows = nullptr;
  const uint64_t* neighbours = nullptr;
  const float* weights = nullptr;
  const int64_t* times = nullptr;
  const uint64_t* numbers = nullptr;
};

// How a store divides its records into buckets: by ((row or neighbour) - base) >> shift.
struct Split {
  bool by_neighbour = false;
  uint64_t base = 0;
  uint32_t shift = 0;
};

// The range of a bucket in the order of (row, neighbour). A row that is too large for the budget is divided into
// several buckets: `opens` and `closes` say whether its first and last record are in this one.
struct KeyRange {
  uint64_t row_begin = 0, row_end = 0;
  uint64_t neighbour_begin = 0, neighbour_end = 0;  // used only within one row; the end is exclusive
  bool opens = true, closes = true;
  bool repeats = false;  // every record equals the last one of the bucket before
  uint64_t rows() const { return row_end - row_begin; }
};

}  // namespace gz
