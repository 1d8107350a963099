// growing: a subgraph while it grows: its arrays, in pooled memory, and the labels of its nodes.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/threads.h"
#include "sample/subgraph/neighbours.h"
#include "sample/subgraph/pad.h"

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
  GrowingNodes(std::span<const int64_t> seeds, const SampleOptions& options, int threads_, size_t first_tree = 0)
      : disjoint(options.disjoint), padded(options.pad_nodes), threads(threads_), nodes(seeds.size()) {
    reserve_nodes(nodes);
    for (size_t i = 0; i < nodes; ++i) {
      node[i] = seeds[i];
      if (disjoint) batch[i] = static_cast<int64_t>(first_tree + i);
    }
    if (padded) num_padding_nodes.push_back(0);
  }

  const bool disjoint, padded;
  const int threads;                                                    // that may copy
  size_t nodes;                                                         // so far
  int64_t *node = nullptr, *batch = nullptr;                            // with spare capacity
  std::vector<int64_t> num_sampled_nodes{static_cast<int64_t>(nodes)};  // the seeds, then what each hop added
  std::vector<int64_t> num_padding_nodes;                               // of these; empty unless `padded`

  // How many there may be after a hop that reaches `coming` more.
  size_t most(size_t coming) const {
    return padded ? static_cast<size_t>(padded_count(nodes + coming)) : nodes + coming;
  }

  // After a hop: copies of the first nodes up to a padded_count(). They are neither expanded nor found again.
  void pad() {
    if (!padded) return;
    const auto count = static_cast<size_t>(padded_count(nodes));
    reserve_nodes(count);
    std::copy_n(node, count - nodes, node + nodes);
    num_padding_nodes.push_back(static_cast<int64_t>(count - nodes));
    nodes = count;
  }

  // The next hop expands the nodes of the last one, but its padding.
  size_t end_of_frontier() const {
    return nodes - (num_padding_nodes.empty() ? 0 : static_cast<size_t>(num_padding_nodes.back()));
  }

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
    return {std::move(node_.array), std::move(batch_.array), std::move(num_sampled_nodes),
            std::move(num_padding_nodes)};
  }

 private:
  GrowingArray node_, batch_;
};

// The edges of one type, grouped by hop.
struct GrowingEdges {
  using Edge = int64_t;
  explicit GrowingEdges(int threads_) : copy_threads(threads_) {}

  const int copy_threads;
  size_t edges = 0;                                         // so far
  int64_t *edge = nullptr, *row = nullptr, *col = nullptr;  // with spare capacity
  std::vector<int64_t> num_sampled_edges;                   // of each hop

  // Room for `count` edges. After the last hop `edge_index` is (2, E) without a gap, so the last hop asks for its exact
  // number and the others' edges are moved while they are few.
  void reserve_edges(size_t count, bool last, size_t /*most_nodes*/ = 0) {
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
    return {std::move(edge_index_), std::move(edge_.array), std::move(num_sampled_edges), nullptr};
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

// The same as int32, in one buffer, for a device that widens them: half the memory to write, and nothing to narrow
// afterwards (benchmarks/gpu.py).
struct NarrowEdges {
  using Edge = int32_t;
  explicit NarrowEdges(int) {}

  size_t edges = 0;
  int32_t *row = nullptr, *col = nullptr, *edge = nullptr;
  std::vector<int64_t> num_sampled_edges;
  std::atomic<bool> is_exceeded{false};  // an edge's id does not fit: these edges are of no use

  // Room for `count` edges. The last hop asks for its exact number, and leaves room for the nodes.
  void reserve_edges(size_t count, bool last, size_t most_nodes) {
    auto larger = take_buffer((3 * count + (last ? most_nodes : 0)) * sizeof(int32_t));
    auto* const to = larger->as<int32_t>();
    if (edges > 0) move_edges(to, count);
    buffer_ = std::move(larger);
    row = to, col = to + count, edge = to + 2 * count;
  }

  SampledEdges finish_edges() {
    if (!buffer_) reserve_edges(0, true, 1);
    move_edges(row, edges);
    SampledEdges made{{nullptr, 2 * edges}, {nullptr, edges}, std::move(num_sampled_edges), nullptr};
    if (!is_exceeded) made.narrow = std::move(buffer_);
    return made;
  }

 private:
  void move_edges(int32_t* to, size_t apart) const {  // in this order: each may overlap with the next
    const int32_t* const from[] = {row, col, edge};
    for (size_t i = 0; i < 3; ++i) {
      if (from[i] != to + i * apart) std::memmove(to + i * apart, from[i], edges * sizeof(int32_t));
    }
  }

  std::shared_ptr<Buffer> buffer_;
};

// Throws ArgumentError if so many more edges are too many for labels of 32 bits.
template <class Edges>
void check_hop(const GrowingNodes& nodes, const Edges& edges, size_t hop, uint64_t more) {
  if (edges.edges + more + nodes.nodes >= kMostLabels) {
    fail<ArgumentError>("hop ", hop, " has ", more, " edges to ", nodes.nodes, " nodes so far, a subgraph holds below ",
                        kMostLabels, "; sample fewer seeds at once or smaller fanouts");
  }
}

// Nodes and edges of one type each.
struct GrowingSubgraph : GrowingNodes, GrowingEdges {
  GrowingSubgraph(std::span<const int64_t> seeds, const SampleOptions& options, int threads_)
      : GrowingNodes(seeds, options, threads_), GrowingEdges(threads_) {}

  HeteroSubgraph finish() {
    HeteroSubgraph graph;
    graph.nodes.push_back(finish_nodes());
    graph.edges.push_back(finish_edges());
    return graph;
  }
};

// The table that turns nodes into labels 0, 1, 2, ... in the order they are reached. Open addressing, linear probing,
// one 64-bit word per entry: tag in the upper half, label in the lower. Used by one thread at a time.
//
// kNarrow: ids are 32-bit and subgraphs share nodes, so an id is its own tag. Otherwise ids and (node, batch) pairs are
// hashed, and an equal tag is confirmed against the node itself.
template <bool kNarrow>
class Labels {
 public:
  // Labels go to these nodes. Those there are are entered now; a seed that comes again keeps its first label. There
  // is room for `more`.
  explicit Labels(GrowingNodes& nodes, size_t more = 0) : nodes_(nodes) {
    reserve(nodes_.nodes + more, 1);
    for (size_t i = 0; i < nodes_.nodes; ++i) {
      if (i % kAtOnce == 0) check_interrupt();
      const auto node = static_cast<uint64_t>(nodes_.node[i]);
      const int64_t batch = nodes_.disjoint ? nodes_.batch[i] : 0;
      const Key key = key_of(node, batch);
      const size_t at = find(key, node, batch);
      if (entries_[at] == kEmpty) entries_[at] = entry(key, i);
    }
  }

  // Reserves capacity for `nodes` in total, most of which come several times: the table is half full in the end, and an
  // eighth of it is empty if all of them differ. A larger one is slower: it has to be cleared, and leaves the caches.
  void reserve(size_t nodes, int threads) {
    const size_t needed = nodes + nodes / 8;
    if (entries_ != nullptr && needed <= mask_ + 1) return;
    const size_t capacity = std::bit_ceil(std::max<size_t>(needed, 1024));
    const auto old_buffer = std::move(buffer_);
    const uint64_t* old = std::exchange(entries_, nullptr);
    const size_t old_capacity = old == nullptr ? 0 : mask_ + 1;
    buffer_ = take_buffer(capacity * sizeof(uint64_t), Purpose::kTables);
    entries_ = buffer_->template as<uint64_t>();
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    parallel_for(capacity, kAtOnce, threads, [&](size_t begin, size_t end, int) {
      std::memset(entries_ + begin, 0xff, (end - begin) * sizeof(uint64_t));
    });
    for (size_t i = 0; i < old_capacity; ++i) {
      if (i % kAtOnce == 0) check_interrupt();
      if (old[i] == kEmpty) continue;
      size_t at = home(key_of_entry(old[i]));
      while (entries_[at] != kEmpty) at = (at + 1) & mask_;
      entries_[at] = old[i];
    }
  }

  uint64_t bytes() const { return buffer_->size(); }

  // Labels edges from `first` on, whose `col` is there and whose neighbours are given: writes their `row` and adds the
  // nodes that are new. `trees` are the batches of the nodes that `col` counts. There must be room.
  template <class Edges, class Id>
  void label(const Edges& edges, size_t first, const int64_t* trees, const Id* neighbours, size_t count) {
    using Edge = typename Edges::Edge;
    constexpr size_t kAhead = 24;  // benchmarks/sampling: flat from 16 to 48
    size_t nodes = nodes_.nodes;
    int64_t *const node = nodes_.node, *const batches = nodes_.batch;
    Edge* const row = edges.row + first;
    const Edge* const col = edges.col + first;
    const auto batch_of = [&](size_t i) { return nodes_.disjoint ? trees[col[i]] : 0; };
    const auto ask = [&](size_t i) { prefetch(entries_ + home(key_of(neighbours[i], batch_of(i)))); };
    for (size_t i = 0; i < std::min(kAhead, count); ++i) ask(i);
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) ask(i + kAhead);
      const Id neighbour = neighbours[i];
      const int64_t batch = batch_of(i);
      const Key key = key_of(neighbour, batch);
      const size_t at = find(key, neighbour, batch);
      // New or not is a coin toss that no processor guesses: written as a choice of values, it is not guessed at.
      const bool fresh = entries_[at] == kEmpty;
      const uint64_t word = fresh ? entry(key, nodes) : entries_[at];
      entries_[at] = word;
      node[nodes] = static_cast<int64_t>(neighbour);
      if (nodes_.disjoint) batches[nodes] = batch;
      nodes += fresh;
      row[i] = static_cast<Edge>(word & UINT32_MAX);
    }
    nodes_.nodes = nodes;
  }

 private:
  static constexpr size_t kAtOnce = size_t{1} << 15;  // entries that a thread empties
  static constexpr uint64_t kEmpty = ~uint64_t{0};    // label 2^32 - 1, which no subgraph has

  struct Key {
    uint64_t hash, tag;
  };

  Key key_of(uint64_t node, int64_t batch) const {
    if constexpr (kNarrow) return {node * kGolden, node};
    const uint64_t hash = mix(mix(node + kGolden) + static_cast<uint64_t>(batch));
    return {hash, hash & UINT32_MAX};
  }
  Key key_of_entry(uint64_t word) const {
    if constexpr (kNarrow) return key_of(word >> 32, 0);
    const auto label = static_cast<size_t>(word & UINT32_MAX);
    return key_of(static_cast<uint64_t>(nodes_.node[label]), nodes_.disjoint ? nodes_.batch[label] : 0);
  }
  static uint64_t entry(Key key, size_t label) { return key.tag << 32 | label; }
  size_t home(Key key) const { return static_cast<size_t>(key.hash >> shift_); }

  // The slot of (node, batch), or the empty slot for it.
  size_t find(Key key, uint64_t node, int64_t batch) const {
    size_t at = home(key);
    if constexpr (kNarrow) {
      while (is_another(entries_[at], key)) [[unlikely]] {
        at = (at + 1) & mask_;
      }
      return at;
    }
    while (entries_[at] != kEmpty && !is(entries_[at], key, node, batch)) [[unlikely]] {
      at = (at + 1) & mask_;
    }
    return at;
  }
  // Neither empty nor the key's. Nearly every place is one of the two, but which one is unpredictable: a single
  // arithmetic test leaves one branch that is predicted well, where compilers split `&&` and `&` into two
  // (benchmarks/hetero).
  static bool is_another(uint64_t word, Key key) {
    const uint64_t other = word >> 32 ^ key.tag, label = ~word & UINT32_MAX;
    return static_cast<int64_t>((0 - other) & (0 - label)) < 0;
  }
  bool is(uint64_t word, Key key, uint64_t node, int64_t batch) const {
    if (word >> 32 != key.tag) return false;
    const auto label = static_cast<size_t>(word & UINT32_MAX);
    return static_cast<uint64_t>(nodes_.node[label]) == node && (!nodes_.disjoint || nodes_.batch[label] == batch);
  }

  GrowingNodes& nodes_;
  std::shared_ptr<Buffer> buffer_;
  uint64_t* entries_ = nullptr;
  size_t mask_ = 0;
  int shift_ = 64;
};

}  // namespace gz
