// node_order: node orders that store rows which are used together next to each other.
//
// An order is a permutation as uint32: order[new id] = old id. Each function holds a few arrays of 4 bytes per
// node and reads the topology sequentially unless noted otherwise; no result depends on the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/memory.h"
#include "base/progress.h"
#include "storage/topology.h"

namespace gz {

// Ids have 32 bits here. Throws ArgumentError for a graph with more nodes.
void check_orderable(const Topology& topology);

// How often each node is a neighbour in the rows of `side`, that is, how often sampling reaches it. uint32, num_nodes.
Buffer count_neighbours(const Topology& topology, Direction side, Progress* progress);

// The nodes by descending level of their counts, a level being all counts with the same highest bit; those of one level
// in the order of `order`, or by id where that is empty. Levels, because a hot row is used whatever its exact count,
// and pages should contain rows of similar frequency that are close in the graph (benchmarks/layout).
Buffer order_by_level(std::span<const uint32_t> counts, std::span<const uint32_t> order);

// Breadth first along the rows of `side`, from the first node of `roots` that was not reached yet, and so on. Rows are
// read in the order of the queue, and prefetched if they are not in RAM.
Buffer order_breadth_first(const Topology& topology, Direction side, std::span<const uint32_t> roots,
                           Progress* progress);

struct CommunityOptions {
  int most_passes = 5;
  uint64_t most_nodes = 0;  // of one community; 0: chosen from the number of nodes
};

// Label propagation with bounded communities: a community for each node, named after one of its first members. uint32.
Buffer find_communities(const Topology& topology, Direction side, const CommunityOptions& options, Progress* progress);

// Community by community, in the order of their first node in `order`; within each in the order of `order`.
Buffer order_by_community(std::span<const uint32_t> communities, std::span<const uint32_t> order);

enum class NodeOrder {
  kHot,           // levels of the counts, breadth first within each
  kBreadthFirst,  // from the most frequent neighbour
  kCommunity,     // frequent neighbours first within each
};

// One of the above. `counts` is how often each node is used, for kHot; where it is empty, how often it is a neighbour.
Buffer order_nodes(const Topology& topology, NodeOrder by, Direction side, std::span<const uint32_t> counts,
                   Progress* progress);

}  // namespace gz
