// pad: how many nodes a padded subgraph has, so that batches have few distinct sizes.
//
// A GPU's library searches for a kernel for each matrix of a size that it has not seen, in the thread that launches it
// (docs/how-the-gpu-tier-works.md). Batches around 1,024 seeds differ in size by 2 %, and hardly two are equal; padded,
// they have two or three sizes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace gz {

constexpr int kPaddedBits = 6;

// The least number of six significant bits that is not below `count`: at most a thirty-second more.
constexpr uint64_t padded_count(uint64_t count) {
  const uint64_t step = uint64_t{1} << std::max(static_cast<int>(std::bit_width(count)) - kPaddedBits, 0);
  return (count + step - 1) / step * step;
}

}  // namespace gz
