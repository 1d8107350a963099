// embed: vectors of nodes by skip-gram over random walks (DeepWalk, node2vec).
//
// Walks are not stored: a thread draws a block of them, trains on it and forgets it. Threads share the vectors without
// locks (Hogwild), so with several of them the result differs in detail from run to run; with one it is a function of
// (graph, options). Where the vectors exceed the memory budget, they are in partitions on disk: for each pair of
// partitions the walks are drawn again, and pairs of nodes that lie in the two are trained.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "embed/node_vectors.h"
#include "sample/walk/walk.h"
#include "storage/topology.h"

namespace gz {

struct EmbedOptions {
  uint64_t dim = 128;
  uint64_t walk_length = 20;  // steps
  uint64_t walks_per_node = 10, epochs = 1;
  uint64_t window = 5;     // most steps between a node and its contexts; each node draws its own from 1 to this
  uint64_t negatives = 5;  // outputs by degree^0.75 that the contexts of a node share
  double p = 1, q = 1;
  bool weighted = false;
  Direction direction = Direction::kNone;
  double learning_rate = 0.05;  // at the start; falls linearly to a ten thousandth
  uint64_t seed = 0;
  int threads = 1;
  uint64_t memory = 0;      // bytes, of vectors, tables and the rows of the graph
  uint64_t beside = 0;      // of these, what the caller takes to write the vectors to a file; 0: it takes them in RAM
  uint32_t partitions = 0;  // 0: the fewest that the memory allows
  std::string folder;       // for partitions on disk
  Progress* progress = nullptr;
  bool plain = false;  // the portable kernel
};

// Throws ArgumentError for options that make no sense or if training diverges, BudgetError if the memory is too small
// for any number of partitions, StorageError if the disk is full.
NodeVectors embed(const Topology& topology, const EmbedOptions& options);

}  // namespace gz
