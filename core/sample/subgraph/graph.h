// graph: what a loader samples from, with the files it keeps open: node types and the edge types between them. A
// homogeneous graph has one of each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sample/subgraph/neighbours.h"
#include "storage/topology.h"

namespace gz {

// Immutable once it is part of a plan.
class SampleGraph {
 public:
  SampleGraph() = default;
  // One node type and one edge type, sampled as sample_neighbours() does, by the direction and the fanouts of the
  // options of the call. Only such a graph is sampled many batches at once where its topology is not in RAM (merged.h);
  // a typed graph is sampled batch by batch.
  SampleGraph(std::shared_ptr<const Topology> topology);  // NOLINT: a topology is such a graph

  // Types are identified by index, in the order they were added. `times`: as in NodeType, kept alive by `owner`.
  void add_node_type(std::string name, uint64_t num_nodes, std::span<const int64_t> times, std::shared_ptr<void> owner);
  // Throws ArgumentError if a node type does not exist, or its number of nodes differs from the topology's.
  void add_edge_type(const std::string& name, std::shared_ptr<const Topology> topology, Direction direction,
                     size_t source, size_t target, std::vector<int64_t> fanouts);

  bool typed() const { return typed_; }
  const std::vector<NodeType>& node_types() const { return node_types_; }
  const std::vector<EdgeType>& edge_types() const { return edge_types_; }
  const Topology& topology(size_t edge_type) const { return *edge_types_[edge_type].topology; }
  // What defines the nodes of a type, for messages: the file, or the type's name.
  std::string where(size_t node_type) const;

  // The edge types with distinct files: each file once.
  std::vector<size_t> files() const;
  uint64_t file_bytes() const;

 private:
  bool typed_ = true;
  std::vector<NodeType> node_types_;
  std::vector<EdgeType> edge_types_;
  std::vector<std::shared_ptr<const Topology>> topologies_;  // referenced by edge_types_
  std::vector<std::shared_ptr<void>> owners_;                // of times
};

// The direction and fanouts by which an edge type is sampled; `options` has those of a homogeneous graph.
Direction direction_of(const SampleGraph& graph, size_t edge_type, const SampleOptions& options);
const std::vector<int64_t>& fanouts_of(const SampleGraph& graph, size_t edge_type, const SampleOptions& options);

// Estimates what a sample with so many seeds of each of these node types reads of each edge type, for rows of equal
// length.
std::vector<ExpectedReads> expected_reads(const SampleGraph& graph, const SampleOptions& options,
                                          const std::vector<size_t>& seed_types, uint64_t seeds);

uint64_t subgraph_bytes(const HeteroSubgraph& graph);
uint64_t num_nodes(const HeteroSubgraph& graph);
uint64_t num_edges(const HeteroSubgraph& graph);

// Every array of a subgraph, in a fixed order: nodes, batch of each node type; edge_index, edge of each edge type.
template <class Subgraph, class Visit>
void for_each_array(Subgraph& graph, const Visit& visit) {
  for (auto& part : graph.nodes) {
    visit(part.node);
    visit(part.batch);
  }
  for (auto& part : graph.edges) {
    visit(part.edge_index);
    visit(part.edge);
  }
}

}  // namespace gz
