// graph_builder: a stream of edges -> a .gl file, within a memory budget.
//
//   GraphBuilder builder({.weights = true, .memory = 1 << 30}, &progress);
//   builder.add(block);  ...  builder.add(block);
//   GraphReport report = builder.finish("graph.gl");
//
// The file does not depend on the budget, the thread count or how the stream is divided into blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compile/sort/drain.h"
#include "compile/sort/run_store.h"
#include "compile/text/text_chunks.h"
#include "format/container.h"

namespace gz {

struct GraphOptions {
  bool directed = true;  // false: every edge is stored in both directions, a self-loop once
  Direction direction = Direction::kOut;
  bool weights = false, times = false, edge_ids = false;
  std::optional<uint64_t> num_nodes;  // declared: ids are checked against it
  bool two_sided = false;             // sources and targets are different nodes: num_nodes is the number of sources
  std::optional<uint64_t> num_targets;
  bool dedup = false;  // keep only the first of equal edges
  bool self_loops = true;
  uint64_t id_base = 0;  // the source's id of node 0
  uint64_t memory = uint64_t{1} << 30;
  int threads = 1;
  std::string spill_folder;     // empty: next to the output
  bool force_wide_ids = false;  // for tests: always use 64-bit ids
  // For edges of a compiled file: their ids are in ChunkWriter::numbers (64 bits on disk if wide_numbers), and
  // `promises` are the properties of their file.
  bool own_numbers = false, wide_numbers = false;
  uint32_t promises = 0;
  // For one part of a source: where the part begins, for messages, and a path for the files of finish_runs().
  uint64_t first_edge = 0;
  std::string runs_path;

  std::optional<uint64_t> declared(bool src) const { return src || !two_sided ? num_nodes : num_targets; }
  const char* count_name(bool src) const { return !two_sided ? "num_nodes" : src ? "num_sources" : "num_targets"; }
};

struct GraphReport {
  uint64_t nodes = 0, edges = 0;  // stored, in each direction
  uint64_t targets = 0;           // equal to nodes, unless the graph is two-sided: then `nodes` are its sources
  uint64_t source_edges = 0;
  uint64_t bytes = 0, spilled_bytes = 0, peak_bytes = 0;
  uint64_t duplicates_dropped = 0, self_loops_dropped = 0;
  double reading_seconds = 0, sorting_seconds = 0, publishing_seconds = 0;
};

// The edges of one part of a source, divided into buckets by row, in files.
struct EdgeRuns {
  struct Side {  // out, in, or one for both when edges are undirected
    std::string path;
    uint32_t bucket_bits = 0;
    uint64_t largest_neighbour = 0;
    std::vector<Run> runs;  // in source order
  };
  GraphReport report;  // `edges`: the records of a side; `nodes` and `targets`: by this part's ids
  std::vector<Side> sides;
};

// Makes `most` at least `value`.
inline void raise_to(std::atomic<uint64_t>& most, uint64_t value) {
  uint64_t found = most.load();
  while (value > found && !most.compare_exchange_weak(found, value)) {
  }
}

// One column of a block of edges: elements `stride` apart, converted when they are read.
struct IdColumn {
  enum class Type { kInt64, kUInt64, kInt32, kUInt32 };
  const void* data = nullptr;
  ptrdiff_t stride = 1;
  Type type = Type::kInt64;
};

// `count` ids from the one at `from` on, less `base`.
void copy_ids(const IdColumn& column, size_t from, size_t count, uint64_t base, uint64_t* out);

// Upper bounds of ids after subtracting id_base.
struct IdLimits {
  uint64_t src, dst;
};

struct EdgeBlock {
  size_t count = 0;
  IdColumn src, dst;
  const float* weights = nullptr;
  const int64_t* times = nullptr;
  const int64_t* edge_ids = nullptr;
};

// Receives the edges of one chunk: fill the columns from `count` on, and flush() when full() and at the end.
class ChunkWriter {
 public:
  size_t count = 0, capacity = 0;
  uint64_t *src = nullptr, *dst = nullptr;  // after subtracting id_base
  float* weights = nullptr;
  int64_t* times = nullptr;
  uint64_t* numbers = nullptr;  // with own_numbers

  ChunkReader reader;  // for chunks that are text in a file

  bool full() const { return count == capacity; }
  void flush();

 private:
  friend class GraphBuilder;
  class GraphBuilder* builder = nullptr;
  uint64_t chunk = 0;   // number of the chunk in the whole stream
  uint64_t passed = 0;  // edges of the chunk that were flushed
  uint64_t flushes = 0;
  struct Expanded;  // space for both directions of each edge
  std::unique_ptr<Expanded> expanded;
  Buffer buffer;
  RunStore::Scratch scratch;

 public:
  ChunkWriter();
  ~ChunkWriter();
};

class GraphBuilder {
 public:
  GraphBuilder(GraphOptions options, Progress* progress);
  ~GraphBuilder();

  const GraphOptions& options() const { return options_; }
  IdLimits id_limits() const;
  size_t text_chunk_bytes() const { return text_chunk_; }
  size_t piece_edges() const { return piece_edges_; }  // capacity of a ChunkWriter
  uint64_t edges_seen() const { return edges_seen_ + pending_->count; }

  // The total amount of input, in any unit; ingest() and add() use the same unit. 0: unknown.
  void expect(uint64_t total) { expected_total_ = total; }

  // Sets the number of nodes, if that is known only after the last edge (maps of ids).
  void declare_nodes(uint64_t count) { options_.num_nodes = count; }

  // Calls fill(chunk, writer) for every chunk in [0, chunks), in parallel, spilling when memory is short. Edges are
  // numbered in the order of chunks. If fill returns false, later chunks are not processed.
  struct Chunks {
    size_t count = 0;
    size_t most_edges = 0;    // in one chunk
    uint64_t units_each = 0;  // of expect()
  };
  void ingest(const Chunks& chunks, const std::function<bool(size_t chunk, ChunkWriter& writer)>& fill);

  // Adds a block of arrays; `units` is its share of the total given to expect().
  void add(const EdgeBlock& block, uint64_t units);

  GraphReport finish(const std::string& path);

  // With runs_path: writes runs of edges instead of a .gl file, for compile/build/row_range.h.
  EdgeRuns finish_runs();

 private:
  friend class ChunkWriter;

  void prepare(ChunkWriter& writer) const;
  void take(ChunkWriter& writer);
  Piece expand(ChunkWriter& writer);
  void flush_pending();
  bool reserve(uint64_t edges);
  void release(uint64_t edges);
  uint64_t stored_most(uint64_t edges) const { return options_.directed ? edges : 2 * edges; }
  bool rows_are_sources(size_t store) const { return store == 0 && options_.direction != Direction::kIn; }
  void check(const ChunkWriter& writer, uint64_t first_edge);
  void plan();
  GraphReport seal(bool keep);
  DrainOptions drain_options() const;
  void write(const std::string& path, GraphReport& report);

  GraphOptions options_;
  Progress* progress_;
  RecordShape shape_;
  size_t piece_edges_ = 0, text_chunk_ = 0;
  size_t staging_bytes_ = 0;                           // of each array of the file, twice
  uint64_t fixed_bytes_ = 0;                           // the part of the budget not used by stores and sorting
  std::vector<std::unique_ptr<RunStore>> stores_;      // out, in, or both
  std::vector<std::unique_ptr<ChunkWriter>> writers_;  // one per worker
  std::unique_ptr<ChunkWriter> pending_;               // collects small blocks until they are large enough for a run
  uint64_t pending_units_ = 0;
  std::vector<uint64_t> chunk_edges_;  // edges of each chunk; then the first number of each
  uint64_t edges_seen_ = 0;
  std::atomic<uint64_t> self_loops_dropped_{0}, largest_dropped_{0}, largest_edge_id_{0};
  uint64_t expected_total_ = 0, units_done_ = 0;
  double reading_seconds_ = 0;
  const uint64_t held_before_ = bytes_held();  // by others when the build began
};

}  // namespace gz
