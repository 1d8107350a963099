// seeds: what the batches of a loader are sampled around.
//
// A seed source makes, of the positions that fall into a batch, seeds of one or several node types, and arrays that are
// delivered with the batch. Seeds that are nodes are the plain case; seeds that are edges have two endpoints each,
// which are seeds of their node types, and arrays that say which of them make up an edge, and its label.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "format/dtype.h"
#include "load/graph.h"
#include "load/numbers.h"

namespace gz {

// An array of a batch that its seed source made, under the name by which Python knows it.
struct BatchArray {
  std::string name;
  DType dtype = DType::kInt64;
  std::vector<size_t> shape;
  std::shared_ptr<Buffer> buffer;  // pooled: take_buffer()
};

// The seeds of one node type, with a time each where the source is timed.
struct SeedsOfType {
  size_t type = 0;
  std::vector<int64_t> nodes, times;
};

struct BatchSeeds {
  std::vector<SeedsOfType> seeds;      // each node type at most once; trees are numbered on from one to the next
  std::vector<ExcludedEdges> exclude;  // one an edge type, or none at all: edges that the sample may not take
  std::vector<BatchArray> arrays;
  uint64_t key = 0;  // of the random draws

  const ExcludedEdges* exclude_of(size_t edge_type) const { return exclude.empty() ? nullptr : &exclude[edge_type]; }
};

// Immutable, but for arrays that belong to the user; any thread may call.
class SeedSource {
 public:
  virtual ~SeedSource() = default;

  virtual uint64_t count() const = 0;                    // positions of an epoch
  virtual bool timed() const = 0;                        // whether seeds have times
  virtual std::vector<size_t> types() const = 0;         // node types that have seeds
  virtual void check(const LoadGraph& graph) const = 0;  // throws ArgumentError, IndexError
  // Sets seeds, excluded edges and arrays of the batch that has these positions; what is random in them depends on
  // out.key. What it allocates in numbers that grow with the batch comes from take_buffer(), which may throw PoolFull.
  virtual void fill(std::span<const int64_t> input, BatchSeeds& out) const = 0;
};

// Nodes of one type, `times` empty or one a seed.
std::shared_ptr<const SeedSource> node_seeds(Numbers nodes, Numbers times = {}, size_t type = 0);

}  // namespace gz
