// alias_table: draws of numbers by weight in constant time, 8 bytes each (Walker's method, built by Vose's).
#pragma once

#include <cstdint>
#include <span>

#include "base/memory.h"
#include "base/random.h"

namespace gz {

// Tables over consecutive ranges of [0, n), each of which is drawn from by itself.
class AliasTable {
 public:
  AliasTable() = default;
  explicit AliasTable(uint64_t n);  // n < 2^32

  // Makes the table of [begin, begin + weights.size()); weights are finite and not negative. Returns their sum; draws
  // are uniform where it is 0.
  double build(uint64_t begin, std::span<const float> weights);

  uint64_t draw(Random& random, uint64_t begin, uint64_t count) const {
    const uint64_t bits = random.next();
    const uint64_t i = begin + multiply_high(bits, count);
    const Entry entry = entries()[i];
    // The lower half of the product is the fraction of the slot. Without a branch, which would be guessed wrong.
    const uint64_t keep = static_cast<uint32_t>((bits * count) >> 32) < entry.keep ? ~uint64_t{0} : 0;
    return (i & keep) | ((begin + entry.other) & ~keep);
  }

  static uint64_t bytes(uint64_t n) { return n * sizeof(Entry); }

 private:
  struct Entry {
    uint32_t keep;   // in 2^-32: the share of the slot that is its own
    uint32_t other;  // from the start of the range
  };
  Entry* entries() const { return buffer_.as<Entry>(); }

  Buffer buffer_;
};

}  // namespace gz
