// sample_test: draws and labels separately, and whole samples over ids of both widths.
#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/open_table.h"
#include "base/random.h"
#include "check.h"
#include "format/container.h"
#include "sample/rows/draw.h"
#include "sample/subgraph/expansion.h"
#include "sample/subgraph/growing.h"
#include "sample/subgraph/neighbours.h"
#include "storage/file.h"
#include "storage/topology.h"
#include "subgraphs.h"

using namespace gz;

namespace {

// A graph in memory, as rows of either id width over the same arrays. `file` is only there to be named in errors.
struct Rows {
  std::vector<uint64_t> indptr{0};
  std::vector<uint64_t> wide;
  std::vector<uint32_t> narrow;
  std::shared_ptr<const MountedFile> file;

  template <class Id>
  Csr<Id> csr(uint64_t num_nodes) const {
    Csr<Id> csr;
    csr.file = file.get();
    csr.num_nodes = csr.num_others = num_nodes;
    csr.num_edges = csr.limit = wide.size();
    csr.indptr = indptr.data();
    if constexpr (sizeof(Id) == 4) {
      csr.indices = narrow.data();
    } else {
      csr.indices = wide.data();
    }
    return csr;
  }
};

std::shared_ptr<const MountedFile> empty_topology() {
  Container c;
  c.direction = Direction::kOut;
  c.arrays = {{"out.indptr", DType::kUInt64, {1}}, {"out.indices", DType::kUInt32, {0}}};
  lay_out(c);
  const std::string path = test::scratch("empty.gl");
  File file = File::create(path);
  file.write_at(serialize_header(c), 0);
  file.resize(c.file_bytes);
  return MountedFile::open(path, Kind::kTopology);
}

Rows random_rows(uint64_t nodes, uint64_t edges, uint64_t seed) {
  Rows rows;
  rows.file = empty_topology();
  Random random(make_key(seed));
  std::vector<uint64_t> degree(nodes);
  for (uint64_t i = 0; i < edges; ++i) ++degree[random.below(1 + random.below(nodes))];
  for (const uint64_t d : degree) rows.indptr.push_back(rows.indptr.back() + d);
  for (uint64_t i = 0; i < edges; ++i) rows.wide.push_back(random.below(nodes));
  rows.narrow.assign(rows.wide.begin(), rows.wide.end());
  return rows;
}

using test::same;

template <class Edges = GrowingEdges, class Id>
HeteroSubgraph sample(const Csr<Id>& csr, const std::vector<int64_t>& seeds, SampleOptions options) {
  options.io = TopologyIo::kMmap;  // the arrays are not in a mapped file
  const NodeType node_type{.name = "", .num_nodes = csr.num_nodes, .times = {}};
  const TypedSeeds typed{0, seeds, {}};
  const auto run = [&](auto&& expansion) {
    expansion.add(csr, {}, options);
    return expansion.run(options.fanouts.size());
  };
  if (sizeof(Id) == 4 && !options.disjoint)
    return run(Expansion<true, Edges>({&node_type, 1}, {&typed, 1}, {}, options));
  return run(Expansion<false, Edges>({&node_type, 1}, {&typed, 1}, {}, options));
}

}  // namespace

TEST(distinct_draws_are_distinct_below_n_and_complete) {
  PositionSet seen;
  for (const uint64_t n : {1u, 5u, 64u, 65u, 200u, 100000u}) {
    for (const size_t count : {size_t{1}, size_t{5}, size_t{64}, size_t{65}, size_t{199}, size_t{200}}) {
      if (count > n) continue;
      std::vector<int64_t> out(count);
      Random random(make_key(n, count));
      draw_distinct(random, n, count, out.data(), seen);
      const std::set<int64_t> set(out.begin(), out.end());
      CHECK_EQ(set.size(), count);
      CHECK(*set.begin() >= 0 && static_cast<uint64_t>(*set.rbegin()) < n);
    }
  }
}

TEST(distinct_draws_do_not_depend_on_the_width_of_positions) {
  PositionSet seen;
  uint32_t narrow[15];
  uint64_t wide[15];
  for (uint64_t key = 0; key < 50; ++key) {
    Random a(make_key(key)), b(make_key(key));
    draw_distinct(a, 40, 15, narrow, seen);
    draw_distinct(b, 40, 15, wide, seen);
    CHECK(std::equal(narrow, narrow + 15, wide));
  }
}

TEST(distinct_draws_reach_past_32_bits) {
  PositionSet seen;
  std::vector<uint64_t> out(100);
  Random random(make_key(1));
  draw_distinct(random, uint64_t{1} << 40, out.size(), out.data(), seen);
  CHECK(std::any_of(out.begin(), out.end(), [](uint64_t x) { return x > UINT32_MAX; }));
}

// The running sums of weights, and what draws of distinct positions by them are.
struct WeightRow {
  std::vector<double> weights, sums;
  WeightedScratch scratch;

  explicit WeightRow(std::vector<double> given) : weights(std::move(given)) {
    double sum = 0;
    for (const double weight : weights) sums.push_back(sum += weight);
  }
  std::vector<int64_t> draw(uint64_t key, size_t count) {
    std::vector<int64_t> out(count);
    Random random(key);
    out.resize(draw_weighted_distinct(random, sums, [&](size_t i) { return weights[i]; }, count, out.data(), scratch));
    return out;
  }
};

TEST(weighted_draws_never_take_zero_weights_or_repeat) {
  for (const size_t n : {10u, 100u, 3000u}) {
    std::vector<double> weights(n);
    std::set<int64_t> heavy;
    for (size_t i = 0; i < n; ++i) {
      if (i % 3 == 1) heavy.insert(static_cast<int64_t>(i));
      weights[i] = i % 3 == 1 ? static_cast<double>(1 + i % 7) : 0.0;
    }
    WeightRow row(std::move(weights));
    for (const size_t count : {size_t{1}, size_t{5}, n / 3, n}) {  // gaps, the tree, and more than there are
      const std::vector<int64_t> out = row.draw(make_key(n, count), count);
      CHECK_EQ(out.size(), std::min(count, heavy.size()));
      const std::set<int64_t> set(out.begin(), out.end());
      CHECK_EQ(set.size(), out.size());
      CHECK(std::includes(heavy.begin(), heavy.end(), set.begin(), set.end()));
    }
  }
}

TEST(a_weight_that_dwarfs_the_others_leaves_them_drawable) {
  // At 1e15 sums are coarse, at 1e20 they do not see the others; nine is many levels of each dwarfing the next.
  std::vector<double> levels;
  for (double weight = 1e30; weight > 1e-50; weight /= 1e9) levels.push_back(weight);
  std::vector<double> many(200, 1.0);  // drawn from by the tree
  many[70] = 1e20;
  for (const auto& weights : {std::vector<double>{1, 1e15, 1}, {1, 1e20, 1, 0, 1}, levels, many}) {
    WeightRow row(weights);
    const auto positive =
        static_cast<size_t>(std::count_if(weights.begin(), weights.end(), [](double w) { return w > 0; }));
    for (uint64_t key = 0; key < 100; ++key) {
      const std::vector<int64_t> out = row.draw(make_key(key), weights.size());
      CHECK_EQ(out.size(), positive);
      const std::set<int64_t> set(out.begin(), out.end());
      CHECK_EQ(set.size(), positive);
      for (const int64_t at : out) CHECK(weights[static_cast<size_t>(at)] > 0);
    }
  }
}

TEST(light_positions_are_drawn_by_their_own_shares_once_the_heavy_one_is_gone) {
  WeightRow row({1e15, 0.1, 0.3});  // near 1e15 a sum rises by 0.125 or not at all
  int second = 0;
  for (uint64_t key = 0; key < 4000; ++key) {
    const std::vector<int64_t> out = row.draw(make_key(key, 1), 2);
    CHECK_EQ(out.size(), 2u);
    CHECK_EQ(out[0], 0);
    second += out[1] == 2 ? 1 : 0;
  }
  CHECK(second > 2850 && second < 3150);  // 3000 are expected, and 27 is a standard deviation
}

// Labels one edge a neighbour, all from node 0; the labels they got.
template <bool kNarrow, class Id>
std::vector<int64_t> labels_of(GrowingSubgraph& graph, Labels<kNarrow>& labels, const std::vector<Id>& neighbours) {
  const size_t first = graph.edges;
  graph.reserve_edges(first + neighbours.size(), false);
  graph.reserve_nodes(graph.nodes + neighbours.size());
  labels.reserve(graph.nodes + neighbours.size(), 2);
  std::fill_n(graph.col + first, neighbours.size(), int64_t{0});
  labels.label(graph, first, graph.batch, neighbours.data(), neighbours.size());
  graph.edges += neighbours.size();
  return {graph.row + first, graph.row + graph.edges};
}

TEST(labels_grow_and_keep_what_they_have) {
  const std::vector<int64_t> seeds{0, 7, 0};
  GrowingSubgraph graph(seeds, {}, 2);
  Labels<true> labels(graph);
  for (uint32_t round = 0; round < 12; ++round) {
    std::vector<uint32_t> neighbours;
    for (uint32_t i = 0; i < 1u << round; ++i) neighbours.push_back(i * 7);
    const auto got = labels_of(graph, labels, neighbours);
    for (uint32_t i = 0; i < neighbours.size(); ++i) CHECK_EQ(got[i], int64_t{i < 2 ? i : i + 1});  // 2: the seed again
  }
  CHECK_EQ(graph.nodes, (1u << 11) + 1);
}

TEST(nodes_with_equal_hashes_are_distinguished) {
  const std::vector<uint64_t> twins{2291320, 7012075};  // the lower 32 and the upper 10 bits of their hashes are equal
  const auto hash = [](uint64_t node) { return mix(mix(node + kGolden)); };
  CHECK_EQ(hash(twins[0]) << 32, hash(twins[1]) << 32);
  CHECK_EQ(hash(twins[0]) >> 54, hash(twins[1]) >> 54);
  const std::vector<int64_t> seeds{static_cast<int64_t>(twins[1])};
  GrowingSubgraph graph(seeds, {}, 2);
  Labels<false> labels(graph);
  CHECK(labels_of(graph, labels, std::vector<uint64_t>{twins[0], twins[1], twins[0]}) ==
        (std::vector<int64_t>{1, 0, 1}));
}

TEST(chunks_are_finished_in_order_and_each_once) {
  for (const int threads : {1, 2, 8}) {
    std::vector<std::atomic<int>> made(1000);
    std::vector<size_t> finished;
    make_and_finish(
        made.size(), threads, [&](size_t c, int) { ++made[c]; },
        [&](size_t c) {
          CHECK_EQ(made[c].load(), 1);
          finished.push_back(c);
        });
    CHECK_EQ(finished.size(), made.size());
    for (size_t c = 0; c < finished.size(); ++c) CHECK_EQ(finished[c], c);
  }
}

TEST(a_chunk_that_fails_stops_the_others) {
  for (const int threads : {1, 2, 8}) {
    CHECK_THROWS(ArgumentError, "made",
                 make_and_finish(
                     1000, threads,
                     [](size_t c, int) {
                       if (c == 300) fail<ArgumentError>("made");
                     },
                     [](size_t c) { CHECK(c < 300); }));
    CHECK_THROWS(ArgumentError, "finished",
                 make_and_finish(
                     1000, threads, [](size_t, int) {},
                     [](size_t c) {
                       if (c == 300) fail<ArgumentError>("finished");
                     }));
  }
}

TEST(wide_ids_sample_as_narrow_ones_do_on_any_number_of_threads) {
  const uint64_t nodes = 20'000;
  const Rows rows = random_rows(nodes, 600'000, 1);
  std::vector<int64_t> seeds(4500);
  Random random(make_key(2));
  for (int64_t& seed : seeds) seed = static_cast<int64_t>(random.below(nodes));
  for (const bool disjoint : {false, true}) {
    for (const bool replace : {false, true}) {
      SampleOptions options{.fanouts = {12, 2}, .replace = replace, .disjoint = disjoint, .seed = 3};
      const HeteroSubgraph one = sample(rows.csr<uint32_t>(nodes), seeds, options);
      CHECK(one.edges[0].num_sampled_edges[0] > 40'000);  // enough for threads to share it
      for (const int threads : {1, 2, 8}) {
        options.threads = threads;
        CHECK(same(sample(rows.csr<uint32_t>(nodes), seeds, options), one));
        CHECK(same(sample(rows.csr<uint64_t>(nodes), seeds, options), one));
      }
    }
  }
}

// Edges that were sampled as int32, as they are otherwise.
HeteroSubgraph widened(HeteroSubgraph graph) {
  SampledEdges& edges = graph.edges[0];
  const size_t count = edges.edge.size;
  const auto* const from = edges.narrow->as<int32_t>();
  edges.edge_index.buffer = take_buffer(2 * count * sizeof(int64_t));
  edges.edge.buffer = take_buffer(count * sizeof(int64_t));
  std::copy_n(from, 2 * count, edges.edge_index.data());
  std::copy_n(from + 2 * count, count, edges.edge.data());
  return graph;
}

TEST(edges_as_int32_are_those_as_int64) {
  const uint64_t nodes = 20'000;
  const Rows rows = random_rows(nodes, 600'000, 1);
  std::vector<int64_t> seeds(4500);
  Random random(make_key(2));
  for (int64_t& seed : seeds) seed = static_cast<int64_t>(random.below(nodes));
  std::vector<uint64_t> ids(600'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = INT32_MAX - i;
  auto csr = rows.csr<uint32_t>(nodes), with_ids = csr;
  with_ids.edge_ids64 = ids.data();
  for (const auto choice : {Choice::kUniform, Choice::kLabor}) {
    for (const bool replace : {false, true}) {
      if (replace && choice == Choice::kLabor) continue;
      for (const auto& fanouts : {std::vector<int64_t>{12, 2}, {3, -1}, {70, 0, 1}}) {
        for (const int threads : {1, 8}) {
          const SampleOptions options{
              .fanouts = fanouts, .replace = replace, .choice = choice, .seed = 3, .threads = threads};
          const HeteroSubgraph found = sample<NarrowEdges>(csr, seeds, options);
          const size_t ids = 3 * found.edges[0].edge.size + found.nodes[0].node.size;
          CHECK(fanouts.back() == 1 || found.edges[0].narrow->size() >= ids * sizeof(int32_t));  // room for the nodes
          CHECK(same(widened(found), sample(csr, seeds, options)));
          CHECK(same(widened(sample<NarrowEdges>(with_ids, seeds, options)), sample(with_ids, seeds, options)));
        }
      }
    }
  }
  std::ranges::fill(ids, uint64_t{INT32_MAX} + 1);
  CHECK(sample<NarrowEdges>(with_ids, seeds, {.fanouts = {3}}).edges[0].narrow == nullptr);
}

TEST(ids_past_32_bits_keep_all_their_bits) {
  // Rows 0 to 7 exist; their neighbours are in a graph of 2^40 nodes. One hop never looks up a neighbour's row.
  const uint64_t nodes = uint64_t{1} << 40;
  Rows rows;
  rows.file = empty_topology();
  for (uint64_t i = 0; i < 8; ++i) {
    for (uint64_t k = 0; k < 10; ++k) rows.wide.push_back((k << 32) + 5 + i % 2);  // differ in the upper half alone
    rows.indptr.push_back(rows.wide.size());
  }
  const std::vector<int64_t> seeds{0, 1, 2, 3, 4, 5, 6, 7};
  const HeteroSubgraph s = sample(rows.csr<uint64_t>(nodes), seeds, {.fanouts = {-1}});
  const auto node = s.nodes[0].node.span(), row = s.edges[0].edge_index.span(), edge = s.edges[0].edge.span();
  CHECK_EQ(node.size(), 8u + 20 - 2);  // nodes 5 and 6 are seeds
  for (size_t e = 0; e < edge.size(); ++e) {
    CHECK_EQ(static_cast<uint64_t>(node[static_cast<size_t>(row[e])]), rows.wide[static_cast<size_t>(edge[e])]);
  }
}

TEST(a_hop_too_large_for_labels_is_refused_before_it_is_made) {
  Rows rows;
  rows.file = empty_topology();
  rows.indptr = {0, 4};
  rows.wide = {0, 0, 0, 0};
  std::vector<int64_t> seeds(1000, 0);
  SampleOptions options{.fanouts = {int64_t{1} << 30}, .replace = true};
  CHECK_THROWS(ArgumentError, "sample fewer seeds", sample(rows.csr<uint64_t>(1), seeds, options));
}

TEST(check_ids_names_the_first_that_is_wrong) {
  const std::vector<int64_t> ids{0, 3, 9, -1};
  const auto check = [&](uint64_t nodes) { check_ids(ids, "seeds", {nodes, "nodes", "g.gl"}); };
  CHECK_THROWS(IndexError, "seeds[2] = 9 is out of range for g.gl with 9 nodes", check(9));
  CHECK_THROWS(IndexError, "seeds[3] = -1 is out of range for g.gl with 10 nodes", check(10));
  CHECK_THROWS(IndexError, "node = 4 is out of range for 4 nodes", check_id(4, "node", {4, "nodes", ""}));
  check_ids(std::span(ids).first(2), "seeds", {4, "nodes", ""});
}

TEST(index_table_finds_the_first_place_of_each_key) {
  std::vector<int64_t> keys(5000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(mix(i) % 3000) - 1500;
  IndexTable table(keys.size());
  std::map<int64_t, uint32_t> expected;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    uint32_t& index = table.find(keys, keys[i]);
    CHECK_EQ(index == IndexTable::kNone, expected.try_emplace(keys[i], i).second);
    if (index == IndexTable::kNone) index = i;
  }
  for (const auto& [key, index] : expected) CHECK_EQ(table.find(keys, key), index);
  CHECK_EQ(table.find(keys, 1501), IndexTable::kNone);
}
