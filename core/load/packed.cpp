// packed: narrowing and widening.
#include "load/packed.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"

namespace gz {
namespace {

bool fits_narrow(std::span<const int64_t> values) {
  uint64_t bits = 0;
  for (const int64_t value : values) bits |= static_cast<uint64_t>(value);
  return bits <= UINT32_MAX;
}

std::array<Int64Array*, 4> arrays_of(SampledSubgraph& graph) {
  return {&graph.node, &graph.edge_index, &graph.edge, &graph.batch};
}

}  // namespace

PackedSubgraph::PackedSubgraph(SampledSubgraph&& graph) {
  const auto sources = arrays_of(graph);
  size_t bytes = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    Array& array = arrays_[i];
    array.present = sources[i]->buffer != nullptr;
    array.size = sources[i]->size;
    array.wide = !fits_narrow(sources[i]->span());
    array.offset = bytes;
    bytes = static_cast<size_t>(round_up(bytes + array.size * (array.wide ? 8 : 4), 8));
  }
  memory_ = take_buffer(bytes, Purpose::kTables);
  for (size_t i = 0; i < sources.size(); ++i) {
    std::byte* to = memory_->data() + arrays_[i].offset;
    if (arrays_[i].wide) {
      std::memcpy(to, sources[i]->data(), arrays_[i].size * 8);
    } else {
      std::transform(sources[i]->data(), sources[i]->data() + arrays_[i].size, reinterpret_cast<uint32_t*>(to),
                     [](int64_t value) { return static_cast<uint32_t>(value); });
    }
    *sources[i] = {};
  }
  num_sampled_nodes_ = std::move(graph.num_sampled_nodes);
  num_sampled_edges_ = std::move(graph.num_sampled_edges);
  scratch_bytes_ = graph.scratch_bytes;
}

uint64_t PackedSubgraph::unpacked_bytes() const {
  uint64_t values = 0;
  for (const Array& array : arrays_) values += array.size;
  return values * sizeof(int64_t);
}

SampledSubgraph PackedSubgraph::unpack() const {
  SampledSubgraph graph;
  const auto targets = arrays_of(graph);
  for (size_t i = 0; i < targets.size(); ++i) {
    const Array& array = arrays_[i];
    if (!array.present) continue;
    targets[i]->buffer = take_buffer(array.size * sizeof(int64_t));
    targets[i]->size = array.size;
    const std::byte* from = memory_->data() + array.offset;
    if (array.wide) {
      std::memcpy(targets[i]->data(), from, array.size * 8);
    } else {
      const auto* narrow = reinterpret_cast<const uint32_t*>(from);
      std::copy(narrow, narrow + array.size, targets[i]->data());
    }
  }
  graph.num_sampled_nodes = num_sampled_nodes_;
  graph.num_sampled_edges = num_sampled_edges_;
  graph.scratch_bytes = scratch_bytes_;
  return graph;
}

}  // namespace gz
