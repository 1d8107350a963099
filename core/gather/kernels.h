// kernels: the conversions of copy, one element at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gz {

// How far ahead rows are prefetched, and how much of each.
struct Distance {
  size_t rows;
  uint64_t bytes;

  static Distance of(uint64_t row_bytes) {
    constexpr uint64_t kAhead = 8192;           // bytes in flight
    constexpr uint64_t kMostPrefetched = 1024;  // of one row; the hardware prefetcher handles longer runs
    const auto rows = static_cast<size_t>(std::clamp<uint64_t>(kAhead / row_bytes, 2, 64));
    return {rows, std::min(row_bytes, kMostPrefetched)};
  }
};

// IEEE half to float: exact. A signalling NaN becomes quiet, as in the processor's own conversion.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in float
    const float value = static_cast<float>(fraction) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  if (exponent == 31) {
    const uint32_t quiet = fraction != 0 ? 0x400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// bfloat16 is the upper half of a float.
inline float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

template <class T>
T load_element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace gz
