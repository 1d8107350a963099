// exclude: pairs sorted by node, and a table that finds each node's.
#include "sample/subgraph/exclude.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/ids.h"

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
  check_ids(source, "exclude_edges[0]", {topology.num_sources(), "nodes", path});
  check_ids(target, "exclude_edges[1]", {topology.num_targets(), "nodes", path});
  const bool both = reverse || (topology.file().container().properties & kUndirected) != 0;
  if (both) topology.need_square("the reverse of an edge needs");
  const bool by_source = topology.resolve(direction) == Direction::kOut;
  for (size_t i = 0; i < source.size(); ++i) {
    const auto u = static_cast<uint64_t>(source[i]), v = static_cast<uint64_t>(target[i]);
    if (by_source || both) pairs_.emplace_back(u, v);
    if (!by_source || both) pairs_.emplace_back(v, u);
  }
}

void ExcludedEdges::build() {
  std::sort(pairs_.begin(), pairs_.end());
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  if (pairs_.empty()) return;
  slots_.reset(pairs_.size());
  const size_t marks = std::bit_ceil(std::max<size_t>(16 * pairs_.size(), 64));
  marks_.assign(marks / 64, 0);
  marks_shift_ = 64 - std::countr_zero(marks);
  neighbours_.clear();
  for (size_t i = 0; i < pairs_.size();) {
    Slot slot{pairs_[i].first, static_cast<uint32_t>(i), 0};
    for (; i < pairs_.size() && pairs_[i].first == slot.node; ++i, ++slot.count) {
      neighbours_.push_back(pairs_[i].second);
    }
    const uint64_t hash = slot.node * kGolden;
    marks_[hash >> marks_shift_ >> 6] |= uint64_t{1} << (hash >> marks_shift_ & 63);
    slots_.find(hash >> kSkipped, [](const Slot& s) { return s.count == 0; }) = slot;
  }
}

}  // namespace gz
