// hgt: the sampler of the Heterogeneous Graph Transformer: each hop takes a fixed number of nodes of every type, those
// first to which many sampled nodes lead.
//
// A node that was not sampled has a budget: for each edge from it to a sampled node, 1 / the degree of that node among
// edges of this type. A hop draws nodes of a type without replacement, by the square of their budgets. The edges of the
// subgraph are all those between its nodes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/subgraph/neighbours.h"

namespace gz {

// `counts`: by node type, how many nodes each hop takes; all of one length. Seeds that come twice are kept, and are
// expanded once. Of an edge type, fanouts and exclude are not looked at. Throws IndexError and ArgumentError.
HeteroSubgraph sample_hgt(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                          std::span<const TypedSeeds> seeds, const std::vector<std::vector<int64_t>>& counts,
                          uint64_t seed, int threads);

}  // namespace gz
