// radix: a stable in-cache sort of 64-bit keys, optionally with their original indices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gz {

// Sorts keys[0, n), of which only the lowest `bits` bits may be set. `places`, where not null, is filled with the index
// each key had; equal keys stay in order. The spares are as long as their counterparts. The result is at the returned
// pointers: the input's or the spare's.
struct Sorted {
  uint64_t* keys;
  uint32_t* places;
};
Sorted radix_sort(uint64_t* keys, uint64_t* spare_keys, uint32_t* places, uint32_t* spare_places, size_t n, int bits);

}  // namespace gz
