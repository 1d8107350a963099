// side_delta: one direction of a topology delta: which rows change, what they hold afterwards, and the table of changed
// rows, which covers those of earlier deltas too.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/append/row_pieces.h"
#include "compile/append/topology_delta.h"
#include "compile/write/container_writer.h"

namespace gz {

// Edges to add and to remove, with the ends in the order of the rows of a side.
struct SideChange {
  std::vector<AddedEdge> added;      // sorted
  std::vector<RemovedEdge> removed;  // sorted, each once
};

class SideDelta {
 public:
  virtual ~SideDelta() = default;
  virtual void declare(Container& container) const = 0;
  virtual void write(ContainerWriter& writer, const AppendOptions& options) = 0;

  RowCounts counts;              // `degree` is the sum of all new rows
  uint64_t edges = 0, rows = 0;  // of the side afterwards, and changed rows that are written
};

// `rows` and `others`: nodes of the side afterwards. `first_id`: of the added edges, where `change` has no ids of its
// own.
std::unique_ptr<SideDelta> plan_side(const Topology& topology, Direction side, uint64_t rows, SideChange edges,
                                     const TopologyChange& change, uint64_t first_id, const AppendOptions& options);

}  // namespace gz
