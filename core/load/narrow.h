// narrow: the ids of a batch as int32, in one buffer, for a device that widens them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/memory.h"
#include "sample/subgraph/neighbours.h"

namespace gz {

struct NarrowIds {
  std::shared_ptr<Buffer> buffer;  // null if an id does not fit
  uint64_t count = 0;
};

// The nodes of each type, then edges and edge_index of each edge type, one after the other.
NarrowIds narrow_ids(const HeteroSubgraph& graph);

// Frees the edges of a subgraph, which its narrow ids replace; their number stays.
void release_edges(HeteroSubgraph& graph);

}  // namespace gz
