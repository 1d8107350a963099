// draw: ids, position sets, weighted draws.
#include "sample/draw.h"

namespace gz {

void check_ids(std::span<const int64_t> ids, uint64_t num_nodes, const std::string& path) {
  // One pass without an early exit vectorises; the slow pass that finds the culprit runs only when there is one.
  bool good = true;
  for (const int64_t id : ids) good &= static_cast<uint64_t>(id) < num_nodes;
  if (good) return;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (static_cast<uint64_t>(ids[i]) >= num_nodes) {
      fail<IndexError>("node id ", ids[i], " at position ", i, " is out of range for ", path, " with ", num_nodes,
                       " nodes");
    }
  }
}

void PositionSet::begin(size_t most) {
  size_t capacity = 64;
  while (capacity < 2 * most) capacity *= 2;
  slots_.assign(capacity, 0);
  mask_ = capacity - 1;
}

bool PositionSet::insert(uint64_t position) {
  const uint64_t stored = position + 1;  // 0 is an empty slot
  for (size_t at = mix(position) & mask_;; at = (at + 1) & mask_) {
    if (slots_[at] == stored) return false;
    if (slots_[at] == 0) {
      slots_[at] = stored;
      return true;
    }
  }
}

double total_weight(std::span<const double> cumulative, const std::string& path) {
  const double total = cumulative.empty() ? 0.0 : cumulative.back();
  if (!std::isfinite(total)) {
    fail<FormatError>(path, ": a row's weights sum to ", total, ": the file is damaged, see graphzero verify");
  }
  return total;
}

}  // namespace gz
