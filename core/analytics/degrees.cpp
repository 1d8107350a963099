// degrees: from row pointers, or by counting neighbours.
#include "analytics/node_arrays.h"
#include "base/error.h"

namespace gz {

void check_countable(const Topology& topology) {
  const uint64_t nodes = topology.num_sources() + (topology.square() ? 0 : topology.num_targets());
  if (nodes < uint64_t{1} << 31) return;
  fail<ArgumentError>(topology.file().path(), ": has ", nodes, " nodes, expected fewer than 2^31");
}

Direction rows_along(const Topology& topology, Direction way) {
  const Direction has = topology.direction();
  if (has == Direction::kBoth || has == way) return way;
  return is_undirected(topology) ? has : Direction::kNone;
}

Buffer degrees(const Topology& topology, Direction way, const AnalyticsOptions& options) {
  const uint64_t nodes = way == Direction::kOut ? topology.num_sources() : topology.num_targets();
  const Direction rows = rows_along(topology, way);
  if (rows != Direction::kNone) {
    NodeArray<int64_t> counts(nodes);
    topology.visit(rows, [&](const auto& csr) {
      for_nodes(nodes, options.threads,
                [&](uint64_t node) { counts[node] = static_cast<int64_t>(csr.row(node).degree()); });
    });
    topology.file().check();
    return counts.take();
  }
  return with_stream(topology, opposite(way), options, nodes * sizeof(int64_t), "counting degrees", [&](auto& stream) {
    NodeArray<int64_t> counts = filled<int64_t>(nodes, options.threads, 0);
    stream.pass("counting degrees", [&](const auto& block, int) { count_neighbours_of(block, counts); });
    return counts.take();
  });
}

}  // namespace gz
