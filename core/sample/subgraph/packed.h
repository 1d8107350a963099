// packed: a sampled subgraph while it waits, compressed to a sixth of its size or less: each block of numbers is stored
// in as few bytes as it needs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "sample/subgraph/neighbours.h"

namespace gz {

class PackedSubgraph {
 public:
  PackedSubgraph() = default;
  explicit PackedSubgraph(HeteroSubgraph&& graph);  // its memory goes back to the pool

  HeteroSubgraph unpack() const;  // equal to what was packed
  uint64_t bytes() const { return bytes_; }

 private:
  struct Array {
    size_t size = 0;
    bool present = false;
  };
  std::vector<Array> arrays_;       // in the order of for_each_array()
  std::shared_ptr<Buffer> memory_;  // the encodings of all blocks, then their bytes
  uint64_t bytes_ = 0;              // of it
  HeteroSubgraph rest_;             // all but the arrays
};

}  // namespace gz
