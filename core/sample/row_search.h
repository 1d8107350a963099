// row_search: is a node in a sorted row? Asked one probe at a time, so that many searches can be in flight and each
// probe's cache line has arrived when it is read.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/prefetch.h"
#include "storage/topology.h"

namespace gz {

// Whether the row holds `node`, in one go.
template <class Id>
bool row_holds(const Csr<Id>& csr, typename Csr<Id>::Row row, uint64_t node) {
  const Id* begin = csr.indices + row.begin;
  const Id* end = csr.indices + row.end;
  if (csr.sorted) return std::binary_search(begin, end, static_cast<Id>(node));
  return std::find(begin, end, static_cast<Id>(node)) != end;  // rows of 0.2 files are in no order
}

// begin(), then step() until it says true; found() is the answer.
class RowSearch {
 public:
  template <class Id>
  void begin(const Csr<Id>& csr, typename Csr<Id>::Row row, uint64_t node) {
    node_ = node;
    low_ = row.begin;
    length_ = row.degree();
    if (!csr.sorted) {
      found_ = row_holds(csr, row, node);
      length_ = 0;
    }
    ask(csr);
  }

  template <class Id>
  bool step(const Csr<Id>& csr) {
    if (length_ > kScan) {  // the first id not below `node_` is in [low_, low_ + length_] throughout
      const uint64_t half = length_ / 2;
      if (csr.indices[low_ + half - 1] < node_) low_ += half;
      length_ -= half;
      ask(csr);
      return false;
    }
    bool found = false;
    for (uint64_t i = 0; i < length_; ++i) found |= csr.indices[low_ + i] == node_;
    found_ |= found;
    return true;
  }

  bool found() const { return found_; }

 private:
  static constexpr uint64_t kScan = 16;  // a search ends with a scan of this many ids: two lines at most

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
};

}  // namespace gz
