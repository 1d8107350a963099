// graph: its types, and the expected number of reads.
#include "sample/subgraph/graph.h"

#include <algorithm>

#include "base/error.h"

namespace gz {

SampleGraph::SampleGraph(std::shared_ptr<const Topology> topology) : typed_(false) {
  node_types_.push_back({.name = "", .num_nodes = topology->num_nodes(), .times = {}});
  edge_types_.emplace_back().topology = topology.get();
  topologies_.push_back(std::move(topology));
}

void SampleGraph::add_node_type(std::string name, uint64_t num_nodes, std::span<const int64_t> times,
                                std::shared_ptr<void> owner) {
  node_types_.push_back({std::move(name), num_nodes, times});
  owners_.push_back(std::move(owner));
}

void SampleGraph::add_edge_type(const std::string& name, std::shared_ptr<const Topology> topology, Direction direction,
                                size_t source, size_t target, std::vector<int64_t> fanouts) {
  if (source >= node_types_.size() || target >= node_types_.size()) {
    fail<ArgumentError>("edge type ", name, " connects node types ", source, " and ", target, ", but there are only ",
                        node_types_.size());
  }
  const bool out = topology->resolve(direction) == Direction::kOut;
  const uint64_t rows = topology->num_rows(direction), others = out ? topology->num_targets() : topology->num_sources();
  if (rows != node_types_[target].num_nodes || others != node_types_[source].num_nodes) {
    fail<ArgumentError>("edge type ", name, ": ", topology->file().path(), " has ", rows, " rows and neighbours below ",
                        others, ", but the node types have ", node_types_[target].num_nodes, " and ",
                        node_types_[source].num_nodes, " nodes");
  }
  edge_types_.push_back({topology.get(), direction, source, target, std::move(fanouts)});
  topologies_.push_back(std::move(topology));
}

std::string SampleGraph::where(size_t node_type) const {
  return typed_ ? "node type '" + node_types_[node_type].name + "'" : topologies_[0]->file().path();
}

std::vector<size_t> SampleGraph::files() const {
  std::vector<size_t> first;
  for (size_t e = 0; e < edge_types_.size(); ++e) {
    const auto same = [&](size_t other) { return topology(other).file().path() == topology(e).file().path(); };
    if (std::none_of(first.begin(), first.end(), same)) first.push_back(e);
  }
  return first;
}

uint64_t SampleGraph::file_bytes() const {
  uint64_t bytes = 0;
  for (const size_t e : files()) bytes += topology(e).file().container().file_bytes;
  return bytes;
}

Direction direction_of(const SampleGraph& graph, size_t edge_type, const SampleOptions& options) {
  return graph.typed() ? graph.edge_types()[edge_type].direction : options.direction;
}

const std::vector<int64_t>& fanouts_of(const SampleGraph& graph, size_t edge_type, const SampleOptions& options) {
  return graph.typed() ? graph.edge_types()[edge_type].fanouts : options.fanouts;
}

std::vector<ExpectedReads> expected_reads(const SampleGraph& graph, const SampleOptions& options,
                                          const std::vector<size_t>& seed_types, uint64_t seeds) {
  std::vector<ExpectedReads> expected(graph.edge_types().size());
  std::vector<double> frontier(graph.node_types().size());
  for (const size_t type : seed_types) frontier[type] = static_cast<double>(seeds);
  for (size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    std::vector<double> next(frontier.size());
    for (size_t e = 0; e < expected.size(); ++e) {
      const EdgeType& type = graph.edge_types()[e];
      const ExpectedReads one =
          expected_reads({fanouts_of(graph, e, options)[hop]}, 1, graph.node_types()[type.target].num_nodes,
                         graph.topology(e).num_edges());
      expected[e].rows += frontier[type.target] * one.rows;
      expected[e].edges += frontier[type.target] * one.edges;
      next[type.source] += frontier[type.target] * one.edges;
    }
    frontier = std::move(next);
  }
  return expected;
}

uint64_t subgraph_bytes(const HeteroSubgraph& graph) {
  uint64_t values = 0;
  for_each_array(graph, [&](const Int64Array& array) { values += array.size; });
  return values * sizeof(int64_t);
}

uint64_t num_nodes(const HeteroSubgraph& graph) {
  uint64_t count = 0;
  for (const SampledNodes& part : graph.nodes) count += part.node.size;
  return count;
}

uint64_t num_edges(const HeteroSubgraph& graph) {
  uint64_t count = 0;
  for (const SampledEdges& part : graph.edges) count += part.edge.size;
  return count;
}

}  // namespace gz
