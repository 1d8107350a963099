// link_test: excluded edges, seeds that are edges, edges by position and induced edges, on a graph small enough to
// read.
#include "sample/link/link.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "check.h"
#include "load/seeds.h"
#include "load_files.h"
#include "sample/subgraph/exclude.h"
#include "sample/subgraph/hgt.h"
#include "sample/subgraph/induce.h"

using namespace gz;

namespace {

// Target t has edges from t + 1, t + 2, t + 2 (twice) and t + 3, modulo the number of sources, sorted.
std::shared_ptr<const Topology> relation(const std::string& name, uint64_t sources, uint64_t targets) {
  const test::Relation shape{.sources = sources, .targets = targets, .is_sorted = true};
  return test::write_relation(name, shape, [&](uint64_t t, std::vector<uint32_t>& indices) {
    for (const uint64_t k : {1, 2, 2, 3}) indices.push_back(static_cast<uint32_t>((t + k) % sources));
    std::sort(indices.end() - 4, indices.end());
  });
}

using Edge = std::pair<int64_t, int64_t>;

std::multiset<Edge> edges_of(const SampledNodes& from, const SampledNodes& to, const SampledEdges& edges) {
  std::multiset<Edge> found;
  const size_t count = edges.edge.size;
  for (size_t i = 0; i < count; ++i) {
    found.emplace(from.node.data()[edges.edge_index.data()[i]], to.node.data()[edges.edge_index.data()[count + i]]);
  }
  return found;
}

SampleGraph shop(uint64_t users, uint64_t items) {
  SampleGraph graph;
  graph.add_node_type("user", users, {}, nullptr);
  graph.add_node_type("item", items, {}, nullptr);
  graph.add_edge_type("user buys item", relation("buys.gl", users, items), Direction::kIn, 0, 1, {-1, -1});
  graph.add_edge_type("item bought_by user", relation("by.gl", items, users), Direction::kIn, 1, 0, {-1, -1});
  return graph;
}

}  // namespace

TEST(excluded_edges_are_found_by_their_row) {
  const auto graph = relation("exclude.gl", 20, 20);
  ExcludedEdges excluded;
  const std::vector<int64_t> source{5, 7, 5}, target{4, 4, 4};
  excluded.add(*graph, Direction::kIn, source, target, false);
  excluded.build();
  CHECK(excluded.of(4).size() == 2 && excluded.of(4)[0] == 5 && excluded.of(4)[1] == 7);
  CHECK(excluded.of(5).empty());
  SampleOptions options;
  options.fanouts = {-1};
  options.exclude = &excluded;
  const std::vector<int64_t> seeds{4};
  const HeteroSubgraph found = sample_neighbours(*graph, seeds, {}, options);
  CHECK(found.edges[0].edge.size == 2);  // 6, twice
  CHECK(found.nodes[0].node.data()[1] == 6 && found.nodes[0].node.size == 2);
  const std::vector<int64_t> wrong{20};
  CHECK(test::message_of<IndexError>([&] { excluded.add(*graph, Direction::kIn, wrong, seeds, false); }, __FILE__,
                                     __LINE__)
            .find("exclude_edges[0][0] = 20") == 0);
}

TEST(edges_are_found_by_position) {
  const auto graph = relation("at.gl", 11, 30);
  std::vector<int64_t> positions(120), source(120), target(120), edge(120);
  std::iota(positions.begin(), positions.end(), 0);
  edges_at(*graph, Direction::kIn, positions, {source, target, edge, {}});
  CHECK(edge == positions);
  for (int64_t i = 0; i < 120; ++i) {
    CHECK(target[static_cast<size_t>(i)] == i / 4);
    const int64_t apart = (source[static_cast<size_t>(i)] - i / 4 % 11 + 22) % 11;
    CHECK(apart >= 1 && apart <= 3);
  }
  const std::vector<int64_t> past{120};
  CHECK(test::message_of<IndexError>(
            [&] {
              edges_at(*graph, Direction::kIn, past, {std::span(source).first(1), std::span(target).first(1), {}, {}});
            },
            __FILE__, __LINE__)
            .find("positions[0] = 120 is out of range") == 0);
}

TEST(links_are_sampled_without_themselves) {
  const SampleGraph graph = shop(40, 25);
  const std::vector<int64_t> source{3, 9, 3}, target{2, 8, 1};  // 2 + 1, 8 + 1 and 1 + 2, the last one twice
  LinkOptions how;
  how.negatives = LinkNegatives::kTriplet;
  how.ratio = 2;
  how.strict = true;
  how.exclude = LinkExclude::kReverse;
  how.reverse_types = {1};
  SampleOptions options;
  options.fanouts = {-1, -1};
  options.seed = 3;
  const LinkSubgraph made = sample_links(graph.node_types(), graph.edge_types(), {0, source, target, {}}, how, options);
  CHECK(made.seeds.source == (std::vector<int64_t>{3, 9}));
  CHECK(made.seeds.src_index == (std::vector<int64_t>{0, 1, 0}));
  CHECK(made.seeds.dst_neg_index.size() == 6 && made.seeds.dst_pos_index == (std::vector<int64_t>{0, 1, 2}));
  const auto& [users, items] = std::pair(made.graph.nodes[0], made.graph.nodes[1]);
  const auto buys = edges_of(users, items, made.graph.edges[0]), by = edges_of(items, users, made.graph.edges[1]);
  CHECK(!buys.empty() && !by.empty());
  for (size_t i = 0; i < source.size(); ++i) {
    CHECK(buys.count({source[i], target[i]}) == 0);
    CHECK(by.count({target[i], source[i]}) == 0);
    for (size_t k = 0; k < 2; ++k) {  // strict: no edge
      const int64_t other = made.seeds.target[static_cast<size_t>(made.seeds.dst_neg_index[2 * i + k])];
      const int64_t apart = (source[i] - other + 40) % 40;
      CHECK(apart < 1 || apart > 3);
    }
  }
}

TEST(induced_and_hgt_subgraphs_have_all_edges_between_their_nodes) {
  const SampleGraph graph = shop(40, 25);
  const std::vector<int64_t> items{2, 8, 24};
  const TypedSeeds seeds{1, items, {}};
  const HeteroSubgraph made = sample_hgt(graph.node_types(), graph.edge_types(), {&seeds, 1}, {{3, 2}, {1, 1}}, 5, 2);
  CHECK(made.nodes[0].num_sampled_nodes == (std::vector<int64_t>{0, 3, 2}));
  CHECK(made.nodes[1].num_sampled_nodes == (std::vector<int64_t>{3, 0, 1}));  // no user leads to an item in hop 0
  std::multiset<Edge> all;
  const auto users = made.nodes[0].node.span(), nodes = made.nodes[1].node.span();
  for (const int64_t t : nodes) {
    for (const int64_t k : {1, 2, 2, 3}) {
      if (std::count(users.begin(), users.end(), (t + k) % 40) != 0) all.emplace((t + k) % 40, t);
    }
  }
  CHECK(!all.empty() && edges_of(made.nodes[0], made.nodes[1], made.edges[0]) == all);
}

TEST(an_epoch_over_all_edges_delivers_each_once) {
  const SampleGraph graph = shop(300, 200);
  LinkSourceOptions how;
  how.link.negatives = LinkNegatives::kBinary;
  how.link.exclude = LinkExclude::kSelf;
  const auto seeds = link_source(graph, how);
  LoadOptions options;
  options.sample.fanouts = {3, 2};
  options.batch_size = 64;
  options.shuffle = true;
  options.seed = 9;
  options.threads = 3;
  const auto plan = make_plan(graph, {}, seeds, options, {}, nullptr);
  Pipeline epoch(plan, 0, {});
  std::vector<int64_t> seen;
  LoadedBatch batch;
  for (Pipeline::State state; (state = epoch.next(batch, 1000)) != Pipeline::State::kEnd;) {
    if (state != Pipeline::State::kReady) continue;
    CHECK(batch.arrays.size() == 2 && batch.arrays[0].name == "edge_label_index" && batch.arrays[1].name == "edge");
    const int64_t* index = batch.arrays[0].buffer->as<int64_t>();
    const int64_t* edge = batch.arrays[1].buffer->as<int64_t>();
    const size_t positives = batch.input.size, all = batch.arrays[0].shape[1];
    CHECK(all == 2 * positives);
    for (size_t i = 0; i < positives; ++i) {
      CHECK(batch.graph.nodes[1].node.data()[index[all + i]] == edge[i] / 4);
      seen.push_back(edge[i]);
    }
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen.size() == 800 && std::adjacent_find(seen.begin(), seen.end()) == seen.end() && seen.back() == 799);
}
