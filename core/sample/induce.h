// induce: all edges between given nodes, as the edges of a subgraph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/hetero.h"

namespace gz {

// Where a node stands in a list; where it stands first, if it does twice. One thread fills it, any may ask.
class NodePlaces {
 public:
  explicit NodePlaces(std::span<const int64_t> nodes);
  int64_t operator[](uint64_t node) const {  // -1: nowhere
    for (size_t at = home(node);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == kEmpty) return -1;
      if (static_cast<uint64_t>(nodes_[slots_[at]]) == node) return slots_[at];
    }
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;
  size_t home(uint64_t node) const;

  std::span<const int64_t> nodes_;
  std::vector<uint32_t> slots_;
};

// One entry for each edge type: edges from nodes of the source type's list to those of the target type's, by target in
// the order of the list, then in the order of its row. Excluded edges are left out; edges are not told apart by hop.
std::vector<SampledEdges> induced_edges(std::span<const EdgeType> edge_types,
                                        std::span<const std::span<const int64_t>> nodes, int threads);

}  // namespace gz
