// relabel: a topology under new node ids: each edge between the same nodes, with its weight, time and edge id.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/progress.h"
#include "compile/build/graph_builder.h"
#include "storage/topology.h"

namespace gz {

struct RelabelOptions {
  bool number_edges = false;  // add edge ids to a file without them: the positions of its edges
  uint64_t memory = uint64_t{1} << 30;
  int threads = 1;
  std::string spill_folder;
};

// Writes `topology` to `path` with node i renamed to to_new[i], a permutation of all ids. Rows ascend by neighbour id
// as in any compiled file; equal edges keep their order. Id is int32_t or int64_t.
template <class Id>
GraphReport relabel(const Topology& topology, std::span<const Id> to_new, const std::string& path,
                    const RelabelOptions& options, Progress* progress);

}  // namespace gz
