// packed: a sampled subgraph while it waits, in half the memory: 32-bit numbers where they fit.
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
  uint64_t bytes() const { return memory_ ? memory_->size() : 0; }
  uint64_t unpacked_bytes() const;

 private:
  struct Array {
    size_t size = 0;
    bool wide = false, present = false;
    size_t offset = 0;  // in memory_
  };
  std::vector<Array> arrays_;  // in the order of for_each_array()
  std::shared_ptr<Buffer> memory_;
  HeteroSubgraph rest_;  // all but the arrays
};

}  // namespace gz
