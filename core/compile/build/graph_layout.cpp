// graph_layout: widths, properties and arrays follow from the shape of the graph alone.
#include "compile/build/graph_layout.h"

#include <algorithm>

namespace gz {

GraphLayout lay_out_graph(const GraphShape& shape) {
  constexpr uint64_t kNarrow = uint64_t{1} << 32;
  GraphLayout layout;
  Container& container = layout.container;
  container.kind = Kind::kTopology;
  container.num_nodes = shape.nodes;
  if (shape.two_sided) container.num_targets = shape.targets;
  container.num_edges = shape.edges;
  container.direction = shape.direction;
  container.properties = kSortedRows | (shape.directed ? 0 : kUndirected) | (shape.dedup ? kDeduplicated : 0) |
                         (shape.self_loops ? 0 : kNoSelfLoops) | shape.promises;
  CsrLayout& csr = layout.csr;
  csr.wide_ids = std::max(shape.nodes, shape.targets) > kNarrow;
  csr.weights = shape.weights;
  csr.times = shape.times;
  csr.edge_ids = shape.edge_ids;
  csr.wide_edges = shape.stored > kNarrow;
  csr.wide_edge_ids = shape.wide_edge_ids;
  csr.own_numbers = shape.own_numbers;
  csr.dedup = shape.dedup;
  csr.undirected = !shape.directed;
  if (has_out(shape.direction)) layout.sides.emplace_back("out.");
  if (has_in(shape.direction)) layout.sides.emplace_back("in.");
  for (const std::string& side : layout.sides) declare_csr(container, side, csr);
  return layout;
}

}  // namespace gz
