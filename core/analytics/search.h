// search: which rows of a file a search along edges uses, and how.
#pragma once

#include <vector>

#include "analytics/analytics.h"

namespace gz {

struct Ways {
  Ways(const Topology& topology, Direction way);

  // All edges are stored in each direction of the file, so one is enough for passes: from rows to their neighbours
  // (along), from neighbours to the row (against), or both.
  Direction side = Direction::kOut;
  bool along = true, against = false;

  // Rows that lead from a node to the next ones, and rows that lead back; complete if no edge is missing.
  std::vector<Direction> pushed, pulled;
  bool push_complete = true, pull_complete = true;
};

}  // namespace gz
