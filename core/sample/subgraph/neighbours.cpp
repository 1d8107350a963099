// neighbours: the checks, and the dispatch on id width.
#include "sample/subgraph/neighbours.h"

#include <algorithm>

#include "base/ids.h"
#include "base/threads.h"
#include "sample/rows/draw.h"
#include "sample/subgraph/expansion.h"
#include "sample/subgraph/growing.h"

namespace gz {
namespace {

constexpr int64_t kMostFanout = int64_t{1} << 31;

void check_combination(const SampleOptions& options, bool with_times) {
  if (options.fanouts.empty()) fail<ArgumentError>("fanouts is empty, expected one number per hop, as in [15, 10, 5]");
  for (size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    if (options.fanouts[hop] < -1 || options.fanouts[hop] >= kMostFanout) {
      fail<ArgumentError>("fanouts[", hop, "] is ", options.fanouts[hop], ", expected 0 to ", kMostFanout - 1,
                          ", or -1 for all");
    }
  }
  if (options.dependent.batches > 1 && options.choice != Choice::kLabor) {
    fail<ArgumentError>("batch_dependency is ", options.dependent.batches, ", which needs method 'labor'");
  }
  if (options.pad_nodes && (options.disjoint || with_times)) {
    fail<ArgumentError>("pad_nodes adds nodes that belong to no seed, so it cannot be combined with ",
                        with_times ? "times" : "disjoint=True");
  }
  if (options.choice == Choice::kLabor) {
    const char* other = options.replace    ? "replace=True"
                        : options.weighted ? "weighted=True"
                        : with_times       ? "time="
                        : options.disjoint ? "disjoint=True"
                                           : nullptr;
    if (other != nullptr) {
      fail<ArgumentError>("method 'labor' takes neighbours that nodes share, uniformly and without replacement: ",
                          "it cannot be combined with ", other);
    }
  }
}

template <bool kNarrow, class Edges>
HeteroSubgraph expand(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                      std::span<const TypedSeeds> seeds, std::span<const int64_t> times, const SampleOptions& options) {
  Expansion<kNarrow, Edges> expansion(node_types, seeds, times, options);
  for (size_t e = 0; e < edge_types.size(); ++e) {
    const EdgeType& edge = edge_types[e];
    SampleOptions own = options;
    own.fanouts = edge.fanouts;
    own.edge_type = e;
    own.source_type = edge.source;
    own.exclude = edge.exclude != nullptr && !edge.exclude->empty() ? edge.exclude : nullptr;
    if (!times.empty()) own.node_times = node_types[edge.source].times;
    edge.topology->visit(edge.direction, [&](const auto& csr) { expansion.add(csr, edge, own); });
  }
  return expansion.run(options.fanouts.size());
}

// Whether nodes and positions of edges fit into an int32. Ids of edges that the user gave may be larger still.
bool fit_int32(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types) {
  constexpr uint64_t kMost = uint64_t{1} << 31;
  return std::ranges::all_of(node_types, [](const NodeType& type) { return type.num_nodes <= kMost; }) &&
         std::ranges::all_of(edge_types, [](const EdgeType& edge) {
           return edge.topology->visit(edge.direction, [](const auto& csr) { return csr.limit <= kMost; });
         });
}

}  // namespace

ExpectedReads expected_reads(const std::vector<int64_t>& fanouts, size_t seeds, uint64_t num_nodes,
                             uint64_t num_edges) {
  const double degree = static_cast<double>(num_edges) / static_cast<double>(std::max<uint64_t>(num_nodes, 1));
  ExpectedReads expected;
  double frontier = static_cast<double>(seeds);
  for (const int64_t fanout : fanouts) {
    expected.rows += frontier;
    frontier *= fanout < 0 ? degree : std::min(degree, static_cast<double>(fanout));
    expected.edges += frontier;
  }
  return expected;
}

void check_row_options(const Topology& topology, const SampleOptions& options, bool by_edge_time, bool with_times) {
  check_combination(options, with_times);
  resolve_threads(options.threads);
  topology.visit(options.direction, [&](const auto& csr) {
    if (by_edge_time && !csr.has_times()) {
      fail<ArgumentError>(csr.file->path(), ": edges have no times; compile the graph with times to sample by them");
    }
    if (csr.num_edges == 0) return;
    if (options.weighted) need_weights(csr);
    if (options.weighted && with_times && csr.weights == nullptr) {
      fail<ArgumentError>(csr.file->path(), ": edges have sums but no weights, sampling by weight and time needs them");
    }
  });
}

void check_options(const Topology& topology, const SampleOptions& options, bool with_times) {
  topology.need_square("sampling around nodes of one kind needs");
  check_row_options(topology, options, with_times, with_times);
}

HeteroSubgraph sample_neighbours(const Topology& topology, std::span<const int64_t> seeds,
                                 std::span<const int64_t> times, const SampleOptions& asked) {
  SampleOptions options = asked;
  check_options(topology, options, !times.empty());
  if (!times.empty() && times.size() != seeds.size()) {
    fail<ArgumentError>("time has ", times.size(), " values for ", seeds.size(), " seeds, expected one per seed");
  }
  if (seeds.size() >= kMostLabels) fail<ArgumentError>(seeds.size(), " seeds, expected below ", kMostLabels);
  check_ids(seeds, "seeds", {topology.num_nodes(), "nodes", topology.file().path()});
  options.disjoint = options.disjoint || !times.empty();
  options.threads = resolve_threads(options.threads);
  const NodeType node_type{.name = "", .num_nodes = topology.num_nodes(), .times = {}};
  const EdgeType edge_type{&topology, topology.resolve(options.direction), 0, 0, options.fanouts, options.exclude};
  const TypedSeeds typed{0, seeds, times};
  HeteroSubgraph subgraph = expand_typed({&node_type, 1}, {&edge_type, 1}, {&typed, 1}, times, options);
  topology.file().check();
  return subgraph;
}

void check_hetero(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types, bool timed,
                  const SampleOptions& options) {
  bool any_times = false;
  for (const NodeType& type : node_types) {
    any_times = any_times || !type.times.empty();
    if (!type.times.empty() && type.times.size() != type.num_nodes) {
      fail<ArgumentError>("node_time of '", type.name, "' has ", type.times.size(),
                          " values, expected one for each of ", type.num_nodes, " nodes");
    }
  }
  for (const EdgeType& edge : edge_types) {
    const Direction direction = edge.topology->resolve(edge.direction);
    SampleOptions own = options;
    own.fanouts = edge.fanouts;
    own.direction = direction;
    const bool has_times = edge.topology->visit(direction, [&](const auto& csr) { return csr.has_times(); });
    any_times = any_times || has_times;
    check_row_options(*edge.topology, own, timed && has_times, timed);
  }
  if (timed && !any_times) {
    fail<ArgumentError>("time is given, but no edge type has times and there is no node_time to compare it with");
  }
}

HeteroSubgraph expand_typed(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                            std::span<const TypedSeeds> seeds, std::span<const int64_t> times,
                            const SampleOptions& options) {
  const bool narrow = !options.disjoint && std::all_of(node_types.begin(), node_types.end(), [](const NodeType& type) {
    return type.num_nodes <= uint64_t{1} << 32;
  });
  if (narrow && options.narrow_edges && fit_int32(node_types, edge_types)) {
    auto made = expand<true, NarrowEdges>(node_types, edge_types, seeds, times, options);
    if (std::ranges::all_of(made.edges, [](const SampledEdges& type) { return type.narrow != nullptr; })) return made;
  }
  return narrow ? expand<true, GrowingEdges>(node_types, edge_types, seeds, times, options)
                : expand<false, GrowingEdges>(node_types, edge_types, seeds, times, options);
}

HeteroSubgraph sample_hetero(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                             std::span<const TypedSeeds> seeds, bool timed, const SampleOptions& asked) {
  SampleOptions options = asked;
  options.disjoint = options.disjoint || timed;
  options.threads = resolve_threads(options.threads);
  check_hetero(node_types, edge_types, timed, options);
  std::vector<int64_t> times;
  size_t count = 0;
  for (const TypedSeeds& part : seeds) {
    const NodeType& type = node_types[part.type];
    if (timed && part.times.size() != part.nodes.size()) {
      fail<ArgumentError>("time of '", type.name, "' has ", part.times.size(), " values for ", part.nodes.size(),
                          " seeds, expected one per seed");
    }
    check_ids(part.nodes, "seeds", {type.num_nodes, "nodes", "node type '" + type.name + "'"});
    count += part.nodes.size();
    if (timed) times.insert(times.end(), part.times.begin(), part.times.end());
  }
  if (count >= kMostLabels) fail<ArgumentError>(count, " seeds, expected below ", kMostLabels);
  HeteroSubgraph subgraph = expand_typed(node_types, edge_types, seeds, times, options);
  for (const EdgeType& edge : edge_types) edge.topology->file().check();
  return subgraph;
}

}  // namespace gz
