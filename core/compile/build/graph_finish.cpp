// graph_finish: after the last edge, the stores are drained into the file, or kept as runs for other processes.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "compile/build/graph_builder.h"
#include "compile/build/graph_layout.h"
#include "compile/write/container_writer.h"

namespace gz {
namespace {

constexpr uint64_t kMostRows = uint64_t{1} << 44;  // 128 TiB of indptr: such ids need a map

}  // namespace

DrainOptions GraphBuilder::drain_options() const {
  uint64_t resident = 0;
  bool spilled = false;
  for (const auto& store : stores_) {
    resident += store->resident_bytes();
    spilled = spilled || store->any_spilled();
  }
  const uint64_t budget = options_.memory - fixed_bytes_;
  const uint64_t left = budget - std::min(resident, budget * 3 / 4);
  DrainOptions options;
  options.threads = options_.threads;
  // Sorting needs memory for the current bucket; reading spilled buckets needs memory for two groups of them.
  options.scratch_bytes = left * (spilled ? 3 : 6) / 8 / static_cast<uint64_t>(options_.threads);
  options.load_bytes = left * (spilled ? 2 : 1) / 8;
  options.progress = progress_;
  return options;
}

void GraphBuilder::write(const std::string& path, GraphReport& report) {
  GraphShape shape;
  shape.nodes = report.nodes;
  shape.targets = report.targets;
  shape.two_sided = options_.two_sided;
  shape.stored = shape.edges = stores_[0]->count();
  shape.directed = options_.directed;
  shape.direction = options_.direction;
  shape.weights = shape_.weights;
  shape.times = shape_.times;
  shape.edge_ids = shape_.numbers;
  shape.dedup = options_.dedup;
  shape.self_loops = options_.self_loops;
  shape.own_numbers = options_.own_numbers;
  shape.wide_edge_ids = options_.own_numbers ? options_.wide_numbers || largest_edge_id_ >> 32 > 0
                                             : report.source_edges > (uint64_t{1} << 32);
  shape.promises = options_.promises;
  GraphLayout file = lay_out_graph(shape);
  const CsrLayout& layout = file.csr;
  const std::vector<std::string>& sides = file.sides;

  ContainerWriter writer(path, std::move(file.container), staging_bytes_);
  const DrainOptions options = drain_options();
  for (size_t i = 0; i < sides.size(); ++i) {
    const bool out = sides[i] == "out.";
    KeyRange all;
    all.row_end = out ? report.nodes : report.targets;
    all.neighbour_end = out ? report.targets : report.nodes;
    const RunStore& store = *stores_[std::min(i, stores_.size() - 1)];
    CsrWriter csr(writer, sides[i], layout, chunk_edges_, options_.spill_folder, options);
    drain(store, all, csr, options);
    report.edges = csr.edges();
    report.duplicates_dropped = csr.duplicates();
    if (csr.edges() == writer.container().num_edges) continue;
    std::vector<ContainerWriter::Rows> shorter;  // duplicates were dropped: the other direction loses as many
    for (size_t a = 0; a < writer.container().arrays.size(); ++a) {
      const ArrayInfo& array = writer.container().arrays[a];
      if (!array.name.ends_with("indptr")) shorter.push_back({a, csr.edges()});
    }
    writer.shrink(shorter, report.nodes, csr.edges());
  }
  const auto start = Clock::now();
  report.bytes = writer.finish(options_.threads, progress_);
  report.publishing_seconds = seconds_since(start);
}

// Ends the input: the number of edges, and the number of nodes by the ids.
GraphReport GraphBuilder::seal(bool keep) {
  GraphReport report;
  uint64_t sources = 0, targets = 0;  // by the ids
  for (size_t i = 0; i < stores_.size(); ++i) {
    RunStore& store = *stores_[i];
    store.seal(keep);
    report.spilled_bytes += store.spilled_bytes();
    if (store.count() == 0) continue;
    sources = (rows_are_sources(i) ? store.largest_row() : store.largest_neighbour()) + 1;
    targets = (rows_are_sources(i) ? store.largest_neighbour() : store.largest_row()) + 1;
  }
  if (!options_.two_sided) sources = targets = std::max({sources, targets, largest_dropped_.load()});
  writers_.clear();
  pending_.reset();
  report.nodes = options_.declared(true).value_or(sources);
  report.targets = options_.declared(false).value_or(targets);
  report.source_edges = edges_seen_;
  if (const uint64_t most = std::max(report.nodes, report.targets); most > kMostRows) {
    fail<InputError>("the largest id is ", most - 1,
                     ", which is too large since a file has one row per id; use ids='map'");
  }
  report.self_loops_dropped = self_loops_dropped_;
  return report;
}

GraphReport GraphBuilder::finish(const std::string& path) {
  flush_pending();
  const auto start = Clock::now();
  GraphReport report = seal(true);
  uint64_t base = 0;
  for (uint64_t& edges : chunk_edges_) base += std::exchange(edges, base);
  write(path, report);
  report.reading_seconds = reading_seconds_;
  report.sorting_seconds = seconds_since(start) - report.publishing_seconds;
  report.peak_bytes = bytes_held_peak() - std::min(held_before_, bytes_held_peak());  // what the build added
  return report;
}

EdgeRuns GraphBuilder::finish_runs() {
  if (options_.runs_path.empty()) fail<ArgumentError>("finish_runs needs runs_path");
  flush_pending();
  EdgeRuns all;
  all.report = seal(false);
  all.report.edges = stores_[0]->count();
  for (const auto& store : stores_) {
    all.sides.push_back(
        {store->options().spill_path, store->options().bucket_bits, store->largest_neighbour(), store->runs()});
    if (store->any_spilled())
      store->runs().front().file->cached.sync();  // other processes read them, perhaps on other hosts
  }
  all.report.reading_seconds = reading_seconds_;
  all.report.peak_bytes = bytes_held_peak() - std::min(held_before_, bytes_held_peak());
  return all;
}

}  // namespace gz
