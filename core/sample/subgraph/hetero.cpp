// hetero: the checks, and the dispatch on id width.
#include "sample/subgraph/hetero.h"

#include <algorithm>

#include "base/ids.h"
#include "base/threads.h"
#include "sample/rows/draw.h"
#include "sample/subgraph/expansion.h"

namespace gz {
namespace {

template <bool kNarrow>
HeteroSubgraph expand(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                      std::span<const TypedSeeds> seeds, std::span<const int64_t> times, const SampleOptions& options) {
  Expansion<kNarrow> expansion(node_types, seeds, times, options);
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

}  // namespace

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
  return narrow ? expand<true>(node_types, edge_types, seeds, times, options)
                : expand<false>(node_types, edge_types, seeds, times, options);
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
