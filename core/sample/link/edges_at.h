// edges_at: the ends of edges that are known by their places in the file, as when all edges of a graph are seeds: what
// the file holds need not be copied to be shuffled.
#pragma once

#include <cstdint>
#include <span>

#include "storage/topology.h"

namespace gz {

struct EdgesAt {
  std::span<int64_t> source, target;
  std::span<int64_t> edge;  // the user's edge ids if the file has them, else positions; empty: not wanted
  std::span<int64_t> time;  // the edges' own; or empty
};

// Finds the edges at these positions of the rows of `direction`: neighbour and time by position, the row by a binary
// search, many at a time. Throws IndexError for a position that there is not, ArgumentError for times that there are
// not.
void edges_at(const Topology& topology, Direction direction, std::span<const int64_t> positions, const EdgesAt& out);

}  // namespace gz
