// checked: arithmetic for numbers that came from a file or a user. A result that does not fit is nullopt.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace gz {

constexpr std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  if (a > std::numeric_limits<uint64_t>::max() - b) return std::nullopt;
  return a + b;
}

constexpr std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  if (a != 0 && b > std::numeric_limits<uint64_t>::max() / a) return std::nullopt;
  return a * b;
}

// `value` rounded up to a multiple of `unit`, a power of two.
constexpr std::optional<uint64_t> checked_round_up(uint64_t value, uint64_t unit) {
  const auto padded = checked_add(value, unit - 1);
  if (!padded) return std::nullopt;
  return *padded & ~(unit - 1);
}

// The same, for sizes that are known to be far from the end of the range.
constexpr uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) & ~(unit - 1); }

}  // namespace gz
