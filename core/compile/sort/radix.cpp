// radix: least significant digit first. Buckets are sized to fit the cache, so a pass takes a few cycles per key.
#include "compile/sort/radix.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <utility>

namespace gz {
namespace {

constexpr int kDigit = 11;
constexpr size_t kRadix = size_t{1} << kDigit;
constexpr int kMostPasses = (64 + kDigit - 1) / kDigit;
constexpr size_t kSmall = 192;  // below this, counters cost more than comparisons

void sort_small(uint64_t* keys, uint32_t* places, size_t n) {
  if (places == nullptr) {
    std::sort(keys, keys + n);
    return;
  }
  std::array<std::pair<uint64_t, uint32_t>, kSmall> pairs;
  for (size_t i = 0; i < n; ++i) pairs[i] = {keys[i], static_cast<uint32_t>(i)};
  std::sort(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(n));
  for (size_t i = 0; i < n; ++i) std::tie(keys[i], places[i]) = pairs[i];
}

template <bool kWithPlaces>
void pass(const uint64_t* keys, const uint32_t* places, uint64_t* to_keys, uint32_t* to_places, size_t n, int shift,
          uint32_t* cursors) {
  for (size_t i = 0; i < n; ++i) {
    const uint64_t key = keys[i];
    const uint32_t to = cursors[(key >> shift) & (kRadix - 1)]++;
    to_keys[to] = key;
    if constexpr (kWithPlaces) to_places[to] = places[i];
  }
}

}  // namespace

Sorted radix_sort(uint64_t* keys, uint64_t* spare_keys, uint32_t* places, uint32_t* spare_places, size_t n, int bits) {
  if (n < kSmall) {
    sort_small(keys, places, n);
    return {keys, places};
  }
  if (places != nullptr) std::iota(places, places + n, uint32_t{0});
  const int passes = (bits + kDigit - 1) / kDigit;
  std::array<std::array<uint32_t, kRadix>, kMostPasses> counts;
  for (int p = 0; p < passes; ++p) counts[static_cast<size_t>(p)].fill(0);
  for (size_t i = 0; i < n; ++i) {
    for (int p = 0; p < passes; ++p) ++counts[static_cast<size_t>(p)][(keys[i] >> (p * kDigit)) & (kRadix - 1)];
  }
  for (int p = 0; p < passes; ++p) {
    auto& cursors = counts[static_cast<size_t>(p)];
    if (std::find(cursors.begin(), cursors.end(), static_cast<uint32_t>(n)) != cursors.end()) continue;  // one digit
    uint32_t sum = 0;
    for (uint32_t& c : cursors) sum += std::exchange(c, sum);
    if (places != nullptr) {
      pass<true>(keys, places, spare_keys, spare_places, n, p * kDigit, cursors.data());
    } else {
      pass<false>(keys, nullptr, spare_keys, nullptr, n, p * kDigit, cursors.data());
    }
    std::swap(keys, spare_keys);
    std::swap(places, spare_places);
  }
  return {keys, places};
}

}  // namespace gz
