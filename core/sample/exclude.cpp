// exclude: pairs sorted by node, and a table that finds each node's.
#include "sample/exclude.h"

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "sample/draw.h"

namespace gz {
namespace {

constexpr size_t kMostEdges = size_t{1} << 31;  // places are 32-bit

}  // namespace

void ExcludedEdges::add(const Topology& topology, Direction direction, std::span<const int64_t> source,
                        std::span<const int64_t> target, bool reverse) {
  const std::string& path = topology.file().path();
  if (source.size() != target.size()) {
    fail<ArgumentError>("excluded edges have ", source.size(), " sources and ", target.size(), " targets");
  }
  if (pairs_.size() + 2 * source.size() >= kMostEdges)
    fail<ArgumentError>("too many edges to exclude: ", source.size());
  check_ids(source, topology.num_sources(), path);
  check_ids(target, topology.num_targets(), path);
  const bool both = reverse || (topology.file().container().properties & kUndirected) != 0;
  if (both) topology.need_square("the reverse of an edge needs");
  const bool by_source = topology.resolve(direction) == Direction::kOut;
  for (size_t i = 0; i < source.size(); ++i) {
    const auto u = static_cast<uint64_t>(source[i]), v = static_cast<uint64_t>(target[i]);
    if (by_source || both) pairs_.emplace_back(u, v);
    if (!by_source || both) pairs_.emplace_back(v, u);
  }
}

size_t ExcludedEdges::home(uint64_t node) const {
  return static_cast<size_t>((node * kGolden) >> 32) & (slots_.size() - 1);
}

void ExcludedEdges::build() {
  std::sort(pairs_.begin(), pairs_.end());
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  if (pairs_.empty()) return;
  slots_.assign(std::bit_ceil(2 * pairs_.size()), {});
  neighbours_.clear();
  for (size_t i = 0; i < pairs_.size();) {
    Slot slot{pairs_[i].first, static_cast<uint32_t>(i), 0};
    for (; i < pairs_.size() && pairs_[i].first == slot.node; ++i, ++slot.count) {
      neighbours_.push_back(pairs_[i].second);
    }
    size_t at = home(slot.node);
    while (slots_[at].count != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

}  // namespace gz
