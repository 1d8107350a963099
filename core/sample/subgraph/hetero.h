// hetero: neighbourhoods in a graph of several node and edge types, as one subgraph (PyG's contract). A graph of one
// type of each is sampled by the same code, with the same draws (neighbours.h).
//
// An edge type leads from nodes of one type to nodes of another; a hop expands the targets it reached and takes edges
// from their rows. What is drawn for a node depends on (seed, hop, edge type, node), and on the seed's index where
// trees are disjoint; edge types are known by their place in the list.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sample/subgraph/neighbours.h"

namespace gz {

struct NodeType {
  std::string name;
  uint64_t num_nodes = 0;
  std::span<const int64_t> times;  // one per node, or none: then nodes of this type may be sampled at any time
};

struct EdgeType {
  const Topology* topology = nullptr;
  Direction direction = Direction::kIn;  // rows by target; kOut: rows by source
  size_t source = 0, target = 0;         // node types; those in the rows, and those that have the rows
  std::vector<int64_t> fanouts;          // one per hop; -1 takes all, 0 none
  const ExcludedEdges* exclude = nullptr;
};

// `seeds` of one type, with one time each if the call has times.
struct TypedSeeds {
  size_t type = 0;
  std::span<const int64_t> nodes, times;
};

// Samples around seeds of several types. Edge types have their own fanouts; of those in `options`, only their number
// counts, which is the number of hops. `timed`: seeds have times, and edges are taken only where their time, or that of
// the node they lead to, is not later. Trees are numbered through all types of seeds. Throws ArgumentError and
// IndexError as sample_neighbours() does.
HeteroSubgraph sample_hetero(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                             std::span<const TypedSeeds> seeds, bool timed, const SampleOptions& options);

// Throws ArgumentError for types and options that do not go together: what sample_hetero() checks before the seeds.
void check_hetero(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types, bool timed,
                  const SampleOptions& options);

// The same, of arguments that are known to be good: one entry of seeds a type at most, `times` of all trees one after
// the other, or empty.
HeteroSubgraph expand_typed(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                            std::span<const TypedSeeds> seeds, std::span<const int64_t> times,
                            const SampleOptions& options);

}  // namespace gz
