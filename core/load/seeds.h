// seeds: the seeds that the batches of a loader are sampled from.
//
// A seed source turns the positions of a batch into seeds of one or several node types, and into arrays that are
// delivered with the batch. Node seeds are the simple case; edge seeds have two endpoints each, which are seeds of
// their node types, and arrays with the endpoints and label of each edge.
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

// An array of a batch that was created by its seed source, with the name it has in Python.
struct BatchArray {
  std::string name;
  DType dtype = DType::kInt64;
  std::vector<size_t> shape;
  std::shared_ptr<Buffer> buffer;  // pooled: take_buffer()
};

// The seeds of one node type, with one time each if the source is timed.
struct SeedsOfType {
  size_t type = 0;
  std::vector<int64_t> nodes, times;
};

struct BatchSeeds {
  std::vector<SeedsOfType> seeds;      // each node type at most once; trees are numbered consecutively across types
  std::vector<ExcludedEdges> exclude;  // one per edge type, or empty: edges that the sample must not contain
  std::vector<BatchArray> arrays;
  uint64_t key = 0;  // of the random draws

  const ExcludedEdges* exclude_of(size_t edge_type) const { return exclude.empty() ? nullptr : &exclude[edge_type]; }
};

// Immutable, except for arrays that belong to the user; thread-safe.
class SeedSource {
 public:
  virtual ~SeedSource() = default;

  virtual uint64_t count() const = 0;                    // positions of an epoch
  virtual bool timed() const = 0;                        // whether seeds have times
  virtual std::vector<size_t> types() const = 0;         // node types that have seeds
  virtual void check(const LoadGraph& graph) const = 0;  // throws ArgumentError, IndexError
  // Sets seeds, excluded edges and arrays of the batch with these positions; random choices depend on out.key.
  // Allocations that grow with the batch come from take_buffer(), which may throw PoolFull.
  virtual void fill(std::span<const int64_t> input, BatchSeeds& out) const = 0;
};

// Nodes of one type; `times` is empty or has one value per seed.
std::shared_ptr<const SeedSource> node_seeds(Numbers nodes, Numbers times = {}, size_t type = 0);

}  // namespace gz
