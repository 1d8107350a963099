// expansion: one subgraph in the making, hop by hop, over all edge types.
//
// A hop is a run of chunks of rows, edge type after edge type. Their edges are chosen and fetched by any thread, and
// labelled by one after the other, in order, while the next chunks are made. Memory is from the pool, so a call that is
// like the one before allocates nothing and faults nothing in (benchmarks/sampling).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/threads.h"
#include "sample/subgraph/edge_hop.h"
#include "sample/subgraph/neighbours.h"

namespace gz {

// What depends on order is often the smaller half of the work. Done in a second pass it would need to be made parallel
// at the price of more work; done by one thread while the others make the next chunks, it costs nothing
// (benchmarks/sampling, 2 threads).
//
// Calls make(chunk, worker) for every chunk below `chunks`, many at a time, and finish(chunk) for each after it was
// made: in ascending order, never two at a time. What an earlier finish wrote, a later one sees. No thread waits: one
// that has nothing to finish makes, and the one that makes the last chunk finishes what is left.
template <class Make, class Finish>
void make_and_finish(size_t chunks, int threads, const Make& make, const Finish& finish) {
  if (threads <= 1 || chunks <= 1) {
    for (size_t c = 0; c < chunks; ++c) {
      make(c, 0);
      finish(c);
    }
    return;
  }
  std::vector<std::atomic<bool>> made(chunks);
  std::atomic<size_t> next{0};
  std::atomic<bool> finishing{false}, failed{false};
  size_t done = 0;  // guarded by `finishing`

  // Finishes all that is ready, unless another thread is at it. That thread looks again after it has let go, so a chunk
  // made in between is not forgotten: hence the sequentially consistent order of `made` and `finishing`.
  const auto finish_ready = [&] {
    for (bool again = true; again && !failed;) {
      if (finishing.exchange(true)) return;
      while (done < chunks && made[done]) finish(done++);
      const size_t reached = done;
      finishing = false;
      again = reached < chunks && made[reached];
    }
  };
  const auto work = [&](int worker) {
    for (;;) {
      // One thread finishes while there is something to make: what it finishes with stays in its core's cache.
      if (worker == 0) finish_ready();
      const size_t c = next.fetch_add(1, std::memory_order_relaxed);
      if (c >= chunks || failed) break;
      make(c, worker);
      made[c] = true;
    }
    finish_ready();
  };
  parallel_for(static_cast<size_t>(threads), 1, threads, [&](size_t, size_t, int worker) {
    try {
      work(worker);
    } catch (...) {
      failed = true;
      throw;
    }
  });
}

// kNarrow: see Labels. Edges: GrowingEdges or NarrowEdges.
template <bool kNarrow, class Edges>
class Expansion {
 public:
  // `seeds` has an entry for each node type, in the order of types; `times` are those of all trees.
  Expansion(std::span<const NodeType> node_types, std::span<const TypedSeeds> seeds, std::span<const int64_t> times,
            const SampleOptions& options)
      : times_(times), options_(options), scratch_(static_cast<size_t>(options.threads)) {
    if (options.threads > 1) awake_.emplace();
    for (const NodeType& type : node_types) {
      std::span<const int64_t> nodes;
      size_t first_tree = 0;
      for (size_t i = 0, before = 0; i < seeds.size(); before += seeds[i++].nodes.size()) {
        if (&node_types[seeds[i].type] != &type) continue;
        nodes = seeds[i].nodes;
        first_tree = before;
      }
      types_.emplace_back(type, nodes, first_tree, options);
      trees_ += nodes.size();
    }
  }

  template <class Csr>
  void add(const Csr& csr, const EdgeType& edge, const SampleOptions& options) {
    const bool timed = !times_.empty() && csr.has_times();
    sources_.push_back(edge.source);
    targets_.push_back(edge.target);
    hops_.push_back(
        std::make_unique<CsrHop<Csr, kNarrow, Edges>>(csr, options, types_[edge.target].nodes, times_, timed));
  }

  HeteroSubgraph run(size_t num_hops) {
    for (const auto& hop : hops_) hop->whole_if_most();
    for (size_t hop = 0; hop < num_hops; ++hop) {
      std::vector<size_t> nodes, edges;
      for (const Type& type : types_) nodes.push_back(type.nodes.nodes);
      for (const auto& part : hops_) edges.push_back(part->edges.edges);
      expand(hop, hop + 1 == num_hops);
      for (Type& type : types_) type.nodes.pad();
      for (size_t t = 0; t < types_.size(); ++t) {
        types_[t].frontier = nodes[t];
        types_[t].nodes.num_sampled_nodes.push_back(static_cast<int64_t>(types_[t].nodes.nodes - nodes[t]));
      }
      for (size_t e = 0; e < hops_.size(); ++e) {
        hops_[e]->edges.num_sampled_edges.push_back(static_cast<int64_t>(hops_[e]->edges.edges - edges[e]));
      }
    }
    return finish();
  }

 private:
  static constexpr size_t kShare = size_t{1} << 15;  // a hop of fewer edges is not worth waking threads for

  struct Type {
    Type(const NodeType& type, std::span<const int64_t> seeds, size_t first_tree, const SampleOptions& options)
        : num_nodes(type.num_nodes), nodes(seeds, options, options.threads, first_tree), labels(nodes) {}
    const uint64_t num_nodes;
    GrowingNodes nodes;
    Labels<kNarrow> labels;
    size_t frontier = 0;  // nodes from here on were reached in the previous hop
    size_t coming = 0;    // that the hop adds at most
  };

  void expand(size_t hop, bool last) {
    size_t most = 0, chunks = 0;
    for (Type& type : types_) type.coming = 0;
    for (size_t e = 0; e < hops_.size(); ++e) {
      const uint64_t more = hops_[e]->measure(hop, types_[targets_[e]].frontier);
      Type& source = types_[sources_[e]];
      check_hop(source.nodes, hops_[e]->edges, hop, source.coming + more);
      source.coming += static_cast<size_t>(more);
      most += static_cast<size_t>(more);
      chunks += hops_[e]->chunks();
    }
    // Where there is one edge type, all ids may share a buffer.
    const size_t most_nodes = hops_.size() == 1 && types_.size() == 1 ? types_[0].nodes.most(types_[0].coming) : 0;
    for (const auto& part : hops_) part->reserve(last, most_nodes);
    reserve_nodes(hop, last);
    const int threads = most < kShare ? 1 : options_.threads;
    for (const auto& part : hops_) part->choose_ahead(threads, scratch_);
    parts_.clear();
    for (size_t e = 0; e < hops_.size(); ++e) {
      for (size_t c = 0; c < hops_[e]->chunks(); ++c) parts_.push_back({e, c});
    }
    make_and_finish(
        chunks, threads,
        [&](size_t i, int worker) {
          hops_[parts_[i].edge_type]->make(parts_[i].chunk, scratch_[static_cast<size_t>(worker)]);
        },
        [&](size_t i) {
          hops_[parts_[i].edge_type]->label(parts_[i].chunk, types_[sources_[parts_[i].edge_type]].labels);
        });
  }

  void reserve_nodes(size_t hop, bool last) {
    for (size_t t = 0; t < types_.size(); ++t) {
      Type& type = types_[t];
      type.nodes.reserve_nodes(type.nodes.most(type.coming));
      double labels = static_cast<double>(type.nodes.nodes + type.coming);
      // What the next hop is likely to bring, so that the table is not filled now only to be moved then.
      for (size_t e = 0; e < hops_.size() && !last; ++e) {
        const int64_t fanout = hops_[e]->options.fanouts[hop + 1];
        if (sources_[e] != t || fanout <= 0) continue;
        labels += static_cast<double>(types_[targets_[e]].coming) *
                  std::min(hops_[e]->mean_degree(), static_cast<double>(fanout));
      }
      // A tree contains a node once.
      const double all = static_cast<double>(type.num_nodes) * static_cast<double>(options_.disjoint ? trees_ : 1);
      type.labels.reserve(static_cast<size_t>(std::min(labels, all)), options_.threads);
    }
  }

  HeteroSubgraph finish() {
    HeteroSubgraph result;
    for (Type& type : types_) {
      result.scratch_bytes += type.labels.bytes();
      result.nodes.push_back(type.nodes.finish_nodes());
    }
    for (const auto& part : hops_) {
      result.scratch_bytes += part->scratch_bytes();
      result.edges.push_back(part->edges.finish_edges());
    }
    return result;
  }

  const std::span<const int64_t> times_;
  const SampleOptions& options_;
  std::optional<StayAwake> awake_;      // while several threads share the steps
  std::vector<ChooseScratch> scratch_;  // one per worker
  std::deque<Type> types_;              // stable addresses
  size_t trees_ = 0;
  std::vector<std::unique_ptr<EdgeHop<kNarrow, Edges>>> hops_;  // one per edge type
  std::vector<size_t> sources_, targets_;                       // their node types
  struct Part {
    size_t edge_type, chunk;
  };
  std::vector<Part> parts_;  // chunks of the hop in the making
};

}  // namespace gz
