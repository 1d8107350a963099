// negatives: pairs of nodes that are not edges, for training link prediction.
//
// Promise: sample i is a function of (graph, seed, i, its source, options) alone. Exclusion is exact, and every call
// ends: pairs are drawn and refused a bounded number of times, and what is still missing then, on a dense graph or a
// hub that has nearly all the others for neighbours, is drawn from an enumeration of what is allowed, with the same
// distribution. Where nothing is allowed that is an ArgumentError.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "storage/topology.h"

namespace gz {

struct NegativeOptions {
  bool by_degree = false;  // nodes by degree^exponent, not uniformly. Degrees of sources are counted in out rows and
  double exponent = 0.75;  // of targets in in rows, where the file has those, else in the rows there are
  bool exclude_edges = true;
  bool exclude_self = true;  // no (u, u); for graphs whose sources and targets are the same nodes
  uint64_t seed = 0;
  int threads = 0;
  TopologyIo io = TopologyIo::kAuto;
  bool plain = false;  // one sample after the other: the oracle of tests, the yardstick of benchmarks
};

// Fills source.size() pairs, with replacement: two may be equal. With `sources`, only targets are drawn: each source
// gets source.size() / sources->size() of them, one after the other. Throws IndexError and ArgumentError before any
// work.
void negative_edges(const Topology& topology, std::optional<std::span<const int64_t>> sources,
                    const NegativeOptions& options, std::span<int64_t> source, std::span<int64_t> target);

}  // namespace gz
