// neighbours: multi-hop neighbourhoods of seed nodes, relabelled into one subgraph (PyG's contract).
//
// What is drawn for a node depends on (options.seed, hop, node) alone, and on the seed's index too where subgraphs are
// disjoint: never on threads, batch order, or what else is in the batch. Any number of threads may call at once.
//
// In a graph of several types, an edge type leads from nodes of one type to nodes of another; a hop expands the targets
// it reached and takes edges from their rows. Draws then depend on the edge type too, which is known by its place in
// the list. A graph of one type of each is sampled by the same code, with the same draws.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "sample/subgraph/exclude.h"
#include "storage/topology.h"

namespace gz {

enum class Choice {
  kUniform,  // each expanded node draws its neighbours independently
  kLabor,    // nodes of a hop share one random number per neighbour, so they agree on which to take (LABOR-0)
};
enum class Temporal { kUniform, kLast };  // which of the edges that are old enough: any, or the latest

// Batches whose draws depend on each other: what a neighbour draws stays the same for `batches` of them, so that
// successive batches have more nodes in common. With each batch, one of `batches` neighbours draws anew. For a single
// batch nothing changes: the numbers of all neighbours are independent and uniform.
struct DependentDraws {
  uint64_t batches = 1;  // 1: independent
  uint64_t number = 0;   // of this batch
  uint64_t seed = 0;     // in place of SampleOptions::seed, the same for all batches

  bool operator==(const DependentDraws&) const = default;
};

struct SampleOptions {
  std::vector<int64_t> fanouts;  // one per hop; -1 takes all neighbours
  bool replace = false;
  bool weighted = false;  // by the file's edge weights
  bool disjoint = false;  // one tree per seed: nodes are identified by (seed index, node). Times imply it
  Choice choice = Choice::kUniform;
  Temporal temporal = Temporal::kUniform;
  Direction direction = Direction::kNone;  // kNone: the file's first
  bool edge_ids = true;    // false: `edge` holds positions even where the file keeps the user's own ids (one read less)
  bool pad_nodes = false;  // nodes without edges at the end of each hop, so that few sizes occur: see pad.h
  bool narrow_edges = false;  // edges as int32 where all of them fit: SampledEdges::narrow
  uint64_t seed = 0;
  DependentDraws dependent;  // with kLabor
  int threads = 1;
  TopologyIo io = TopologyIo::kAuto;

  // In a typed graph, each edge type has options of its own.
  uint64_t edge_type = 0, source_type = 0;  // their numbers; draws of type 0 are those of an untyped graph
  std::optional<uint64_t> window;           // with times: only edges newer than the seed's time less this
  std::span<const int64_t> node_times;      // of the sources, with times: only nodes not later than the seed
  const ExcludedEdges* exclude = nullptr;   // of the rows that are followed: never taken, on any hop, in any tree
};

// int64 values in pooled memory; copies share it.
struct Int64Array {
  std::shared_ptr<Buffer> buffer;
  size_t size = 0;
  int64_t* data() const { return buffer ? buffer->as<int64_t>() : nullptr; }
  std::span<int64_t> span() const { return {data(), size}; }
};

// What was sampled of one node type and of one edge type.
struct SampledNodes {
  Int64Array node;   // seeds in input order (repeats kept), then new nodes in the order they were reached
  Int64Array batch;  // the seed index of each node; empty unless disjoint
  std::vector<int64_t> num_sampled_nodes;  // hops + 1 numbers, the first is the number of seeds
  std::vector<int64_t> num_padding_nodes;  // how many of those were added by padding, at the end of each hop; or empty
};
struct SampledEdges {
  Int64Array edge_index;  // (2, E), contiguous: row (the neighbour's label), then col (the expanded node's)
  Int64Array edge;        // the user's edge ids if the file has them, else positions in its rows
  std::vector<int64_t> num_sampled_edges;  // one per hop
  // If set: edge_index and edge as int32, one after the other, instead of those above, which have sizes alone. There
  // may be room for the nodes behind them.
  std::shared_ptr<Buffer> narrow;
};

// A sampled graph. A homogeneous graph is one of one node type and one edge type.
struct HeteroSubgraph {
  std::vector<SampledNodes> nodes;  // one per node type
  std::vector<SampledEdges> edges;  // one per edge type
  uint64_t scratch_bytes = 0;       // what the sampler held in addition
};

// About how many rows a sample around so many seeds looks up, and how many edges it takes, if all rows were alike.
struct ExpectedReads {
  double rows = 0, edges = 0;
};
ExpectedReads expected_reads(const std::vector<int64_t>& fanouts, size_t seeds, uint64_t num_nodes, uint64_t num_edges);

// Throws ArgumentError for options that are invalid together or for this file, before any seed is read.
void check_options(const Topology& topology, const SampleOptions& options, bool with_times);

// The same for one edge type of several: `by_edge_time` says whether its own times count.
void check_row_options(const Topology& topology, const SampleOptions& options, bool by_edge_time, bool with_times);

// The subgraph around `seeds`. `times` is empty, or holds one number per seed: only edges of that time or earlier are
// taken. Throws IndexError for a seed that is not a node, FormatError for a damaged file.
HeteroSubgraph sample_neighbours(const Topology& topology, std::span<const int64_t> seeds,
                                 std::span<const int64_t> times, const SampleOptions& options);

struct NodeType {
  std::string name;
  uint64_t num_nodes = 0;
  std::span<const int64_t> times;  // one per node, or none: then nodes of this type may be sampled at any time
};

struct EdgeType {
  const Topology* topology = nullptr;
  Direction direction = Direction::kIn;  // rows by target; kOut: rows by source
  size_t source = 0, target = 0;         // node types; those in the rows, and those that have the rows
  std::vector<int64_t> fanouts;          // one per hop; -1 takes all, 0 none
  const ExcludedEdges* exclude = nullptr;
};

// `seeds` of one type, with one time each if the call has times.
struct TypedSeeds {
  size_t type = 0;
  std::span<const int64_t> nodes, times;
};

// Samples around seeds of several types. Edge types have their own fanouts; of those in `options`, only their number
// counts, which is the number of hops. `timed`: seeds have times, and edges are taken only where their time, or that of
// the node they lead to, is not later. Trees are numbered through all types of seeds. Throws ArgumentError and
// IndexError as sample_neighbours() does.
HeteroSubgraph sample_hetero(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                             std::span<const TypedSeeds> seeds, bool timed, const SampleOptions& options);

// Throws ArgumentError for types and options that do not go together: what sample_hetero() checks before the seeds.
void check_hetero(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types, bool timed,
                  const SampleOptions& options);

// The same, of arguments that are known to be good: one entry of seeds a type at most, `times` of all trees one after
// the other, or empty.
HeteroSubgraph expand_typed(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                            std::span<const TypedSeeds> seeds, std::span<const int64_t> times,
                            const SampleOptions& options);

}  // namespace gz
