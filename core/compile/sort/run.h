// run: edges while they are sorted: (row, neighbour) and the values of each, in runs: pieces of input sorted by bucket.
//
// Buckets are ranges of ids; each run stores its own shift, so when ids outgrow the range, later runs use a larger
// shift and no data moves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "storage/file.h"

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

struct WideKey {
  uint64_t row, neighbour;
};

// A key is two 64-bit ids, or one number of `bytes` bytes: (row << neighbour_bits) | neighbour. In a packed run, as
// in the spill file, the row is relative to the start of the record's bucket: 40 bits suffice for most graphs.
struct KeyLayout {
  uint32_t bytes = 8;
  uint32_t neighbour_bits = 32;
  bool packed = false;
  bool wide() const { return bytes == 16; }
};
constexpr KeyLayout kNarrowKeys{8, 32, false};
constexpr KeyLayout kWideKeys{16, 64, false};

// The file of runs that are not in RAM, opened in two ways.
struct SpillFile {
  File cached;  // for short reads
  File direct;  // bypasses the page cache: spilled bytes are read once, much later
};

struct Run {
  uint64_t order = 0;  // runs in ascending order are in source order
  uint32_t shift = 0;
  KeyLayout keys;
  uint64_t count = 0;                                    // records
  std::shared_ptr<const std::vector<uint64_t>> offsets;  // of each bucket, in records; one more than buckets
  std::array<const std::byte*, 4> columns{};  // keys, times, numbers, weights in RAM; null keys: in the spill file
  std::array<uint64_t, 4> at{};               // offsets of keys, times, numbers and weights in the file, page-aligned
  std::shared_ptr<SpillFile> file;            // the spill file
  uint64_t first = 0, loaded = 0;             // in memory: the records that are there

  bool in_memory() const { return columns[0] != nullptr; }
  // The first record of the store's bucket `bucket`, for `store_shift` >= shift.
  uint64_t begin_of(uint64_t bucket, uint32_t store_shift) const { return (*offsets)[own_bucket(bucket, store_shift)]; }
  // The first of the run's own buckets that belongs to the store's bucket `bucket`.
  uint64_t own_bucket(uint64_t bucket, uint32_t store_shift) const {
    const uint64_t last = offsets->size() - 1;
    const uint32_t finer = store_shift - shift;
    if (bucket == 0) return 0;
    return finer >= 32 || (bucket << finer) > last ? last : bucket << finer;
  }
};

// Records [begin, begin + count) of a run; where keys are packed, of one of its own buckets, which starts at
// `row_base`.
struct Slice {
  const Run* run = nullptr;
  uint64_t begin = 0, count = 0;
  uint64_t row_base = 0;
};

constexpr size_t kKeyPadding = 8;  // readable bytes past the last packed key

// Calls f(i, row, neighbour) for the keys of a slice, which start at `keys`.
template <class F>
void for_each_key(const Slice& slice, const std::byte* keys, F&& f) {
  const KeyLayout layout = slice.run->keys;
  if (layout.wide()) {
    const auto* pairs = reinterpret_cast<const WideKey*>(keys);
    for (uint64_t i = 0; i < slice.count; ++i) f(i, pairs[i].row, pairs[i].neighbour);
  } else if (!layout.packed) {
    const auto* pairs = reinterpret_cast<const uint64_t*>(keys);
    for (uint64_t i = 0; i < slice.count; ++i) f(i, pairs[i] >> 32, pairs[i] & 0xffffffffu);
  } else {
    const uint64_t key_mask = ~uint64_t{0} >> (64 - 8 * layout.bytes);
    const uint64_t neighbour_mask = (uint64_t{1} << layout.neighbour_bits) - 1;
    for (uint64_t i = 0; i < slice.count; ++i) {
      uint64_t key;
      std::memcpy(&key, keys + i * layout.bytes, sizeof key);
      key &= key_mask;
      f(i, slice.row_base + (key >> layout.neighbour_bits), key & neighbour_mask);
    }
  }
}

}  // namespace gz
