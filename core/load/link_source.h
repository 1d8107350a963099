// link_source: seeds that are edges: an array of them, or all edges of a type, which are found in the file batch by
// batch and never copied.
#pragma once

#include <memory>
#include <optional>

#include "load/seeds.h"
#include "sample/link.h"

namespace gz {

struct LinkSourceOptions {
  size_t edge_type = 0;
  std::optional<std::pair<Numbers, Numbers>> ends;  // sources and targets; none: all edges, by position in the rows
  Numbers times;                                    // one an edge, or empty
  bool own_times = false;                           // those that the file has, where all edges are seeds
  LinkOptions link;
  bool disjoint = false;                   // as the sample is; times imply it
  Direction direction = Direction::kNone;  // of a homogeneous graph: the rows that are sampled
};

// Arrays of its batches: edge_label_index, or src_index, dst_pos_index and dst_neg_index; `time` of those; where the
// sample is disjoint `tree_edge`, the positive edge of each tree; and `edge`, the edge ids of the batch's edges, where
// all edges are seeds.
std::shared_ptr<const SeedSource> link_source(LoadGraph graph, LinkSourceOptions options);

}  // namespace gz
