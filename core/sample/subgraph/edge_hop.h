// edge_hop: one edge type's part of a hop: measure the rows of the nodes to expand, choose edges, fetch neighbours.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/interrupt.h"
#include "base/memory.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/subgraph/choose.h"
#include "sample/subgraph/growing.h"
#include "sample/subgraph/look_ahead.h"
#include "sample/subgraph/neighbours.h"

namespace gz {

// What the expansion sees of an edge type, whatever the width of its ids. kNarrow: see Labels. Edges: GrowingEdges or
// NarrowEdges.
template <bool kNarrow, class Edges>
class EdgeHop {
 public:
  EdgeHop(const SampleOptions& options_, GrowingNodes& target_nodes)
      : options(options_), target(target_nodes), edges(options_.threads) {}
  virtual ~EdgeHop() = default;

  const SampleOptions options;  // its own fanouts among them
  GrowingNodes& target;         // the nodes that are expanded
  Edges edges;

  // Prefetches the whole file if the sample will read most of it.
  virtual void whole_if_most() const = 0;
  // Reads the bounds of the rows of the targets from `frontier` on; returns how many edges they give at most.
  virtual uint64_t measure(size_t hop, size_t frontier) = 0;
  // Room for those; the subgraph will have `most_nodes` at most.
  virtual void reserve(bool last, size_t most_nodes) = 0;
  // Where edges are on disk: chooses all of them, and asks for their pages before the first is read.
  virtual void choose_ahead(int threads, std::vector<ChooseScratch>& scratch) = 0;
  // Any chunk by any thread: chooses its edges and reads their neighbours.
  virtual void make(size_t chunk, ChooseScratch& scratch) = 0;
  // Chunks one after the other, in order: labels their neighbours.
  virtual void label(size_t chunk, Labels<kNarrow>& labels) = 0;
  virtual uint64_t scratch_bytes() const = 0;
  virtual double mean_degree() const = 0;

  size_t chunks() const { return starts_.size() - 1; }  // of the hop that was measured
  uint64_t most() const { return starts_.back(); }

 protected:
  std::vector<uint64_t> starts_{0};  // destination of each chunk's edges, after those of earlier hops
};

template <class Csr, bool kNarrow, class Edges>
class CsrHop final : public EdgeHop<kNarrow, Edges> {
 public:
  // `times`: of the trees, empty if edges are taken at any time; `timed`: whether the edges' own times count.
  CsrHop(const Csr& csr, const SampleOptions& options, GrowingNodes& target, std::span<const int64_t> times, bool timed)
      : EdgeHop<kNarrow, Edges>(options, target), csr_(csr), times_(times), timed_(timed) {
    if (options.io == TopologyIo::kAuto) ahead_.emplace(csr_, this->options, timed_);
  }

  void whole_if_most() const override {
    if (ahead_ && target.nodes > 0) ahead_->whole_if_most({target.node, target.nodes});
  }

  uint64_t measure(size_t hop, size_t frontier) override {
    frontier_ = frontier;
    num_rows_ = options.fanouts[hop] == 0 ? 0 : target.end_of_frontier() - frontier;
    starts_.assign((num_rows_ + kRows - 1) / kRows + 1, 0);
    written_.assign(starts_.size() - 1, 0);
    cold_ = false;
    if (num_rows_ == 0) return 0;
    chooser_.emplace(csr_, options, hop, timed_);
    measure_rows();
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    return starts_.back();
  }

  void reserve(bool last, size_t most_nodes) override {
    const auto more = static_cast<size_t>(starts_.back());
    first_ = edges.edges;
    if (more > 0) edges.reserve_edges(edges.edges + more, last, most_nodes);
    neighbours_ = room_for<Id>(neighbours_memory_, more);
  }

  void choose_ahead(int threads, std::vector<ChooseScratch>& scratch) override {
    cold_ = ahead_ && num_rows_ > 0 && ahead_->cold({rows_, num_rows_});
    if (!cold_) return;
    parallel_for(this->chunks(), 1, threads,
                 [&](size_t c, size_t, int worker) { choose(c, scratch[static_cast<size_t>(worker)]); });
    ahead_->edges(std::span<const Edge>(edges.edge + first_, static_cast<size_t>(starts_.back())));
  }

  void make(size_t chunk, ChooseScratch& scratch) override {
    if (!cold_) choose(chunk, scratch);
    fetch(chunk);
  }

  // Closes the gap if the previous chunk had fewer edges than its maximum.
  void label(size_t chunk, Labels<kNarrow>& labels) override {
    const size_t from = first_ + static_cast<size_t>(starts_[chunk]), to = edges.edges, count = written_[chunk];
    if (from != to) {
      std::memmove(edges.edge + to, edges.edge + from, count * sizeof(Edge));
      std::memmove(edges.col + to, edges.col + from, count * sizeof(Edge));
    }
    for (size_t i = 0; i < count; i += kWorkALook) {
      check_interrupt();
      labels.label(edges, to + i, target.batch, neighbours_ + starts_[chunk] + i, std::min(count - i, kWorkALook));
    }
    edges.edges += count;
  }

  uint64_t scratch_bytes() const override {
    uint64_t bytes = 0;
    for (const auto& memory : {rows_memory_, neighbours_memory_, shifts_memory_}) bytes += memory ? memory->size() : 0;
    return bytes;
  }

  double mean_degree() const override {
    return static_cast<double>(csr_.num_edges / std::max<uint64_t>(csr_.num_nodes, 1));
  }

 private:
  using Id = typename Csr::Id;
  using Edge = typename Edges::Edge;
  using Base = EdgeHop<kNarrow, Edges>;
  using Base::options, Base::target, Base::edges, Base::starts_;
  static constexpr size_t kRows = 256;                   // a chunk
  static constexpr size_t kWorkALook = size_t{1} << 16;  // edges after which an interrupt is noticed
  static constexpr size_t kShareRows = size_t{1} << 12;  // fewer rows are not worth waking threads to measure them

  int64_t time_of(size_t label) const { return times_.empty() ? 0 : times_[static_cast<size_t>(target.batch[label])]; }

  void measure_rows() {
    const int threads = num_rows_ < kShareRows ? 1 : options.threads;
    rows_ = room_for<HopRow>(rows_memory_, num_rows_);
    const int64_t* nodes = target.node + frontier_;
    if (ahead_) ahead_->bounds({nodes, num_rows_});
    if (csr_.changed) shifts_ = room_for<uint64_t>(shifts_memory_, num_rows_);
    parallel_for(num_rows_, kRows, threads, [&](size_t begin, size_t end, int) {
      uint64_t sum = 0;
      if (csr_.changed) find_changed(begin, end);
      for (size_t i = begin; i < end; ++i) {
        if (csr_.changed) {
          sum += chooser_->most(rows_[i]);
          continue;
        }
        if (i + 16 < num_rows_) prefetch(csr_.bounds_of(static_cast<uint64_t>(nodes[i + 16])));
        rows_[i] = chooser_->bounds(static_cast<uint64_t>(nodes[i]));
        sum += chooser_->most(rows_[i]);
      }
      starts_[begin / kRows + 1] = sum;
    });
    if (ahead_) {
      ahead_->rows(*chooser_, {rows_, num_rows_});
      ahead_->excluded({nodes, num_rows_}, {rows_, num_rows_});
    }
    if (!timed_) return;
    parallel_for(num_rows_, kRows, threads, [&](size_t begin, size_t end, int) {
      uint64_t sum = 0;
      for (size_t i = begin; i < end; ++i) {
        chooser_->limit(rows_[i], time_of(frontier_ + i));
        sum += chooser_->most(rows_[i]);
      }
      starts_[begin / kRows + 1] = sum;
    });
  }

  // The bounds of a chunk's rows in a topology with deltas.
  void find_changed(size_t begin, size_t end) {
    const bool places = !options.edge_ids || !csr_.has_edge_ids();
    const int64_t* nodes = target.node + frontier_;
    std::array<typename Csr::Found, kRows> found;
    for (size_t i = begin; i < end; ++i) {
      found[i - begin] = csr_.find(static_cast<uint64_t>(nodes[i]));
      prefetch(found[i - begin].bounds);
      if (places) prefetch(found[i - begin].shift);
    }
    for (size_t i = begin; i < end; ++i) {
      rows_[i] = chooser_->bounds(csr_.row(static_cast<uint64_t>(nodes[i]), found[i - begin]));
      if (places) shifts_[i] = Csr::shift_of(found[i - begin]);
    }
  }

  // Fills `edge` with a chunk's positions, and `col`.
  void choose(size_t chunk, ChooseScratch& scratch) {
    const size_t first = first_ + static_cast<size_t>(starts_[chunk]);
    size_t at = first;
    uint64_t work = kWorkALook;  // since the last look: one per chunk at least
    for (size_t i = chunk * kRows; i < std::min((chunk + 1) * kRows, num_rows_); ++i) {
      const size_t label = frontier_ + i;
      const uint64_t batch = target.disjoint ? static_cast<uint64_t>(target.batch[label]) : 0;
      const auto node = static_cast<uint64_t>(target.node[label]);
      const size_t count = chooser_->choose(rows_[i], node, batch, edges.edge + at, scratch, time_of(label));
      std::fill_n(edges.col + at, count, static_cast<Edge>(label));
      at += count;
      if ((work += rows_[i].degree) > kWorkALook) {  // hubs
        check_interrupt();
        work = 0;
      }
    }
    written_[chunk] = at - first;
    // Rows with weights of zero or excluded edges gave fewer: what is left must be positions too, for the look-ahead.
    std::fill(edges.edge + at, edges.edge + first_ + starts_[chunk + 1], Edge{0});
  }

  // Reads the neighbours of a chunk's edges, and turns positions into the user's edge ids.
  void fetch(size_t chunk) {
    constexpr size_t kAhead = 32;
    const size_t count = written_[chunk];
    Edge* position = edges.edge + first_ + starts_[chunk];
    Id* neighbours = neighbours_ + starts_[chunk];
    for (size_t i = 0; i < std::min(kAhead, count); ++i) prefetch(csr_.indices + position[i]);
    for (size_t i = 0; i < count; ++i) {
      if (i % kWorkALook == 0) check_interrupt();
      if (i + kAhead < count) prefetch(csr_.indices + position[i + kAhead]);
      neighbours[i] = static_cast<Id>(csr_.neighbour(static_cast<uint64_t>(position[i])));
    }
    if (!options.edge_ids || !csr_.has_edge_ids()) {
      if (csr_.changed) to_places(position, edges.col + first_ + starts_[chunk], count);
      return;
    }
    for (size_t i = 0; i < std::min(kAhead, count); ++i) prefetch_edge_id(static_cast<uint64_t>(position[i]));
    uint64_t bits = 0;
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) prefetch_edge_id(static_cast<uint64_t>(position[i + kAhead]));
      const uint64_t id = csr_.stored_edge_id(static_cast<uint64_t>(position[i]));
      bits |= id;
      position[i] = static_cast<Edge>(id);
    }
    if constexpr (sizeof(Edge) < sizeof(int64_t)) {
      if (bits > INT32_MAX) edges.is_exceeded = true;
    }
  }

  // Positions become places among all edges in order, which differ with deltas.
  void to_places(Edge* position, const Edge* col, size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t shift = shifts_[static_cast<size_t>(col[i]) - frontier_];
      position[i] = static_cast<Edge>(static_cast<uint64_t>(position[i]) + shift);
    }
  }

  void prefetch_edge_id(uint64_t position) const {
    if (csr_.edge_ids32 != nullptr) {
      prefetch(csr_.edge_ids32 + position);
    } else {
      prefetch(csr_.edge_ids64 + position);
    }
  }

  const Csr& csr_;
  const std::span<const int64_t> times_;
  const bool timed_;
  std::optional<LookAhead<Csr>> ahead_;  // none: pages are read by page faults

  // Of the hop in the making:
  std::optional<RowChooser<Csr>> chooser_;
  size_t frontier_ = 0;  // its first target
  HopRow* rows_ = nullptr;
  size_t num_rows_ = 0;
  size_t first_ = 0;             // its first edge
  std::vector<size_t> written_;  // how many edges each chunk has
  bool cold_ = false;            // edges are chosen already
  Id* neighbours_ = nullptr;     // of its edges
  uint64_t* shifts_ = nullptr;   // with deltas: what to add to positions for places among all edges in order
  std::shared_ptr<Buffer> rows_memory_, neighbours_memory_, shifts_memory_;
};

}  // namespace gz
