// merged_hops: many subgraphs in the making, hop by hop: bounds of rows, choice of edges, neighbours, labels. Reads are
// shared by all batches; the rest is done batch by batch, as sample/subgraph/expansion.h does for one.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/merged/merged_batch.h"
#include "sample/merged/ordered_reads.h"
#include "sample/merged/spread.h"
#include "sample/subgraph/choose.h"
#include "sample/subgraph/growing.h"
#include "storage/page_requests.h"

namespace gz {

// The arrays of one direction, and how each is read: from the mapping, or by explicit reads.
struct MergedArrays {
  ReadArray indptr, indices, edge_ids;  // edge_ids.width is 0 if no ids are read
  bool indptr_mapped = false, indices_mapped = false, edge_ids_mapped = false;
};

// Of any graph. See MergedSampler.
class AnyHops {
 public:
  virtual ~AnyHops() = default;
  // done(i, subgraph) for each batch as soon as it is labelled.
  virtual void run(std::span<const MergedBatch> batches, const MergedAhead& ahead, const MergedArrays& arrays,
                   const ReadWay& way, const MergedSink& done, MergedStats& stats) = 0;
  virtual void forget() = 0;
  virtual uint64_t bytes() const = 0;
};

// kNarrow: see Labels. Place: see HopBatch.
template <class Csr, bool kNarrow, class Place>
class MergedHops : public AnyHops {
 public:
  // `options` has its threads and its disjoint resolved.
  MergedHops(const Csr& csr, const SampleOptions& options)
      : csr_(csr), options_(options), scratch_(static_cast<size_t>(options.threads)) {}

  void run(std::span<const MergedBatch> batches, const MergedAhead& ahead, const MergedArrays& arrays,
           const ReadWay& way, const MergedSink& done, MergedStats& stats) override {
    arrays_ = &arrays;
    way_ = &way;
    hop_bytes_ = most_scratch_ = 0;
    Batches all = continued(batches, ahead.batches);
    const size_t hops = options_.fanouts.size();
    size_t passes = 0;
    for (size_t i = 0; i < batches.size(); ++i) passes = std::max(passes, hops - all[i]->hop);
    for (size_t left = passes; left > 0; --left) {
      batches_.clear();
      for (size_t i = 0; i < all.size(); ++i) {
        // After the last pass a batch lacks as many hops as there are groups before its own.
        const size_t before = i < batches.size() ? 0 : 1 + (i - batches.size()) / ahead.group;
        if (all[i]->hop + left + before <= hops) batches_.push_back(all[i].get());
      }
      make_hops(stats, [&](size_t b) { finish(all[b], batches.size(), b, done); });  // all of the group are first then
    }
    begun_.assign(std::make_move_iterator(all.begin() + static_cast<ptrdiff_t>(batches.size())),
                  std::make_move_iterator(all.end()));
    rows_memory_.reset();
    stats.scratch_bytes = std::max(stats.scratch_bytes, most_scratch_);
  }

  void forget() override {
    begun_.clear();
    rows_memory_.reset();
  }
  uint64_t bytes() const override {
    uint64_t sum = 0;
    for (const auto& batch : begun_) sum += batch->graph.nodes * (options_.disjoint ? 16 : 8) + batch->graph.edges * 24;
    return sum;
  }

 private:
  using Id = typename Csr::Id;
  using Batch = HopBatch<Csr, Place>;
  using Batches = std::vector<std::unique_ptr<Batch>>;

  struct Scratch {  // of one worker
    ChooseScratch choose;
    std::vector<int64_t> drawn;  // positions of one row
    uint64_t labels = 0;         // bytes of the largest table
  };

  // These batches and those ahead, as far as they got. Others that were begun are dropped.
  Batches continued(std::span<const MergedBatch> batches, std::span<const MergedBatch> ahead) {
    Batches before = std::exchange(begun_, {}), all;
    all.reserve(batches.size() + ahead.size());
    auto next = before.begin();
    for (const auto& given : {batches, ahead}) {
      for (const MergedBatch& batch : given) {
        while (next != before.end() && (*next)->number < batch.number) (next++)->reset();
        const bool is_begun = next != before.end() && (*next)->is(batch);
        all.push_back(is_begun ? std::move(*next++) : std::make_unique<Batch>(batch, options_));
      }
    }
    return all;
  }

  // Makes the next hop of each batch. Calls finished(b) for those that have all.
  template <class Finished>
  void make_hops(MergedStats& stats, const Finished& finished) {
    lay_out_rows();
    read_bounds(stats);
    each_batch([&](size_t b, Scratch& scratch) { choose(*batches_[b], scratch); });
    for (const Batch* batch : batches_) hop_bytes_ += batch->memory ? batch->memory->size() : 0;
    fetch(stats);
    most_scratch_ = std::max(most_scratch_, scratch_bytes());
    each_batch([&](size_t b, Scratch& scratch) {
      label(*batches_[b], scratch);
      if (++batches_[b]->hop == options_.fanouts.size()) finished(b);
    });
    hop_bytes_ = 0;
    for (const Scratch& scratch : scratch_) {
      most_scratch_ = std::max(most_scratch_, rows_bytes() + scratch_.size() * scratch.labels);
    }
  }

  void finish(std::unique_ptr<Batch>& batch, size_t batches, size_t b, const MergedSink& done) {
    HeteroSubgraph made = batch->graph.finish();
    made.scratch_bytes = most_scratch_ / batches;
    batch.reset();
    done(b, std::move(made));
  }

  uint64_t rows_bytes() const { return rows_memory_ ? rows_memory_->size() : 0; }
  uint64_t scratch_bytes() const { return rows_bytes() + hop_bytes_; }

  // work(number of the batch, scratch) for all, on all threads.
  template <class Work>
  void each_batch(const Work& work) {
    BufferPool& pool = BufferPool::current();
    parallel_for(batches_.size(), 1, options_.threads, [&](size_t begin, size_t, int worker) {
      const BufferPool::Use use(pool);  // in threads that help as well
      work(begin, scratch_[static_cast<size_t>(worker)]);
      if (worker == 0 && way_->progress != nullptr) way_->progress->report("sample", begin, batches_.size());
    });
  }

  void lay_out_rows() {
    const auto count = [&](const Batch& batch) {
      return options_.fanouts[batch.hop] == 0 ? 0 : batch.graph.end_of_frontier() - batch.frontier;
    };
    size_t total = 0;
    for (const Batch* batch : batches_) total += count(*batch);
    MergedRow* rows = room_for<MergedRow>(rows_memory_, total);
    for (Batch* batch : batches_) {
      batch->rows = {rows, count(*batch)};
      rows += batch->rows.size();
    }
  }

  template <class Each, class Length, class Deliver>
  void read(const ReadArray& array, FileOrder<Each>& order, const Length& length, const Deliver& deliver,
            MergedStats& stats) {
    OrderedReads(*way_, array, order, length, deliver).run(stats);
    most_scratch_ = std::max(most_scratch_, scratch_bytes() + order.bytes());
  }

  void read_bounds(MergedStats& stats) {
    if (arrays_->indptr_mapped) {
      each_batch([&](size_t b, Scratch&) {
        const Batch& batch = *batches_[b];
        for (size_t i = 0; i < batch.rows.size(); ++i) {
          if (i + 16 < batch.rows.size()) prefetch(csr_.bounds_of(batch.node_of(i + 16)));
          const auto row = csr_.row(batch.node_of(i));
          batch.rows[i] = {row.begin, row.degree(), 0};
        }
      });
      return;
    }
    const auto each = [&](size_t b, const auto& emit) {
      const Batch& batch = *batches_[b];
      for (size_t i = 0; i < batch.rows.size(); ++i) {
        const uint64_t node = batch.node_of(i);
        if (csr_.changed && (csr_.changed.has(node) || node >= csr_.changed.base_rows)) {  // not in indptr
          const auto row = csr_.row(node);
          batch.rows[i] = {row.begin, row.degree(), 0};
        } else {
          emit(node, i);
        }
      }
    };
    size_t most = 0;
    for (const Batch* batch : batches_) most = std::max(most, batch->rows.size());
    FileOrder order(batches_.size(), csr_.num_nodes, most, options_.threads, each, way_->progress);
    while (order.next()) {
      const auto length = [](uint64_t) { return 2; };
      const auto deliver = [&](uint64_t item, const std::byte* values) {
        uint64_t bounds[2];
        std::memcpy(bounds, values, sizeof bounds);
        if (bounds[0] > bounds[1] || bounds[1] > csr_.limit) [[unlikely]] {
          fail_row(*csr_.file, order.place(item), bounds[0], bounds[1]);
        }
        batches_[order.batch(item)]->rows[order.number(item)] = {bounds[0], bounds[1] - bounds[0], 0};
      };
      read(arrays_->indptr, order, length, deliver, stats);
    }
  }

  // Chooses from all rows but those whose neighbours decide, unless these are in RAM.
  void choose(Batch& batch, Scratch& scratch) {
    const size_t hop = batch.hop;
    const RowChooser<Csr>& chooser = batch.chooser.emplace(csr_, batch.options, hop, false);
    const GrowingSubgraph& graph = batch.graph;
    uint64_t most = 0;
    for (const MergedRow& row : batch.rows) most += chooser.most({row.begin, row.degree, row.degree});
    check_hop(graph, graph, hop, most);
    batch.edges = static_cast<size_t>(most);
    if (batch.rows.empty()) return;
    batch.memory = take_buffer(batch.edges * (sizeof(Place) + sizeof(Id)), Purpose::kTables);
    batch.chosen = batch.memory->template as<Place>();
    batch.neighbours = reinterpret_cast<Id*>(batch.chosen + batch.edges);
    // Fresh memory is faulted in here, in order and by all threads: the first reads of a hop reach into every page of
    // every batch, and would wait for all of it at once.
    for (size_t i = 0; i < batch.edges; i += kPageBytes / sizeof(Id)) batch.neighbours[i] = 0;
    if (batch.options.exclude != nullptr) ask_excluded(batch);
    size_t at = 0;
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      MergedRow& row = batch.rows[i];
      row.start = static_cast<uint32_t>(at);
      const HopRow whole{row.begin, row.degree, row.degree};
      if (!arrays_->indices_mapped && chooser.reads_neighbours(whole, batch.node_of(i))) {
        const auto count = static_cast<size_t>(chooser.most(whole));
        std::fill_n(batch.chosen + at, count, Batch::kNotChosen);
        at += count;
        continue;
      }
      const uint64_t tree = graph.disjoint ? static_cast<uint64_t>(graph.batch[batch.frontier + i]) : 0;
      at += choose(chooser, whole, batch.node_of(i), tree, batch.chosen + at, scratch);
    }
    batch.edges = at;  // fewer if edges are excluded
    if (!arrays_->indices_mapped) batch.list_long_rows();
  }

  static size_t choose(const RowChooser<Csr>& chooser, const HopRow& row, uint64_t node, uint64_t tree, Place* out,
                       Scratch& scratch) {
    if constexpr (std::is_same_v<Place, int64_t>) {
      return chooser.choose(row, node, tree, out, scratch.choose);
    } else {
      scratch.drawn.resize(static_cast<size_t>(chooser.most(row)));
      const size_t count = chooser.choose(row, node, tree, scratch.drawn.data(), scratch.choose);
      for (size_t i = 0; i < count; ++i) out[i] = static_cast<Place>(scratch.drawn[i]);
      return count;
    }
  }

  // Rows that hold excluded edges are searched in the mapping: they are few, those of the batch's own edges.
  void ask_excluded(const Batch& batch) const {
    constexpr uint64_t kMost = uint64_t{1} << 16;  // ids; a search through more reads few of their pages
    PagePrefetcher pages(*csr_.file, 1);
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const MergedRow& row = batch.rows[i];
      if (row.degree == 0 || batch.options.exclude->of(batch.node_of(i)).empty()) continue;
      pages.add(csr_.indices + row.begin, std::min(row.degree, kMost));
    }
    pages.request_added();
  }

  // Ids replace positions, so neighbours are read before them.
  void fetch(MergedStats& stats) {
    if (arrays_->indices_mapped) {
      each_batch([&](size_t b, Scratch&) {
        const Batch& batch = *batches_[b];
        from_mapping(batch, csr_.indices,
                     [&](size_t e, uint64_t p) { batch.neighbours[e] = static_cast<Id>(csr_.neighbour(p)); });
      });
    }
    const bool indices = !arrays_->indices_mapped, ids = arrays_->edge_ids.width > 0 && !arrays_->edge_ids_mapped;
    if (options_.choice == Choice::kLabor) {  // ids are known when all neighbours were read
      if (indices) fetch_in_order(true, false, stats);
      for (Batch* batch : batches_) batch->forget_long_rows();
      if (ids) fetch_in_order(false, true, stats);
    } else if (indices || ids) {
      fetch_in_order(indices, ids, stats);
    }
    if constexpr (std::is_same_v<Place, int64_t>) {
      if (arrays_->edge_ids_mapped) take_mapped_ids();
    }
  }

  void take_mapped_ids() {
    each_batch([&](size_t b, Scratch&) {
      const Batch& batch = *batches_[b];
      const auto take = [&](size_t e, uint64_t p) { batch.chosen[e] = taken_id(csr_, csr_.stored_edge_id(p), p); };
      if (csr_.edge_ids32 != nullptr) {
        from_mapping(batch, csr_.edge_ids32, take);
      } else {
        from_mapping(batch, csr_.edge_ids64, take);
      }
    });
  }

  template <class T, class Take>
  static void from_mapping(const Batch& batch, const T* array, const Take& take) {
    for (size_t i = 0; i < batch.edges; ++i) {
      if (i + 32 < batch.edges) prefetch(array + batch.chosen[i + 32]);
      take(i, static_cast<uint64_t>(batch.chosen[i]));
    }
  }

  void fetch_in_order(bool indices, bool ids, MergedStats& stats) {
    const auto each = [&](size_t b, const auto& emit) { batches_[b]->each_read(emit); };
    size_t most = 0;
    for (const Batch* batch : batches_) most = std::max(most, batch->most_numbers());
    FileOrder order(batches_.size(), csr_.limit, most, options_.threads, each, way_->progress);
    const auto length = [&](uint64_t item) { return batches_[order.batch(item)]->length_of(order.number(item)); };
    while (order.next()) {
      if (indices) deliver<Id, true>(arrays_->indices, order, length, stats);
      if constexpr (std::is_same_v<Place, int64_t>) {
        if (ids && arrays_->edge_ids.width == 4) deliver<uint32_t, false>(arrays_->edge_ids, order, length, stats);
        if (ids && arrays_->edge_ids.width == 8) deliver<uint64_t, false>(arrays_->edge_ids, order, length, stats);
      }
    }
  }

  template <class T, bool kNeighbours, class Order, class Length>
  void deliver(const ReadArray& array, Order& order, const Length& length, MergedStats& stats) {
    read(array, order, length, Spread<T, Csr, Place, Order, kNeighbours>(csr_, batches_, order), stats);
  }

  // Positions become places among all edges in order.
  void to_places(Batch& batch) const {
    int64_t* edge = batch.graph.edge + batch.graph.edges;
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const MergedRow& row = batch.rows[i];
      const uint64_t shift = csr_.start_of(batch.node_of(i)) - row.begin;
      for (size_t e = row.start; e < batch.end_of(i); ++e) {
        edge[e] = static_cast<int64_t>(static_cast<uint64_t>(edge[e]) + shift);
      }
    }
  }

  // Puts everything in its place. The table lives for one hop of one batch: to enter the nodes of earlier hops anew
  // costs little compared to the hop, and a table for every batch would take as much memory as the subgraphs.
  void label(Batch& batch, Scratch& scratch) {
    GrowingSubgraph& graph = batch.graph;
    const size_t before = graph.nodes;
    const bool last = batch.hop + 1 == options_.fanouts.size();
    if (batch.edges > 0) {
      graph.reserve_edges(graph.edges + batch.edges, last);
      for (size_t i = 0; i < batch.edges; ++i) {
        graph.edge[graph.edges + i] = static_cast<int64_t>(static_cast<uint64_t>(batch.chosen[i]) & ~kTaken);
      }
      if (csr_.changed && arrays_->edge_ids.width == 0) to_places(batch);
      for (size_t i = 0; i < batch.rows.size(); ++i) {
        std::fill(graph.col + graph.edges + batch.rows[i].start, graph.col + graph.edges + batch.end_of(i),
                  static_cast<int64_t>(batch.frontier + i));
      }
      graph.reserve_nodes(graph.most(batch.edges));
      const size_t fresh = graph.disjoint ? batch.edges : std::min<uint64_t>(batch.edges, csr_.num_nodes);
      Labels<kNarrow> labels(graph, fresh);
      labels.label(graph, graph.edges, graph.batch, batch.neighbours, batch.edges);
      graph.edges += batch.edges;
      scratch.labels = std::max(scratch.labels, labels.bytes());
    }
    graph.pad();
    if (batch.edges > 0) graph.trim_nodes();
    batch.memory.reset();
    batch.frontier = before;
    graph.num_sampled_nodes.push_back(static_cast<int64_t>(graph.nodes - before));
    graph.num_sampled_edges.push_back(static_cast<int64_t>(batch.edges));
  }

  const Csr& csr_;
  const SampleOptions options_;
  const MergedArrays* arrays_ = nullptr;  // of the current call
  const ReadWay* way_ = nullptr;
  std::vector<Scratch> scratch_;    // one per worker
  HopBatches<Csr, Place> batches_;  // of the current pass
  Batches begun_;                   // ahead of the group, by number
  std::shared_ptr<Buffer> rows_memory_;
  uint64_t hop_bytes_ = 0, most_scratch_ = 0;  // of the edges in the making; of all, at most
};

}  // namespace gz
