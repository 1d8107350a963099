// merged_rows: rows of a topology with deltas, one after the other, as a file without deltas has them.
#pragma once

#include <cstring>

#include "base/threads.h"
#include "storage/topology.h"

namespace gz {

// Copies rows [first, last) of an array by position, whose elements have `width` bytes; `from` is its position 0.
// Throws FormatError if they do not have `edges` edges.
template <class Id>
void copy_rows(const Csr<Id>& csr, const std::byte* from, uint64_t width, uint64_t first, uint64_t last, uint64_t edges,
               std::byte* to) {
  uint64_t begin = 0, end = 0, left = edges;  // rows that follow each other in a file are copied together
  const auto flush = [&] {
    const uint64_t count = end - begin;
    if (count > left) fail_row(*csr.file, first, begin, end);
    if (count > 0) std::memcpy(to, from + begin * width, count * width);
    to += count * width;
    left -= count;
  };
  for (uint64_t node = first; node < last; ++node) {
    const auto row = csr.row(node);
    if (row.begin != end) {
      flush();
      begin = row.begin;
    }
    end = row.end;
  }
  flush();
  if (left > 0) fail_row(*csr.file, first, csr.start_of(first), csr.start_of(last));
}

// The same by several threads, for the edges from start_of(first) to start_of(last).
template <class Id>
void copy_rows(const Csr<Id>& csr, const std::byte* from, uint64_t width, uint64_t first, uint64_t last, std::byte* to,
               int threads) {
  constexpr size_t kRows = size_t{1} << 12;
  const uint64_t begin = csr.start_of(first), end = csr.start_of(last);
  parallel_for(static_cast<size_t>(last - first), kRows, threads, [&](size_t a, size_t b, int) {
    const uint64_t low = csr.start_of(first + a), high = csr.start_of(first + b);
    if (low < begin || low > high || high > end) fail_row(*csr.file, first + a, low, high);
    copy_rows(csr, from, width, first + a, first + b, high - low, to + (low - begin) * width);
  });
}

// Copies the edges at places [begin, end) among all edges in order.
template <class Id>
void copy_places(const Csr<Id>& csr, const std::byte* from, uint64_t width, uint64_t begin, uint64_t end,
                 std::byte* to) {
  if (begin >= end) return;
  uint64_t node = csr.node_at(begin), into = begin - csr.start_of(node);
  for (; begin < end; ++node, into = 0) {
    if (node >= csr.num_nodes) fail_row(*csr.file, node, begin, end);
    const auto row = csr.row(node);
    if (into > row.degree()) fail_row(*csr.file, node, row.begin, row.end);
    const uint64_t count = std::min(row.degree() - into, end - begin);
    if (count > 0) std::memcpy(to, from + (row.begin + into) * width, count * width);
    to += count * width;
    begin += count;
  }
}

// start_of(node) for nodes [first, last], a multiple of 64 and at most num_nodes, into `starts`.
template <class Id>
void fill_starts(const Csr<Id>& csr, uint64_t first, uint64_t last, uint64_t* starts) {
  const ChangedRows& changed = csr.changed;
  for (uint64_t node = first; node <= last;) {
    const uint64_t* word = changed.index + 2 * (node >> 6);
    const uint64_t until = std::min(last + 1, node + 64);
    uint64_t before = word[1], shift = changed.shift(before);
    for (uint64_t bits = word[0]; node < until; ++node, bits >>= 1) {
      *starts++ = csr.indptr[std::min(node, changed.base_rows)] + shift;
      if ((bits & 1) != 0) shift = changed.shift(++before);
    }
  }
}

}  // namespace gz
