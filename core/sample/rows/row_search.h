// row_search: where a row is, and whether a node is in it, with many searches in flight: each cache line
// is prefetched well before it is read.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/prefetch.h"
#include "storage/page_requests.h"
#include "storage/topology.h"

namespace gz {

// Asks for what row() will read. One row in eight has its ends on two lines, and waiting for the second would cost as
// much as all the rest of a step (benchmarks/walks).
template <class Id>
void prefetch_row(const Csr<Id>& csr, uint64_t node) {
  const uint64_t* bounds = csr.bounds_of(node);
  prefetch(bounds);
  prefetch(bounds + 1);
}

// Whether the row holds `node`, in one go.
template <class Id>
bool row_holds(const Csr<Id>& csr, typename Csr<Id>::Row row, uint64_t node) {
  const Id* begin = csr.indices + row.begin;
  const Id* end = csr.indices + row.end;
  if (csr.sorted) return std::binary_search(begin, end, static_cast<Id>(node));
  return std::find(begin, end, static_cast<Id>(node)) != end;  // rows of 0.2 files are in no order
}

// Prefetches the pages of a binary search over a cold file; many searches run concurrently. To be called before every
// step: the pages of three steps, wherever they may lead, are requested at a time, since a disk gives seven pages in
// little more time than one.
class SearchPages {
 public:
  template <class T>
  void ask(PagePrefetcher& pages, const T* array, uint64_t low, uint64_t length) {
    if (steps_ > 0) {
      --steps_;
    } else if (length * sizeof(T) <= 2 * kPageBytes) {
      if (length > 0) pages.add(array + low, length);
      steps_ = 64;  // no search has more left
    } else {
      constexpr uint64_t kProbes = 8, kNear = 8;  // halves are rounded: a probe is this near to the requested position
      for (uint64_t i = 1; i < kProbes; ++i) pages.add(array + low + length / kProbes * i - kNear, 3 * kNear);
      steps_ = 2;
    }
  }

 private:
  int steps_ = 0;  // that were requested
};

// begin(), then step() until it says true; found() is the answer.
class RowSearch {
 public:
  template <class Id>
  void begin(const Csr<Id>& csr, typename Csr<Id>::Row row, uint64_t node) {
    node_ = node;
    low_ = row.begin;
    length_ = row.degree();
    ask(csr);
  }

  template <class Id>
  bool step(const Csr<Id>& csr) {
    if (!csr.sorted) [[unlikely]] {
      found_ = row_holds(csr, {low_, low_ + length_}, node_);
      return true;
    }
    if (length_ > kScan) {  // the first id not below `node_` is in [low_, low_ + length_] throughout
      const uint64_t half = length_ / 2;
      if (csr.indices[low_ + half - 1] < node_) low_ += half;
      length_ -= half;
      ask(csr);
      return false;
    }
    found_ |= low_ + kScan <= csr.limit ? scan_window(csr) : scan_end(csr);
    return true;
  }

  bool found() const { return found_; }

  // The pages of the next step, and of later steps on the same pages.
  template <class Id>
  void ask_pages(const Csr<Id>& csr, PagePrefetcher& pages) {
    if (csr.sorted) {  // the last step reads a whole window, past the row's end too
      asked_.ask(pages, csr.indices, low_, std::min(length_ + kScan, csr.limit - low_));
    } else if (length_ > 0) {
      pages.add(csr.indices + low_, length_);
    }
  }

 private:
  static constexpr uint64_t kScan = 16;  // a search ends with a scan of this many ids: two lines at most

  // A fixed count of comparisons, ids after the row's end masked out: a loop that vectorises and never guesses wrong.
  template <class Id>
  bool scan_window(const Csr<Id>& csr) const {
    const Id* ids = csr.indices + low_;
    const auto node = static_cast<Id>(node_), length = static_cast<Id>(length_);
    Id found = 0;
    for (Id i = 0; i < kScan; ++i) found |= static_cast<Id>((ids[i] == node) & (i < length));
    return found != 0;
  }

  template <class Id>
  bool scan_end(const Csr<Id>& csr) const {
    const Id* begin = csr.indices + low_;
    return std::find(begin, begin + length_, static_cast<Id>(node_)) != begin + length_;
  }

  template <class Id>
  void ask(const Csr<Id>& csr) const {
    if (length_ > kScan) {
      prefetch(csr.indices + low_ + length_ / 2 - 1);
    } else if (length_ > 0) {
      prefetch(csr.indices + low_);
      prefetch(csr.indices + low_ + length_ - 1);
    }
  }

  uint64_t node_ = 0, low_ = 0, length_ = 0;
  bool found_ = false;
  SearchPages asked_;
};

// The node whose row holds the edge at a place among all edges in order, by binary search in the starts of rows:
// begin(), step() until it says true.
class NodeSearch {
 public:
  template <class Id>
  void begin(const Csr<Id>& csr, uint64_t edge) {
    edge_ = edge;
    low_ = 0;
    length_ = csr.num_nodes;
    asked_ = {};
  }

  // As std::upper_bound probes, so that even a damaged file gives the same node either way.
  template <class Id>
  bool step(const Csr<Id>& csr) {
    if (length_ == 0) return true;
    if (csr.changed) [[unlikely]] {  // all at once: it is one test for files without deltas
      while (length_ > 0) halve(csr.start_of(low_ + length_ / 2 + 1));
      return true;
    }
    halve(csr.indptr[low_ + length_ / 2 + 1]);
    prefetch(csr.indptr + low_ + length_ / 2 + 1);
    return length_ == 0;
  }

  uint64_t node() const { return low_; }  // num_nodes: no row holds it

  template <class Id>
  void ask_pages(const Csr<Id>& csr, PagePrefetcher& pages) {
    const uint64_t low = std::min(low_, csr.changed.base_rows);
    asked_.ask(pages, csr.indptr + 1, low, std::min(length_, csr.changed.base_rows - low));
  }

 private:
  void halve(uint64_t start) {  // of the row after the middle
    const uint64_t half = length_ / 2;
    const bool above = start > edge_;
    low_ = above ? low_ : low_ + half + 1;
    length_ = above ? half : length_ - half - 1;
  }

  uint64_t edge_ = 0, low_ = 0, length_ = 0;
  SearchPages asked_;
};

}  // namespace gz
