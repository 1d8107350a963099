// growing: a subgraph's arrays while it grows, in pooled memory.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "sample/subgraph/neighbours.h"

namespace gz {

constexpr uint64_t kMostLabels = uint64_t{1} << 31;  // and the limit on edges of a subgraph

// `memory` with capacity for `count` values; its contents are lost.
template <class T>
T* room_for(std::shared_ptr<Buffer>& memory, size_t count) {
  if (!memory || memory->size() < count * sizeof(T)) {
    memory.reset();
    memory = take_buffer(count * sizeof(T), Purpose::kTables);
  }
  return memory->as<T>();
}

// An array with spare capacity.
class GrowingArray {
 public:
  Int64Array array;  // owns it

  // Room for `count`, the first `kept` values kept.
  int64_t* grow(size_t kept, size_t count, int threads) {
    if (!array.buffer || array.buffer->size() < count * sizeof(int64_t)) {
      auto larger = take_buffer(count * sizeof(int64_t));
      if (array.buffer) copy(array.data(), larger->as<int64_t>(), kept, threads);
      array.buffer = std::move(larger);
    }
    return array.data();
  }

  // Frees the capacity beyond `count` if it is large.
  int64_t* trim(size_t count, int threads) {
    if (array.buffer->size() / sizeof(int64_t) < count + count / 4) return array.data();
    const auto larger = std::exchange(array.buffer, take_buffer(count * sizeof(int64_t)));
    copy(larger->as<int64_t>(), array.data(), count, threads);
    return array.data();
  }

  static void copy(const int64_t* from, int64_t* to, size_t count, int threads) {
    parallel_for(count, size_t{1} << 14, threads, [&](size_t begin, size_t end, int) {
      std::memcpy(to + begin, from + begin, (end - begin) * sizeof(int64_t));
    });
  }
};

// The nodes of one type: seeds first, in input order.
struct GrowingNodes {
  // Where trees are disjoint, the first seed's is number `first_tree`.
  GrowingNodes(std::span<const int64_t> seeds, bool disjoint_, int threads_, size_t first_tree = 0)
      : disjoint(disjoint_), threads(threads_), nodes(seeds.size()) {
    reserve_nodes(nodes);
    for (size_t i = 0; i < nodes; ++i) {
      node[i] = seeds[i];
      if (disjoint) batch[i] = static_cast<int64_t>(first_tree + i);
    }
  }

  const bool disjoint;
  const int threads;                                                    // that may copy
  size_t nodes;                                                         // so far
  int64_t *node = nullptr, *batch = nullptr;                            // with spare capacity
  std::vector<int64_t> num_sampled_nodes{static_cast<int64_t>(nodes)};  // the seeds, then what each hop added

  void reserve_nodes(size_t count) {
    node = node_.grow(nodes, count, threads);
    if (disjoint) batch = batch_.grow(nodes, count, threads);
  }

  // Frees the unused capacity for nodes.
  void trim_nodes() {
    node = node_.trim(nodes, threads);
    if (disjoint) batch = batch_.trim(nodes, threads);
  }

  SampledNodes finish_nodes() {
    node_.array.size = nodes;
    batch_.array.size = disjoint ? nodes : 0;
    return {std::move(node_.array), std::move(batch_.array), std::move(num_sampled_nodes)};
  }

 private:
  GrowingArray node_, batch_;
};

// The edges of one type, grouped by hop.
struct GrowingEdges {
  explicit GrowingEdges(int threads_) : copy_threads(threads_) {}

  const int copy_threads;
  size_t edges = 0;                                         // so far
  int64_t *edge = nullptr, *row = nullptr, *col = nullptr;  // with spare capacity
  std::vector<int64_t> num_sampled_edges;                   // of each hop

  // Room for `count` edges. After the last hop `edge_index` is (2, E) without a gap, so the last hop asks for its exact
  // number and the others' edges are moved while they are few.
  void reserve_edges(size_t count, bool last) {
    edge = edge_.grow(edges, count, copy_threads);
    if (edge_index_.buffer && edge_index_.buffer->size() >= 2 * count * sizeof(int64_t)) {
      lay_out_edges(last ? count : edge_index_.buffer->size() / (2 * sizeof(int64_t)));
      return;
    }
    auto larger = take_buffer(2 * count * sizeof(int64_t));
    if (edges > 0) {
      GrowingArray::copy(row, larger->as<int64_t>(), edges, copy_threads);
      GrowingArray::copy(col, larger->as<int64_t>() + count, edges, copy_threads);
    }
    edge_index_.buffer = std::move(larger);
    row = edge_index_.data();
    col = row + count;
  }

  SampledEdges finish_edges() {
    lay_out_edges(edges);
    edge_.array.size = edges;
    edge_index_.size = 2 * edges;
    return {std::move(edge_index_), std::move(edge_.array), std::move(num_sampled_edges)};
  }

 private:
  void lay_out_edges(size_t count) {  // col starts `count` values after row
    if (row == nullptr || col == row + count) return;
    std::memmove(row + count, col, edges * sizeof(int64_t));
    col = row + count;
  }

  GrowingArray edge_;
  Int64Array edge_index_;
};

// Throws ArgumentError if so many more edges are too many for labels of 32 bits.
inline void check_hop(const GrowingNodes& nodes, const GrowingEdges& edges, size_t hop, uint64_t more) {
  if (edges.edges + more + nodes.nodes >= kMostLabels) {
    fail<ArgumentError>("hop ", hop, " has ", more, " edges to ", nodes.nodes, " nodes so far, a subgraph holds below ",
                        kMostLabels, "; sample fewer seeds at once or smaller fanouts");
  }
}

// Nodes and edges of one type each.
struct GrowingSubgraph : GrowingNodes, GrowingEdges {
  GrowingSubgraph(std::span<const int64_t> seeds, bool disjoint_, int threads_)
      : GrowingNodes(seeds, disjoint_, threads_), GrowingEdges(threads_) {}

  HeteroSubgraph finish() {
    HeteroSubgraph graph;
    graph.nodes.push_back(finish_nodes());
    graph.edges.push_back(finish_edges());
    return graph;
  }
};

}  // namespace gz
