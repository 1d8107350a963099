// sorted_rows: the rows of a batch in the order they lie on disk.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "base/memory.h"

namespace gz {

// Each row is one word, its id above and its index in the batch below, so that sorting moves 8 bytes a row. Not every
// batch fits: most_rows() says how many rows can be packed together, and larger batches go in parts.
class SortedRows {
 public:
  static size_t most_rows(uint64_t matrix_rows) { return size_t{1} << index_bits(matrix_rows); }

  // `id(i)` is the i-th row's id, below matrix_rows.
  template <class Id>
  SortedRows(size_t count, uint64_t matrix_rows, const Id& id)
      : index_bits_(index_bits(matrix_rows)), words_(count * sizeof(uint64_t), Purpose::kReads), count_(count) {
    auto* words = words_.as<uint64_t>();
    bool ascending = true;
    for (size_t i = 0; i < count; ++i) {
      words[i] = (static_cast<uint64_t>(id(i)) << index_bits_) | i;
      ascending = ascending && (i == 0 || words[i - 1] <= words[i]);
    }
    if (!ascending) sort(id_bits(matrix_rows));
  }

  size_t size() const { return count_; }
  uint64_t id(size_t i) const { return words_.as<uint64_t>()[i] >> index_bits_; }
  size_t index(size_t i) const {
    return static_cast<size_t>(words_.as<uint64_t>()[i] & ((uint64_t{1} << index_bits_) - 1));
  }
  // Writes row `from` over row `to`: for a worker that takes rows out of its own part.
  void overwrite(size_t to, size_t from) { words_.as<uint64_t>()[to] = words_.as<uint64_t>()[from]; }

 private:
  static int id_bits(uint64_t matrix_rows) { return static_cast<int>(std::bit_width(matrix_rows)); }
  // At most 22, 4 M rows: their words take 64 MiB while they are sorted.
  static int index_bits(uint64_t matrix_rows) { return std::min(22, 64 - id_bits(matrix_rows)); }

  // Radix by 11 bits of the id, low digits first: three passes for any graph of this world.
  void sort(int bits) {
    constexpr int kDigit = 11;
    Buffer other_words(count_ * sizeof(uint64_t), Purpose::kReads);
    auto *from = words_.as<uint64_t>(), *to = other_words.as<uint64_t>();
    for (int shift = index_bits_; shift < index_bits_ + bits; shift += kDigit) {
      const auto digit = [&](uint64_t word) { return (word >> shift) & ((1u << kDigit) - 1); };
      std::array<size_t, size_t{1} << kDigit> starts{};
      for (size_t i = 0; i < count_; ++i) ++starts[digit(from[i])];
      if (starts[digit(from[0])] == count_) continue;  // the same digit everywhere: a small part of a large file
      size_t sum = 0;
      for (size_t& start : starts) sum += std::exchange(start, sum);
      for (size_t i = 0; i < count_; ++i) to[starts[digit(from[i])]++] = from[i];
      std::swap(from, to);
    }
    if (from != words_.as<uint64_t>()) words_ = std::move(other_words);
  }

  int index_bits_;
  Buffer words_;
  size_t count_;
};

}  // namespace gz
