// sort_words: a radix sort of 64-bit words by their upper halves.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gz {

// Sorts words[0, n) by their upper halves, which are at most `most`, stably; the result is at the returned pointer.
inline uint64_t* sort_words(uint64_t* words, uint64_t* spare, size_t n, uint32_t most) {
  constexpr int kDigit = 11;
  for (int shift = 0; shift < static_cast<int>(std::bit_width(most)); shift += kDigit) {
    std::array<uint32_t, size_t{1} << kDigit> starts{};
    const auto digit = [&](uint64_t word) { return (word >> (32 + shift)) & ((uint64_t{1} << kDigit) - 1); };
    for (size_t i = 0; i < n; ++i) ++starts[digit(words[i])];
    uint32_t sum = 0;
    for (uint32_t& start : starts) sum += std::exchange(start, sum);
    for (size_t i = 0; i < n; ++i) spare[starts[digit(words[i])]++] = words[i];
    std::swap(words, spare);
  }
  return words;
}

}  // namespace gz
