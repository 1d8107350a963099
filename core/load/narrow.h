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

// The edge_index and edges of each edge type, then the nodes of each type, one after the other. Edges that were sampled
// as int32 are not copied, if there is one type and the nodes fit behind them.
NarrowIds narrow_ids(const HeteroSubgraph& graph);

// Frees the edges of a subgraph, which its narrow ids replace; their number stays.
void release_edges(HeteroSubgraph& graph);

}  // namespace gz
