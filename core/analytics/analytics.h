// analytics: algorithms on a whole topology, with a few arrays by node in RAM and edges read in passes.
//
// No result depends on the number of threads, nor on the way edges are read: integers are exact, and floating-point
// sums are made in the order of the file (by row, or by fixed blocks of rows or nodes).
#pragma once

#include <cstdint>
#include <span>

#include "analytics/edge_stream.h"
#include "base/memory.h"
#include "storage/topology.h"

namespace gz {

// Throws ArgumentError for more nodes than 32-bit labels can number.
void check_countable(const Topology& topology);

// The rows that lead from a node along `way` (kOut or kIn): the file's own, or those of the other direction where the
// graph is undirected. kNone where the file lacks them.
Direction rows_along(const Topology& topology, Direction way);
constexpr Direction opposite(Direction way) { return way == Direction::kOut ? Direction::kIn : Direction::kOut; }
inline bool is_undirected(const Topology& topology) {
  return (topology.file().container().properties & kUndirected) != 0;
}

// The number of edges at each node along `way`, int64. From row pointers, or counted where the file lacks the rows.
Buffer degrees(const Topology& topology, Direction way, const AnalyticsOptions& options);

// Labels are uint32, 0, 1, 2, ... in the order of the smallest node of each set; `count` of them.
struct Labels {
  Buffer labels;
  uint64_t count = 0;
};

// Weakly connected components. In a rectangular topology, sources come first and then targets.
Labels weak_components(const Topology& topology, const AnalyticsOptions& options);
Labels strong_components(const Topology& topology, const AnalyticsOptions& options);

// Weights of some nodes, all others being zero.
struct NodeWeights {
  std::span<const int64_t> nodes;
  std::span<const double> weights;
  bool empty() const { return nodes.empty(); }
};

struct PageRankOptions {
  Direction way = Direction::kOut;  // the way that rank flows along edges
  double damping = 0.85;
  int iterations = 100;
  double tolerance = 1e-6;  // of the sum of changes; 0: all iterations
  bool weighted = false;
  NodeWeights personalization, dangling, start;  // empty: uniform; `dangling` then equals `personalization`
};
struct PageRankResult {
  Buffer ranks;  // Real
  int iterations = 0;
  double change = 0;  // of the last iteration
};
template <class Real>
PageRankResult pagerank(const Topology& topology, const PageRankOptions& how, const AnalyticsOptions& options);

// Edges that a search follows: out, in, or both.
struct SearchOptions {
  Direction way = Direction::kOut;
  int64_t limit = -1;  // most hops; -1: any number
};
// Hops from the nearest of `sources`, int32; -1 where there is no path.
Buffer search_levels(const Topology& topology, std::span<const int64_t> sources, const SearchOptions& how,
                     const AnalyticsOptions& options);
// Hops from each source into out[source, node].
void count_hops(const Topology& topology, std::span<const int64_t> sources, const SearchOptions& how,
                const AnalyticsOptions& options, int32_t* out);

// The algorithms below need symmetric, sorted rows. Parallel edges count once and self-loops do not count.

// The largest k such that a node is in the k-core, uint32.
Buffer core_numbers(const Topology& topology, const AnalyticsOptions& options);

struct Triangles {
  Buffer triangles;  // of each node, int64
  Buffer degrees;    // distinct neighbours, uint32
};
Triangles count_triangles(const Topology& topology, const AnalyticsOptions& options);

enum class WedgeMean {
  kNodes,   // the mean over nodes of the closed share of their wedges: average clustering
  kWedges,  // the closed share of all wedges: transitivity
};
// The mean of `samples` random wedges, 1 for each whose ends are connected.
double sample_wedges(const Topology& topology, WedgeMean mean, uint64_t samples, uint64_t seed,
                     const AnalyticsOptions& options);

struct PropagationOptions {
  Direction side = Direction::kNone;  // the rows whose labels a node looks at
  int iterations = 30;
  uint64_t seed = 0;
};
struct PropagatedLabels : Labels {
  int iterations = 0;
  bool stable = false;
};
PropagatedLabels propagate_labels(const Topology& topology, const PropagationOptions& how,
                                  const AnalyticsOptions& options);

// What `graphzero stats` says about edges, by one pass over the first direction of the file.
struct EdgeFacts {
  uint64_t self_loops = 0;
  uint64_t duplicates = 0;           // edges beyond the first of each pair; rows must be sorted
  uint64_t distinct = 0;             // edges without duplicates and self-loops
  uint64_t checked = 0, mutual = 0;  // of those, how many were looked up, and had a reverse
};
// Reverses are looked up for all edges, or for `samples` of them if the topology is not used through the mapping.
EdgeFacts edge_facts(const Topology& topology, uint64_t samples, uint64_t seed, const AnalyticsOptions& options);

}  // namespace gz
