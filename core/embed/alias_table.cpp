// alias_table: Vose's construction, in the order of numbers.
#include "embed/alias_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/interrupt.h"

namespace gz {
namespace {

constexpr uint64_t kBetweenLooks = uint64_t{1} << 16;
constexpr double kUnits = 0x1.0p32;
constexpr uint32_t kWhole = UINT32_MAX;

}  // namespace

AliasTable::AliasTable(uint64_t n) : buffer_(std::max<size_t>(static_cast<size_t>(bytes(n)), 1), Purpose::kTables) {}

double AliasTable::build(uint64_t begin, std::span<const float> weights) {
  double sum = 0;
  for (const float weight : weights) sum += weight;
  const auto n = static_cast<uint32_t>(weights.size());
  Entry* table = entries() + begin;
  for (uint32_t i = 0; i < n; ++i) table[i] = {kWhole, i};
  if (!(sum > 0)) return 0;
  const double scale = n / sum;
  std::vector<double> shares(n);  // of a slot; 1 is a slot of its own
  for (uint32_t i = 0; i < n; ++i) shares[i] = weights[i] * scale;
  // Slots below 1 are completed by the next one above 1, which then may be below 1 itself.
  uint32_t large = 0;
  const auto next_large = [&] {
    while (large < n && shares[large] < 1) ++large;
  };
  next_large();
  for (uint32_t i = 0; i < n; ++i) {
    if (i % kBetweenLooks == 0) check_interrupt();
    uint32_t small = i;
    if (shares[small] >= 1) continue;
    while (large < n) {
      table[small] = {static_cast<uint32_t>(std::min(shares[small] * kUnits, kUnits - 1)), large};
      shares[large] -= 1 - shares[small];
      if (shares[large] >= 1) break;
      small = large;  // numbers below i were visited already: this one is completed at once
      next_large();
      if (small > i) break;  // it will be visited
    }
  }
  return sum;
}

}  // namespace gz
