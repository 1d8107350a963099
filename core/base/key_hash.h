// key_hash: 128 bits that identify a key, a string or a 64-bit number. The upper ones order the index of a map on
// disk, so the function is part of the file format and never changes (docs/dataset.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/random.h"

namespace gz {

struct KeyHash {
  uint64_t high = 0, low = 0;
  bool operator==(const KeyHash&) const = default;
};

// Words of 8 bytes go through two lanes of bijections, so two keys of one length that differ in one word differ in both
// lanes. The last word overlaps the one before; the length separates such keys.
inline KeyHash hash_key(std::string_view key) {
  uint64_t a = 0x243f6a8885a308d3ull, b = 0x13198a2e03707344ull;
  const auto absorb_word = [&](uint64_t word) {
    a = mix(a ^ word);
    b = mix(b + word * 0x9fb21c651e98df25ull);
  };
  const size_t n = key.size();
  uint64_t word = 0;
  if (n >= 8) {
    for (size_t at = 0; at + 8 < n; at += 8) {
      std::memcpy(&word, key.data() + at, 8);
      absorb_word(word);
    }
    std::memcpy(&word, key.data() + n - 8, 8);
  } else if (n > 0) {
    std::memcpy(&word, key.data(), n);
  }
  absorb_word(word);
  return {mix(a ^ (n * kGolden)), mix(b + n)};
}

inline KeyHash hash_key(int64_t key) {
  const auto word = static_cast<uint64_t>(key);
  return {mix(word + kGolden), mix(word ^ 0x13198a2e03707344ull)};
}

// What the index on disk is ordered by: 63 bits, so that it is a positive int64.
inline int64_t index_hash(const KeyHash& hash) { return static_cast<int64_t>(hash.high >> 1); }

}  // namespace gz
