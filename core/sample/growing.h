// growing: a subgraph's arrays while it grows, in pooled memory.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "sample/neighbours.h"

namespace gz {

constexpr uint64_t kMostLabels = uint64_t{1} << 31;  // and the limit on edges of a subgraph

// `memory` with room for `count` values, whatever it held.
template <class T>
T* room_for(std::shared_ptr<Buffer>& memory, size_t count) {
  if (!memory || memory->size() < count * sizeof(T)) {
    memory.reset();
    memory = BufferPool::take(count * sizeof(T), Purpose::kTables);
  }
  return memory->as<T>();
}

struct GrowingSubgraph {
  GrowingSubgraph(std::span<const int64_t> seeds, bool disjoint_, int threads_)
      : disjoint(disjoint_), threads(threads_), nodes(seeds.size()) {
    reserve_nodes(nodes);
    for (size_t i = 0; i < nodes; ++i) {
      node[i] = seeds[i];
      if (disjoint) batch[i] = static_cast<int64_t>(i);
    }
  }

  const bool disjoint;
  const int threads;                                                                           // that may copy
  size_t nodes, edges = 0;                                                                     // so far
  int64_t *node = nullptr, *batch = nullptr, *edge = nullptr, *row = nullptr, *col = nullptr;  // with room for more
  SampledSubgraph result;                                                                      // owns them

  void reserve_nodes(size_t count) {
    node = grow(result.node, nodes, count);
    if (disjoint) batch = grow(result.batch, nodes, count);
  }

  // Room for `count` edges. After the last hop `edge_index` is (2, E) without a gap, so the last hop asks for its exact
  // number and the others' edges are moved while they are few.
  void reserve_edges(size_t count, bool last) {
    edge = grow(result.edge, edges, count);
    const auto& buffer = result.edge_index.buffer;
    if (buffer && buffer->size() >= 2 * count * sizeof(int64_t)) {
      lay_out_edges(last ? count : buffer->size() / (2 * sizeof(int64_t)));
      return;
    }
    auto larger = BufferPool::take(2 * count * sizeof(int64_t));
    if (edges > 0) {
      copy(row, larger->as<int64_t>(), edges);
      copy(col, larger->as<int64_t>() + count, edges);
    }
    result.edge_index.buffer = std::move(larger);
    row = result.edge_index.data();
    col = row + count;
  }

  // Throws ArgumentError where so many edges more are too many for labels of 32 bits.
  void check_hop(size_t hop, uint64_t more) const {
    if (edges + more + nodes >= kMostLabels) {
      fail<ArgumentError>("hop ", hop, " has ", more, " edges to ", nodes, " nodes so far, a subgraph holds below ",
                          kMostLabels, ": sample fewer seeds at once or smaller fanouts");
    }
  }

  // Gives back the room for nodes that did not come.
  void trim_nodes() {
    const auto trim = [&](Int64Array& array) {
      if (array.buffer->size() / sizeof(int64_t) < nodes + nodes / 4) return array.data();
      const auto larger = std::exchange(array.buffer, BufferPool::take(nodes * sizeof(int64_t)));
      copy(larger->as<int64_t>(), array.data(), nodes);
      return array.data();
    };
    node = trim(result.node);
    if (disjoint) batch = trim(result.batch);
  }

  SampledSubgraph finish() {
    lay_out_edges(edges);
    result.node.size = nodes;
    result.batch.size = disjoint ? nodes : 0;
    result.edge.size = edges;
    result.edge_index.size = 2 * edges;
    return std::move(result);
  }

 private:
  // `array` with room for `count`, its first `kept` values kept.
  int64_t* grow(Int64Array& array, size_t kept, size_t count) const {
    if (!array.buffer || array.buffer->size() < count * sizeof(int64_t)) {
      auto larger = BufferPool::take(count * sizeof(int64_t));
      if (array.buffer) copy(array.data(), larger->as<int64_t>(), kept);
      array.buffer = std::move(larger);
    }
    return array.data();
  }

  void copy(const int64_t* from, int64_t* to, size_t count) const {
    parallel_for(count, size_t{1} << 14, threads, [&](size_t begin, size_t end, int) {
      std::memcpy(to + begin, from + begin, (end - begin) * sizeof(int64_t));
    });
  }

  void lay_out_edges(size_t count) {  // col starts `count` values after row
    if (row == nullptr || col == row + count) return;
    std::memmove(row + count, col, edges * sizeof(int64_t));
    col = row + count;
  }
};

}  // namespace gz
