// packed: a sampled subgraph while it waits, in half the memory: 32-bit numbers where they fit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "sample/neighbours.h"

namespace gz {

class PackedSubgraph {
 public:
  PackedSubgraph() = default;
  explicit PackedSubgraph(SampledSubgraph&& graph);  // its memory goes back to the pool

  SampledSubgraph unpack() const;  // equal to what was packed
  uint64_t bytes() const { return memory_ ? memory_->size() : 0; }
  uint64_t unpacked_bytes() const;

 private:
  struct Array {
    size_t size = 0;
    bool wide = false, present = false;
    size_t offset = 0;  // in memory_
  };
  Array arrays_[4];  // node, edge_index, edge, batch
  std::shared_ptr<Buffer> memory_;
  std::vector<int64_t> num_sampled_nodes_, num_sampled_edges_;
  uint64_t scratch_bytes_ = 0;
};

}  // namespace gz
