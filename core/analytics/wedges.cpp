// wedges: clustering estimated from random wedges, pairs of distinct neighbours of a node (Seshadhri, Pinar, Kolda
// 2014). Rows are read through the mapping: three for a wedge, however large the graph is.
#include "analytics/node_arrays.h"
#include "base/random.h"

namespace gz {
namespace {

constexpr uint64_t kWedgeGrain = 1024;

template <class Csr>
class Wedges {
 public:
  explicit Wedges(const Csr& csr) : csr_(csr), simple_(is_simple(*csr.file)) {}

  static bool is_simple(const MountedFile& file) {
    constexpr uint32_t kBoth = kDeduplicated | kNoSelfLoops;
    return (file.container().properties & kBoth) == kBoth;
  }

  // Distinct neighbours of a node, in `row` unless the file has no others.
  uint64_t neighbours(uint64_t node, std::vector<uint64_t>& row) const {
    const auto found = csr_.row(node);
    if (simple_) return found.degree();
    row.clear();
    for_distinct(csr_.indices + found.begin, csr_.indices + found.end, node,
                 [&](uint64_t other) { row.push_back(other); });
    return row.size();
  }

  // Whether a random wedge of the node is closed; `degree` is that of neighbours().
  bool closed(uint64_t node, uint64_t degree, const std::vector<uint64_t>& row, Random& random) const {
    const uint64_t one = random.below(degree);
    uint64_t two = random.below(degree - 1);
    two += two >= one ? 1 : 0;
    const uint64_t begin = csr_.row(node).begin;
    const auto at = [&](uint64_t i) { return simple_ ? csr_.neighbour(begin + i) : row[i]; };
    return connected(at(one), at(two));
  }

  // Wedges of a node.
  double count(uint64_t node, std::vector<uint64_t>& row) const {
    const auto degree = static_cast<double>(neighbours(node, row));
    return degree * (degree - 1) / 2;
  }

 private:
  bool connected(uint64_t u, uint64_t v) const {
    if (u >= csr_.num_nodes || v >= csr_.num_nodes) fail_neighbour(*csr_.file, 0, std::max(u, v), csr_.num_nodes);
    const auto row = csr_.row(u);
    return std::binary_search(csr_.indices + row.begin, csr_.indices + row.end, static_cast<typename Csr::Id>(v));
  }

  const Csr& csr_;
  const bool simple_;
};

// Picks nodes by their number of wedges: a running sum for each node.
template <class Csr>
NodeArray<double> running_sums(const Wedges<Csr>& wedges, uint64_t nodes, int threads) {
  NodeArray<double> sums(nodes);
  parallel_for(static_cast<size_t>(nodes), kNodeGrain, threads, [&](size_t begin, size_t end, int) {
    std::vector<uint64_t> row;
    for (size_t node = begin; node < end; ++node) sums[node] = wedges.count(node, row);
  });
  double sum = 0;
  for_nodes(nodes, 1, [&](uint64_t node) { sums[node] = sum += sums[node]; });
  return sums;
}

}  // namespace

double sample_wedges(const Topology& topology, WedgeMean mean, uint64_t samples, uint64_t seed,
                     const AnalyticsOptions& options) {
  topology.need_square("clustering needs");
  const uint64_t nodes = topology.num_nodes();
  if (nodes == 0 || samples == 0) return 0;
  return topology.visit(Direction::kNone, [&](const auto& csr) {
    const Wedges wedges(csr);
    const bool by_wedge = mean == WedgeMean::kWedges;
    const NodeArray<double> sums = by_wedge ? running_sums(wedges, nodes, options.threads) : NodeArray<double>();
    const double all = by_wedge ? sums[nodes - 1] : 0;
    if (by_wedge && all == 0) return 0.0;
    std::atomic<uint64_t> closed{0};
    parallel_for(static_cast<size_t>(samples), kWedgeGrain, options.threads, [&](size_t begin, size_t end, int) {
      std::vector<uint64_t> row;
      uint64_t found = 0, last = nodes, degree = 0;
      for (size_t i = begin; i < end; ++i) {
        Random random(make_key(seed, i));
        uint64_t node = random.below(nodes);
        if (by_wedge) {
          const double* at = std::upper_bound(sums.data(), sums.data() + nodes, random.unit() * all);
          node = std::min(static_cast<uint64_t>(at - sums.data()), nodes - 1);
        }
        if (node != last) degree = wedges.neighbours(node, row);  // most wedges of a graph are those of few nodes
        last = node;
        found += degree >= 2 && wedges.closed(node, degree, row, random) ? 1 : 0;
      }
      closed += found;
    });
    topology.file().check();
    return static_cast<double>(closed) / static_cast<double>(samples);
  });
}

}  // namespace gz
