// hot_rows: a histogram of degrees finds the threshold, a second pass the nodes above it.
#include "gather/hot_rows.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "base/interrupt.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kGrain = size_t{1} << 16;
constexpr uint64_t kMostDegree = 1 << 16;  // degrees from here on count as one when the threshold is sought

using Histogram = std::vector<uint64_t>;

Histogram count_degrees(const Topology& topology, Direction direction, int threads) {
  Histogram total(kMostDegree + 1);
  std::mutex mutex;
  topology.visit(direction, [&](const auto& csr) {
    parallel_for(csr.num_nodes, kGrain, threads, [&](size_t begin, size_t end, int) {
      Histogram mine(kMostDegree + 1);
      for (size_t node = begin; node < end; ++node) ++mine[std::min(csr.row(node).degree(), kMostDegree)];
      std::lock_guard lock(mutex);
      for (size_t d = 0; d < mine.size(); ++d) total[d] += mine[d];
    });
  });
  return total;
}

Direction opposite(const Topology& topology, Direction sampled) {
  const Direction rows = topology.resolve(sampled);
  const Direction other = rows == Direction::kOut ? Direction::kIn : Direction::kOut;
  return topology.direction() == Direction::kBoth ? other : rows;
}

}  // namespace

std::vector<int64_t> nodes_by_degree(const Topology& topology, Direction sampled, uint64_t most, int threads) {
  const Direction direction = opposite(topology, sampled);
  const Histogram histogram = count_degrees(topology, direction, threads);
  uint64_t threshold = kMostDegree, above = 0;  // all nodes of a larger degree fit
  while (threshold > 0 && above + histogram[threshold] <= most) above += histogram[threshold--];
  std::vector<std::pair<uint64_t, int64_t>> found;
  found.reserve(static_cast<size_t>(std::min(most, topology.num_nodes())));
  topology.visit(direction, [&](const auto& csr) {
    uint64_t ties = most - above;
    for (uint64_t node = 0; node < csr.num_nodes; ++node) {
      if (node % kGrain == 0) check_interrupt();
      const uint64_t degree = csr.row(node).degree(), capped = std::min(degree, kMostDegree);
      if (capped < threshold || (capped == threshold && ties == 0)) continue;
      if (capped == threshold) --ties;
      found.emplace_back(degree, static_cast<int64_t>(node));
    }
  });
  topology.file().check();
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<int64_t> ids(found.size());
  std::transform(found.begin(), found.end(), ids.begin(), [](const auto& entry) { return entry.second; });
  return ids;
}

}  // namespace gz
