// subgraphs: comparing homogeneous samples.
#pragma once

#include <vector>

#include "sample/subgraph/neighbours.h"

namespace gz::test {

inline std::vector<int64_t> values(const Int64Array& array) { return {array.span().begin(), array.span().end()}; }

inline bool same(const HeteroSubgraph& a, const HeteroSubgraph& b) {
  const SampledNodes &m = a.nodes[0], &n = b.nodes[0];
  const SampledEdges &e = a.edges[0], &f = b.edges[0];
  return values(m.node) == values(n.node) && values(m.batch) == values(n.batch) &&
         values(e.edge_index) == values(f.edge_index) && values(e.edge) == values(f.edge) &&
         m.num_sampled_nodes == n.num_sampled_nodes && m.num_padding_nodes == n.num_padding_nodes &&
         e.num_sampled_edges == f.num_sampled_edges;
}

}  // namespace gz::test
