// merged_test: many batches sampled together: disks that fail, memory that is bounded, figures for planners.
#include "sample/merged/merged.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "fake_reader.h"
#include "format/container.h"
#include "sample/merged/ordered_reads.h"
#include "storage/topology.h"
#include "subgraphs.h"

using namespace gz;
using test::FakeReader;

namespace {

// A graph of `nodes` rows, a few of them long unless `even`, with edge ids that are no positions.
std::shared_ptr<const Topology> write_graph(const std::string& name, uint64_t nodes, uint64_t edges,
                                            bool even = false) {
  Random random(make_key(nodes, edges));
  std::vector<uint64_t> indptr(nodes + 1), ids(edges);
  for (uint64_t i = 0; i < edges; ++i) {
    ++indptr[1 + (even ? i % nodes : random.below(1 + random.below(1 + random.below(nodes))))];
  }
  for (uint64_t i = 0; i < nodes; ++i) indptr[i + 1] += indptr[i];
  std::vector<uint32_t> indices(edges);
  for (uint32_t& id : indices) id = static_cast<uint32_t>(random.below(nodes));
  for (uint64_t i = 0; i < edges; ++i) ids[i] = edges - 1 - i;
  Container c;
  c.direction = Direction::kIn;
  c.num_nodes = nodes;
  c.num_edges = edges;
  c.arrays = {{"in.indptr", DType::kUInt64, {nodes + 1}},
              {"in.indices", DType::kUInt32, {edges}},
              {"in.edge_ids", DType::kUInt64, {edges}}};
  lay_out(c);
  const std::string path = test::scratch(name);
  File file = File::create(path);
  file.resize(c.file_bytes);
  file.write_at(serialize_header(c), 0);
  file.write_at(std::as_bytes(std::span(indptr)), c.arrays[0].offset);
  file.write_at(std::as_bytes(std::span(indices)), c.arrays[1].offset);
  file.write_at(std::as_bytes(std::span(ids)), c.arrays[2].offset);
  file.sync();
  return Topology::open(path);
}

using test::same;

// Batches of some seeds each.
struct Group {
  Group(const Topology& topology, size_t count, size_t size) {
    Random random(make_key(count, size));
    seeds.resize(count);
    for (auto& batch : seeds) {
      for (size_t i = 0; i < size; ++i) batch.push_back(static_cast<int64_t>(random.below(topology.num_nodes())));
      batches.push_back({batch, {}, random.next()});
    }
  }
  std::vector<std::vector<int64_t>> seeds;
  std::vector<MergedBatch> batches;
};

bool same_as_alone(const Topology& topology, const Group& group, SampleOptions options, const MergedOptions& merged) {
  const auto made = sample_merged(topology, group.batches, options, merged);
  options.io = TopologyIo::kMmap;
  for (size_t i = 0; i < made.size(); ++i) {
    options.seed = group.batches[i].seed;
    options.dependent = group.batches[i].dependent;
    if (!same(made[i], sample_neighbours(topology, group.seeds[i], {}, options))) return false;
  }
  return made.size() == group.batches.size();
}

SampleOptions options_of(std::vector<int64_t> fanouts, int threads = 2) {
  SampleOptions options;
  options.fanouts = std::move(fanouts);
  options.threads = threads;
  return options;
}

MergedOptions cold() {
  MergedOptions merged;
  merged.past_page_cache = true;
  return merged;
}

MergedOptions through(size_t depth, FakeReader::Fault fault) {
  MergedOptions merged = cold();
  merged.reader = [=] { return std::make_shared<FakeReader>(depth, fault); };
  return merged;
}

}  // namespace

TEST(merged_batches_are_what_they_are_alone) {
  const auto topology = write_graph("merged.gl", 5000, 60000);
  const Group group(*topology, 20, 50);
  for (const bool disjoint : {false, true}) {
    for (const int threads : {1, 2, 8}) {
      SampleOptions options = options_of({7, 5}, threads);
      options.disjoint = disjoint;
      CHECK(same_as_alone(*topology, group, options, cold()));
      CHECK(same_as_alone(*topology, group, options, {}));
    }
  }
}

TEST(merged_batches_are_padded_as_alone) {
  const auto topology = write_graph("padded.gl", 5000, 60000);
  const Group group(*topology, 10, 50);
  SampleOptions options = options_of({7, 5}, 2);
  options.pad_nodes = true;
  CHECK(same_as_alone(*topology, group, options, cold()));
  options.choice = Choice::kLabor;
  CHECK(same_as_alone(*topology, group, options, cold()));
}

// Groups of random sizes, with random numbers of batches ahead of them, some of which do not come.
TEST(batches_that_are_begun_ahead_are_what_they_are_alone) {
  const auto topology = write_graph("merged-ahead.gl", 4000, 100000);
  Random random(7);
  for (const Choice choice : {Choice::kUniform, Choice::kLabor}) {
    for (const size_t hops : {1, 2, 3, 4}) {
      SampleOptions options = options_of({6, 4, 3, 2});
      options.fanouts.resize(hops);
      options.choice = choice;
      options.pad_nodes = hops % 2 == 0;
      Group group(*topology, 60, 20);
      for (size_t i = 0; i < group.batches.size(); ++i) group.batches[i].number = 100 + i;
      MergedSampler sampler(*topology, options);
      MergedStats stats;
      MergedOptions merged = cold();
      merged.stats = &stats;
      size_t at = 0;
      std::atomic<size_t> made{0};  // by several threads
      while (at < group.batches.size()) {
        const std::span<const MergedBatch> all(group.batches);
        const size_t count = std::min<size_t>(1 + random.below(9), all.size() - at);
        const auto ahead = all.subspan(at + count, random.below(all.size() - at - count + 1));
        if (random.below(5) == 0) sampler.forget();
        sampler.sample(all.subspan(at, count), {ahead, 1 + random.below(8)}, merged,
                       [&](size_t i, HeteroSubgraph&& graph) {
                         SampleOptions alone = options;
                         alone.seed = group.batches[at + i].seed;
                         alone.io = TopologyIo::kMmap;
                         CHECK(same(graph, sample_neighbours(*topology, group.seeds[at + i], {}, alone)));
                         ++made;
                       });
        CHECK(!ahead.empty() || sampler.bytes() == 0);
        const bool skips = random.below(6) == 0;  // those that were begun next are not asked for
        at += count + (skips ? std::min<size_t>(2, all.size() - at - count) : 0);
      }
      CHECK(made > 30);
      sampler.forget();
      CHECK_EQ(sampler.bytes(), uint64_t{0});
    }
  }
}

// A number that comes again with other seeds, or another key, is another batch.
TEST(a_batch_that_is_begun_is_continued_only_as_itself) {
  const auto topology = write_graph("merged-again.gl", 3000, 30000);
  Group first(*topology, 4, 20), other(*topology, 4, 21);
  for (size_t i = 0; i < 4; ++i) first.batches[i].number = other.batches[i].number = i;
  other.batches[1].seeds = first.batches[1].seeds;  // the key alone differs
  const SampleOptions options = options_of({5, 5});
  MergedSampler sampler(*topology, options);
  const std::span<const MergedBatch> begun(first.batches);
  sampler.sample(begun.first(1), {begun.subspan(1), 4}, cold(), [](size_t, HeteroSubgraph&&) {});
  CHECK(sampler.bytes() > 0);
  sampler.sample(std::span<const MergedBatch>(other.batches).subspan(1), {}, cold(),
                 [&](size_t i, HeteroSubgraph&& graph) {
                   SampleOptions alone = options;
                   alone.seed = other.batches[1 + i].seed;
                   CHECK(same(graph, sample_neighbours(*topology, other.batches[1 + i].seeds, {}, alone)));
                 });
}

// One pass for a group instead of one for each hop.
TEST(batches_that_are_begun_ahead_need_fewer_reads) {
  const auto topology = write_graph("merged-fewer.gl", 200000, 2000000, true);
  const SampleOptions options = options_of({5, 5, 5});
  Group group(*topology, 64, 100);
  for (size_t i = 0; i < group.batches.size(); ++i) group.batches[i].number = i;
  const std::span<const MergedBatch> all(group.batches);
  const auto bytes_read = [&](bool ahead) {
    MergedSampler sampler(*topology, options);
    MergedStats stats;
    MergedOptions merged = cold();
    merged.stats = &stats;
    for (size_t at = 0; at < all.size(); at += 8) {
      const auto rest = all.subspan(at + 8);
      sampler.sample(all.subspan(at, 8), {rest.first(ahead ? std::min<size_t>(16, rest.size()) : 0), 8}, merged,
                     [](size_t, HeteroSubgraph&&) {});
    }
    return stats.bytes_read;
  };
  CHECK(bytes_read(true) * 10 < bytes_read(false) * 8);
}

// Batches 5, 6, 7, ... of an epoch whose draws depend on each other.
TEST(dependent_batches_are_merged_with_their_own_numbers) {
  const auto topology = write_graph("merged-dependent.gl", 3000, 200000);
  for (const uint64_t k : {uint64_t{1}, uint64_t{2}, uint64_t{8}, uint64_t{1000}}) {
    Group group(*topology, 20, 30);
    for (size_t i = 0; i < group.batches.size(); ++i) group.batches[i].dependent = {k, 5 + i, 77};
    for (const int threads : {1, 2, 8}) {
      SampleOptions options = options_of({7, 5}, threads);
      options.choice = Choice::kLabor;
      options.dependent.batches = k;
      CHECK(same_as_alone(*topology, group, options, cold()));
      CHECK(same_as_alone(*topology, group, options, {}));
    }
  }
}

TEST(merged_reads_leave_gaps_that_are_not_worth_reading) {
  const auto topology = write_graph("merged-gap.gl", 100000, 400000);
  const Group group(*topology, 3, 10);
  uint64_t bytes[2], reads[2];
  for (const int wide : {0, 1}) {
    MergedStats stats;
    MergedOptions merged = cold();
    merged.gap = wide != 0 ? uint64_t{1} << 20 : 0;
    merged.stats = &stats;
    CHECK(same_as_alone(*topology, group, options_of({3, 3}), merged));
    bytes[wide] = stats.bytes_read;
    reads[wide] = stats.reads;
    CHECK(stats.scratch_bytes > 0);
  }
  CHECK(bytes[0] < bytes[1]);
  CHECK(reads[0] > reads[1]);
}

TEST(short_and_interrupted_merged_reads_are_continued) {
  const auto topology = write_graph("merged-short.gl", 3000, 50000);
  const Group group(*topology, 5, 40);
  const SampleOptions options = options_of({6, 4});
  for (const size_t depth : {size_t{1}, size_t{4}, size_t{32}}) {
    CHECK(same_as_alone(*topology, group, options, through(depth, [](const ReadRequest&, int32_t got, int count) {
      return count % 3 == 0 ? std::min(got, 1000) : got;
    })));
    CHECK(same_as_alone(*topology, group, options, through(depth, [](const ReadRequest&, int32_t got, int count) {
      return count % 2 == 0 ? -EAGAIN : got;
    })));
  }
}

TEST(merged_reads_that_fail_say_what_was_read) {
  const auto topology = write_graph("merged-fails.gl", 3000, 50000);
  const Group group(*topology, 5, 40);
  const auto failing = through(8, [](const ReadRequest&, int32_t got, int count) { return count == 3 ? -EIO : got; });
  CHECK_THROWS(StorageError, "of 'in.", sample_merged(*topology, group.batches, options_of({9}), failing));
}

TEST(merged_scratch_and_estimates_follow_the_group) {
  const auto topology = write_graph("merged-bytes.gl", 60000, 900000, true);
  const Group group(*topology, 16, 512);
  const SampleOptions options = options_of({10, 5}, 1);
  MergedStats stats;
  MergedOptions merged = cold();
  merged.stats = &stats;
  const auto made = sample_merged(*topology, group.batches, options, merged);
  uint64_t subgraphs = 0;
  for (const auto& graph : made) {
    const SampledEdges& edges = graph.edges[0];
    for (const Int64Array* array : {&graph.nodes[0].node, &edges.edge_index, &edges.edge}) {
      subgraphs += array->buffer->size();
    }
  }
  const uint64_t estimate = 16 * merged_bytes(*topology, options, made[0]);
  CHECK(stats.scratch_bytes < (uint64_t{32} << 20) + estimate);
  CHECK(estimate < 3 * stats.scratch_bytes);
  CHECK(stats.scratch_bytes < subgraphs);  // the point of it: subgraphs that are done can be packed, one by one
}

TEST(file_order_gives_every_item_once_in_order) {
  constexpr size_t kBatches = 3;
  for (const uint64_t places : {uint64_t{1}, uint64_t{5000}, uint64_t{1} << 40}) {
    const uint64_t count = places == 5000 ? 800000 : 3000;  // the first: more than one part
    const auto place = [&](size_t b, size_t i) { return Random(make_key(b, i)).below(places); };
    const auto each = [&](size_t b, const auto& emit) {
      for (size_t i = 0; i < count; ++i) emit(place(b, i), i);
    };
    FileOrder order(kBatches, places, count, 2, each);
    std::vector<uint64_t> seen;
    uint64_t last = 0;
    bool ascends = true, right = true;
    size_t parts = 0;
    for (; order.next(); ++parts) {
      for (size_t block = 0; block < order.blocks(); ++block) {
        for (const uint64_t item : order.take(block)) {
          ascends = ascends && order.place(item) >= last;
          last = order.place(item);
          right = right && last == place(order.batch(item), order.number(item));
          seen.push_back(order.batch(item) * count + order.number(item));
        }
      }
    }
    CHECK(ascends);
    CHECK(right);
    CHECK_EQ(parts > 1, places == 5000);
    std::sort(seen.begin(), seen.end());
    CHECK_EQ(seen.size(), kBatches * count);
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  }
}

TEST(merged_counts_the_resident_share_of_what_a_sample_reads) {
  const auto topology = write_graph("merged-resident.gl", 3000, 50000);
  const auto share = resident_share(*topology, options_of({1}));
  if (!share) return;  // not reported by this system
  CHECK(*share >= 0 && *share <= 1);
}
