// edge_facts: self-loops, duplicates and reciprocity.
#include "analytics/node_arrays.h"
#include "base/random.h"

namespace gz {
namespace {

// Whether the edge from `u` to `v` of these rows has a reverse.
template <class Csr>
bool has_reverse(const Csr& csr, uint64_t u, uint64_t v) {
  const auto row = csr.row(v);
  return std::binary_search(csr.indices + row.begin, csr.indices + row.end, static_cast<typename Csr::Id>(u));
}

template <class Csr>
void look_up_some(const Csr& csr, uint64_t samples, uint64_t seed, EdgeFacts& facts) {
  for (uint64_t i = 0; i < samples && csr.num_edges > 0; ++i) {
    const uint64_t place = Random(make_key(seed, i)).below(csr.num_edges);
    const uint64_t u = csr.node_at(place);
    const auto row = csr.row(u);
    const uint64_t position = row.begin + (place - csr.start_of(u));
    if (position < row.begin || position >= row.end) fail_row(*csr.file, u, row.begin, row.end);
    const uint64_t v = csr.neighbour(position);
    if (u == v || (position > row.begin && csr.indices[position - 1] == v)) continue;
    ++facts.checked;
    facts.mutual += has_reverse(csr, u, v) ? 1 : 0;
    check_interrupt();
  }
}

}  // namespace

EdgeFacts edge_facts(const Topology& topology, uint64_t samples, uint64_t seed, const AnalyticsOptions& options) {
  const bool square = topology.square();
  return with_stream(topology, Direction::kNone, options, 0, "counting edges", [&](auto& stream) {
    const auto& csr = stream.csr();
    const bool all = stream.mapped() && square && !is_undirected(topology);
    std::atomic<uint64_t> loops{0}, duplicates{0}, distinct{0}, mutual{0};
    stream.pass("counting edges", [&](const auto& block, int) {
      EdgeFacts own;
      block.for_rows([&](const auto& row) {
        for (auto at = row.begin; at < row.end; ++at) {
          const bool loop = square && *at == row.node, again = at > row.begin && *at == at[-1];
          own.self_loops += loop ? 1 : 0;
          own.duplicates += again ? 1 : 0;
          own.distinct += loop || again ? 0 : 1;
          if (all && !loop && !again) own.mutual += has_reverse(csr, row.node, *at) ? 1 : 0;
        }
      });
      loops += own.self_loops;
      duplicates += own.duplicates;
      distinct += own.distinct;
      mutual += own.mutual;
    });
    EdgeFacts facts{loops, duplicates, distinct, all ? distinct.load() : 0, mutual};
    if (is_undirected(topology)) {
      facts.checked = facts.mutual = facts.distinct;
    } else if (square && !all) {
      look_up_some(csr, samples, seed, facts);
    }
    topology.file().check();
    return facts;
  });
}

}  // namespace gz
