// exclude: edges that a sample must not contain, looked up by the node of their row.
//
// A model that is trained to predict an edge must not see that edge in its input. All copies of a parallel edge are
// excluded: they say the same. What remains of a row is drawn from as if the others had never been there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/open_table.h"
#include "base/random.h"
#include "storage/topology.h"

namespace gz {

class ExcludedEdges {
 public:
  // Edges source[i] -> target[i] of this topology, as rows of `direction` hold them; the reverse of each too where that
  // is requested, or where the topology is undirected: there both are one edge. Throws IndexError for ends that are
  // not nodes.
  void add(const Topology& topology, Direction direction, std::span<const int64_t> source,
           std::span<const int64_t> target, bool reverse);

  bool empty() const { return pairs_.empty(); }

  // Neighbours that may not be taken from this node's row: ascending, each once. Call build() after the last add().
  void build();
  std::span<const uint64_t> of(uint64_t node) const {
    // Most nodes have none: a few bits, which stay in the nearest cache, rule out nearly all (benchmarks/links).
    const uint64_t hash = node * kGolden;
    if (marks_.empty() || (marks_[hash >> marks_shift_ >> 6] >> (hash >> marks_shift_ & 63) & 1) == 0) return {};
    const Slot& slot = slots_.find(hash >> kSkipped, [&](const Slot& s) { return s.count == 0 || s.node == node; });
    return {neighbours_.data() + slot.begin, slot.count};
  }

 private:
  struct Slot {
    uint64_t node = 0;
    uint32_t begin = 0, count = 0;  // count 0: an empty place
  };
  static constexpr int kSkipped = 24;  // low bits of a product depend on few bits of the node

  std::vector<std::pair<uint64_t, uint64_t>> pairs_;  // (node, neighbour)
  std::vector<uint64_t> neighbours_;
  OpenTable<Slot> slots_;
  std::vector<uint64_t> marks_;  // a bit for each node that is there, and some others'
  int marks_shift_ = 0;
};

// The places in [0, row) of `refused` neighbours (ascending, each once), ascending.
template <class Csr>
void find_places(const Csr& csr, uint64_t begin, uint64_t degree, std::span<const uint64_t> refused,
                 std::vector<uint64_t>& places) {
  places.clear();
  const auto* ids = csr.indices + begin;
  if (!csr.sorted) {  // rows of 0.2 files are in no order
    for (uint64_t i = 0; i < degree; ++i) {
      if (std::binary_search(refused.begin(), refused.end(), static_cast<uint64_t>(ids[i]))) places.push_back(i);
    }
    return;
  }
  uint64_t from = 0;
  for (const uint64_t neighbour : refused) {
    from = static_cast<uint64_t>(std::lower_bound(ids + from, ids + degree, neighbour) - ids);
    for (; from < degree && ids[from] == neighbour; ++from) places.push_back(from);
  }
}

}  // namespace gz
