// typed_load_test: epochs over graphs of several types, and seed sources that bring arrays of their own.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "load_files.h"
#include "sample/subgraph/packed.h"

using namespace gz;

namespace {

constexpr uint64_t kUsers = 700, kItems = 400, kTags = 3;

// Target t has edges from t + 1, t + 3, ...
std::shared_ptr<const Topology> relation(const std::string& name, uint64_t sources, uint64_t targets, uint64_t degree) {
  return test::write_relation(name, {sources, targets}, [&](uint64_t t, std::vector<uint32_t>& indices) {
    for (uint64_t k = 0; k < degree; ++k) indices.push_back(static_cast<uint32_t>((t + 2 * k + 1) % sources));
  });
}

SampleGraph shop() {
  SampleGraph graph;
  graph.add_node_type("user", kUsers, {}, nullptr);
  graph.add_node_type("item", kItems, {}, nullptr);
  graph.add_node_type("tag", kTags, {}, nullptr);
  graph.add_edge_type("user buys item", relation("buys.gl", kUsers, kItems, 6), Direction::kIn, 0, 1, {3, 2});
  graph.add_edge_type("item bought_by user", relation("by.gl", kItems, kUsers, 4), Direction::kIn, 1, 0, {-1, 2});
  graph.add_edge_type("user knows user", relation("knows.gl", kUsers, kUsers, 5), Direction::kIn, 0, 0, {2, 0});
  return graph;
}

std::vector<Part> shop_parts() {
  return {{.name = "user.x", .file = test::write_numbered_rows("user.gd", kUsers, 64), .matrix = "x"},
          {.name = "item.x", .file = test::write_numbered_rows("item.gd", kItems, 96), .matrix = "x", .type = 1},
          {.name = "tag.x", .file = test::write_numbered_rows("tag.gd", kTags, 4), .matrix = "x", .type = 2},
          {.name = "buys.w", .file = test::write_numbered_rows("w.gd", kItems * 6, 8), .matrix = "x", .by_edge = true}};
}

// Pairs of a user and an item, which are seeds, with an array of the items; the edge between them is excluded.
class Pairs final : public SeedSource {
 public:
  uint64_t count() const override { return kUsers; }
  bool timed() const override { return false; }
  std::vector<size_t> types() const override { return {0, 1}; }
  void check(const SampleGraph&) const override {}
  void fill(std::span<const int64_t> input, BatchSeeds& out) const override {
    SeedsOfType users{.type = 0}, items{.type = 1};
    BatchArray label{.name = "edge_label", .dtype = DType::kFloat32, .shape = {input.size()}};
    label.buffer = take_buffer(input.size() * sizeof(float));
    for (size_t i = 0; i < input.size(); ++i) {
      items.nodes.push_back(input[i] % static_cast<int64_t>(kItems));
      users.nodes.push_back((items.nodes.back() + 1) % static_cast<int64_t>(kUsers));
      label.buffer->as<float>()[i] = static_cast<float>(items.nodes.back());
    }
    const auto topology = Topology::open(test::scratch("buys.gl"));
    out.exclude.resize(3);
    out.exclude[0].add(*topology, Direction::kIn, users.nodes, items.nodes, false);
    out.exclude[0].build();
    out.seeds = {std::move(users), std::move(items)};
    out.arrays.push_back(std::move(label));
  }
};

void check_same(const HeteroSubgraph& a, const HeteroSubgraph& b) {
  std::vector<std::vector<int64_t>> left, right;
  for_each_array(a, [&](const Int64Array& array) { left.emplace_back(array.span().begin(), array.span().end()); });
  for_each_array(b, [&](const Int64Array& array) { right.emplace_back(array.span().begin(), array.span().end()); });
  CHECK(left == right);
  for (size_t i = 0; i < a.nodes.size(); ++i) CHECK(a.nodes[i].num_sampled_nodes == b.nodes[i].num_sampled_nodes);
  for (size_t i = 0; i < a.edges.size(); ++i) CHECK(a.edges[i].num_sampled_edges == b.edges[i].num_sampled_edges);
}

void check_batch(const LoadPlan& plan, uint64_t epoch, const LoadedBatch& batch) {
  const EpochBatches batches = epoch_batches(plan, epoch, Share{});
  const auto seeds = batch_seeds(plan, epoch, batches.number(batch.number), batches.input(batch.number));
  check_same(batch.graph, sample_batch(plan, seeds));
  CHECK_EQ(batch.arrays.size(), seeds.arrays.size());
  for (size_t i = 0; i < seeds.arrays.size(); ++i) {
    const BatchArray &found = batch.arrays[i], &made = seeds.arrays[i];
    CHECK(found.name == made.name && found.shape == made.shape);
    CHECK(std::memcmp(found.buffer->data(), made.buffer->data(), made.shape[0] * sizeof(float)) == 0);
  }
  if (!seeds.exclude.empty()) {  // each pair is an edge of the graph, and of no batch
    const SampledEdges& buys = batch.graph.edges[0];
    for (size_t i = 0; i < buys.edge.size; ++i) {
      const auto user = batch.graph.nodes[0].node.span()[static_cast<size_t>(buys.edge_index.span()[i])];
      const auto item = static_cast<size_t>(buys.edge_index.span()[buys.edge.size + i]);
      CHECK(item >= batch.input.size || user != seeds.seeds[0].nodes[item]);
    }
  }
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    const auto ids = ids_of(plan.parts[p], batch.graph);
    const auto columns = plan.parts[p].file->matrix("x").columns;
    const auto* rows = reinterpret_cast<const float*>(batch.parts[p].buffer->data());
    CHECK_EQ(batch.parts[p].rows, ids.size());
    for (size_t i = 0; i < ids.size(); ++i) CHECK(rows[i * columns] == static_cast<float>(ids[i]));
  }
}

LoadOptions options_of(CacheMode cache, Io io) {
  LoadOptions options;
  options.sample.fanouts = {0, 0};  // two hops
  options.sample.edge_ids = true;
  options.batch_size = 16;
  options.shuffle = true;
  options.seed = 5;
  options.memory = uint64_t{96} << 20;
  options.threads = 2;
  options.cache = cache;
  options.io = io;
  options.edge_order = EdgeOrder::kFile;
  return options;
}

}  // namespace

TEST(typed_batches_are_sampled_and_gathered_by_type) {
  for (const auto& seeds : {node_seeds(Numbers::range(kItems), {}, 1), node_seeds(Numbers::range(kTags), {}, 2),
                            std::shared_ptr<const SeedSource>(std::make_shared<Pairs>())}) {
    for (const CacheMode cache : {CacheMode::kAuto, CacheMode::kOff, CacheMode::kOn}) {
      const auto plan = make_plan(shop(), shop_parts(), seeds, options_of(cache, Io::kAuto), {}, nullptr);
      for (uint64_t epoch = 0; epoch < 2; ++epoch) {
        Pipeline pipeline(plan, epoch, Share{});
        uint64_t seen = 0;
        for (LoadedBatch batch; test::next_batch(pipeline, batch); ++seen) check_batch(*plan, epoch, batch);
        CHECK_EQ(seen, pipeline.num_batches());
      }
    }
  }
}

// Of a type that is seldom met, batches claim no rows at all: their claims must be complete too.
TEST(typed_windows_are_complete_where_a_batch_needs_no_rows) {
  for (const Io io : {Io::kAuto, Io::kPread}) {
    const auto plan =
        make_plan(shop(), shop_parts(), std::make_shared<Pairs>(), options_of(CacheMode::kOn, io), {}, nullptr);
    plan->division.window = 8;
    for (size_t p = 0; p < plan->parts.size(); ++p) {
      const Part& part = plan->parts[p];
      plan->wholes[p] = nullptr;
      plan->windows[p] = std::make_shared<RowWindow>(part.file, part.file->matrix("x"), uint64_t{1} << 20);
      plan->division.ways[p] = Way::kWindow;
    }
    Pipeline pipeline(plan, 0, Share{});
    uint64_t seen = 0;
    for (LoadedBatch batch; test::next_batch(pipeline, batch); ++seen) check_batch(*plan, 0, batch);
    CHECK_EQ(seen, pipeline.num_batches());
  }
}

// If memory is short, batches are discarded, rebuilt, or built exclusively; their arrays too.
TEST(typed_batches_without_memory_are_rebuilt) {
  uint64_t remade = 0, whole = 0;
  const auto plan =
      make_plan(shop(), shop_parts(), std::make_shared<Pairs>(), options_of(CacheMode::kOff, Io::kAuto), {}, nullptr);
  const uint64_t room = 3 * plan->division.sizes.batch + plan->division.sizes.sampling;
  plan->division.sizes.sampling = plan->division.sizes.batch = 1 << 10;  // as if batches had been small so far
  plan->division.depth = 8;
  for (uint64_t part = 8; part >= 3; --part) {
    plan->pool->set_limit(room / 8 * part);
    Pipeline pipeline(plan, 0, Share{});
    uint64_t seen = 0;
    try {
      for (LoadedBatch batch; test::next_batch(pipeline, batch); ++seen) check_batch(*plan, 0, batch);
      CHECK_EQ(seen, pipeline.num_batches());
      ++whole;
    } catch (const BudgetError&) {
      CHECK(part < 8);
    }
    remade += pipeline.stats().remade;
  }
  CHECK(remade > 0);
  CHECK(whole > 1);
}

TEST(packed_typed_subgraphs_come_back_as_they_were) {
  const auto plan =
      make_plan(shop(), {}, std::make_shared<Pairs>(), options_of(CacheMode::kAuto, Io::kAuto), {}, nullptr);
  const std::vector<int64_t> input{4, 2, 4};
  const auto seeds = batch_seeds(*plan, 0, 0, input);
  HeteroSubgraph wide = sample_batch(*plan, seeds);
  wide.nodes[1].node.span()[0] = int64_t{1} << 40;  // one array that does not fit 32 bits
  HeteroSubgraph copy = wide;
  for_each_array(copy, [](Int64Array& array) {
    if (!array.buffer) return;
    const auto memory = take_buffer(array.size * sizeof(int64_t));
    std::memcpy(memory->data(), array.data(), array.size * sizeof(int64_t));
    array.buffer = memory;
  });
  const PackedSubgraph packed(std::move(wide));
  check_same(packed.unpack(), copy);
}

TEST(packed_numbers_of_any_size_come_back) {
  Random random(make_key(5));
  for (const size_t size : {0, 1, 2, 9, 1023, 1024, 1025, 2048, 5000}) {
    for (int bits = 0; bits <= 64; bits += bits < 40 ? 1 : 8) {
      HeteroSubgraph graph;
      graph.nodes.resize(1);
      graph.edges.resize(1);
      int64_t step = 0;
      const auto fill = [&](Int64Array& array, auto&& next) {
        array.buffer = take_buffer(size * sizeof(int64_t));
        array.size = size;
        for (int64_t& value : array.span()) value = next();
      };
      const uint64_t mask = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
      fill(graph.nodes[0].node, [&] { return static_cast<int64_t>(random.next() & mask); });
      fill(graph.edges[0].edge_index, [&] { return step += static_cast<int64_t>(random.below(2)); });
      fill(graph.edges[0].edge, [&] { return step -= static_cast<int64_t>(random.below(300)); });  // below 0 in the end
      const HeteroSubgraph copy = graph;  // of the same buffers, which packing only reads
      const PackedSubgraph packed(std::move(graph));
      if (size > 16 && bits <= 8) CHECK(packed.bytes() < size * (2 + 8 + 1) + 64);
      check_same(packed.unpack(), copy);
    }
  }
}

// As samplers write them: nodes are numbered when they are first reached, targets ascend, rows are taken whole.
TEST(packed_subgraphs_take_few_bits_per_edge) {
  Random random(make_key(6));
  for (const size_t size : {1, 2, 1023, 1024, 1025, 1026, 40000}) {
    HeteroSubgraph graph;
    graph.nodes.resize(1);
    graph.edges.resize(1);
    const auto take = [](Int64Array& array, size_t count) {
      array.buffer = take_buffer(count * sizeof(int64_t));
      array.size = count;
      return array.data();
    };
    int64_t* row = take(graph.edges[0].edge_index, 2 * size);
    int64_t *edge = take(graph.edges[0].edge, size), *node = take(graph.nodes[0].node, 1);
    *node = INT64_MAX;
    int64_t nodes = 100, target = 0, position = 0;
    for (size_t i = 0; i < size; ++i) {
      const bool is_first = random.below(8) == 0;
      target += is_first ? 1 : 0;
      position = is_first ? static_cast<int64_t>(random.below(uint64_t{1} << 31)) : position + 1;
      row[i] = random.below(4) == 0 ? static_cast<int64_t>(random.below(static_cast<uint64_t>(nodes))) : nodes++;
      row[size + i] = target;
      edge[i] = position;
    }
    const HeteroSubgraph copy = graph;
    const PackedSubgraph packed(std::move(graph));
    // A bit each, an eighth of the edge ids in four bytes, a quarter of the sources in up to three; and two bytes per
    // number of the block where sources end and targets begin.
    if (size >= 1024) CHECK(packed.bytes() < size * (3 + 4 + 6 + 1) / 8 + 2048 + 200);
    check_same(packed.unpack(), copy);
  }
}

TEST(packed_numbers_wrap_around) {
  HeteroSubgraph graph;
  graph.nodes.resize(1);
  graph.edges.resize(1);
  const std::vector<int64_t> values{INT64_MAX, INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX, 0, 1, 2, INT64_MIN};
  graph.nodes[0].node.buffer = take_buffer(values.size() * 100 * sizeof(int64_t));
  graph.nodes[0].node.size = values.size() * 100;
  for (size_t i = 0; i < graph.nodes[0].node.size; ++i) graph.nodes[0].node.data()[i] = values[i % values.size()];
  const HeteroSubgraph copy = graph;
  check_same(PackedSubgraph(std::move(graph)).unpack(), copy);
}

TEST(typed_plans_check_types_and_rows) {
  SampleGraph graph = shop();
  const auto squares = relation("squares.gl", kItems, kItems, 1);
  CHECK_THROWS(ArgumentError, "edge type item near user",
               graph.add_edge_type("item near user", squares, Direction::kIn, 1, 0, {1, 1}));
  CHECK_THROWS(ArgumentError, "node types 1 and 9, but there are only 3",
               graph.add_edge_type("item near none", squares, Direction::kIn, 1, 9, {1, 1}));
  const auto options = options_of(CacheMode::kAuto, Io::kAuto);
  const std::vector<Part> wrong{{.name = "user.x", .file = test::write_numbered_rows("few.gd", 10, 4), .matrix = "x"}};
  CHECK_THROWS(ArgumentError, "'x' has 10 rows, but node type 'user' has 700 nodes",
               check_load(graph, wrong, Pairs(), options));
  CHECK_THROWS(IndexError, "seeds[3] = 3 is out of range for node type 'tag' with 3 nodes",
               check_load(graph, {}, *node_seeds(Numbers::range(kTags + 1), {}, 2), options));
  CHECK_THROWS(ArgumentError, "node type 3 of the seeds does not exist",
               check_load(graph, {}, *node_seeds(Numbers::range(1), {}, 3), options));
}
