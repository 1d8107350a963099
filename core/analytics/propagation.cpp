// propagation: communities by label propagation. In each pass a node prefers the label that most of its neighbours
// have; a random half of the nodes that want another label take it at the end of the pass, since neighbours that all
// move at once would swap labels indefinitely.
#include "analytics/node_arrays.h"
#include "base/random.h"
#include "base/vote_table.h"

namespace gz {
namespace {

// The label with most votes; the node's own among equals, else one that depends on the seed and the node.
template <class Row>
uint32_t preferred(const Row& row, const NodeArray<uint32_t>& label, uint64_t key, VoteTable& votes) {
  const uint32_t own = label[row.node];
  votes.start(row.degree());
  uint32_t best = own, most = 0;
  for_distinct(row.begin, row.end, row.node, [&](uint64_t neighbour) {
    const uint32_t other = label[neighbour], count = votes.add(other);
    const bool tie = count == most && best != own && (other == own || mix(other ^ key) > mix(best ^ key));
    if (count > most || tie) best = other;
    most = std::max(most, count);
  });
  return best;
}

}  // namespace

PropagatedLabels propagate_labels(const Topology& topology, const PropagationOptions& how,
                                  const AnalyticsOptions& options) {
  topology.need_square("label propagation needs");
  check_countable(topology);
  const uint64_t nodes = topology.num_nodes();
  return with_stream(topology, how.side, options, nodes * 8, "label propagation", [&](auto& stream) {
    NodeArray<uint32_t> label(nodes), next(nodes);
    for_nodes(nodes, options.threads, [&](uint64_t node) { label[node] = next[node] = static_cast<uint32_t>(node); });
    std::vector<VoteTable> votes(static_cast<size_t>(options.threads));
    PropagatedLabels result;
    while (result.iterations < how.iterations && !result.stable) {
      ++result.iterations;
      std::atomic<bool> wanted{false};
      stream.pass("label propagation", [&](const auto& block, int worker) {
        block.for_rows(label.table(), [&](const auto& row) {
          const uint64_t key = make_key(how.seed, row.node);
          const uint32_t best = preferred(row, label, key, votes[static_cast<size_t>(worker)]);
          if (best == label[row.node]) return;
          wanted.store(true, std::memory_order_relaxed);
          if ((mix(key + static_cast<uint64_t>(result.iterations)) & 1) != 0) next[row.node] = best;
        });
      });
      result.stable = !wanted;
      for_nodes(nodes, options.threads, [&](uint64_t node) { label[node] = next[node]; });
    }
    result.count = number_labels(label, next, options.threads);
    result.labels = label.take();
    return result;
  });
}

}  // namespace gz
