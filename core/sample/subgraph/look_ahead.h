// look_ahead: which pages of a topology each step of a hop will read, given to the prefetcher before the step begins.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sample/rows/cold_rows.h"
#include "sample/subgraph/choose.h"
#include "sample/subgraph/neighbours.h"
#include "storage/page_requests.h"

namespace gz {

template <class Csr>
class LookAhead {
 public:
  LookAhead(const Csr& csr, const SampleOptions& options, bool timed)
      : csr_(csr), options_(options), timed_(timed), prefetcher_(*csr.file, options.threads) {}

  // Prefetches all that a sample around these seeds may read, if it will read most of it and it fits into RAM.
  void whole_if_most(std::span<const int64_t> seeds) const {
    const double rows = expected_reads(options_.fanouts, seeds.size(), csr_.num_nodes, csr_.num_edges).rows;
    const ColdReads reads{.nodes = seeds, .rows = static_cast<uint64_t>(std::min(rows, 1e15)), .io = options_.io};
    uint64_t bytes = 0;
    each_array([&](const auto* array, uint64_t count) { bytes += count * sizeof *array; });
    // The edges of a row are contiguous, most often on one page.
    if (reads.rows < bytes / kPageBytes / 2 || !look_cold(csr_, reads) || !better_whole(reads.rows, bytes)) return;
    each_array([&](const auto* array, uint64_t count) { prefetcher_.request_whole(array, count * sizeof *array); });
  }

  // The bounds of these nodes' rows.
  void bounds(std::span<const int64_t> nodes) {
    prefetcher_.request(nodes.size(),
                        [&](size_t i) { return range(csr_.bounds_of(static_cast<uint64_t>(nodes[i])), 2); });
  }

  // What choosing from a row reads, once its bounds are known. Uniform draws read nothing.
  void rows(const RowChooser<Csr>& chooser, std::span<const HopRow> rows) {
    if (timed_) {  // a binary search through both
      if (csr_.by_time32 != nullptr) whole(rows, csr_.by_time32);
      if (csr_.by_time64 != nullptr) whole(rows, csr_.by_time64);
      whole(rows, csr_.times);
    }
    if (options_.weighted) {
      const bool listed = !options_.node_times.empty();
      const bool no_sums = csr_.cumulative == nullptr || timed_ || listed, no_weights = csr_.weights == nullptr;
      prefetcher_.request(rows.size(), [&](size_t i) {
        const bool weights = no_sums || (!no_weights && chooser.takes_all(rows[i]));
        return weights ? whole_row(rows[i], csr_.weights) : whole_row(rows[i], csr_.cumulative);
      });
    }
    if (options_.choice == Choice::kLabor || !options_.node_times.empty()) whole(rows, csr_.indices);
  }

  // The rows of nodes with excluded edges: those are searched for.
  void excluded(std::span<const int64_t> nodes, std::span<const HopRow> rows) {
    if (options_.exclude == nullptr) return;
    std::vector<size_t> found;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!options_.exclude->of(static_cast<uint64_t>(nodes[i])).empty()) found.push_back(i);
    }
    prefetcher_.request(found.size(), [&](size_t i) { return whole_row(rows[found[i]], csr_.indices); });
  }

  // Whether edges of these rows are on disk, judged by a few probes.
  bool cold(std::span<const HopRow> rows) const {
    return cold(rows, csr_.indices) ||
           (options_.edge_ids && (cold(rows, csr_.edge_ids32) || cold(rows, csr_.edge_ids64)));
  }

  // The edges at these positions.
  template <class Edge>
  void edges(std::span<const Edge> positions) {
    at(positions, csr_.indices);
    if (!options_.edge_ids) return;
    if (csr_.edge_ids32 != nullptr) at(positions, csr_.edge_ids32);
    if (csr_.edge_ids64 != nullptr) at(positions, csr_.edge_ids64);
  }

 private:
  // Calls f(array, values) for all that a sample reads.
  template <class F>
  void each_array(const F& f) const {
    f(csr_.indptr, csr_.changed.base_rows + 1);
    const auto edges = [&](const auto* array) {
      if (array != nullptr) f(array, csr_.limit);
    };
    edges(csr_.indices);
    if (options_.weighted) edges(csr_.weights);  // of short rows; the others use the sums
    if (options_.weighted && !timed_) edges(csr_.cumulative);
    if (options_.edge_ids) edges(csr_.edge_ids32), edges(csr_.edge_ids64);
    if (timed_) edges(csr_.times), edges(csr_.by_time32), edges(csr_.by_time64);
  }

  template <class T>
  bool cold(std::span<const HopRow> rows, const T* array) const {
    if (array == nullptr || csr_.num_edges == 0) return false;
    return prefetcher_.any_cold(rows.size(),
                                [&](size_t i) { return range(array + std::min(rows[i].begin, csr_.limit - 1), 1); });
  }

  template <class T>
  ByteRange range(const T* begin, uint64_t count) const {
    const uint64_t at = prefetcher_.offset_of(begin);
    return {at, at + count * sizeof(T)};
  }

  template <class T>
  ByteRange whole_row(const HopRow& row, const T* array) const {
    // A search through a long row reads few of its pages: it is left to faults past this many elements.
    constexpr uint64_t kMost = uint64_t{1} << 16;
    return range(array + row.begin, std::clamp<uint64_t>(row.degree, 1, kMost));
  }

  template <class T>
  void whole(std::span<const HopRow> rows, const T* array) {
    prefetcher_.request(rows.size(), [&](size_t i) { return whole_row(rows[i], array); });
  }

  template <class Edge, class T>
  void at(std::span<const Edge> positions, const T* array) {
    prefetcher_.request(positions.size(), [&](size_t i) { return range(array + positions[i], 1); });
  }

  const Csr& csr_;
  const SampleOptions& options_;
  const bool timed_;
  PagePrefetcher prefetcher_;
};

}  // namespace gz
