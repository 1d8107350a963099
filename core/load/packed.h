// packed: a sampled subgraph while it waits, in a third of the memory: each stretch of its numbers in as few bytes as
// they need.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "sample/hetero.h"

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
  std::shared_ptr<Buffer> memory_;  // the forms of all stretches, then their bytes
  uint64_t bytes_ = 0;              // of it
  HeteroSubgraph rest_;             // all but the arrays
};

}  // namespace gz
