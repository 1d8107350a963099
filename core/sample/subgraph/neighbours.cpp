// neighbours: the checks, and the dispatch on id width.
#include "sample/subgraph/neighbours.h"

#include <algorithm>

#include "base/ids.h"
#include "base/threads.h"
#include "sample/rows/draw.h"
#include "sample/subgraph/growing.h"
#include "sample/subgraph/hetero.h"

namespace gz {
namespace {

constexpr int64_t kMostFanout = int64_t{1} << 31;

void check_combination(const SampleOptions& options, bool with_times) {
  if (options.fanouts.empty()) fail<ArgumentError>("fanouts is empty, expected one number per hop, as in [15, 10, 5]");
  for (size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    if (options.fanouts[hop] < -1 || options.fanouts[hop] >= kMostFanout) {
      fail<ArgumentError>("fanouts[", hop, "] is ", options.fanouts[hop], ", expected 0 to ", kMostFanout - 1,
                          ", or -1 for all");
    }
  }
  if (options.dependent.batches > 1 && options.choice != Choice::kLabor) {
    fail<ArgumentError>("batch_dependency is ", options.dependent.batches, ", which needs method 'labor'");
  }
  if (options.choice == Choice::kLabor) {
    const char* other = options.replace    ? "replace=True"
                        : options.weighted ? "weighted=True"
                        : with_times       ? "time="
                        : options.disjoint ? "disjoint=True"
                                           : nullptr;
    if (other != nullptr) {
      fail<ArgumentError>("method 'labor' takes neighbours that nodes share, uniformly and without replacement: ",
                          "it cannot be combined with ", other);
    }
  }
}

}  // namespace

ExpectedReads expected_reads(const std::vector<int64_t>& fanouts, size_t seeds, uint64_t num_nodes,
                             uint64_t num_edges) {
  const double degree = static_cast<double>(num_edges) / static_cast<double>(std::max<uint64_t>(num_nodes, 1));
  ExpectedReads expected;
  double frontier = static_cast<double>(seeds);
  for (const int64_t fanout : fanouts) {
    expected.rows += frontier;
    frontier *= fanout < 0 ? degree : std::min(degree, static_cast<double>(fanout));
    expected.edges += frontier;
  }
  return expected;
}

void check_row_options(const Topology& topology, const SampleOptions& options, bool by_edge_time, bool with_times) {
  check_combination(options, with_times);
  resolve_threads(options.threads);
  topology.visit(options.direction, [&](const auto& csr) {
    if (by_edge_time && !csr.has_times()) {
      fail<ArgumentError>(csr.file->path(), ": edges have no times; compile the graph with times to sample by them");
    }
    if (csr.num_edges == 0) return;
    if (options.weighted) need_weights(csr);
    if (options.weighted && with_times && csr.weights == nullptr) {
      fail<ArgumentError>(csr.file->path(), ": edges have sums but no weights, sampling by weight and time needs them");
    }
  });
}

void check_options(const Topology& topology, const SampleOptions& options, bool with_times) {
  topology.need_square("sampling around nodes of one kind needs");
  check_row_options(topology, options, with_times, with_times);
}

HeteroSubgraph sample_neighbours(const Topology& topology, std::span<const int64_t> seeds,
                                 std::span<const int64_t> times, const SampleOptions& asked) {
  SampleOptions options = asked;
  check_options(topology, options, !times.empty());
  if (!times.empty() && times.size() != seeds.size()) {
    fail<ArgumentError>("time has ", times.size(), " values for ", seeds.size(), " seeds, expected one per seed");
  }
  if (seeds.size() >= kMostLabels) fail<ArgumentError>(seeds.size(), " seeds, expected below ", kMostLabels);
  check_ids(seeds, "seeds", {topology.num_nodes(), "nodes", topology.file().path()});
  options.disjoint = options.disjoint || !times.empty();
  options.threads = resolve_threads(options.threads);
  const NodeType node_type{.name = "", .num_nodes = topology.num_nodes(), .times = {}};
  const EdgeType edge_type{&topology, topology.resolve(options.direction), 0, 0, options.fanouts, options.exclude};
  const TypedSeeds typed{0, seeds, times};
  HeteroSubgraph subgraph = expand_typed({&node_type, 1}, {&edge_type, 1}, {&typed, 1}, times, options);
  topology.file().check();
  return subgraph;
}

}  // namespace gz
