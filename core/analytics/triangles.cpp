// triangles: each is counted at its node of least degree, from rows of which only neighbours of higher degree are kept.
//
// Rows in that form are held for a range of nodes that fits into the budget, and a pass over all edges intersects each
// row with the held rows of its neighbours. There are as many passes as ranges: one where all of them fit.
#include "analytics/node_arrays.h"
#include "base/error.h"

namespace gz {
namespace {

constexpr uint64_t kSteps = uint64_t{1} << 20;  // between checks for an interrupt
constexpr uint64_t kLeastHeld = uint64_t{1} << 20;

// The order of nodes by degree and then by id.
struct Order {
  const uint32_t* degree;
  bool operator()(uint64_t u, uint64_t v) const { return degree[u] < degree[v] || (degree[u] == degree[v] && u < v); }
};

template <class Row, class F>
void for_higher(const Row& row, Order below, const F& f) {
  for_distinct(row.begin, row.end, row.node, [&](uint64_t other) {
    if (below(row.node, other)) f(static_cast<uint32_t>(other));
  });
}

// The rows of nodes [first, last) without neighbours of lower degree.
struct HeldRows {
  uint64_t first = 0, last = 0;
  std::vector<uint64_t> starts;
  Buffer ids;  // uint32

  bool has(uint64_t node) const { return node >= first && node < last; }
  std::span<const uint32_t> row(uint64_t node) const {
    const uint64_t begin = starts[node - first], end = starts[node - first + 1];
    return {ids.as<uint32_t>() + begin, static_cast<size_t>(end - begin)};
  }
};

template <class Stream>
class Counter {
 public:
  Counter(Stream& stream, const NodeArray<uint32_t>& degree, const NodeArray<int64_t>& triangles)
      : stream_(stream),
        below_{degree.data()},
        degrees_(degree.table()),
        triangles_(triangles),
        higher_(degree.size()),
        scratch_(static_cast<size_t>(stream.threads())) {}

  void run(uint64_t held_bytes) {
    stream_.pass("ordering edges", [&](const auto& block, int) {
      block.for_rows(degrees_, [&](const auto& row) {
        uint32_t count = 0;
        for_higher(row, below_, [&](uint32_t) { ++count; });
        higher_[row.node] = count;
      });
    });
    for (uint64_t first = 0; first < higher_.size(); first = held_.last) {
      choose(first, held_bytes);
      hold();
      stream_.pass("triangles", [&](const auto& block, int worker) { count(block, scratch_[size_t(worker)]); });
    }
  }

 private:
  struct Scratch {
    std::vector<uint32_t> row;
    std::vector<uint64_t> marks;  // the nodes of the row, as bits
  };

  void choose(uint64_t first, uint64_t bytes) {
    held_ = {};
    held_.first = held_.last = first;
    held_.starts = {0};
    uint64_t ids = 0;
    while (held_.last < higher_.size()) {
      const uint64_t more = ids + higher_[held_.last];
      if (held_.last > first && more * sizeof(uint32_t) + held_.starts.size() * sizeof(uint64_t) > bytes) break;
      held_.starts.push_back(ids = more);
      ++held_.last;
    }
    held_.ids = Buffer(std::max<size_t>(static_cast<size_t>(ids) * sizeof(uint32_t), 1), Purpose::kTables);
  }

  void hold() {
    stream_.pass("holding rows", [&](const auto& block, int) {
      block.for_rows(degrees_, [&](const auto& row) {
        if (!held_.has(row.node)) return;
        uint32_t* to = held_.ids.template as<uint32_t>() + held_.starts[row.node - held_.first];
        for_higher(row, below_, [&](uint32_t other) { *to++ = other; });
      });
    });
  }

  template <class Block>
  void count(const Block& block, Scratch& scratch) {
    if (scratch.marks.empty()) scratch.marks.resize(higher_.size() / 64 + 1);
    uint64_t steps = 0;
    block.for_rows([&](const auto& row) {
      if (higher_[row.node] < 2) return;
      scratch.row.clear();
      for_higher(row, below_, [&](uint32_t other) {
        scratch.row.push_back(other);
        scratch.marks[other / 64] |= uint64_t{1} << (other % 64);
      });
      int64_t own = 0;
      for (const uint32_t other : scratch.row) {
        if (!held_.has(other)) continue;
        const int64_t shared = intersect(other, scratch.marks);
        own += shared;
        if (shared > 0) add_relaxed(triangles_[other], shared);
        if ((steps += higher_[other]) > kSteps) {
          steps = 0;
          check_interrupt();
        }
      }
      if (own > 0) add_relaxed(triangles_[row.node], own);
      for (const uint32_t other : scratch.row) scratch.marks[other / 64] = 0;
    });
  }

  // The number of marked nodes in a held row; each of them gets the triangle too.
  int64_t intersect(uint32_t node, const std::vector<uint64_t>& marks) {
    int64_t shared = 0;
    for (const uint32_t third : held_.row(node)) {
      if ((marks[third / 64] >> (third % 64) & 1) == 0) continue;
      add_relaxed(triangles_[third], int64_t{1});
      ++shared;
    }
    return shared;
  }

  Stream& stream_;
  const Order below_;
  const NodeTable<uint32_t> degrees_;
  const NodeArray<int64_t>& triangles_;
  NodeArray<uint32_t> higher_;  // the length of each row without neighbours of lower degree
  std::vector<Scratch> scratch_;
  HeldRows held_;
};

}  // namespace

Triangles count_triangles(const Topology& topology, const AnalyticsOptions& options) {
  topology.need_square("triangles need");
  check_countable(topology);
  const uint64_t nodes = topology.num_nodes();
  const uint64_t own = nodes * 16 + nodes / 8 * static_cast<uint64_t>(options.threads);
  // Half of the edges of a symmetric graph lead to a node of higher degree; rows that are held have a pointer too.
  const uint64_t whole = topology.num_edges() * 2 + nodes * 8 + kLeastHeld;
  return with_stream(topology, Direction::kNone, options, {own + whole, own + kLeastHeld}, "triangles",
                     [&](auto& stream) {
                       NodeArray<uint32_t> degree = distinct_degrees(stream);
                       NodeArray<int64_t> triangles = filled<int64_t>(nodes, options.threads, 0);
                       const uint64_t held = stream.mapped() ? whole : stream.left(own);
                       Counter(stream, degree, triangles).run(held);
                       return Triangles{triangles.take(), degree.take()};
                     });
}

}  // namespace gz
