// expansion: one subgraph in the making, hop by hop: measure rows, choose edges, fetch neighbours, label them.
//
// A hop is a run of chunks of rows. Their edges are chosen and fetched by any thread, and labelled by one after the
// other, in order, while the next chunks are made. Memory is from the pool, so a call that is like the one before
// allocates nothing and faults nothing in (benchmarks/sampling).
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/choose.h"
#include "sample/growing.h"
#include "sample/in_order.h"
#include "sample/labels.h"
#include "sample/look_ahead.h"
#include "sample/neighbours.h"

namespace gz {

// kNarrow: see Labels.
template <class Csr, bool kNarrow>
class Expansion {
 public:
  Expansion(const Csr& csr, std::span<const int64_t> seeds, std::span<const int64_t> times,
            const SampleOptions& options)
      : csr_(csr),
        times_(times),
        options_(options),
        scratch_(static_cast<size_t>(options.threads)),
        graph_(seeds, options.disjoint, options.threads),
        labels_(graph_) {
    if (options.threads > 1) awake_.emplace();
    if (options.io == TopologyIo::kAuto) ahead_.emplace(csr, options, !times.empty());
  }

  SampledSubgraph run() {
    SampledSubgraph& result = graph_.result;
    result.num_sampled_nodes.push_back(static_cast<int64_t>(graph_.nodes));
    if (ahead_) ahead_->whole_if_most({graph_.node, graph_.nodes});
    for (size_t hop = 0; hop < options_.fanouts.size(); ++hop) {
      const size_t nodes = graph_.nodes, edges = graph_.edges;
      expand(hop);
      frontier_ = nodes;
      result.num_sampled_nodes.push_back(static_cast<int64_t>(graph_.nodes - nodes));
      result.num_sampled_edges.push_back(static_cast<int64_t>(graph_.edges - edges));
    }
    result.scratch_bytes = labels_.bytes();
    for (const auto& memory : {rows_memory_, neighbours_memory_}) result.scratch_bytes += memory ? memory->size() : 0;
    return graph_.finish();
  }

 private:
  using Id = typename Csr::Id;
  static constexpr size_t kRows = 256;                   // a chunk
  static constexpr size_t kWorkALook = size_t{1} << 16;  // edges after which an interrupt is noticed
  static constexpr size_t kShare = size_t{1} << 15;      // a hop of fewer edges is not worth waking threads for
  static constexpr size_t kShareRows = size_t{1} << 12;  // nor one of fewer rows, to measure them

  void expand(size_t hop) {
    const size_t rows = graph_.nodes - frontier_;
    if (rows == 0 || options_.fanouts[hop] == 0) return;
    const RowChooser<Csr> chooser(csr_, options_, hop, !times_.empty());
    const uint64_t most = measure(chooser, rows);
    graph_.check_hop(hop, most);
    reserve(hop, static_cast<size_t>(most));
    const size_t chunks = starts_.size() - 1;
    const int threads = most < kShare ? 1 : options_.threads;
    first_ = graph_.edges;
    const bool cold = ahead_ && ahead_->cold({rows_, rows});
    if (cold) {  // all pages of the hop are asked for before the first is read
      parallel_for(chunks, 1, threads, [&](size_t c, size_t, int worker) { choose(chooser, c, worker); });
      ahead_->edges({graph_.edge + first_, static_cast<size_t>(most)});
    }
    make_and_finish(
        chunks, threads,
        [&](size_t c, int worker) {
          if (!cold) choose(chooser, c, worker);
          fetch(c);
        },
        [&](size_t c) { label(c); });
  }

  void reserve(size_t hop, size_t edges) {
    const bool last = hop + 1 == options_.fanouts.size();
    graph_.reserve_edges(graph_.edges + edges, last);
    graph_.reserve_nodes(graph_.nodes + edges);
    neighbours_ = room_for<Id>(neighbours_memory_, edges);
    size_t labels = graph_.nodes + edges;
    // What the next hop is likely to bring, so that the table is not filled now only to be moved then.
    if (!last && options_.fanouts[hop + 1] > 0) {
      const uint64_t degree = csr_.num_edges / std::max<uint64_t>(csr_.num_nodes, 1);
      labels +=
          edges * static_cast<size_t>(std::min<uint64_t>(degree, static_cast<uint64_t>(options_.fanouts[hop + 1])));
    }
    const auto trees = graph_.disjoint ? static_cast<uint64_t>(graph_.result.num_sampled_nodes[0]) : 1;
    const uint64_t most = checked_mul(csr_.num_nodes, trees).value_or(UINT64_MAX);  // a tree meets a node once
    labels_.reserve(static_cast<size_t>(std::min<uint64_t>(labels, most)), options_.threads);
  }

  // Reads the rows' bounds, and says where each chunk's edges go; returns how many there are at most.
  uint64_t measure(const RowChooser<Csr>& chooser, size_t rows) {
    const int threads = rows < kShareRows ? 1 : options_.threads;
    rows_ = room_for<HopRow>(rows_memory_, rows);
    num_rows_ = rows;
    starts_.assign((rows - 1) / kRows + 2, 0);
    written_.assign(starts_.size() - 1, 0);
    const int64_t* nodes = graph_.node + frontier_;
    if (ahead_) ahead_->bounds({nodes, rows});
    parallel_for(rows, kRows, threads, [&](size_t begin, size_t end, int) {
      uint64_t sum = 0;
      for (size_t i = begin; i < end; ++i) {
        if (i + 16 < rows) prefetch(csr_.indptr + nodes[i + 16]);
        rows_[i] = chooser.bounds(static_cast<uint64_t>(nodes[i]));
        sum += chooser.most(rows_[i]);
      }
      starts_[begin / kRows + 1] = sum;
    });
    if (ahead_) ahead_->rows(chooser, {rows_, rows});
    if (!times_.empty()) {
      parallel_for(rows, kRows, threads, [&](size_t begin, size_t end, int) {
        uint64_t sum = 0;
        for (size_t i = begin; i < end; ++i) {
          chooser.limit(rows_[i], times_[static_cast<size_t>(graph_.batch[frontier_ + i])]);
          sum += chooser.most(rows_[i]);
        }
        starts_[begin / kRows + 1] = sum;
      });
    }
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    return starts_.back();
  }

  // Fills `edge` with a chunk's positions, and `col`.
  void choose(const RowChooser<Csr>& chooser, size_t chunk, int worker) {
    ChooseScratch& scratch = scratch_[static_cast<size_t>(worker)];
    const size_t first = first_ + static_cast<size_t>(starts_[chunk]);
    size_t at = first;
    uint64_t work = kWorkALook;  // since the last look: one a chunk at least
    for (size_t i = chunk * kRows; i < std::min((chunk + 1) * kRows, num_rows_); ++i) {
      const size_t label = frontier_ + i;
      const uint64_t batch = graph_.disjoint ? static_cast<uint64_t>(graph_.batch[label]) : 0;
      const auto node = static_cast<uint64_t>(graph_.node[label]);
      const size_t count = chooser.choose(rows_[i], node, batch, graph_.edge + at, scratch);
      std::fill_n(graph_.col + at, count, static_cast<int64_t>(label));
      at += count;
      if ((work += rows_[i].degree) > kWorkALook) {  // hubs
        check_interrupt();
        work = 0;
      }
    }
    written_[chunk] = at - first;
    // Rows with weights of zero gave fewer: what is left must be positions too, for the look-ahead.
    std::fill(graph_.edge + at, graph_.edge + first_ + starts_[chunk + 1], int64_t{0});
  }

  // Reads the neighbours of a chunk's edges, and turns positions into the user's edge ids.
  void fetch(size_t chunk) {
    constexpr size_t kAhead = 32;
    const size_t count = written_[chunk];
    int64_t* position = graph_.edge + first_ + starts_[chunk];
    Id* neighbours = neighbours_ + starts_[chunk];
    for (size_t i = 0; i < count; ++i) {
      if (i % kWorkALook == 0) check_interrupt();
      if (i + kAhead < count) prefetch(csr_.indices + position[i + kAhead]);
      neighbours[i] = static_cast<Id>(csr_.neighbour(static_cast<uint64_t>(position[i])));
    }
    if (!options_.edge_ids || !csr_.has_edge_ids()) return;
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) prefetch_edge_id(static_cast<uint64_t>(position[i + kAhead]));
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

  // Labels a chunk's edges, after those of the chunk before; closes the gap where that one had fewer than it might.
  void label(size_t chunk) {
    const size_t from = first_ + static_cast<size_t>(starts_[chunk]), to = graph_.edges, count = written_[chunk];
    if (from != to) {
      std::memmove(graph_.edge + to, graph_.edge + from, count * sizeof(int64_t));
      std::memmove(graph_.col + to, graph_.col + from, count * sizeof(int64_t));
    }
    for (size_t i = 0; i < count; i += kWorkALook) {
      check_interrupt();
      labels_.label(to + i, neighbours_ + starts_[chunk] + i, std::min<size_t>(count - i, kWorkALook));
    }
    graph_.edges += count;
  }

  const Csr& csr_;
  const std::span<const int64_t> times_;
  const SampleOptions& options_;
  std::optional<StayAwake> awake_;       // while several threads share the steps
  std::optional<LookAhead<Csr>> ahead_;  // none: pages come by plain faults
  std::vector<ChooseScratch> scratch_;   // one a worker

  GrowingSubgraph graph_;
  Labels<Id, kNarrow> labels_;
  size_t frontier_ = 0;  // nodes from here on were met in the hop before

  // Of the hop in the making:
  HopRow* rows_ = nullptr;
  size_t num_rows_ = 0;
  size_t first_ = 0;              // its first edge
  std::vector<uint64_t> starts_;  // where each chunk's edges go, after `first_`
  std::vector<size_t> written_;   // how many each chunk has
  Id* neighbours_ = nullptr;      // of its edges
  std::shared_ptr<Buffer> rows_memory_, neighbours_memory_;
};

}  // namespace gz
