// walk: random walks over a topology, many at a time: uniform, weighted, node2vec, with restarts.
//
// Promise: row i of the result is a function of (graph, seed, i, starts[i], options) alone. Every walk has a random
// stream of its own, keyed by (seed, i), so neither the number of threads nor the way a batch is cut into chunks shows,
// equal starts walk independently, and a longer walk begins with the shorter one.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "storage/topology.h"

namespace gz {

struct WalkOptions {
  uint64_t length = 0;    // steps; a row of the result has length + 1 nodes, the start first
  double p = 1, q = 1;    // node2vec's return and in-out parameters; both 1 is a first-order walk
  bool weighted = false;  // steps in proportion to the weights of edges
  double restart = 0;     // probability that a step goes back to the start instead
  Direction direction = Direction::kNone;
  uint64_t seed = 0;
  int threads = 0;
  TopologyIo io = TopologyIo::kAuto;
  bool plain = false;  // one walk at a time, one step after the other: the oracle of tests, the yardstick of benchmarks
};

// Fills `out`, starts.size() rows of length + 1. A walk that cannot go on (no neighbours, or no weight on any) stays
// where it is. Throws IndexError and ArgumentError before any work, FormatError for a damaged file.
void random_walks(const Topology& topology, std::span<const int64_t> starts, const WalkOptions& options,
                  std::span<int64_t> out);

// One batch of walks, as its kernels see it.
struct WalkBatch {
  std::span<const int64_t> starts;
  std::span<int64_t> out;
  const WalkOptions& options;

  uint64_t start(size_t walk) const { return static_cast<uint64_t>(starts[walk]); }
  Random random(size_t walk) const { return Random(make_key(options.seed, kStream, walk)); }
  int64_t* row(size_t walk) const { return out.data() + walk * (options.length + 1); }

  static constexpr uint64_t kStream = 0x6b6c6177;  // "walk": separate from other draws of the same seed
};

}  // namespace gz
