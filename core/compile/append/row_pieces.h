// row_pieces: a row after a change, as pieces: stretches of the old row, and added edges between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/topology.h"

namespace gz {

// An added edge, in one of its rows; `index` is its place in the change.
struct AddedEdge {
  uint64_t row, neighbour, index;
};
inline bool operator<(const AddedEdge& a, const AddedEdge& b) {
  if (a.row != b.row) return a.row < b.row;
  return a.neighbour != b.neighbour ? a.neighbour < b.neighbour : a.index < b.index;
}

// Edges to remove from a row: all to `neighbour`, or the one with this id.
struct RemovedEdge {
  static constexpr uint64_t kAll = UINT64_MAX;
  uint64_t row, neighbour, id;
};
inline bool operator<(const RemovedEdge& a, const RemovedEdge& b) {
  if (a.row != b.row) return a.row < b.row;
  return a.neighbour != b.neighbour ? a.neighbour < b.neighbour : a.id > b.id;  // kAll first
}
inline bool operator==(const RemovedEdge& a, const RemovedEdge& b) {
  return a.row == b.row && a.neighbour == b.neighbour && a.id == b.id;
}

// `count` edges from position `from` of the old row, or, if `added`, those from `from` of the added edges.
struct RowPiece {
  bool added;
  uint64_t from, count;
};

struct RowCounts {
  uint64_t degree = 0, removed = 0, missing = 0, duplicates = 0;
};

// Divides rows of sorted neighbours into pieces; keeps its memory over many rows.
template <class Id>
class RowPieces {
 public:
  RowPieces(const Csr<Id>& csr, bool dedup) : csr_(csr), dedup_(dedup) {}

  // `old` is the row so far; `added` and `removed` are sorted and all of this row.
  std::span<const RowPiece> of(typename Csr<Id>::Row old, std::span<const AddedEdge> added, size_t first_added,
                               std::span<const RemovedEdge> removed) {
    pieces_.clear();
    counts_ = {};
    find_gaps(old, removed);
    at_ = old.begin;
    gap_ = 0;
    for (size_t i = 0; i < added.size(); ++i) {
      const auto neighbour = static_cast<Id>(added[i].neighbour);
      keep_until(static_cast<uint64_t>(std::upper_bound(csr_.indices + at_, csr_.indices + old.end, neighbour) -
                                       csr_.indices));
      if (dedup_ && repeats(neighbour, added)) {
        ++counts_.duplicates;
      } else {
        put(true, first_added + i, 1);
        last_added_ = i;
      }
    }
    keep_until(old.end);
    return pieces_;
  }

  const RowCounts& counts() const { return counts_; }

 private:
  void find_gaps(typename Csr<Id>::Row old, std::span<const RemovedEdge> removed) {
    gaps_.clear();
    uint64_t from = old.begin;
    for (const RemovedEdge& edge : removed) {
      const Id* const end = csr_.indices + old.end;
      const auto neighbour = static_cast<Id>(edge.neighbour);
      const auto low = static_cast<uint64_t>(std::lower_bound(csr_.indices + from, end, neighbour) - csr_.indices);
      const auto high = static_cast<uint64_t>(std::upper_bound(csr_.indices + low, end, neighbour) - csr_.indices);
      uint64_t found = 0;
      if (edge.id == RemovedEdge::kAll) {
        if (low < high) gaps_.push_back({low, high});
        found = high - low;
        from = high;
      } else {
        for (uint64_t p = low; p < high; ++p) {
          if (csr_.stored_edge_id(p) != edge.id) continue;
          gaps_.push_back({p, p + 1});
          ++found;
        }
      }
      counts_.removed += found;
      counts_.missing += found == 0 ? 1 : 0;
    }
    std::sort(gaps_.begin(), gaps_.end(), [](const Gap& a, const Gap& b) { return a.begin < b.begin; });
  }

  // The old edges from at_ to `end`, without the gaps.
  void keep_until(uint64_t end) {
    while (gap_ < gaps_.size() && gaps_[gap_].begin < end) {
      const Gap& gap = gaps_[gap_++];
      if (gap.begin > at_) put(false, at_, gap.begin - at_);
      at_ = std::max(at_, gap.end);
    }
    if (end > at_) put(false, at_, end - at_);
    at_ = std::max(at_, end);
  }

  bool repeats(Id neighbour, std::span<const AddedEdge> added) const {
    if (pieces_.empty()) return false;
    const RowPiece& last = pieces_.back();
    return (last.added ? added[last_added_].neighbour : csr_.indices[last.from + last.count - 1]) == neighbour;
  }

  void put(bool added, uint64_t from, uint64_t count) {
    counts_.degree += count;
    if (!pieces_.empty() && pieces_.back().added == added && pieces_.back().from + pieces_.back().count == from) {
      pieces_.back().count += count;
    } else {
      pieces_.push_back({added, from, count});
    }
  }

  struct Gap {
    uint64_t begin, end;
  };

  const Csr<Id>& csr_;
  const bool dedup_;
  std::vector<RowPiece> pieces_;
  std::vector<Gap> gaps_;
  RowCounts counts_;
  uint64_t at_ = 0;
  size_t gap_ = 0, last_added_ = 0;
};

}  // namespace gz
