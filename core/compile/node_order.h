// node_order: orders of a graph's nodes that put rows which are used together side by side.
//
// An order is a permutation as uint32: order[new id] = old id. Each function holds a few arrays of 4 bytes a node and
// reads the topology in passes, front to back unless it says otherwise; none depends on the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/memory.h"
#include "base/progress.h"
#include "storage/topology.h"

namespace gz {

// Ids have 32 bits here. Throws ArgumentError for a graph with more nodes.
void check_orderable(const Topology& topology);

// How often each node is a neighbour in the rows of `side`: how often sampling those rows meets it. uint32, num_nodes.
Buffer count_neighbours(const Topology& topology, Direction side, Progress* progress);

// The nodes by descending count; those of one count by ascending id, so that what order there was is kept.
Buffer order_by_count(std::span<const uint32_t> counts);

// Breadth first along the rows of `side`, from the first node of `roots` that was not reached yet, and so on. Rows are
// read in the order of the queue, asked for ahead where they are not in RAM.
Buffer order_breadth_first(const Topology& topology, Direction side, std::span<const uint32_t> roots,
                           Progress* progress);

struct CommunityOptions {
  int most_passes = 8;
  uint64_t most_nodes = 0;  // of one community; 0: chosen from the number of nodes
};

// Label propagation with bounded communities: a community for each node, named after one of its first members. uint32.
Buffer find_communities(const Topology& topology, Direction side, const CommunityOptions& options, Progress* progress);

// Community by community, in the order in which `order` meets them; within each as `order` has it.
Buffer order_by_community(std::span<const uint32_t> communities, std::span<const uint32_t> order);

enum class NodeOrder { kDegree, kBreadthFirst, kCommunity };

// One of the above from the topology alone, hot nodes first where there is a choice.
Buffer order_nodes(const Topology& topology, NodeOrder by, Direction side, Progress* progress);

}  // namespace gz
