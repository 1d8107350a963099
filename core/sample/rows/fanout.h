// fanout: K neighbours of each node of a batch, as one matrix.
//
// Promise: row i is a function of (graph, seed, i, nodes[i], options) alone: no thread count and no chunking shows, and
// equal nodes draw independently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "storage/topology.h"

namespace gz {

struct FanoutOptions {
  uint64_t count = 1;  // K: columns of the result
  std::optional<int64_t>
      pad;  // what fills a short row; nothing: draws with replacement, the node itself if it has none
  bool weighted = false;
  Direction direction = Direction::kNone;
  uint64_t seed = 0;
  int threads = 0;
  TopologyIo io = TopologyIo::kAuto;
  bool plain = false;  // one row after the other: the oracle of tests, the yardstick of benchmarks
};

// Fills `out`, nodes.size() rows of `count`. A row holds distinct neighbours if there are `count` of them, otherwise
// all of them in order and then what `pad` says; repeated edges count as neighbours each. With weights, only neighbours
// of positive weight count. Throws IndexError and ArgumentError before any work, FormatError for a damaged file.
void random_fanout(const Topology& topology, std::span<const int64_t> nodes, const FanoutOptions& options,
                   std::span<int64_t> out);

// The distinct neighbours that random_fanout would begin the row of `node` with: at most `count`.
std::vector<int64_t> random_neighbours(const Topology& topology, int64_t node, const FanoutOptions& options);

}  // namespace gz
