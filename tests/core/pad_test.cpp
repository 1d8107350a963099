// pad_test: padded subgraphs are those that are not, with copies of nodes at the end of each hop.
#include "sample/subgraph/pad.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "base/random.h"
#include "check.h"
#include "load_files.h"
#include "subgraphs.h"

using namespace gz;
using test::values;

namespace {

// Where each node of a subgraph is in the padded one, by going through the hops.
std::vector<int64_t> places(const SampledNodes& plain, const SampledNodes& padded) {
  std::vector<int64_t> found;
  int64_t begin = 0;
  for (size_t hop = 0; hop < plain.num_sampled_nodes.size(); ++hop) {
    for (int64_t i = 0; i < plain.num_sampled_nodes[hop]; ++i) found.push_back(begin + i);
    begin += padded.num_sampled_nodes[hop];
  }
  return found;
}

void check_nodes(const SampledNodes& plain, const SampledNodes& padded) {
  const size_t counts = plain.num_sampled_nodes.size();
  CHECK_EQ(padded.num_sampled_nodes.size(), counts);
  CHECK_EQ(padded.num_padding_nodes.size(), counts);
  CHECK(plain.num_padding_nodes.empty());
  const auto now = values(padded.node), old = values(plain.node);
  int64_t total = 0;
  for (size_t hop = 0; hop < counts; ++hop) {
    const int64_t padding = padded.num_padding_nodes[hop];
    CHECK_EQ(padded.num_sampled_nodes[hop], plain.num_sampled_nodes[hop] + padding);
    total += padded.num_sampled_nodes[hop];
    if (hop == 0) {
      CHECK_EQ(padding, 0);
      continue;
    }
    CHECK_EQ(static_cast<uint64_t>(total), padded_count(static_cast<uint64_t>(total - padding)));
    for (int64_t i = 0; i < padding; ++i) CHECK_EQ(now[static_cast<size_t>(total - padding + i)], now[size_t(i)]);
  }
  CHECK_EQ(static_cast<size_t>(total), now.size());
  const auto place = places(plain, padded);
  for (size_t i = 0; i < old.size(); ++i) CHECK_EQ(now[static_cast<size_t>(place[i])], old[i]);
}

void check_edges(const SampledEdges& plain, const std::vector<int64_t>& sources, const std::vector<int64_t>& targets,
                 const SampledEdges& padded) {
  CHECK(plain.num_sampled_edges == padded.num_sampled_edges);
  const auto labels = values(plain.edge_index), ids = values(plain.edge);
  const size_t count = ids.size();
  CHECK_EQ(padded.edge.size, count);
  const auto expect = [&](size_t i, int64_t row, int64_t col, int64_t edge) {
    CHECK_EQ(row, sources[static_cast<size_t>(labels[i])]);
    CHECK_EQ(col, targets[static_cast<size_t>(labels[count + i])]);
    CHECK_EQ(edge, ids[i]);
  };
  for (size_t i = 0; i < count; ++i) {
    if (padded.narrow) {
      const auto* all = padded.narrow->as<int32_t>();
      expect(i, all[i], all[count + i], all[2 * count + i]);
    } else {
      expect(i, padded.edge_index.data()[i], padded.edge_index.data()[count + i], padded.edge.data()[i]);
    }
  }
}

// A relation whose rows have up to `degree` neighbours, few of them the most frequent.
std::shared_ptr<const Topology> relation(const std::string& name, uint64_t sources, uint64_t targets, uint64_t degree) {
  Random random(make_key(sources, targets));
  return test::write_relation(name, {sources, targets}, [&](uint64_t, std::vector<uint32_t>& indices) {
    for (uint64_t i = random.below(degree + 1); i > 0; --i) {
      indices.push_back(static_cast<uint32_t>(random.below(1 + random.below(sources))));
    }
  });
}

std::vector<int64_t> some(Random& random, uint64_t nodes, size_t count) {
  std::vector<int64_t> seeds(count);
  for (int64_t& seed : seeds) seed = static_cast<int64_t>(random.below(nodes));
  return seeds;
}

std::vector<int64_t> fanouts_of(Random& random, size_t hops) {
  std::vector<int64_t> fanouts(hops);
  for (int64_t& fanout : fanouts) fanout = static_cast<int64_t>(random.below(9)) - 1;
  return fanouts;
}

}  // namespace

TEST(padded_counts_have_six_significant_bits) {
  for (uint64_t count = 0; count < 64; ++count) CHECK_EQ(padded_count(count), count);
  CHECK_EQ(padded_count(65), 66u);
  CHECK_EQ(padded_count(1000), 1008u);
  CHECK_EQ(padded_count(1024), 1024u);
  CHECK_EQ(padded_count(1025), 1056u);
  CHECK_EQ(padded_count(636'791), 638'976u);
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t count = random.below(uint64_t{1} << (1 + random.below(40)));
    const uint64_t padded = padded_count(count);
    CHECK(padded >= count && padded - count <= count / 32);
    const int zeros = padded == 0 ? 0 : std::countr_zero(padded);
    CHECK(std::bit_width(padded >> zeros) <= 6);
    if (padded > count) CHECK(std::bit_width(count) > 6);
  }
}

TEST(padded_samples_are_plain_ones_with_copies_of_nodes) {
  const auto topology = relation("pad.gl", 4000, 4000, 12);
  Random random(2);
  for (int i = 0; i < 120; ++i) {
    SampleOptions options;
    options.fanouts = fanouts_of(random, 1 + random.below(4));
    options.seed = static_cast<uint64_t>(i);
    options.threads = 1 + i % 3;
    options.replace = i % 5 == 4;
    options.choice = i % 5 < 2 ? Choice::kLabor : Choice::kUniform;
    const auto seeds = some(random, 4000, random.below(400));
    const auto plain = sample_neighbours(*topology, seeds, {}, options);
    options.pad_nodes = true;
    options.narrow_edges = i % 2 == 1;
    const auto padded = sample_neighbours(*topology, seeds, {}, options);
    CHECK_EQ(padded.edges[0].narrow != nullptr, options.narrow_edges);
    check_nodes(plain.nodes[0], padded.nodes[0]);
    const auto place = places(plain.nodes[0], padded.nodes[0]);
    check_edges(plain.edges[0], place, place, padded.edges[0]);
  }
}

TEST(nodes_of_each_type_are_padded_by_themselves) {
  const auto writes = relation("pad_writes.gl", 3000, 700, 9), cites = relation("pad_cites.gl", 700, 700, 30),
             written = relation("pad_written.gl", 700, 3000, 5);
  const std::vector<NodeType> node_types = {{"paper", 700, {}}, {"author", 3000, {}}, {"venue", 50, {}}};
  Random random(3);
  for (int i = 0; i < 60; ++i) {
    const size_t hops = 1 + random.below(3);
    std::vector<EdgeType> edge_types;
    for (const auto& [topology, source, target] :
         {std::tuple{writes.get(), 1, 0}, {cites.get(), 0, 0}, {written.get(), 0, 1}}) {
      edge_types.push_back({topology, Direction::kIn, size_t(source), size_t(target), fanouts_of(random, hops)});
    }
    const auto papers = some(random, 700, random.below(90)), venues = some(random, 50, random.below(3));
    const std::vector<TypedSeeds> seeds = {{0, papers, {}}, {2, venues, {}}};
    SampleOptions options;
    options.fanouts.resize(hops);
    options.seed = static_cast<uint64_t>(i);
    options.threads = 1 + i % 2;
    const auto plain = sample_hetero(node_types, edge_types, seeds, false, options);
    options.pad_nodes = true;
    const auto padded = sample_hetero(node_types, edge_types, seeds, false, options);
    std::vector<std::vector<int64_t>> place;
    for (size_t t = 0; t < node_types.size(); ++t) {
      check_nodes(plain.nodes[t], padded.nodes[t]);
      place.push_back(places(plain.nodes[t], padded.nodes[t]));
    }
    for (size_t e = 0; e < edge_types.size(); ++e) {
      check_edges(plain.edges[e], place[edge_types[e].source], place[edge_types[e].target], padded.edges[e]);
    }
  }
}
