// narrow: int64 -> int32, with a check for ids that do not fit.
#include "load/narrow.h"

#include <algorithm>
#include <span>

namespace gz {
namespace {

// Returns the bits that do not fit, of all values together.
uint64_t narrow(std::span<const int64_t> from, int32_t* to) {
  uint64_t bits = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    bits |= static_cast<uint64_t>(from[i]);
    to[i] = static_cast<int32_t>(from[i]);
  }
  return bits >> 31;
}

template <class Call>
void for_each_ids(const HeteroSubgraph& graph, const Call& call) {
  for (const SampledNodes& type : graph.nodes) call(type.node.span());
  for (const SampledEdges& type : graph.edges) {
    call(type.edge.span());
    call(std::span<const int64_t>(type.edge_index.data(), 2 * type.edge.size));
  }
}

}  // namespace

NarrowIds narrow_ids(const HeteroSubgraph& graph) {
  NarrowIds made;
  for_each_ids(graph, [&](std::span<const int64_t> ids) { made.count += ids.size(); });
  made.buffer = take_buffer(std::max<size_t>(made.count * sizeof(int32_t), 1));
  int32_t* to = made.buffer->as<int32_t>();
  uint64_t excess = 0;
  for_each_ids(graph, [&](std::span<const int64_t> ids) {
    excess |= narrow(ids, to);
    to += ids.size();
  });
  if (excess != 0) made.buffer = nullptr;
  return made;
}

void release_edges(HeteroSubgraph& graph) {
  for (SampledEdges& type : graph.edges) type.edge.buffer = type.edge_index.buffer = nullptr;
}

}  // namespace gz
