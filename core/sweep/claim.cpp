// claim: a radix sort of a batch's rows, by three digits of eleven bits.
#include "sweep/claim.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace gz {
namespace {

constexpr int kDigit = 11;
constexpr size_t kFew = 1024;  // rows for which a comparison sort is as fast

// Sorts words[0, n) by their upper halves, which are at most `most`; the result is at the returned pointer.
uint64_t* sort_words(uint64_t* words, uint64_t* spare, size_t n, uint32_t most) {
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

}  // namespace

Claim::Claim(uint64_t number_, std::span<const int64_t> ids)
    : number(number_), memory_(take_buffer(ids.size() * sizeof(uint64_t), Purpose::kTables)), size_(ids.size()) {
  words_ = memory_->as<uint64_t>();
  uint32_t most = 0;
  for (size_t i = 0; i < size_; ++i) {
    words_[i] = static_cast<uint64_t>(ids[i]) << 32 | i;
    most = std::max(most, static_cast<uint32_t>(ids[i]));
  }
  if (size_ <= kFew) {
    std::sort(words_, words_ + size_);
  } else {
    auto spare = take_buffer(size_ * sizeof(uint64_t), Purpose::kTables);
    uint64_t* sorted = sort_words(words_, spare->as<uint64_t>(), size_, most);
    if (sorted != words_) {
      memory_ = std::move(spare);
      words_ = sorted;
    }
  }
  wanted = left = size_;
}

}  // namespace gz
