// weak_components: union-find without locks; Afforest where rows are symmetric and mapped.
//
// Afforest (Sutton, Ben-Nun, Barak 2018): the first neighbours of each node connect most of the graph, and rows of
// nodes in the largest component are not read any more. Roots only ever point to smaller ids, so the root of a
// component is its smallest node in the end, whatever the order of edges.
#include <unordered_map>

#include "analytics/node_arrays.h"
#include "base/random.h"

namespace gz {
namespace {

constexpr int kRounds = 2;  // first neighbours that are linked before the largest component is looked for
constexpr int kSampled = 1024;

class Forest {
 public:
  Forest(uint64_t nodes, int threads) : parent_(nodes), threads_(threads) {
    for_nodes(nodes, threads, [&](uint64_t node) { parent_[node] = static_cast<uint32_t>(node); });
  }

  NodeTable<uint32_t> table(uint64_t first) const { return {parent_.data() + first, parent_.size() - first}; }
  uint64_t size() const { return parent_.size(); }
  uint32_t root(uint64_t node) const { return parent_[node]; }  // after compress()

  // Connects two nodes; `root` is that of the one as far as known. Returns the root that they have now.
  uint32_t link(uint32_t root, uint64_t other) {
    const uint32_t above = load_relaxed(parent_[other]);
    return above == root ? root : unite(root, find(other, above));
  }

  uint32_t find(uint64_t node) { return find(node, load_relaxed(parent_[node])); }

  void compress() {
    for_nodes(parent_.size(), threads_, [&](uint64_t node) {
      uint32_t above = load_relaxed(parent_[node]), next = load_relaxed(parent_[above]);
      while (above != next) {
        store_relaxed(parent_[node], next);
        above = next;
        next = load_relaxed(parent_[above]);
      }
    });
  }

  // A root that most of some random nodes have.
  uint32_t frequent_root() const {
    Random random(make_key(0, parent_.size()));
    std::unordered_map<uint32_t, int> counts;
    uint32_t best = 0;
    for (int i = 0; i < kSampled; ++i) {
      const uint32_t root = parent_[random.below(parent_.size())];
      if (++counts[root] > counts[best]) best = root;
    }
    return best;
  }

  Labels labels() {
    // In place: the root of a node is not larger, so it has its number already.
    uint32_t count = 0;
    for_nodes(parent_.size(), 1,
              [&](uint64_t node) { parent_[node] = parent_[node] == node ? count++ : parent_[parent_[node]]; });
    return {parent_.take(), count};
  }

 private:
  // The root of `node`, whose parent is `above`; nodes on the way get the parents of their parents.
  uint32_t find(uint64_t node, uint32_t above) {
    uint32_t next = load_relaxed(parent_[above]);
    while (above != next) {
      store_relaxed(parent_[node], next);
      node = above;
      above = next;
      next = load_relaxed(parent_[above]);
    }
    return above;
  }

  // Connects two roots, which other threads may have connected to further ones by now.
  uint32_t unite(uint32_t one, uint32_t two) {
    while (one != two) {
      uint32_t high = std::max(one, two);
      const uint32_t low = std::min(one, two), expected = high;
      if (swap_relaxed(parent_[expected], high, low)) return low;
      one = find(expected, high);  // not a root any more: `high` is its parent
      two = find(low);
    }
    return one;
  }

  NodeArray<uint32_t> parent_;
  const int threads_;
};

template <class Csr>
void afforest(const Csr& csr, Forest& forest, const AnalyticsOptions& options) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    for_nodes(csr.num_nodes, options.threads, [&](uint64_t node) {
      const auto row = csr.row(node);
      if (round < row.degree()) forest.link(forest.find(node), csr.neighbour(row.begin + round));
    });
    forest.compress();
  }
  const uint32_t giant = forest.frequent_root();
  for_nodes(csr.num_nodes, options.threads, [&](uint64_t node) {
    if (forest.root(node) == giant) return;
    const auto row = csr.row(node);
    uint32_t root = forest.find(node);
    for (uint64_t p = row.begin + kRounds; p < row.end; ++p) root = forest.link(root, csr.neighbour(p));
  });
}

}  // namespace

Labels weak_components(const Topology& topology, const AnalyticsOptions& options) {
  check_countable(topology);
  const bool square = topology.square();
  const uint64_t sources = topology.num_sources(), nodes = square ? sources : sources + topology.num_targets();
  const bool out_rows = topology.resolve(Direction::kNone) == Direction::kOut;
  const uint64_t row_base = square || out_rows ? 0 : sources, other_base = square || !out_rows ? 0 : sources;
  return with_stream(topology, Direction::kNone, options, nodes * 4, "components", [&](auto& stream) {
    Forest forest(nodes, options.threads);
    if (stream.mapped() && is_undirected(topology)) {
      afforest(stream.csr(), forest, options);
      topology.file().check();
    } else {
      stream.pass("components", [&](const auto& block, int) {
        block.for_rows(forest.table(other_base), [&](const auto& row) {
          if (row.begin == row.end) return;
          uint32_t root = forest.find(row_base + row.node);
          for (auto at = row.begin; at < row.end; ++at) root = forest.link(root, other_base + *at);
        });
      });
    }
    forest.compress();
    return forest.labels();
  });
}

}  // namespace gz
