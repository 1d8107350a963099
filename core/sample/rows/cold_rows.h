// cold_rows: whether the rows that a call is about to read are in RAM, and how to prefetch them if they are not.
//
// A kernel over a cold file processes thousands of rows together instead of dozens, and before each of its passes
// asks for the pages that the pass will read (storage/page_requests.h). A call that reads most of the file anyway asks
// for all of it, in order. The draws are the same every way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "storage/page_requests.h"
#include "storage/topology.h"

namespace gz {

// What a call will read, as far as that is known before it begins.
struct ColdReads {
  std::span<const int64_t> nodes;  // rows that it begins with, or some like them
  uint64_t rows = 0;               // rows that it reads in all, about
  uint64_t each = 1;               // edges that it reads of a row, at most; 0: bounds alone
  bool weighted = false;
  TopologyIo io = TopologyIo::kAuto;
};

// Whether the rows look cold to a few probes, which cost the fewer the less there is to do.
template <class Id>
bool look_cold(const Csr<Id>& csr, const ColdReads& reads) {
  if (reads.io == TopologyIo::kMmap || reads.nodes.empty() || csr.num_edges == 0) return false;
  const PagePrefetcher pages(*csr.file, 1);
  const auto probes = static_cast<size_t>(std::clamp<uint64_t>(reads.rows / 512, 2, 24));
  const auto at = [&](const auto* address) { return ByteRange{pages.offset_of(address), 0}; };
  const auto bounds = [&](size_t i) { return at(csr.bounds_of(static_cast<uint64_t>(reads.nodes[i]))); };
  if (pages.any_cold(reads.nodes.size(), bounds, probes)) return true;
  if (reads.each == 0) return false;
  // The bounds that are read here were just found in RAM.
  const auto edge = [&](size_t i) {
    return std::min(*csr.bounds_of(static_cast<uint64_t>(reads.nodes[i])), csr.limit - 1);
  };
  return pages.any_cold(reads.nodes.size(), [&](size_t i) { return at(csr.indices + edge(i)); }, probes);
}

// Whether the kernel should prefetch its pages. False if they are in RAM, or will be: arrays that the call reads most
// of, and that fit into RAM, have then been requested as a whole.
template <class Id>
bool ask_ahead(const Csr<Id>& csr, const ColdReads& reads, int threads) {
  if (!look_cold(csr, reads)) return false;
  const uint64_t weight = !reads.weighted ? 0 : csr.cumulative != nullptr ? sizeof(double) : sizeof(float);
  const uint64_t bytes = (csr.num_nodes + 1) * sizeof(uint64_t) + csr.limit * (sizeof(Id) + weight);
  const uint64_t row_pages = 1 + csr.num_edges / csr.num_nodes * sizeof(Id) / kPageBytes;
  // A row's bounds are a touch too.
  if (!better_whole(reads.rows * (1 + std::min(reads.each, row_pages)), bytes)) return true;
  PagePrefetcher pages(*csr.file, threads);
  pages.request_whole(csr.indptr, (csr.changed.base_rows + 1) * sizeof(uint64_t));
  pages.request_whole(csr.indices, csr.limit * sizeof(Id));
  if (reads.weighted && csr.cumulative != nullptr) {
    pages.request_whole(csr.cumulative, csr.limit * sizeof(double));
  } else if (reads.weighted) {
    pages.request_whole(csr.weights, csr.limit * sizeof(float));
  }
  return false;
}

// Rows (or walks, or pairs) that one thread processes together.
inline size_t cold_grain(size_t count, int threads) {
  constexpr size_t kMost = 8192;  // deeper than any disk's queue
  const auto share = (count + static_cast<size_t>(threads) - 1) / static_cast<size_t>(threads);
  return std::clamp<size_t>(share, 1, kMost);
}

template <class Id>
void add_bounds(PagePrefetcher& pages, const Csr<Id>& csr, uint64_t node) {
  pages.add(csr.bounds_of(node), 2);
}

// What `draws` draws by weight from a row read first: the weights of a row that is taken whole; all sums of the row, or
// its total alone if the rows are long compared to the few positions that a draw reads.
template <class Id>
void add_weights(PagePrefetcher& pages, const Csr<Id>& csr, typename Csr<Id>::Row row, uint64_t draws) {
  constexpr uint64_t kMost = 16 * kPageBytes;
  if (row.begin == row.end) return;
  if (csr.cumulative == nullptr || (csr.weights != nullptr && row.degree() < draws)) {  // they are added up, each time
    pages.add(csr.weights + row.begin, row.degree());
  } else if (row.degree() * sizeof(double) <= kMost * draws) {
    pages.add(csr.cumulative + row.begin, row.degree());
  } else {
    pages.add(csr.cumulative + row.end - 1);
  }
}

}  // namespace gz
