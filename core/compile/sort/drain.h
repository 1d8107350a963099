// drain: a store's records in the order of (row, neighbour, source), bucket by bucket, within a budget.
#pragma once

#include <cstdint>
#include <span>

#include "base/progress.h"
#include "compile/sort/run.h"
#include "compile/sort/run_store.h"

namespace gz {

// A sorted bucket. Key i is ((row - range.row_begin) << neighbour_bits) | neighbour.
struct SortedBucket {
  KeyRange range;
  std::span<const uint64_t> keys;
  int neighbour_bits = 0;
  const uint32_t* places = nullptr;  // where record i is in `columns`; null when records are keys alone
  Gathered columns;

  uint64_t row(size_t i) const { return neighbour_bits == 64 ? 0 : keys[i] >> neighbour_bits; }  // from row_begin
  uint64_t neighbour(size_t i) const {
    return neighbour_bits == 64 ? keys[i] : keys[i] & ((uint64_t{1} << neighbour_bits) - 1);
  }
};

// Takes sorted buckets. prepare() runs for several buckets at once, each on its own worker; commit() is called once
// after each prepare(), in the order of the buckets, never two at a time.
class BucketConsumer {
 public:
  virtual ~BucketConsumer() = default;
  virtual void prepare(const SortedBucket& bucket, int worker) = 0;
  virtual void commit(const SortedBucket& bucket, int worker) = 0;
  virtual void release() {}                     // frees the memory of prepare(); everything is committed
  virtual size_t bytes_per_record() const = 0;  // of the output of prepare()
  virtual size_t bytes_per_row() const = 0;
};

struct DrainOptions {
  int threads = 1;
  uint64_t scratch_bytes = 0;  // per worker, for one bucket: a larger bucket is split
  uint64_t load_bytes = 0;     // buckets read back from the spill file at once; twice that while the next are read
  Progress* progress = nullptr;
  const char* phase = "sorting";
};

// Drains every record of a sealed store with rows in `range`. A bucket that is too large for a worker's scratch is cut
// again by finer row ranges, and a row that is too large by neighbour ranges: memory stays within the options.
void drain(const RunStore& store, const KeyRange& range, BucketConsumer& consumer, const DrainOptions& options);

}  // namespace gz
