// topology_delta: edges that are added to and removed from a .gl file -> a delta of it (FORMAT 9).
//
// Every changed row is written anew, as compiling all edges together would write it: the rows of the files before, less
// the removed edges, then the added ones in their order. Readers find such a row elsewhere and notice nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "compile/append/append_options.h"
#include "storage/topology.h"

namespace gz {

struct TopologyChange {
  uint64_t num_sources = 0, num_targets = 0;  // afterwards; equal for a square topology
  std::span<const int64_t> sources, targets;  // of the added edges
  const float* weights = nullptr;             // where the topology has them
  const int64_t* times = nullptr;
  const int64_t* edge_ids = nullptr;                          // null: they go on counting
  std::span<const int64_t> removed_sources, removed_targets;  // all edges between these ends, or
  std::span<const int64_t> removed_edge_ids;                  // those with these ids
};

struct DeltaReport {
  uint64_t nodes = 0, targets = 0, edges = 0;  // of the topology afterwards
  uint64_t added = 0, removed = 0;             // edges, as they are stored in each direction
  uint64_t missing = 0;                        // pairs and ids to remove that were not found
  uint64_t duplicates_dropped = 0, self_loops_dropped = 0;
  uint64_t rows_written = 0, edges_written = 0;  // of changed rows, in all directions
  uint64_t bytes = 0;
  std::optional<uint64_t> next_edge_id;  // where edges have ids
};

// Writes the delta that follows the files of `topology` to `out`. Throws ArgumentError and InputError for edges that
// the topology cannot take, BudgetError if the edges do not fit into the memory.
DeltaReport write_topology_delta(const Topology& topology, const TopologyChange& change, const std::string& out,
                                 const AppendOptions& options);

}  // namespace gz
