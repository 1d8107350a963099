// expansion: one subgraph in the making, hop by hop: measure rows, choose edges, fetch neighbours, label them.
//
// Each step is a loop over chunks that any thread may take; steps wait for one another. Memory is from the pool, so a
// call that is like the one before allocates nothing and faults nothing in (benchmarks/sampling).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/choose.h"
#include "sample/look_ahead.h"
#include "sample/neighbours.h"
#include "sample/relabel.h"

namespace gz {

// kNarrow: ids are 32-bit and subgraphs share nodes, so an id is its own tag in the table.
template <class Csr, bool kNarrow>
class Expansion {
 public:
  Expansion(const Csr& csr, std::span<const int64_t> seeds, std::span<const int64_t> times,
            const SampleOptions& options)
      : csr_(csr),
        times_(times),
        options_(options),
        disjoint_(options.disjoint),
        part_bits_(options.threads == 1 ? 0
                                        : std::countr_zero(std::bit_ceil(2 * static_cast<unsigned>(options.threads)))),
        scratch_(options.threads),
        tables_(size_t{1} << part_bits_) {
    if (options.io == TopologyIo::kAuto) ahead_.emplace(csr, options, !times.empty());
    reserve_nodes(seeds.size());
    const auto key_of_seed = [&](size_t i) { return key_of(static_cast<uint64_t>(seeds[i]), static_cast<int64_t>(i)); };
    reserve_tables(seeds.size(), key_of_seed);
    for (const int64_t seed : seeds) {
      node_[nodes_] = seed;
      if (disjoint_) batch_[nodes_] = static_cast<int64_t>(nodes_);
      const LabelKey key = key_of_seed(nodes_);
      const auto label = static_cast<uint32_t>(nodes_++);
      tables_[key.part(part_bits_)].enter(
          key, label, [&](uint32_t v) { return is(v, static_cast<uint64_t>(seed), static_cast<int64_t>(label)); });
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
    reserve_nodes(nodes_ + count);
    neighbours_ = take<Id>(neighbours_memory_, count);
    if (ahead_) ahead_->edges({edge_ + edges_, count});
    if (threads(count) == 1) {
      fetch(0, count);
      label(count);
    } else {
      label_shared(count);
    }
    edges_ += count;
  }

  int threads(size_t edges) const { return edges < kShare ? 1 : options_.threads; }

  void check_size(size_t hop, uint64_t edges) const {
    if (edges_ + edges + nodes_ >= kClaim) {
      fail<ArgumentError>("hop ", hop, " has ", edges, " edges to ", nodes_, " nodes so far, a subgraph holds below ",
                          kClaim, ": sample fewer seeds at once or smaller fanouts");
    }
  }

  // -- rows: bounds, and where each chunk's edges go --

  uint64_t measure(const RowChooser<Csr>& chooser, size_t rows) {
    const int threads = rows < 4 * kRows ? 1 : options_.threads;
    rows_ = take<HopRow>(rows_memory_, rows);
    starts_.assign((rows - 1) / kRows + 2, 0);
    const int64_t* nodes = node_ + frontier_;
    if (ahead_) ahead_->bounds({nodes, rows});
    parallel_for(rows, kRows, threads, [&](size_t begin, size_t end, int) {
      uint64_t sum = 0;
      for (size_t i = begin; i < end; ++i) {
        if (i + 16 < end) prefetch(csr_.indptr + nodes[i + 16]);
        rows_[i] = chooser.bounds(static_cast<uint64_t>(nodes[i]));
        sum += chooser.most(rows_[i]);
      }
      starts_[begin / kRows + 1] = sum;
    });
    if (ahead_) ahead_->rows({rows_, rows});
    if (!times_.empty()) {
      parallel_for(rows, kRows, threads, [&](size_t begin, size_t end, int) {
        uint64_t sum = 0;
        for (size_t i = begin; i < end; ++i) {
          chooser.limit(rows_[i], times_[static_cast<size_t>(batch_[frontier_ + i])]);
          sum += chooser.most(rows_[i]);
        }
        starts_[begin / kRows + 1] = sum;
      });
    }
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
    return hashed_key(node, disjoint_ ? static_cast<uint64_t>(batch) : 0);
  }
  LabelKey key_of_edge(size_t edge) const { return key_of(neighbours_[edge], batch_of_edge(edge)); }

  // The label that a table's value stands for, when the edge of a claim has one already.
  int64_t label_of(uint32_t value) const { return value < kClaim ? value : row_[value & ~kClaim]; }

  // Whether `value` stands for (node, batch): a label, or the claim of an edge of this or an earlier hop.
  bool is(uint32_t value, uint64_t node, int64_t batch) const {
    if constexpr (kNarrow) return true;
    const size_t edge = value & ~kClaim;
    if (value >= kClaim && edge >= edges_) {
      return neighbours_[edge - edges_] == node && batch_of_edge(edge - edges_) == batch;
    }
    const auto label = static_cast<size_t>(label_of(value));
    return static_cast<uint64_t>(node_[label]) == node && (!disjoint_ || batch_[label] == batch);
  }

  void add_node(size_t label, size_t edge) {
    node_[label] = static_cast<int64_t>(neighbours_[edge]);
    if (disjoint_) batch_[label] = batch_of_edge(edge);
  }

  uint32_t enter(LabelTable& table, size_t edge, uint32_t fresh) {
    const uint64_t node = neighbours_[edge];
    const int64_t batch = batch_of_edge(edge);
    return table.enter(key_of(node, batch), fresh, [&](uint32_t value) { return is(value, node, batch); });
  }

  // One thread: a label at a time, in order.
  void label(size_t count) {
    constexpr size_t kAhead = 16;
    reserve_tables(count, [&](size_t i) { return key_of_edge(i); });
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) {
        const LabelKey ahead = key_of_edge(i + kAhead);
        tables_[ahead.part(part_bits_)].prefetch_slot(ahead);
      }
      const auto fresh = static_cast<uint32_t>(nodes_);
      const uint32_t value = enter(tables_[key_of_edge(i).part(part_bits_)], i, fresh);
      if (value == fresh) add_node(nodes_++, i);
      row_[edges_ + i] = label_of(value);
    }
  }

  // Several threads: each table belongs to one of them, and takes its share of the edges in order, so that the edge
  // that meets a node first claims it. Claims then become labels in the order of edges: the labels that one thread
  // gives.
  void label_shared(size_t count) {
    const size_t parts = tables_.size(), chunks = (count - 1) / kEdges + 1;
    order_ = take<uint16_t>(order_memory_, count);
    values_ = take<uint32_t>(values_memory_, count);
    part_ends_.resize(chunks * parts);
    claims_.assign(chunks * parts, 0);
    parallel_for(count, kEdges, options_.threads, [&](size_t begin, size_t end, int) {
      fetch(begin, end);
      split(begin, end);
    });
    parallel_for(parts, 1, options_.threads, [&](size_t begin, size_t, int) { claim(begin, count); });
    starts_.assign(chunks + 1, 0);
    for (size_t c = 0; c < chunks; ++c) {
      starts_[c + 1] = std::accumulate(&claims_[c * parts], &claims_[c * parts] + parts, starts_[c]);
    }
    parallel_for(count, kEdges, options_.threads, [&](size_t begin, size_t end, int) { settle(begin, end); });
    parallel_for(chunks, 1, options_.threads, [&](size_t c, size_t, int) {
      for (size_t k = c * kEdges; k < c * kEdges + claims_[c]; ++k) {
        int64_t& row = row_[edges_ + values_[k]];
        row = label_of(static_cast<uint32_t>(row));
      }
    });
    nodes_ += starts_.back();
  }

  // Sorts the edges of a chunk by table, each table's in order.
  void split(size_t begin, size_t end) {
    const size_t parts = tables_.size();
    uint32_t* ends = &part_ends_[begin / kEdges * parts];
    std::fill(ends, ends + parts, 0);
    std::array<uint16_t, kEdges> part;
    for (size_t i = begin; i < end; ++i) {
      part[i - begin] = static_cast<uint16_t>(key_of_edge(i).part(part_bits_));
      ++ends[part[i - begin]];
    }
    std::exclusive_scan(ends, ends + parts, ends, 0u);
    for (size_t i = 0; i < end - begin; ++i) order_[begin + ends[part[i]]++] = static_cast<uint16_t>(i);
  }

  // Enters every edge of one table.
  void claim(size_t part, size_t count) {
    constexpr size_t kAhead = 16;
    const size_t parts = tables_.size();
    const auto first = [&](size_t c) { return part == 0 ? 0 : part_ends_[c * parts + part - 1]; };
    const auto last = [&](size_t c) { return part_ends_[c * parts + part]; };
    LabelTable& table = tables_[part];
    size_t mine = 0;
    for (size_t c = 0; c * kEdges < count; ++c) mine += last(c) - first(c);
    reserve_table(table, mine);
    for (size_t c = 0; c * kEdges < count; ++c) {
      const size_t base = c * kEdges, end = last(c);
      uint32_t claims = 0;
      for (size_t k = first(c); k < end; ++k) {
        if (k + kAhead < end) table.prefetch_slot(key_of_edge(base + order_[base + k + kAhead]));
        const size_t edge = base + order_[base + k];
        const uint32_t ours = kClaim | static_cast<uint32_t>(edges_ + edge);
        const uint32_t value = enter(table, edge, ours);
        values_[base + k] = value;
        claims += value == ours;
      }
      claims_[c * parts + part] = claims;
    }
  }

  // Labels the edges of a chunk. Those that an edge of another chunk came before keep its claim, and are listed.
  void settle(size_t begin, size_t end) {
    std::array<uint32_t, kEdges> value;
    for (size_t k = begin; k < end; ++k) value[order_[k]] = values_[k];
    size_t label = nodes_ + starts_[begin / kEdges], listed = begin;
    for (size_t i = begin; i < end; ++i) {
      const uint32_t v = value[i - begin];
      const size_t first = v & ~kClaim;
      if (v >= kClaim && first == edges_ + i) {
        row_[edges_ + i] = static_cast<int64_t>(label);
        add_node(label++, i);
      } else if (v >= kClaim && first >= edges_ && first < edges_ + begin) {
        row_[edges_ + i] = v;
        values_[listed++] = static_cast<uint32_t>(i);
      } else {
        row_[edges_ + i] = label_of(v);
      }
    }
    claims_[begin / kEdges] = static_cast<uint32_t>(listed - begin);
  }

  // -- memory --

  void reserve_table(LabelTable& table, size_t more) {
    table.reserve(more, part_bits_, [&](uint32_t tag, uint32_t value) {
      if constexpr (kNarrow) return narrow_key(tag);
      const auto label = static_cast<size_t>(label_of(value));
      return key_of(static_cast<uint64_t>(node_[label]), disjoint_ ? batch_[label] : 0);
    });
  }

  // Room for the nodes that key(0) to key(count - 1) stand for, table by table.
  template <class Key>
  void reserve_tables(size_t count, const Key& key) {
    if (tables_.size() == 1) return reserve_table(tables_[0], count);
    std::vector<size_t> more(tables_.size());
    for (size_t i = 0; i < count; ++i) ++more[key(i).part(part_bits_)];
    for (size_t part = 0; part < tables_.size(); ++part) reserve_table(tables_[part], more[part]);
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
  const int part_bits_;
  std::optional<LookAhead<Csr>> ahead_;  // none: pages come by plain faults

  SampledSubgraph result_;
  int64_t *node_ = nullptr, *batch_ = nullptr, *edge_ = nullptr, *row_ = nullptr, *col_ = nullptr;  // into result_
  size_t nodes_ = 0, edges_ = 0;                                                                    // so far
  size_t frontier_ = 0;  // labels from here on were met in the hop before

  std::vector<ChooseScratch> scratch_;  // one a worker
  std::vector<LabelTable> tables_;      // 2^part_bits_: nodes are spread over them by hash
  std::vector<uint64_t> starts_;        // of chunks: their first row's edges, then their first new node
  std::vector<uint32_t> part_ends_;     // of each chunk's share of each table
  std::vector<uint32_t> claims_;        // new nodes in each of those; then each chunk's listed edges
  std::shared_ptr<Buffer> rows_memory_, neighbours_memory_, order_memory_, values_memory_;
  HopRow* rows_ = nullptr;
  Id* neighbours_ = nullptr;    // of this hop's edges
  uint16_t* order_ = nullptr;   // of this hop's edges within their chunk, by table
  uint32_t* values_ = nullptr;  // what the tables said, in that order
};

}  // namespace gz
