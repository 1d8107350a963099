// cores: core numbers by removing nodes of the smallest degree where rows are mapped (Batagelj, Zaversnik 2003); where
// edges are read, by passes in which a node takes the h-index of its neighbours' values until none changes (Lu et al.
// 2016), which leads to the same numbers.
#include "analytics/node_arrays.h"
#include "base/interrupt.h"

namespace gz {
namespace {

// Nodes in the order of their degrees, which fall as neighbours are removed: a move to the front of its degree's part.
class Buckets {
 public:
  explicit Buckets(const NodeArray<uint32_t>& degree) : degree_(degree), order_(degree.size()), place_(degree.size()) {
    uint32_t most = 0;
    for_nodes(degree.size(), 1, [&](uint64_t node) { most = std::max(most, degree[node]); });
    starts_.assign(uint64_t{most} + 2, 0);
    for_nodes(degree.size(), 1, [&](uint64_t node) { ++starts_[degree[node] + 1]; });
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    std::vector<uint32_t> next(starts_.begin(), starts_.end());
    for_nodes(degree.size(), 1, [&](uint64_t node) { put(static_cast<uint32_t>(node), next[degree[node]]++); });
  }

  uint32_t at(uint64_t position) const { return order_[position]; }

  void lower(uint32_t node) {
    const uint32_t first = starts_[degree_[node]]++, other = order_[first], from = place_[node];
    put(other, from);
    put(node, first);
    --degree_[node];
  }

 private:
  void put(uint32_t node, uint32_t position) {
    order_[position] = node;
    place_[node] = position;
  }

  const NodeArray<uint32_t>& degree_;
  NodeArray<uint32_t> order_, place_;
  std::vector<uint32_t> starts_;  // where the nodes of each degree begin
};

template <class Csr>
void peel(const Csr& csr, const NodeArray<uint32_t>& degree, Progress* progress) {
  Buckets buckets(degree);
  uint64_t steps = 0;
  for (uint64_t i = 0; i < csr.num_nodes; ++i) {
    const uint32_t node = buckets.at(i), core = degree[node];
    const auto row = csr.row(node);
    for (uint64_t p = row.begin; p < row.end; ++p) {
      const uint64_t other = csr.neighbour(p);
      if (p > row.begin && csr.indices[p - 1] == other) continue;
      if (degree[other] > core) buckets.lower(static_cast<uint32_t>(other));
      if ((++steps & 0xffff) == 0) check_interrupt();
    }
    if (progress != nullptr && (i & 0xffff) == 0) progress->report("core numbers", i, csr.num_nodes);
  }
}

// The largest h such that h of the neighbours have a value of at least h; at most `own`.
template <class Row>
uint32_t h_index(const Row& row, const NodeArray<uint32_t>& value, uint32_t own, std::vector<uint32_t>& counts) {
  counts.assign(uint64_t{own} + 1, 0);
  for_distinct(row.begin, row.end, row.node,
               [&](uint64_t other) { ++counts[std::min(own, load_relaxed(value[other]))]; });
  uint32_t h = own, at_least = counts[own];
  while (at_least < h) at_least += counts[--h];
  return h;
}

template <class Stream>
void settle(Stream& stream, const NodeArray<uint32_t>& value) {
  std::vector<std::vector<uint32_t>> counts(static_cast<size_t>(stream.threads()));
  std::atomic<bool> more{true};
  while (more.exchange(false)) {
    stream.pass("core numbers", [&](const auto& block, int worker) {
      block.for_rows(value.table(), [&](const auto& row) {
        const uint32_t own = load_relaxed(value[row.node]);
        if (own == 0) return;
        const uint32_t h = h_index(row, value, own, counts[static_cast<size_t>(worker)]);
        if (h == own) return;
        store_relaxed(value[row.node], h);
        more = true;
      });
    });
  }
}

}  // namespace

Buffer core_numbers(const Topology& topology, const AnalyticsOptions& options) {
  topology.need_square("core numbers need");
  check_countable(topology);
  const uint64_t nodes = topology.num_nodes();
  return with_stream(topology, Direction::kNone, options, {nodes * 16, nodes * 4}, "core numbers", [&](auto& stream) {
    NodeArray<uint32_t> degree = distinct_degrees(stream);
    if (stream.mapped()) {
      peel(stream.csr(), degree, options.progress);
      topology.file().check();
    } else {
      settle(stream, degree);
    }
    return degree.take();
  });
}

}  // namespace gz
