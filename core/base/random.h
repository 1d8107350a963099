// random: counter-based random numbers. A draw is a pure function of (key, counter), so an answer depends on the seed
// and on what is drawn for (hop, node, position), never on which thread draws it or in which order.
//
// The generator is SplitMix64 read at a counter: draw(i) = mix(key + i * golden). Keys are made by absorbing words one
// after the other through the same finaliser, so streams start at unrelated points of the 2^64 cycle.
#pragma once

#include <cstdint>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace gz {

// The upper 64 bits of a 128-bit product.
inline uint64_t multiply_high(uint64_t a, uint64_t b) {
#if defined(_MSC_VER) && !defined(__clang__)
  return __umulh(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
#endif
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;

// SplitMix64's finaliser (Stafford's variant 13): a bijection of 64-bit words that passes avalanche tests.
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// A key with one more word absorbed: key(seed, hop, node) = absorb(absorb(absorb(0, seed), hop), node).
constexpr uint64_t absorb(uint64_t key, uint64_t word) { return mix((key + kGolden) ^ mix(word + kGolden)); }

template <class... Words>
constexpr uint64_t make_key(uint64_t seed, Words... words) {
  uint64_t key = absorb(0, seed);
  ((key = absorb(key, static_cast<uint64_t>(words))), ...);
  return key;
}

// The stream of one key. Copy it freely: it is two words.
class Random {
 public:
  explicit constexpr Random(uint64_t key) : state_(key) {}

  constexpr uint64_t next() { return mix(state_ += kGolden); }

  // Uniform in [0, n), n > 0; the bias of the multiply-shift is below n / 2^64.
  uint64_t below(uint64_t n) { return multiply_high(next(), n); }

  // Uniform in [0, 1), 53 bits.
  constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace gz
