// csr_writer: whatever depends on one bucket only is computed in prepare(), in parallel; commit() adds what depends on
// the buckets before it.
#include "compile/build/csr_writer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace gz {
namespace {

constexpr uint64_t kSign = uint64_t{1} << 63;

// Grows without preserving the contents; never shrinks.
template <class T>
T* room(Buffer& buffer, size_t count) {
  if (buffer.size() < count * sizeof(T)) {
    buffer = Buffer();
    buffer = Buffer(count * sizeof(T), Purpose::kCompile);
  }
  return buffer.as<T>();
}

DType unsigned_dtype(bool wide) { return wide ? DType::kUInt64 : DType::kUInt32; }

}  // namespace

void declare_csr(Container& c, const std::string& side, const CsrLayout& layout) {
  const auto add = [&](const char* name, DType dtype, uint64_t count) {
    ArrayInfo array;
    array.name = side + name;
    array.dtype = dtype;
    array.shape = {count};
    c.arrays.push_back(std::move(array));
  };
  add("indptr", DType::kUInt64, (side == "out." ? c.sources() : c.targets()) + 1);
  add("indices", unsigned_dtype(layout.wide_ids), c.num_edges);
  if (layout.weights) {
    add("weights", DType::kFloat32, c.num_edges);
    add("cumulative", DType::kFloat64, c.num_edges);
  }
  if (layout.edge_ids) add("edge_ids", unsigned_dtype(layout.wide_edge_ids), c.num_edges);
  if (layout.times) {
    add("times", DType::kInt64, c.num_edges);
    add("by_time", unsigned_dtype(layout.wide_edges), c.num_edges);
  }
}

struct CsrWriter::Output {
  uint64_t kept = 0, duplicates = 0;
  Buffer ends;  // uint64: where each row of the bucket ends
  Buffer neighbours, weights, cumulative, numbers, edge_ids, times, by_time;
  std::vector<uint32_t> order;  // of one row
};

struct CsrWriter::LongRow {
  explicit LongRow(RunStore::Options options) : store(std::move(options)) {}
  RunStore store;  // row: time, neighbour: place in the row
  RunStore::Scratch scratch;
  uint64_t count = 0, pieces = 0;
};

CsrWriter::CsrWriter(ArraySink& writer, const std::string& side, const CsrLayout& layout,
                     std::span<const uint64_t> chunk_base, const std::string& spill_folder, const DrainOptions& options,
                     CsrStart start)
    : writer_(writer),
      layout_(layout),
      chunk_base_(chunk_base),
      spill_folder_(spill_folder),
      options_(options),
      edges_(start.edges) {
  indptr_ = writer_.index_of(side + "indptr");
  indices_ = writer_.index_of(side + "indices");
  if (layout_.weights) {
    weights_ = writer_.index_of(side + "weights");
    cumulative_ = writer_.index_of(side + "cumulative");
  }
  if (layout_.edge_ids) edge_ids_ = writer_.index_of(side + "edge_ids");
  if (layout_.times) {
    times_ = writer_.index_of(side + "times");
    by_time_ = writer_.index_of(side + "by_time");
  }
  for (int i = 0; i < options.threads; ++i) outputs_.push_back(std::make_unique<Output>());
  const uint64_t zero = 0;
  if (start.row == 0) writer_.append<uint64_t>(indptr_, {&zero, 1});
}

CsrWriter::~CsrWriter() = default;

void CsrWriter::release() {
  for (auto& output : outputs_) *output = Output();
}

// At their maximum width; by_time includes the order it is made from and the sort's own buffer.
size_t CsrWriter::bytes_per_record() const {
  return (layout_.wide_ids ? 8u : 4u) + (layout_.weights ? 12u : 0u) + (layout_.edge_ids ? 16u : 0u) +
         (layout_.times ? (layout_.wide_edges ? 24u : 20u) : 0u);
}

// Neighbours and columns of the records that stay, and where each row ends.
template <class Id>
void CsrWriter::select(const SortedBucket& bucket, Output& out) {
  const size_t n = bucket.keys.size();
  const uint64_t rows = bucket.range.rows();
  uint64_t* ends = room<uint64_t>(out.ends, rows);
  std::fill(ends, ends + rows, 0);
  Id* neighbours = room<Id>(out.neighbours, n);
  out.kept = out.duplicates = 0;
  if (!layout_.dedup && bucket.places == nullptr) {
    for (size_t i = 0; i < n; ++i) {
      neighbours[i] = static_cast<Id>(bucket.neighbour(i));
      ++ends[bucket.row(i)];
    }
    out.kept = n;
  } else {
    float* weights = layout_.weights ? room<float>(out.weights, n) : nullptr;
    int64_t* times = layout_.times ? room<int64_t>(out.times, n) : nullptr;
    uint64_t* numbers = layout_.edge_ids ? room<uint64_t>(out.numbers, n) : nullptr;
    for (size_t i = 0; i < n; ++i) {
      const uint64_t row = bucket.row(i), neighbour = bucket.neighbour(i);
      if (layout_.dedup && (i > 0 ? bucket.keys[i] == bucket.keys[i - 1] : bucket.range.repeats)) {
        if (!layout_.undirected || bucket.range.row_begin + row <= neighbour) ++out.duplicates;
        continue;
      }
      const size_t to = out.kept++;
      neighbours[to] = static_cast<Id>(neighbour);
      ++ends[row];
      if (bucket.places == nullptr) continue;
      const uint32_t from = bucket.places[i];
      if (weights != nullptr) weights[to] = bucket.columns.weights[from];
      if (times != nullptr) times[to] = bucket.columns.times[from];
      if (numbers != nullptr) numbers[to] = bucket.columns.numbers[from];
    }
  }
  std::partial_sum(ends, ends + rows, ends);
}

// Provisional numbers become final ones, of the width they have on disk.
template <class Id>
void CsrWriter::number(Output& out) const {
  const uint64_t* from = out.numbers.as<uint64_t>();
  Id* to = room<Id>(out.edge_ids, out.kept);
  for (uint64_t i = 0; layout_.own_numbers && i < out.kept; ++i) to[i] = static_cast<Id>(from[i]);
  for (uint64_t i = 0; !layout_.own_numbers && i < out.kept; ++i) {
    to[i] = static_cast<Id>(chunk_base_[from[i] >> kLocalBits] + (from[i] & ((uint64_t{1} << kLocalBits) - 1)));
  }
}

void CsrWriter::sum_weights(const KeyRange& range, Output& out, double carry) const {
  const uint64_t* ends = out.ends.as<uint64_t>();
  const float* weights = out.weights.as<float>();
  double* sums = room<double>(out.cumulative, out.kept);
  uint64_t i = 0;
  for (uint64_t row = 0; row < range.rows(); ++row) {
    double sum = std::exchange(carry, 0.0);
    for (; i < ends[row]; ++i) sums[i] = sum += weights[i];
  }
}

void CsrWriter::order_by_time(const KeyRange& range, Output& out) const {
  const uint64_t* ends = out.ends.as<uint64_t>();
  const int64_t* times = out.times.as<int64_t>();
  uint64_t* wide = layout_.wide_edges ? room<uint64_t>(out.by_time, out.kept) : nullptr;
  uint32_t* narrow = layout_.wide_edges ? nullptr : room<uint32_t>(out.by_time, out.kept);
  uint64_t begin = 0;
  for (uint64_t row = 0; row < range.rows(); begin = ends[row++]) {
    out.order.resize(ends[row] - begin);
    std::iota(out.order.begin(), out.order.end(), 0u);
    std::stable_sort(out.order.begin(), out.order.end(),
                     [&](uint32_t a, uint32_t b) { return times[begin + a] < times[begin + b]; });
    for (size_t i = 0; i < out.order.size(); ++i) {
      if (layout_.wide_edges) {
        wide[begin + i] = out.order[i];
      } else {
        narrow[begin + i] = out.order[i];
      }
    }
  }
}

void CsrWriter::prepare(const SortedBucket& bucket, int worker) {
  Output& out = *outputs_[static_cast<size_t>(worker)];
  if (layout_.wide_ids) {
    select<uint64_t>(bucket, out);
  } else {
    select<uint32_t>(bucket, out);
  }
  const KeyRange& range = bucket.range;
  if (layout_.edge_ids && layout_.wide_edge_ids) number<uint64_t>(out);
  if (layout_.edge_ids && !layout_.wide_edge_ids) number<uint32_t>(out);
  if (layout_.weights && range.opens) sum_weights(range, out, 0);
  if (layout_.times && range.opens && range.closes) order_by_time(range, out);
}

void CsrWriter::commit(const SortedBucket& bucket, int worker) {
  Output& out = *outputs_[static_cast<size_t>(worker)];
  const KeyRange& range = bucket.range;
  const auto put = [&](size_t array, const Buffer& values, size_t width) {
    writer_.append(array, {values.data(), out.kept * width});
  };
  uint64_t* ends = out.ends.as<uint64_t>();
  if (layout_.weights) {
    if (!range.opens) sum_weights(range, out, carry_);
    if (!range.closes && out.kept > 0) carry_ = out.cumulative.as<double>()[out.kept - 1];
    if (range.closes) carry_ = 0;
    put(weights_, out.weights, 4);
    put(cumulative_, out.cumulative, 8);
  }
  if (layout_.edge_ids) put(edge_ids_, out.edge_ids, layout_.wide_edge_ids ? 8 : 4);
  if (layout_.times) {
    put(times_, out.times, 8);
    if (range.opens && range.closes) {
      put(by_time_, out.by_time, layout_.wide_edges ? 8 : 4);
    } else {
      commit_long_row(range, out);
    }
  }
  put(indices_, out.neighbours, layout_.wide_ids ? 8 : 4);
  const uint64_t entries = range.rows() - (range.closes ? 0 : 1);
  for (uint64_t row = 0; row < entries; ++row) ends[row] += edges_;
  writer_.append<uint64_t>(indptr_, {ends, entries});
  edges_ += out.kept;
  duplicates_ += out.duplicates;
}

template <class Position>
void CsrWriter::append_positions(std::span<const uint64_t> positions) {
  std::vector<Position> values(positions.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Position>(positions[i]);
  writer_.append<Position>(by_time_, values);
}

namespace {

// Passes on the neighbours of sorted records, in order.
class NeighbourSink : public BucketConsumer {
 public:
  explicit NeighbourSink(std::function<void(std::span<const uint64_t>)> take) : take_(std::move(take)) {}
  void prepare(const SortedBucket&, int) override {}
  void commit(const SortedBucket& bucket, int) override {
    values_.resize(bucket.keys.size());
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = bucket.neighbour(i);
    take_(values_);
  }
  size_t bytes_per_record() const override { return 16; }
  size_t bytes_per_row() const override { return 0; }

 private:
  std::function<void(std::span<const uint64_t>)> take_;
  std::vector<uint64_t> values_;
};

}  // namespace

// The order by time of a row that exceeds a worker's memory: (time, place) is sorted on disk, like edges.
void CsrWriter::commit_long_row(const KeyRange& range, Output& out) {
  if (!long_row_) {
    RunStore::Options options;
    options.bucket_bits = 6;
    options.memory = options_.load_bytes;  // unused by the drain while it splits a row
    options.piece_records = std::bit_floor(std::clamp<uint64_t>(options.memory / 512, 128, 1 << 12));
    options.spill_folder = spill_folder_;
    options.split.shift = 64 - options.bucket_bits;
    long_row_ = std::make_unique<LongRow>(options);
  }
  LongRow& row = *long_row_;
  const size_t most = row.store.options().piece_records;
  std::vector<uint64_t> keys(most), places(most);
  for (uint64_t at = 0; at < out.kept; at += most) {
    const size_t count = std::min<uint64_t>(most, out.kept - at);
    for (size_t i = 0; i < count; ++i) {
      keys[i] = static_cast<uint64_t>(out.times.as<int64_t>()[at + i]) ^ kSign;
      places[i] = row.count++;
    }
    row.store.add_alone({.count = count, .rows = keys.data(), .neighbours = places.data()}, row.pieces++, row.scratch);
  }
  if (!range.closes) return;
  row.store.seal(false);
  NeighbourSink sink([&](std::span<const uint64_t> positions) {
    if (layout_.wide_edges) {
      append_positions<uint64_t>(positions);
    } else {
      append_positions<uint32_t>(positions);
    }
  });
  DrainOptions options = options_;
  options.scratch_bytes = options_.load_bytes / 4;
  options.load_bytes = options_.load_bytes * 3 / 8;
  options.threads = 1;
  options.progress = nullptr;  // commit() may be on another thread than the caller's
  KeyRange all;
  all.row_end = UINT64_MAX;
  all.neighbour_end = row.count;
  drain(row.store, all, sink, options);
  long_row_.reset();
}

}  // namespace gz
