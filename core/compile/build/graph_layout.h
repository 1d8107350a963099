// graph_layout: the header and the arrays of a .gl file, from what was compiled into it (FORMAT 5).
//
// Computed here whether one process or many write the rows.
#pragma once

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
GraphLayout lay_out_graph(const GraphShape& shape);

}  // namespace gz
