// graph_builder: chunks are claimed in order and divided into buckets in parallel; the stores are drained into the
// file.
#include "compile/build/graph_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/threads.h"
#include "compile/build/csr_writer.h"

namespace gz {
namespace {

constexpr uint64_t kMostNodes = uint64_t{1} << 62;
constexpr uint64_t kLeastMemory = 1'000'000;  // per thread
constexpr uint64_t kSortBuffers = 16;         // per thread, each rounded up to pages
constexpr uint64_t kMostEdgeIds = uint64_t{1} << 62;

template <class T>
void copy_ids(const IdColumn& column, size_t from, size_t count, uint64_t base, uint64_t* out) {
  const T* data = static_cast<const T*>(column.data) + static_cast<ptrdiff_t>(from) * column.stride;
  // A negative id wraps to a huge one here, and is rejected by the range check.
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint64_t>(static_cast<int64_t>(data[static_cast<ptrdiff_t>(i) * column.stride])) - base;
  }
}

}  // namespace

GraphBuilder::GraphBuilder(GraphOptions options, Progress* progress)
    : options_(std::move(options)), progress_(progress) {
  if (options_.direction == Direction::kNone) fail<ArgumentError>("direction is none, expected out, in or both");
  for (const bool src : {true, false}) {
    const auto count = options_.declared(src);
    if (count.value_or(0) > kMostNodes) {
      fail<ArgumentError>(options_.count_name(src), " is ", *count, ", expected at most 2^62");
    }
  }
  if (options_.two_sided && (!options_.directed || !options_.self_loops)) {
    fail<ArgumentError>(options_.directed ? "self_loops=False" : "directed=False",
                        " needs one num_nodes, but sources and targets are counted separately");
  }
  const auto threads = static_cast<uint64_t>(options_.threads);
  if (options_.memory < kLeastMemory * threads) {
    throw BudgetError(text("memory is ", options_.memory, " bytes, compiling with ", threads,
                           " threads needs at least ", kLeastMemory * threads),
                      kLeastMemory * threads);
  }
  if (options_.spill_folder.empty()) options_.spill_folder.assign(1, '.');
  options_.own_numbers = options_.own_numbers && options_.edge_ids;
  shape_ = {options_.weights, options_.times, options_.edge_ids};
  plan();
  const uint64_t share = options_.memory / threads;
  RunStore::Options store;
  store.shape = shape_;
  store.bucket_bits = share >= (64 << 20) ? 10 : share >= (8 << 20) ? 8 : 6;
  store.piece_records = stored_most(piece_edges_);
  store.spill_folder = options_.spill_folder;
  // An undirected graph is its own reverse: one store serves both directions.
  const size_t sides = options_.directed && options_.direction == Direction::kBoth ? 2 : 1;
  store.memory = (options_.memory - fixed_bytes_) * 5 / 8 / sides;
  store.force_wide = options_.force_wide_ids;
  for (size_t i = 0; i < sides; ++i) {
    const auto rows = options_.declared(rows_are_sources(i));
    if (rows.value_or(0) > 0) {
      const auto bits = static_cast<uint32_t>(std::bit_width(*rows - 1));
      store.split.shift = bits > store.bucket_bits ? bits - store.bucket_bits : 0;
    }
    if (!options_.runs_path.empty()) store.spill_path = text(options_.runs_path, '.', i);
    stores_.push_back(std::make_unique<RunStore>(store));
  }
  for (uint64_t i = 0; i < threads; ++i) writers_.push_back(std::make_unique<ChunkWriter>());
  pending_ = std::make_unique<ChunkWriter>();
  reset_bytes_held_peak();
}

GraphBuilder::~GraphBuilder() = default;

// The sizes of pieces, chunks and staging, and their fixed share of the budget.
void GraphBuilder::plan() {
  const auto threads = static_cast<uint64_t>(options_.threads);
  const uint64_t share = options_.memory / threads;
  piece_edges_ = std::bit_floor(std::clamp<uint64_t>(share / 2048, 512, 65536));
  text_chunk_ = std::bit_floor(std::clamp<uint64_t>(share / 64, 16 << 10, 1 << 20));
  staging_bytes_ = std::clamp<uint64_t>(options_.memory / 512 & ~(kPageBytes - 1), kPageBytes, 4 << 20);
  const uint64_t arrays = 2 + (shape_.weights ? 2u : 0u) + (shape_.times ? 2u : 0u) + (shape_.numbers ? 1u : 0u);
  const uint64_t sides = options_.direction == Direction::kBoth ? 2 : 1;
  fixed_bytes_ = 2 * staging_bytes_ * arrays * sides + threads * kSortBuffers * kPageBytes;
}

IdLimits GraphBuilder::id_limits() const {
  return {options_.declared(true).value_or(kMostNodes), options_.declared(false).value_or(kMostNodes)};
}

bool GraphBuilder::reserve(uint64_t edges) {
  const uint64_t records = stored_most(edges);
  for (size_t i = 0; i < stores_.size(); ++i) {
    if (stores_[i]->reserve(stores_[i]->bytes_of(records))) continue;
    while (i-- > 0) stores_[i]->release(stores_[i]->bytes_of(records));
    return false;
  }
  return true;
}

void GraphBuilder::release(uint64_t edges) {
  for (const auto& store : stores_) store->release(store->bytes_of(stored_most(edges)));
}

void GraphBuilder::ingest(const Chunks& chunks, const std::function<bool(size_t, ChunkWriter&)>& fill) {
  const auto start = Clock::now();
  const size_t first = chunk_edges_.size();
  chunk_edges_.resize(first + chunks.count);
  const uint64_t units_before = units_done_;
  std::mutex mutex;
  size_t next = 0;    // guarded by mutex
  bool stop = false;  // guarded by mutex
  std::atomic<size_t> done{0};
  const auto claim = [&](size_t& chunk) {
    std::lock_guard lock(mutex);
    if (stop || next == chunks.count || !reserve(chunks.most_edges)) return false;
    chunk = next++;
    return true;
  };
  while (!stop && next < chunks.count) {
    parallel_for(writers_.size(), 1, options_.threads, [&](size_t, size_t, int worker) {
      ChunkWriter& writer = *writers_[static_cast<size_t>(worker)];
      size_t chunk = 0;
      while (claim(chunk)) {
        prepare(writer);
        writer.chunk = first + chunk;
        writer.passed = writer.flushes = writer.count = 0;
        if (!fill(chunk, writer)) {
          std::lock_guard lock(mutex);
          stop = true;
        }
        writer.flush();
        chunk_edges_[first + chunk] = writer.passed;
        release(chunks.most_edges);
        ++done;
        if (worker == 0 && progress_ != nullptr) {
          progress_->report("reading", units_before + done * chunks.units_each, expected_total_);
        }
      }
    });
    units_done_ = units_before + done * chunks.units_each;
    if (progress_ != nullptr)
      progress_->report("reading", units_done_, expected_total_);  // other workers may have read everything
    if (stop || next == chunks.count) break;
    for (const auto& store : stores_) {
      const double share =
          expected_total_ == 0 ? 0 : static_cast<double>(units_done_) / static_cast<double>(expected_total_);
      const double so_far = static_cast<double>(store->count() * (store->bytes_of(1) - 8));
      store->make_room(share > 0 ? static_cast<uint64_t>(so_far / share) : 0);
    }
  }
  for (size_t i = first; i < chunk_edges_.size(); ++i) edges_seen_ += chunk_edges_[i];
  reading_seconds_ += seconds_since(start);
}

struct ChunkWriter::Expanded {
  Buffer rows, neighbours, numbers, weights, times;
};

ChunkWriter::ChunkWriter() = default;
ChunkWriter::~ChunkWriter() = default;

void ChunkWriter::flush() {
  if (count > 0) builder->take(*this);
  passed += count;
  count = 0;
}

void GraphBuilder::prepare(ChunkWriter& writer) const {
  if (writer.capacity > 0) return;
  writer.builder = const_cast<GraphBuilder*>(this);
  writer.capacity = piece_edges_;
  writer.buffer = Buffer(piece_edges_ * (options_.own_numbers ? 36 : 28), Purpose::kCompile);
  writer.src = writer.buffer.as<uint64_t>();
  writer.dst = writer.src + piece_edges_;
  writer.times = reinterpret_cast<int64_t*>(writer.dst + piece_edges_);
  auto* const rest = reinterpret_cast<uint64_t*>(writer.times + piece_edges_);
  if (options_.own_numbers) writer.numbers = rest;
  writer.weights = reinterpret_cast<float*>(rest + (options_.own_numbers ? piece_edges_ : 0));
  writer.expanded = std::make_unique<ChunkWriter::Expanded>();
  const auto column = [&](Buffer& buffer, size_t width) {
    buffer = Buffer(stored_most(piece_edges_) * width, Purpose::kCompile);
  };
  if (&writer == pending_.get()) return;  // its edges go through another writer
  if (shape_.numbers) column(writer.expanded->numbers, 8);
  if (options_.directed && options_.self_loops) return;
  column(writer.expanded->rows, 8);
  column(writer.expanded->neighbours, 8);
  if (shape_.weights) column(writer.expanded->weights, 4);
  if (shape_.times) column(writer.expanded->times, 8);
}

// Converts a flushed batch to records: drops self-loops, adds the other direction of undirected edges, sets numbers.
Piece GraphBuilder::expand(ChunkWriter& writer) {
  ChunkWriter::Expanded& e = *writer.expanded;
  const size_t n = writer.count;
  const uint64_t number = (writer.chunk << kLocalBits) + writer.passed;
  auto* const numbers = e.numbers.as<uint64_t>();
  if (options_.directed && options_.self_loops) {
    for (size_t i = 0; shape_.numbers && i < n; ++i) {
      numbers[i] = options_.own_numbers ? writer.numbers[i] : number + i;
    }
    return {n, writer.src, writer.dst, writer.weights, writer.times, numbers};
  }
  auto* const rows = e.rows.as<uint64_t>();
  auto* const neighbours = e.neighbours.as<uint64_t>();
  auto* const weights = e.weights.as<float>();
  auto* const times = e.times.as<int64_t>();
  size_t to = 0;
  uint64_t dropped = 0, largest_dropped = 0;
  const auto put = [&](size_t i, uint64_t row, uint64_t neighbour) {
    rows[to] = row;
    neighbours[to] = neighbour;
    if (shape_.weights) weights[to] = writer.weights[i];
    if (shape_.times) times[to] = writer.times[i];
    if (shape_.numbers) numbers[to] = options_.own_numbers ? writer.numbers[i] : number + i;
    ++to;
  };
  for (size_t i = 0; i < n; ++i) {
    const bool loop = writer.src[i] == writer.dst[i];
    if (loop && !options_.self_loops) {
      ++dropped;
      largest_dropped = std::max(largest_dropped, writer.src[i] + 1);
      continue;
    }
    put(i, writer.src[i], writer.dst[i]);
    if (!options_.directed && !loop) put(i, writer.dst[i], writer.src[i]);
  }
  self_loops_dropped_ += dropped;
  raise_to(largest_dropped_, largest_dropped);  // a node is kept even if its only edge is dropped
  return {to, rows, neighbours, weights, times, numbers};
}

void GraphBuilder::take(ChunkWriter& writer) {
  Piece piece = expand(writer);
  const uint64_t order = (writer.chunk << kLocalBits) + writer.flushes++;
  if (!rows_are_sources(0)) std::swap(piece.rows, piece.neighbours);
  stores_[0]->add(piece, order, writer.scratch);
  if (stores_.size() == 1) return;
  std::swap(piece.rows, piece.neighbours);
  stores_[1]->add(piece, order, writer.scratch);
}

void GraphBuilder::add(const EdgeBlock& block, uint64_t units) {
  if ((block.weights != nullptr) != shape_.weights || (block.times != nullptr) != shape_.times) {
    fail<InputError>("a block of edges has ", block.weights != nullptr ? "" : "no ", "weights and ",
                     block.times != nullptr ? "" : "no ", "times, expected ", shape_.weights ? "" : "no ",
                     "weights and ", shape_.times ? "" : "no ", "times");
  }
  if ((block.edge_ids != nullptr) != options_.own_numbers) {
    fail<InputError>("a block of edges has ", block.edge_ids != nullptr ? "" : "no ", "edge ids, unlike the first");
  }
  const auto copy = [&](ChunkWriter& writer, size_t from, size_t count) {
    const size_t at = writer.count;
    copy_ids(block.src, from, count, options_.id_base, writer.src + at);
    copy_ids(block.dst, from, count, options_.id_base, writer.dst + at);
    if (shape_.weights) std::copy_n(block.weights + from, count, writer.weights + at);
    if (shape_.times) std::copy_n(block.times + from, count, writer.times + at);
    for (size_t i = 0; options_.own_numbers && i < count; ++i) {
      writer.numbers[at + i] = static_cast<uint64_t>(block.edge_ids[from + i]);
    }
    writer.count += count;
  };
  prepare(*pending_);
  if (pending_->count + block.count <= pending_->capacity) {
    copy(*pending_, 0, block.count);
    pending_units_ += units;
    if (pending_->full()) flush_pending();
    return;
  }
  flush_pending();
  const uint64_t first_edge = edges_seen_;
  const size_t chunks = (block.count + piece_edges_ - 1) / piece_edges_;
  const uint64_t units_after = units_done_ + units;
  ingest({chunks, piece_edges_, units / chunks}, [&](size_t chunk, ChunkWriter& writer) {
    const size_t from = chunk * piece_edges_;
    copy(writer, from, std::min(piece_edges_, block.count - from));
    check(writer, first_edge + from);
    return true;
  });
  units_done_ = units_after;
}

void GraphBuilder::flush_pending() {
  if (pending_->count == 0) return;
  const uint64_t units = std::exchange(pending_units_, 0);
  check(*pending_, edges_seen_);
  ingest({1, piece_edges_, units}, [&](size_t, ChunkWriter& writer) {
    writer.count = std::exchange(pending_->count, 0);
    std::copy_n(pending_->src, writer.count, writer.src);
    std::copy_n(pending_->dst, writer.count, writer.dst);
    std::copy_n(pending_->weights, writer.count, writer.weights);
    std::copy_n(pending_->times, writer.count, writer.times);
    if (options_.own_numbers) std::copy_n(pending_->numbers, writer.count, writer.numbers);
    return true;
  });
}

void copy_ids(const IdColumn& column, size_t from, size_t count, uint64_t base, uint64_t* out) {
  switch (column.type) {
    case IdColumn::Type::kInt64:
      return copy_ids<int64_t>(column, from, count, base, out);
    case IdColumn::Type::kUInt64:
      return copy_ids<uint64_t>(column, from, count, base, out);
    case IdColumn::Type::kInt32:
      return copy_ids<int32_t>(column, from, count, base, out);
    case IdColumn::Type::kUInt32:
      return copy_ids<uint32_t>(column, from, count, base, out);
  }
}

// Ids and weights of a block of arrays; text is checked by its parser, which knows the line.
void GraphBuilder::check(const ChunkWriter& writer, uint64_t first_edge) {
  first_edge += options_.first_edge;
  const IdLimits limits = id_limits();
  for (size_t i = 0; i < writer.count; ++i) {
    if (writer.src[i] < limits.src && writer.dst[i] < limits.dst) continue;
    const bool src = writer.src[i] >= limits.src;
    const uint64_t limit = src ? limits.src : limits.dst;
    const auto found = static_cast<int64_t>((src ? writer.src[i] : writer.dst[i]) + options_.id_base);
    if (limit == 0) {
      fail<InputError>("edge ", first_edge + i, ": found ", src ? "src " : "dst ", found, ", expected no edges since ",
                       options_.count_name(src), " = 0");
    }
    const uint64_t last = limit + options_.id_base - 1;
    const std::string range = text("from ", options_.id_base, " to ", last);
    fail<InputError>("edge ", first_edge + i, ": found ", src ? "src " : "dst ", found, ", expected a node id ",
                     options_.declared(src) ? text(range, " (", options_.count_name(src), " = ", limit, ")")
                     : found < static_cast<int64_t>(options_.id_base) ? text("of at least ", options_.id_base)
                                                                      : range + "; ids='map' accepts any integer");
  }
  for (size_t i = 0; shape_.weights && i < writer.count; ++i) {
    if (writer.weights[i] >= 0 && std::isfinite(writer.weights[i])) continue;
    fail<InputError>("edge ", first_edge + i, ": found weight ", writer.weights[i],
                     ", expected a finite number, 0 or more");
  }
  for (size_t i = 0; shape_.times && i < writer.count; ++i) {
    if (writer.times[i] == INT64_MAX) fail<InputError>("edge ", first_edge + i, ": time is 2^63 - 1, expected less");
  }
  uint64_t largest = 0;
  for (size_t i = 0; options_.own_numbers && i < writer.count; ++i) {
    largest = std::max(largest, writer.numbers[i]);
    if (writer.numbers[i] < kMostEdgeIds) continue;
    fail<InputError>("edge ", first_edge + i, ": found edge id ", static_cast<int64_t>(writer.numbers[i]),
                     ", expected 0 to 2^62 - 1");
  }
  raise_to(largest_edge_id_, largest);
}

}  // namespace gz
