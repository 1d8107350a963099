// induce: all edges between given nodes, as the edges of a subgraph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/open_table.h"
#include "sample/subgraph/neighbours.h"

namespace gz {

// The first index of a node in a list. One thread fills it, any may look up.
class NodePlaces {
 public:
  explicit NodePlaces(std::span<const int64_t> nodes) : nodes_(nodes), table_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      uint32_t& place = table_.find(nodes, nodes[i]);
      if (place == IndexTable::kNone) place = static_cast<uint32_t>(i);
    }
  }
  int64_t operator[](uint64_t node) const {  // -1: nowhere
    const uint32_t place = table_.find(nodes_, static_cast<int64_t>(node));
    return place == IndexTable::kNone ? -1 : static_cast<int64_t>(place);
  }

 private:
  std::span<const int64_t> nodes_;
  IndexTable table_;
};

// One entry for each edge type: edges from nodes of the source type's list to those of the target type's, by target in
// the order of the list, then in the order of its row. Excluded edges are left out; edges are not grouped by hop.
std::vector<SampledEdges> induced_edges(std::span<const EdgeType> edge_types,
                                        std::span<const std::span<const int64_t>> nodes, int threads);

}  // namespace gz
