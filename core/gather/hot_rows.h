// hot_rows: the rows that batches will ask for most, as far as degrees tell.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/topology.h"

namespace gz {

// At most `most` nodes by falling degree, ties by rising id, in memory that grows with `most` alone. A node is sampled
// as often as rows list it: its degree in the other direction than the one sampled, where the file has both.
std::vector<int64_t> nodes_by_degree(const Topology& topology, Direction sampled, uint64_t most, int threads);

}  // namespace gz
