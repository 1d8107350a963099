// graph_layout: the header and the arrays of a .gl file, from what was compiled into it (FORMAT 5).
//
// Computed here whether one process or many write the rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "compile/build/csr_writer.h"
#include "format/container.h"

namespace gz {

// What decides a file's layout. `stored` is the number of records that were sorted, duplicates included: positions are
// as wide as it needs, however many of them stay.
struct GraphShape {
  uint64_t nodes = 0, targets = 0;  // equal, unless the graph is two-sided
  bool two_sided = false;
  uint64_t stored = 0, edges = 0;  // edges: what the file has in each direction
  bool directed = true;
  Direction direction = Direction::kOut;
  bool weights = false, times = false, edge_ids = false, dedup = false, self_loops = true;
  bool wide_edge_ids = false, own_numbers = false;
  uint32_t promises = 0;
};

struct GraphLayout {
  Container container;
  CsrLayout csr;
  std::vector<std::string> sides;  // "out.", "in." or both, in the order of the file
};

inline GraphLayout lay_out_graph(const GraphShape& shape) {
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
