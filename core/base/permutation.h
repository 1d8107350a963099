// permutation: keyed bijections of [0, n) that take no memory, and no time to make.
//
// A Feistel network: a number is split into two halves, and each round changes one half by a random function of the
// other, which can be undone. The numbers that can be split this way are a few more than n: a result that is not below
// n is permuted again until it is (cycle walking).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/random.h"

namespace gz {

// `Halves` says how numbers are split and how a half is changed; `kRounds` is even.
template <class Halves, size_t kRounds>
class Permutation {
 public:
  using Keys = std::array<uint64_t, kRounds>;

  Permutation() = default;
  Permutation(uint64_t n, const Keys& keys) : n_(n), halves_(n), keys_(keys) {}

  uint64_t operator()(uint64_t i) const {  // i < n
    do {
      auto [first, second] = halves_.split(i);
      for (size_t round = 0; round < kRounds; round += 2) {
        first = halves_.change_first(first, keys_[round], second);
        second = halves_.change_second(second, keys_[round + 1], first);
      }
      i = halves_.join(first, second);
    } while (i >= n_);
    return i;
  }

 private:
  uint64_t n_ = 0;
  Halves halves_{1};
  Keys keys_{};
};

// Row and column of the smallest near-square rectangle that holds n places, of which fewer than its height lie past n.
// A round adds a random number modulo the height or the width. The root may be off by a few either way, which only
// changes the shape: the width covers n.
class RectangleHalves {
 public:
  explicit RectangleHalves(uint64_t n)
      : height_(std::max<uint64_t>(static_cast<uint64_t>(std::sqrt(static_cast<double>(n))), 1)),
        width_((n + height_ - 1) / height_) {}

  std::pair<uint64_t, uint64_t> split(uint64_t i) const { return {i / width_, i % width_}; }
  uint64_t join(uint64_t row, uint64_t column) const { return row * width_ + column; }
  uint64_t change_first(uint64_t row, uint64_t key, uint64_t column) const { return add(row, key, column, height_); }
  uint64_t change_second(uint64_t column, uint64_t key, uint64_t row) const { return add(column, key, row, width_); }

 private:
  static uint64_t add(uint64_t half, uint64_t key, uint64_t other, uint64_t n) {
    const uint64_t sum = half + multiply_high(mix(key + other * kGolden), n);
    return sum < n ? sum : sum - n;
  }

  uint64_t height_, width_;
};

// The lower and the upper bits of n. A round is an exclusive or.
class BitHalves {
 public:
  explicit BitHalves(uint64_t n)
      : bits_(std::max(8, static_cast<int>(std::bit_width(n)))),
        low_bits_(bits_ / 2),
        low_mask_((uint64_t{1} << low_bits_) - 1),
        high_mask_((uint64_t{1} << (bits_ - low_bits_)) - 1) {}

  std::pair<uint64_t, uint64_t> split(uint64_t i) const { return {i & low_mask_, i >> low_bits_}; }
  uint64_t join(uint64_t low, uint64_t high) const { return high << low_bits_ | low; }
  uint64_t change_first(uint64_t low, uint64_t key, uint64_t high) const { return low ^ (mix(high + key) & low_mask_); }
  uint64_t change_second(uint64_t high, uint64_t key, uint64_t low) const {
    return high ^ (mix(low + key) & high_mask_);
  }

 private:
  int bits_, low_bits_;
  uint64_t low_mask_, high_mask_;
};

}  // namespace gz
