// link: edges to be predicted -> their negatives, the seeds (their ends), and a subgraph around those
// (PyG's contract for link loaders).
//
// Negatives are drawn by the batch's key as negative_edges() draws them, so a batch is a function of its edges and its
// key. Ends are deduplicated by node type in the order source of each edge, then target of each edge, positives before
// negatives; in a disjoint sample each end is a tree of its own.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sample/subgraph/neighbours.h"
#include "storage/topology.h"

namespace gz {

enum class LinkNegatives {
  kNone,
  kBinary,   // pairs, each as good as an edge with the label 0
  kTriplet,  // other targets for the source of each positive edge
};
enum class LinkExclude { kNone, kSelf, kReverse };

struct LinkOptions {
  LinkNegatives negatives = LinkNegatives::kNone;
  double ratio = 1;     // negatives for each positive edge; a whole number for triplets
  bool strict = false;  // no negative is an edge of the graph, or a node with itself
  bool by_degree = false;
  double exponent = 0.75;
  LinkExclude exclude = LinkExclude::kNone;
  std::vector<size_t> reverse_types;  // for kReverse: edge types that hold the reverses, other than the edges' own
};

// Positive edges of one type; times is empty or has one for each.
struct Links {
  size_t edge_type = 0;
  std::span<const int64_t> source, target, times;
};

struct LinkSeeds {
  std::vector<int64_t> source, target;              // nodes of the two types; all in `source` if they are one type
  std::vector<int64_t> source_times, target_times;  // of these, with times
  // What is predicted, as places among the seeds. None or binary: (2, M), sources above targets; positives first.
  std::vector<int64_t> edge_label_index;
  // Triplets: one, one and `ratio` for each positive edge.
  std::vector<int64_t> src_index, dst_pos_index, dst_neg_index;
  std::vector<int64_t> times;             // of the edges in edge_label_index, or of the triplets
  std::vector<int64_t> tree_edge;         // which positive edge each seed belongs to, if seeds are trees; else empty
  size_t num_positive = 0, num_each = 0;  // num_each: negatives a triplet
};

// Throws ArgumentError for invalid options.
void check_link_options(const LinkOptions& options);

// Draws negatives and finds the seeds. Throws IndexError for ends that are not nodes, and what negative_edges() throws.
LinkSeeds link_seeds(std::span<const NodeType> node_types, const EdgeType& edge_type, const Links& links,
                     const LinkOptions& options, bool disjoint, uint64_t key, int threads);

// What must not be sampled around these edges, by edge type.
std::map<size_t, ExcludedEdges> link_exclusion(std::span<const EdgeType> edge_types, const Links& links,
                                               const LinkOptions& options);

// In a disjoint sample, numbers of trees become those of positive edges: both ends of an edge, and its negatives, have
// one number.
void number_by_edge(const LinkSeeds& seeds, std::span<int64_t> batch);

struct LinkSubgraph {
  HeteroSubgraph graph;
  LinkSeeds seeds;
};

// All of it in one call. `options` as in sample_hetero().
LinkSubgraph sample_links(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                          const Links& links, const LinkOptions& link_options, const SampleOptions& options);

// The ends of edges that are known by their places in the file, as when all edges of a graph are seeds: what the file
// holds need not be copied to be shuffled.
struct EdgesAt {
  std::span<int64_t> source, target;
  std::span<int64_t> edge;  // the user's edge ids if the file has them, else positions; empty: not wanted
  std::span<int64_t> time;  // the edges' own; or empty
};

// Finds the edges at these positions of the rows of `direction`: neighbour and time by position, the row by a binary
// search, many at a time. Throws IndexError for a position that there is not, ArgumentError for times that there are
// not.
void edges_at(const Topology& topology, Direction direction, std::span<const int64_t> positions, const EdgesAt& out);

}  // namespace gz
