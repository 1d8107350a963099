// node_order: counting, breadth-first search and label propagation over a mapped topology.
#include "compile/order/node_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/vote_table.h"
#include "storage/page_requests.h"

namespace gz {
namespace {

constexpr uint64_t kScan = uint64_t{1} << 20;  // neighbours that are prefetched and reported together
constexpr uint64_t kAhead = 32;                // neighbours whose entry is prefetched
constexpr size_t kQueued = 4096;               // rows of a queue that are prefetched together
constexpr uint64_t kMostVotes = 1024;          // neighbours of one node that vote; evenly spaced if there are more
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

Buffer array_of(uint64_t nodes) {
  return Buffer(std::max<size_t>(static_cast<size_t>(nodes) * sizeof(uint32_t), 1), Purpose::kCompile);
}

std::span<uint32_t> values(const Buffer& buffer, uint64_t nodes) {
  return {buffer.as<uint32_t>(), static_cast<size_t>(nodes)};
}

void report(Progress* progress, const char* phase, uint64_t done, uint64_t total) {
  if (progress != nullptr) progress->report(phase, done, total);
}

// Prefetches the neighbours at [begin, end) before a scan, which reads all of them.
template <class Csr>
void prefetch_neighbours(const PagePrefetcher& prefetcher, const Csr& csr, uint64_t begin, uint64_t end) {
  if (begin < end) prefetcher.request_whole(csr.indices + begin, (end - begin) * sizeof(typename Csr::Id));
}

// Prefetches the entry of a later neighbour. Its id was not checked yet, but a prefetch of any address is harmless.
template <class Csr>
void fetch_ahead(const Csr& csr, uint64_t position, const uint32_t* table) {
  if (position < csr.num_edges) prefetch(table + csr.indices[position]);
}

// Rows of a topology with deltas are not at consecutive positions.
template <class Csr>
void count_rows(const Csr& csr, std::span<uint32_t> counts, Progress* progress) {
  for (uint64_t node = 0; node < csr.num_nodes; ++node) {
    const auto row = csr.row(node);
    for (uint64_t p = row.begin; p < row.end; ++p) {
      uint32_t& count = counts[static_cast<size_t>(csr.neighbour(p))];
      count += count < kNone ? 1 : 0;
    }
    if (node % kScan == 0) report(progress, "counting neighbours", node, csr.num_nodes);
  }
}

template <class Csr>
void count_all(const Csr& csr, std::span<uint32_t> counts, Progress* progress) {
  if (csr.changed) return count_rows(csr, counts, progress);
  const PagePrefetcher prefetcher(*csr.file, 1);
  for (uint64_t begin = 0; begin < csr.num_edges; begin += kScan) {
    const uint64_t end = std::min(begin + kScan, csr.num_edges);
    prefetch_neighbours(prefetcher, csr, begin, end);
    for (uint64_t p = begin; p < end; ++p) {
      fetch_ahead(csr, p + kAhead, counts.data());
      uint32_t& count = counts[static_cast<size_t>(csr.neighbour(p))];
      count += count < kNone ? 1 : 0;
    }
    report(progress, "counting neighbours", end, csr.num_edges);
  }
}

// A queue that is the order itself: nodes are appended when they are first reached, and their rows read in order.
template <class Csr>
class BreadthFirst {
 public:
  BreadthFirst(const Csr& csr, std::span<uint32_t> order)
      : csr_(csr), order_(order), met_(order.size()), prefetcher_(*csr.file, 1) {}

  void run(std::span<const uint32_t> roots, Progress* progress) {
    size_t read = 0;
    for (const uint32_t root : roots) {
      meet(root);
      while (read < end_) {
        const size_t last = std::min(end_, read + kQueued);
        ask(read, last);
        for (; read < last; ++read) expand(order_[read]);
        report(progress, "breadth first", read, order_.size());
      }
    }
  }

 private:
  void meet(uint64_t node) {
    if (met_[node]) return;
    met_[node] = true;
    order_[end_++] = static_cast<uint32_t>(node);
  }

  void expand(uint32_t node) {
    const auto row = csr_.row(node);
    for (uint64_t p = row.begin; p < row.end; ++p) meet(csr_.neighbour(p));
  }

  void ask(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) prefetcher_.add(csr_.indptr + order_[i], 2);
    prefetcher_.request_added();
    for (size_t i = begin; i < end; ++i) {
      const auto row = csr_.row(order_[i]);
      if (row.degree() > 0) prefetcher_.add(csr_.indices + row.begin, row.degree());
    }
    prefetcher_.request_added();
  }

  const Csr& csr_;
  const std::span<uint32_t> order_;
  size_t end_ = 0;
  std::vector<bool> met_;
  PagePrefetcher prefetcher_;
};

template <class Csr>
class Propagation {
 public:
  Propagation(const Csr& csr, std::span<uint32_t> community, std::span<uint32_t> sizes, uint64_t most)
      : csr_(csr), community_(community), sizes_(sizes), most_(most) {
    std::iota(community.begin(), community.end(), 0u);
    std::fill(sizes.begin(), sizes.end(), 1u);
  }

  // One pass over all nodes; returns how many changed their community.
  uint64_t pass(Progress* progress) {
    const PagePrefetcher prefetcher(*csr_.file, 1);
    uint64_t moves = 0, asked = 0;
    for (uint64_t node = 0; node < csr_.num_nodes; ++node) {
      const auto row = csr_.row(node);
      if (row.end > asked) {
        const uint64_t until = std::min(std::max(row.end, asked + kScan), csr_.num_edges);
        prefetch_neighbours(prefetcher, csr_, asked, until);
        asked = until;
        report(progress, "finding communities", asked, csr_.num_edges);
      }
      if (row.degree() > 0) moves += join_best(node, row) ? 1 : 0;
    }
    return moves;
  }

 private:
  bool join_best(uint64_t node, typename Csr::Row row) {
    const uint64_t step = (row.degree() + kMostVotes - 1) / kMostVotes;
    const uint32_t own = community_[node];
    votes_.start(row.degree() / step + 1);
    const uint64_t key = node << 32;
    uint32_t best = own, most = 0;
    for (uint64_t p = row.begin; p < row.end; p += step) {
      fetch_ahead(csr_, p + kAhead * step, community_.data());
      const uint32_t other = community_[csr_.neighbour(p)];
      const uint32_t votes = votes_.add(other);
      // Ties keep the own community, otherwise break at random: a fixed ranking would merge neighbouring communities.
      const bool tie = votes == most && best != own && (other == own || mix(other ^ key) > mix(best ^ key));
      if (votes <= most && !tie) continue;
      if (other != own && sizes_[other] >= most_) continue;  // full
      best = other;
      most = votes;
    }
    if (best == own) return false;
    --sizes_[own];
    ++sizes_[best];
    community_[node] = best;
    return true;
  }

  const Csr& csr_;
  const std::span<uint32_t> community_, sizes_;
  const uint64_t most_;
  VoteTable votes_;
};

}  // namespace

void check_orderable(const Topology& topology) {
  topology.need_square("reordering needs");
  if (topology.num_nodes() >= kNone) {
    fail<ArgumentError>(topology.file().path(), ": has ", topology.num_nodes(), " nodes, expected fewer than 2^32 - 1");
  }
}

Buffer count_neighbours(const Topology& topology, Direction side, Progress* progress) {
  check_orderable(topology);
  Buffer counts = array_of(topology.num_nodes());
  std::ranges::fill(values(counts, topology.num_nodes()), 0u);
  topology.visit(side, [&](const auto& csr) { count_all(csr, values(counts, csr.num_nodes), progress); });
  topology.file().check();
  return counts;
}

Buffer order_by_level(std::span<const uint32_t> counts, std::span<const uint32_t> order) {
  constexpr size_t kLevels = 33;
  std::array<uint64_t, kLevels + 1> starts{};
  const auto level = [&](uint32_t node) { return kLevels - 1 - static_cast<size_t>(std::bit_width(counts[node])); };
  const auto nodes = static_cast<uint32_t>(counts.size());
  for (uint32_t node = 0; node < nodes; ++node) ++starts[level(node) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  Buffer buffer = array_of(nodes);
  for (uint32_t i = 0; i < nodes; ++i) {
    const uint32_t node = order.empty() ? i : order[i];
    buffer.as<uint32_t>()[starts[level(node)]++] = node;
  }
  return buffer;
}

Buffer order_breadth_first(const Topology& topology, Direction side, std::span<const uint32_t> roots,
                           Progress* progress) {
  check_orderable(topology);
  Buffer buffer = array_of(topology.num_nodes());
  topology.visit(side, [&](const auto& csr) { BreadthFirst(csr, values(buffer, csr.num_nodes)).run(roots, progress); });
  topology.file().check();
  return buffer;
}

Buffer find_communities(const Topology& topology, Direction side, const CommunityOptions& options, Progress* progress) {
  check_orderable(topology);
  const uint64_t nodes = topology.num_nodes();
  Buffer communities = array_of(nodes), sizes = array_of(nodes);
  const uint64_t most = options.most_nodes > 0 ? options.most_nodes : std::clamp<uint64_t>(nodes / 64, 64, 1 << 16);
  topology.visit(side, [&](const auto& csr) {
    Propagation propagation(csr, values(communities, nodes), values(sizes, nodes), most);
    for (int pass = 0; pass < options.most_passes; ++pass) {
      if (propagation.pass(progress) <= nodes / 100) break;
    }
  });
  topology.file().check();
  return communities;
}

Buffer order_by_community(std::span<const uint32_t> communities, std::span<const uint32_t> order) {
  Buffer counted = array_of(communities.size()), buffer = array_of(communities.size());
  const auto starts = values(counted, communities.size());
  std::ranges::fill(starts, 0u);
  for (const uint32_t community : communities) ++starts[community];
  // A size becomes the community's start when the order first reaches it; from then on it is the next free position.
  std::vector<bool> placed(communities.size());
  const auto out = values(buffer, communities.size());
  uint32_t next = 0;
  for (const uint32_t node : order) {
    uint32_t& start = starts[communities[node]];
    if (!placed[communities[node]]) {
      placed[communities[node]] = true;
      next += std::exchange(start, next);
    }
    out[start++] = node;
  }
  return buffer;
}

Buffer order_nodes(const Topology& topology, NodeOrder by, Direction side, std::span<const uint32_t> counts,
                   Progress* progress) {
  const size_t nodes = static_cast<size_t>(topology.num_nodes());
  if (!counts.empty() && counts.size() != nodes) {
    fail<ArgumentError>("found ", counts.size(), " counts, expected ", nodes);
  }
  Buffer degrees = count_neighbours(topology, side, progress);
  Buffer roots = order_by_level(values(degrees, nodes), {});
  if (by != NodeOrder::kHot || !counts.empty()) degrees = Buffer();
  if (by == NodeOrder::kCommunity) {
    const Buffer communities = find_communities(topology, side, {}, progress);
    return order_by_community(values(communities, nodes), values(roots, nodes));
  }
  Buffer order = order_breadth_first(topology, side, values(roots, nodes), progress);
  roots = Buffer();
  if (by == NodeOrder::kBreadthFirst) return order;
  return order_by_level(counts.empty() ? values(degrees, nodes) : counts, values(order, nodes));
}

}  // namespace gz
