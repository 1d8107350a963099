// expansion: one subgraph in the making, hop by hop: measure rows, choose edges, fetch neighbours, label them.
//
// Each step is a loop over chunks that any thread may take; steps wait for one another. Memory is from the pool, so a
// call that is like the one before allocates nothing and faults nothing in (benchmarks/sampling).
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/choose.h"
#include "sample/neighbours.h"
#include "sample/relabel.h"

namespace gz {

// kNarrow: ids are 32-bit and subgraphs share nodes, so an id is its own tag in the table.
template <class Csr, bool kNarrow>
class Expansion {
 public:
  Expansion(const Csr& csr, std::span<const int64_t> seeds, std::span<const int64_t> times,
            const SampleOptions& options)
      : csr_(csr), times_(times), options_(options), disjoint_(options.disjoint), scratch_(options.threads) {
    reserve_nodes(seeds.size());
    table_.reserve(seeds.size(), 1);
    for (const int64_t seed : seeds) {
      node_[nodes_] = seed;
      if (disjoint_) batch_[nodes_] = static_cast<int64_t>(nodes_);
      enter_node(static_cast<uint32_t>(nodes_++));
    }
    result_.num_sampled_nodes.push_back(static_cast<int64_t>(nodes_));
  }

  SampledSubgraph run() {
    for (size_t hop = 0; hop < options_.fanouts.size(); ++hop) {
      const size_t nodes = nodes_, edges = edges_;
      expand(hop);
      frontier_ = nodes;
      result_.num_sampled_nodes.push_back(static_cast<int64_t>(nodes_ - nodes));
      result_.num_sampled_edges.push_back(static_cast<int64_t>(edges_ - edges));
    }
    lay_out_edges(edges_);
    result_.node.size = nodes_;
    result_.batch.size = disjoint_ ? nodes_ : 0;
    result_.edge.size = edges_;
    result_.edge_index.size = 2 * edges_;
    return std::move(result_);
  }

 private:
  using Id = typename Csr::Id;
  static constexpr size_t kRows = 1024;         // rows a chunk
  static constexpr size_t kEdges = 8192;        // edges a chunk
  static constexpr size_t kShare = 4 * kEdges;  // a hop of fewer edges is not worth waking threads for

  void expand(size_t hop) {
    const size_t rows = nodes_ - frontier_;
    if (rows == 0 || options_.fanouts[hop] == 0) return;
    const bool last = hop + 1 == options_.fanouts.size();
    const RowChooser<Csr> chooser(csr_, options_, hop, !times_.empty());
    const size_t most = measure(chooser, rows);
    check_size(hop, most);
    reserve_edges(edges_ + most, last);
    const size_t count = choose(chooser, rows);
    if (table_.reserve(nodes_ + count, threads(count))) enter_nodes(threads(count));
    reserve_nodes(nodes_ + count);
    neighbours_ = take<Id>(neighbours_memory_, count);
    if (threads(count) == 1) {
      fetch(0, count);
      label(count);
    } else {
      label_shared(count, last);
    }
    edges_ += count;
  }

  int threads(size_t edges) const { return edges < kShare ? 1 : options_.threads; }

  void check_size(size_t hop, uint64_t edges) const {
    if (edges + nodes_ >= kClaim) {
      fail<ArgumentError>("hop ", hop, " has ", edges, " edges to ", nodes_, " nodes so far, a subgraph holds below ",
                          kClaim, ": sample fewer seeds at once or smaller fanouts");
    }
  }

  // -- rows: bounds, and where each chunk's edges go --

  uint64_t measure(const RowChooser<Csr>& chooser, size_t rows) {
    rows_ = take<HopRow>(rows_memory_, rows);
    starts_.assign((rows - 1) / kRows + 2, 0);
    parallel_for(rows, kRows, rows < 4 * kRows ? 1 : options_.threads, [&](size_t begin, size_t end, int) {
      uint64_t sum = 0;
      for (size_t i = begin; i < end; ++i) {
        if (i + 16 < end) prefetch(csr_.indptr + node_[frontier_ + i + 16]);
        const auto label = frontier_ + i;
        const int64_t time = times_.empty() ? 0 : times_[static_cast<size_t>(batch_[label])];
        rows_[i] = chooser.measure(static_cast<uint64_t>(node_[label]), time);
        sum += chooser.most(rows_[i]);
      }
      starts_[begin / kRows + 1] = sum;
    });
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    return starts_.back();
  }

  // Fills `edge` with positions and `col`; returns how many edges there are.
  size_t choose(const RowChooser<Csr>& chooser, size_t rows) {
    std::vector<size_t> written(starts_.size() - 1);
    parallel_for(rows, kRows, threads(starts_.back()), [&](size_t begin, size_t end, int worker) {
      ChooseScratch& scratch = scratch_[static_cast<size_t>(worker)];
      const size_t first = edges_ + starts_[begin / kRows];
      size_t at = first;
      for (size_t i = begin; i < end; ++i) {
        const size_t label = frontier_ + i;
        const uint64_t batch = disjoint_ ? static_cast<uint64_t>(batch_[label]) : 0;
        const size_t count = chooser.choose(rows_[i], static_cast<uint64_t>(node_[label]), batch, edge_ + at, scratch);
        for (size_t j = 0; j < count; ++j) col_[at + j] = static_cast<int64_t>(label);
        at += count;
      }
      written[begin / kRows] = at - first;
    });
    if (chooser.exact()) return starts_.back();
    size_t total = 0;  // rows with weights of zero gave fewer: close the gaps
    for (size_t chunk = 0; chunk < written.size(); ++chunk) {
      const size_t from = edges_ + starts_[chunk], to = edges_ + total, bytes = written[chunk] * sizeof(int64_t);
      if (from != to) {
        std::memmove(edge_ + to, edge_ + from, bytes);
        std::memmove(col_ + to, col_ + from, bytes);
      }
      total += written[chunk];
    }
    return total;
  }

  // -- neighbours and their labels --

  // Reads the neighbours of edges [begin, end) of this hop, and turns positions into the user's edge ids.
  void fetch(size_t begin, size_t end) {
    constexpr size_t kAhead = 32;
    int64_t* position = edge_ + edges_;
    const bool ids = options_.edge_ids && csr_.has_edge_ids();
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) {
        prefetch(csr_.indices + position[i + kAhead]);
      }
      neighbours_[i] = static_cast<Id>(csr_.neighbour(static_cast<uint64_t>(position[i])));
    }
    if (!ids) return;
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) prefetch_edge_id(static_cast<uint64_t>(position[i + kAhead]));
      position[i] = static_cast<int64_t>(csr_.edge_id(static_cast<uint64_t>(position[i])));
    }
  }

  void prefetch_edge_id(uint64_t position) const {
    if (csr_.edge_ids32 != nullptr) {
      prefetch(csr_.edge_ids32 + position);
    } else {
      prefetch(csr_.edge_ids64 + position);
    }
  }

  int64_t batch_of_edge(size_t edge) const { return disjoint_ ? batch_[col_[edges_ + edge]] : 0; }
  LabelKey key_of(uint64_t node, int64_t batch) const {
    if constexpr (kNarrow) return narrow_key(node);
    return hashed_key(node, static_cast<uint64_t>(batch));
  }
  LabelKey key_of_edge(size_t edge) const { return key_of(neighbours_[edge], batch_of_edge(edge)); }

  // Whether the node that `value` stands for (a label, or the claim of an edge of this hop) is (node, batch).
  bool is(uint32_t value, uint64_t node, int64_t batch) const {
    if constexpr (kNarrow) return true;
    const bool claim = value >= kClaim;
    const uint32_t at = value & ~kClaim;
    if (claim) return neighbours_[at] == node && batch_of_edge(at) == batch;
    return static_cast<uint64_t>(node_[at]) == node && (!disjoint_ || batch_[at] == batch);
  }

  void add_node(size_t label, size_t edge) {
    node_[label] = static_cast<int64_t>(neighbours_[edge]);
    if (disjoint_) batch_[label] = batch_of_edge(edge);
  }

  void label(size_t count) {
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) table_.prefetch_slot(key_of_edge(i + kAhead));
      const uint64_t node = neighbours_[i];
      const int64_t batch = batch_of_edge(i);
      const auto fresh = static_cast<uint32_t>(nodes_);
      const uint32_t label = table_.enter(key_of(node, batch), fresh, [&](uint32_t v) { return is(v, node, batch); });
      if (label == fresh) add_node(nodes_++, i);
      row_[edges_ + i] = label;
    }
  }

  // State of an edge while several threads label a hop.
  enum Mark : uint8_t { kKnown, kFirst, kLater };  // had a label; will give its neighbour one; waits for that one

  // Three steps: edges claim new neighbours, the earliest claim standing; the claims that stand become labels, counted
  // in the order of edges; the other edges look theirs up.
  void label_shared(size_t count, bool last) {
    const int threads = options_.threads;
    marks_ = take<uint8_t>(marks_memory_, count);
    slots_ = take<uint32_t>(slots_memory_, count);
    starts_.assign((count - 1) / kEdges + 2, 0);
    parallel_for(count, kEdges, threads, [&](size_t begin, size_t end, int) {
      fetch(begin, end);
      claim(begin, end);
    });
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    parallel_for(count, kEdges, threads, [&](size_t begin, size_t end, int) {
      size_t label = nodes_ + starts_[begin / kEdges];
      for (size_t i = begin; i < end; ++i) {
        if (marks_[i] != kFirst) continue;
        if (!last) table_.set_value(slots_[i], static_cast<uint32_t>(label));
        row_[edges_ + i] = static_cast<int64_t>(label);
        add_node(label++, i);
      }
    });
    parallel_for(count, kEdges, threads, [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; ++i) {
        if (marks_[i] != kLater) continue;
        const uint32_t value = table_.value(slots_[i]);  // after the last hop claims are left as they are
        row_[edges_ + i] = value >= kClaim ? row_[edges_ + (value & ~kClaim)] : value;
      }
    });
    nodes_ += starts_.back();
  }

  void claim(size_t begin, size_t end) {
    constexpr size_t kAhead = 16;
    uint64_t firsts = 0;
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) table_.prefetch_slot(key_of_edge(i + kAhead));
      const uint64_t node = neighbours_[i];
      const int64_t batch = batch_of_edge(i);
      const uint32_t ours = kClaim | static_cast<uint32_t>(i);
      std::atomic_ref<uint8_t> mark(marks_[i]);
      mark.store(kFirst, std::memory_order_relaxed);  // before the claim is seen: who displaces it says so here
      const auto entered =
          table_.enter_shared(key_of(node, batch), ours, [&](uint32_t v) { return is(v, node, batch); });
      slots_[i] = entered.slot;
      if (entered.value == ours) {
        ++firsts;
        if (entered.displaced != ours) {
          const size_t later = entered.displaced & ~kClaim;
          std::atomic_ref<uint8_t>(marks_[later]).store(kLater, std::memory_order_relaxed);
          std::atomic_ref<uint64_t>(starts_[later / kEdges + 1]).fetch_sub(1, std::memory_order_relaxed);
        }
      } else if (entered.value >= kClaim) {
        mark.store(kLater, std::memory_order_relaxed);
      } else {
        mark.store(kKnown, std::memory_order_relaxed);
        row_[edges_ + i] = entered.value;
      }
    }
    std::atomic_ref<uint64_t>(starts_[begin / kEdges + 1]).fetch_add(firsts, std::memory_order_relaxed);
  }

  // -- memory --

  void enter_node(uint32_t label) {
    const auto node = static_cast<uint64_t>(node_[label]);
    const int64_t batch = disjoint_ ? batch_[label] : 0;
    table_.enter(key_of(node, batch), label, [&](uint32_t v) { return is(v, node, batch); });
  }

  void enter_nodes(int threads) {  // into a table that is new
    constexpr size_t kAhead = 16;
    parallel_for(nodes_, kEdges, threads, [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; ++i) {
        const auto node = static_cast<uint64_t>(node_[i]);
        const int64_t batch = disjoint_ ? batch_[i] : 0;
        if (i + kAhead < end) {
          table_.prefetch_slot(key_of(static_cast<uint64_t>(node_[i + kAhead]), disjoint_ ? batch_[i + kAhead] : 0));
        }
        table_.enter_shared(key_of(node, batch), static_cast<uint32_t>(i),
                            [&](uint32_t v) { return is(v, node, batch); });
      }
    });
  }

  template <class T>
  static T* take(std::shared_ptr<Buffer>& memory, size_t count) {
    if (!memory || memory->size() < count * sizeof(T)) {
      memory.reset();
      memory = BufferPool::take(count * sizeof(T), Purpose::kTables);
    }
    return memory->as<T>();
  }

  // `array` with room for `count`, its first `kept` values kept.
  static int64_t* grow(Int64Array& array, size_t kept, size_t count) {
    if (!array.buffer || array.buffer->size() < count * sizeof(int64_t)) {
      auto larger = BufferPool::take(count * sizeof(int64_t));
      if (kept > 0) std::memcpy(larger->data(), array.data(), kept * sizeof(int64_t));
      array.buffer = std::move(larger);
    }
    return array.data();
  }

  void reserve_nodes(size_t count) {
    node_ = grow(result_.node, nodes_, count);
    if (disjoint_) batch_ = grow(result_.batch, nodes_, count);
  }

  // Room for `count` edges. After the last hop `edge_index` is (2, E) without a gap, so the last hop asks for its exact
  // number and the others' edges are moved while they are few.
  void reserve_edges(size_t count, bool last) {
    edge_ = grow(result_.edge, edges_, count);
    if (result_.edge_index.buffer && result_.edge_index.buffer->size() >= 2 * count * sizeof(int64_t)) {
      lay_out_edges(last ? count : result_.edge_index.buffer->size() / (2 * sizeof(int64_t)));
      return;
    }
    auto larger = BufferPool::take(2 * count * sizeof(int64_t));
    if (edges_ > 0) {
      std::memcpy(larger->data(), row_, edges_ * sizeof(int64_t));
      std::memcpy(larger->as<int64_t>() + count, col_, edges_ * sizeof(int64_t));
    }
    result_.edge_index.buffer = std::move(larger);
    row_ = result_.edge_index.data();
    col_ = row_ + count;
  }

  void lay_out_edges(size_t count) {  // col starts `count` values after row
    if (row_ == nullptr || col_ == row_ + count) return;
    std::memmove(row_ + count, col_, edges_ * sizeof(int64_t));
    col_ = row_ + count;
  }

  const Csr& csr_;
  const std::span<const int64_t> times_;
  const SampleOptions& options_;
  const bool disjoint_;

  SampledSubgraph result_;
  int64_t *node_ = nullptr, *batch_ = nullptr, *edge_ = nullptr, *row_ = nullptr, *col_ = nullptr;  // into result_
  size_t nodes_ = 0, edges_ = 0;                                                                    // so far
  size_t frontier_ = 0;  // labels from here on were met in the hop before

  LabelTable table_;
  std::vector<ChooseScratch> scratch_;  // one a worker
  std::vector<uint64_t> starts_;        // of chunks; in claim() shared, by atomic operations
  std::shared_ptr<Buffer> rows_memory_, neighbours_memory_, marks_memory_, slots_memory_;
  HopRow* rows_ = nullptr;
  Id* neighbours_ = nullptr;   // of this hop's edges
  uint8_t* marks_ = nullptr;   // of this hop's edges
  uint32_t* slots_ = nullptr;  // of this hop's edges, in table_
};

}  // namespace gz
