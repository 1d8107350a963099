// link_source: seeds that are edges: an array of pairs, or some or all edges of a file, which are looked up batch by
// batch and never copied.
#pragma once

#include <memory>
#include <optional>

#include "load/seeds.h"
#include "sample/link/link.h"

namespace gz {

struct LinkSourceOptions {
  size_t edge_type = 0;
  std::optional<std::pair<Numbers, Numbers>> ends;  // sources and targets; none: edges of the file, by their
  std::optional<Numbers> positions;                 // positions in the rows that are sampled; none: all edges
  Numbers times;                                    // one per edge, or per edge id if all edges are seeds; may be empty
  bool own_times = false;                           // use the times of the file, if seeds are its edges
  LinkOptions link;
  bool disjoint = false;                   // as in the sample; implied by times
  Direction direction = Direction::kNone;  // of a homogeneous graph: the rows that are sampled
};

// Arrays of its batches: edge_label_index, or src_index, dst_pos_index and dst_neg_index; `time` of those; if the
// sample is disjoint, `tree_edge`, the positive edge of each tree; and if seeds are edges of the file, `edge`, their
// edge ids.
std::shared_ptr<const SeedSource> link_source(LoadGraph graph, LinkSourceOptions options);

}  // namespace gz
