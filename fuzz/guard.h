// guard: makes reads outside a mapped array, and allocations that are too large, visible to the fuzzers.
//
// Sanitizers cover the heap and the stack, not mapped files. Here every mapping of the core is between two unreadable
// regions, and its bytes outside arrays (the header, the padding) can be made unreadable too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "storage/mounted.h"

namespace gz::fuzz {

// During its lifetime, bytes of the file's mapping outside arrays are poisoned.
class OnlyArrays {
 public:
  explicit OnlyArrays(const MountedFile& file);
  ~OnlyArrays();
  OnlyArrays(const OnlyArrays&) = delete;
  OnlyArrays& operator=(const OnlyArrays&) = delete;

 private:
  std::span<const std::byte> all_;
};

// From now on an allocation of more than `bytes` ends the process; 0 lifts the limit.
void limit_allocations(size_t bytes);

}  // namespace gz::fuzz
