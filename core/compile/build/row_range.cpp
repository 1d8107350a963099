// row_range: drains the buckets of one range, from many files, like those of one store.
#include "compile/build/row_range.h"

#include <algorithm>

#include "base/error.h"
#include "base/memory.h"

namespace gz {
namespace {

constexpr uint64_t kLeastMemory = 1'000'000;
constexpr uint64_t kSortBuffers = 16;  // per thread, each rounded up to pages
constexpr size_t kPieceRecords = size_t{1} << 14;

class DistinctCounter : public BucketConsumer {
 public:
  explicit DistinctCounter(int threads) : counts_(static_cast<size_t>(threads)) {}
  void prepare(const SortedBucket& bucket, int worker) override {
    uint64_t count = bucket.keys.empty() || bucket.range.repeats ? 0 : 1;
    for (size_t i = 1; i < bucket.keys.size(); ++i) count += bucket.keys[i] != bucket.keys[i - 1];
    counts_[static_cast<size_t>(worker)] += count;
  }
  void commit(const SortedBucket&, int) override {}
  size_t bytes_per_record() const override { return 0; }
  size_t bytes_per_row() const override { return 0; }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t count : counts_) sum += count;
    return sum;
  }

 private:
  std::vector<uint64_t> counts_;  // one per worker
};

struct Plan {
  RunStore::Options store;
  DrainOptions drain;
  size_t staging_bytes = 0;
};

// The budget of a builder that has spilled everything (see GraphBuilder::plan and drain_options).
Plan plan_of(const RowRange& range, const RecordShape& shape, size_t arrays, const RowRangeOptions& options) {
  const auto threads = static_cast<uint64_t>(options.threads);
  if (options.memory < kLeastMemory * threads) {
    throw BudgetError(text("memory is ", options.memory, " bytes, compiling with ", threads, " threads needs at least ",
                           kLeastMemory * threads),
                      kLeastMemory * threads);
  }
  Plan plan;
  plan.staging_bytes = std::clamp<uint64_t>(options.memory / 512 & ~(kPageBytes - 1), kPageBytes, 4 << 20);
  const uint64_t left = options.memory - 2 * plan.staging_bytes * arrays - threads * kSortBuffers * kPageBytes;
  plan.store.split.base = range.row_begin;
  plan.store.split.shift = range.shift;
  plan.store.shape = shape;
  plan.store.bucket_bits = range.bucket_bits;
  plan.store.piece_records = kPieceRecords;
  plan.store.spill_folder = options.spill_folder;
  plan.drain.threads = options.threads;
  plan.drain.scratch_bytes = left * 3 / 8 / threads;
  plan.drain.load_bytes = left * 2 / 8;
  plan.drain.progress = options.progress;
  return plan;
}

KeyRange keys_of(const RowRange& range) {
  KeyRange keys;
  keys.row_begin = range.row_begin;
  keys.row_end = range.row_end;
  keys.neighbour_end = range.largest_neighbour + 1;
  return keys;
}

}  // namespace

uint64_t count_distinct(const RowRange& range, const RowRangeOptions& options) {
  const Plan plan = plan_of(range, {}, 0, options);
  const RunStore store(plan.store, range.runs, range.largest_neighbour);
  DistinctCounter counter(options.threads);
  drain(store, keys_of(range), counter, plan.drain);
  return counter.total();
}

RowRangeReport write_row_range(const std::string& path, const GraphShape& shape, const RowRange& range,
                               uint64_t edges_before, uint64_t edges, const RowRangeOptions& options) {
  GraphLayout layout = lay_out_graph(shape);
  lay_out(layout.container);
  std::vector<RangeWriter::Range> ranges;
  RowRangeReport report;
  for (const ArrayInfo& array : layout.container.arrays) {
    if (!array.name.starts_with(range.side)) continue;
    const uint64_t width = dtype_bytes(array.dtype);
    report.arrays.push_back(array.name);
    if (array.name.ends_with("indptr")) {  // the range with row 0 also writes the leading 0
      const uint64_t first = range.row_begin == 0 ? 0 : range.row_begin + 1;
      ranges.push_back({array.name, array.offset, first * width, (range.row_end + 1) * width});
    } else {
      ranges.push_back({array.name, array.offset, edges_before * width, (edges_before + edges) * width});
    }
  }
  if (ranges.empty()) fail<ArgumentError>("side is '", range.side, "', which is not in the file");
  reset_bytes_held_peak();
  const uint64_t held = bytes_held();
  const RecordShape records{shape.weights, shape.times, shape.edge_ids};
  const Plan plan = plan_of(range, records, ranges.size(), options);
  const RunStore store(plan.store, range.runs, range.largest_neighbour);
  RangeWriter writer(path, std::move(ranges), plan.staging_bytes);
  CsrWriter csr(writer, range.side, layout.csr, {}, options.spill_folder, plan.drain, {range.row_begin, edges_before});
  drain(store, keys_of(range), csr, plan.drain);
  report.written = writer.finish();
  report.edges = csr.edges() - edges_before;
  report.duplicates = csr.duplicates();
  report.peak_bytes = bytes_held_peak() - std::min(held, bytes_held_peak());
  return report;
}

}  // namespace gz
