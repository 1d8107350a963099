// delta_test: explicit reads of files with deltas, and deltas that are not what they claim.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "compile/append/compact.h"
#include "compile/append/feature_delta.h"
#include "compile/append/topology_delta.h"
#include "compile/build/graph_builder.h"
#include "fake_reader.h"
#include "gather/row_reader.h"
#include "gather_files.h"
#include "sample/merged/merged.h"
#include "sample/walk/walk.h"
#include "storage/verify.h"
#include "subgraphs.h"
#include "sweep/sweep_reader.h"

using namespace gz;
using test::FakeReader;

namespace {

struct Edges {
  Edges(uint64_t count, uint64_t nodes, uint64_t seed) {
    Random random(make_key(seed, count));
    for (uint64_t i = 0; i < count; ++i) {
      source.push_back(static_cast<int64_t>(random.below(1 + random.below(nodes))));
      target.push_back(static_cast<int64_t>(random.below(nodes)));
    }
  }
  std::vector<int64_t> source, target;
};

struct Chain {
  std::string base;
  std::vector<std::string> deltas;
  std::shared_ptr<const Topology> open() const { return Topology::open(base, deltas); }
};

constexpr uint64_t kNodes = 5000, kMore = 100;

// A graph with in-rows and two deltas.
Chain write_chain(const std::string& name, bool edge_ids) {
  Chain chain{test::scratch(name + ".gl"), {}};
  GraphOptions options;
  options.direction = Direction::kIn;
  options.num_nodes = kNodes;
  options.edge_ids = edge_ids;
  const Edges edges(60'000, kNodes, 1);
  GraphBuilder builder(options, nullptr);
  EdgeBlock block;
  block.count = edges.source.size();
  block.src = {edges.source.data()};
  block.dst = {edges.target.data()};
  builder.add(block, 1);
  builder.finish(chain.base);
  for (uint64_t i = 1; i <= 2; ++i) {
    const Edges more(3000, kNodes + i * kMore, i + 1);
    TopologyChange change;
    change.num_sources = change.num_targets = kNodes + i * kMore;
    change.sources = more.source;
    change.targets = more.target;
    const std::string out = test::scratch(text(name, ".", i, ".gl"));
    write_topology_delta(*chain.open(), change, out, {.threads = 2});
    chain.deltas.push_back(out);
  }
  return chain;
}

SampleOptions options_of(std::vector<int64_t> fanouts) {
  SampleOptions options;
  options.fanouts = std::move(fanouts);
  options.threads = 2;
  return options;
}

}  // namespace

TEST(batches_sampled_together_from_files_with_deltas_are_those_of_one_file) {
  for (const bool edge_ids : {false, true}) {
    const Chain chain = write_chain("merged-delta", edge_ids);
    const auto topology = chain.open();
    const std::string whole = test::scratch("whole.gl");
    compact_topology(*topology, whole, {.threads = 2});
    const auto plain = Topology::open(whole);
    std::vector<std::vector<int64_t>> seeds(12);
    std::vector<MergedBatch> batches;
    Random random(7);
    for (auto& batch : seeds) {
      for (int i = 0; i < 60; ++i) batch.push_back(static_cast<int64_t>(random.below(kNodes + 2 * kMore)));
      batches.push_back({batch, {}, random.next()});
    }
    const SampleOptions options = options_of({7, -1});
    std::vector<MergedOptions> ways(4);
    for (size_t i = 1; i < ways.size(); ++i) ways[i].past_page_cache = true;
    ways[1].kind = ReaderKind::kPread;
    ways[2].reader = [] {  // of which every third read is cut short
      return std::make_shared<FakeReader>(
          4, [](const ReadRequest&, int32_t result, int count) { return count % 3 == 0 ? (result + 1) / 2 : result; });
    };
    for (const MergedOptions& way : ways) {
      const auto made = sample_merged(*topology, batches, options, way);
      for (size_t i = 0; i < made.size(); ++i) {
        SampleOptions alone = options;
        alone.seed = batches[i].seed;
        CHECK(test::same(made[i], sample_neighbours(*plain, seeds[i], {}, alone)));
      }
    }
  }
}

TEST(all_readers_give_the_rows_of_files_with_deltas) {
  const std::string base =
      test::write_features("delta-readers.gd", {{.name = "x", .dtype = DType::kFloat32, .rows = 3000, .columns = 33}});
  std::vector<std::string> deltas;
  std::vector<std::byte> rows;
  {
    const auto file = FeatureFile::open(base);
    const auto bytes = file->file().bytes_of(*file->file().container().find("x"));
    rows.assign(bytes.begin(), bytes.end());
  }
  for (const uint64_t count : {1, 500, 2, 1700}) {
    const auto more = test::noise_bytes(count * 33 * 4, count);
    const std::string out = test::scratch(text("delta-readers.", deltas.size(), ".gd"));
    const std::vector<AppendedRows> appended{{"x", more}};
    write_feature_delta(*FeatureFile::open(base, deltas), count, appended, out, {});
    deltas.push_back(out);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  const auto file = FeatureFile::open(base, deltas);
  const Matrix& matrix = file->matrix("x");
  CHECK_EQ(matrix.rows, 5203u);
  const auto window = std::make_shared<RowWindow>(file, matrix, 1000 * RowWindow::row_cost(matrix));
  const SweepReader::Events events{[](uint64_t) {}, [](const std::exception_ptr&) {}};
  const std::vector<std::shared_ptr<RowReader>> readers{
      std::make_shared<FileRows>(file, matrix, false), std::make_shared<FileRows>(file, matrix, true),
      std::make_shared<WholeRows>(file, matrix, nullptr),
      std::make_shared<SweepReader>(window, SweepOptions{}, std::make_unique<NoPeers>(), events)};
  std::vector<int64_t> ids{2999, 3000, 3001, 3500, 3501, 3502, 3503, 5202, 0};
  for (int64_t i = 2900; i < 3600; ++i) ids.push_back(i);
  std::vector<std::byte> want(ids.size() * matrix.row_bytes), got(want.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    std::memcpy(want.data() + i * matrix.row_bytes, rows.data() + static_cast<size_t>(ids[i]) * matrix.row_bytes,
                matrix.row_bytes);
  }
  for (const Io io : {Io::kAuto, Io::kMmap, Io::kPread}) {
    gather(*file, matrix, ids, got.data(), {.io = io, .threads = 2});
    CHECK(got == want);
  }
  for (const auto& reader : readers) {
    std::fill(got.begin(), got.end(), std::byte{0});
    reader->copy(nullptr, ids, got.data(), {.io = Io::kAuto, .threads = 1}, nullptr, nullptr);
    CHECK(got == want);
  }
}

// Whatever a table of changed rows says, kernels stay within bounds: an error or any answer, under sanitizers too.
TEST(no_content_of_a_delta_leads_out_of_bounds) {
  const Chain chain = write_chain("adversarial", false);
  const auto original = MountedFile::open(chain.deltas.back());
  const Container& c = original->container();
  Random random(11);
  size_t refused = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string path = test::scratch("changed.gl");
    {
      const auto bytes = original->mapping().bytes();
      File file = File::create(path);
      file.write_at(bytes, 0);
      const ArrayInfo& array = c.arrays[random.below(c.arrays.size())];
      for (int i = 0; i < 40 && array.bytes >= 8; ++i) {
        const uint64_t value = random.below(3) == 0 ? random.next() : random.below(70'000);
        file.write_at(std::as_bytes(std::span(&value, 1)), array.offset + random.below(array.bytes / 8) * 8);
      }
    }
    const std::vector<std::string> deltas{chain.deltas[0], path};
    const auto topology = Topology::open(chain.base, deltas);
    std::vector<int64_t> nodes;
    for (int64_t node = 0; node < static_cast<int64_t>(topology->num_nodes()); node += 7) nodes.push_back(node);
    std::vector<int64_t> steps(nodes.size() * 4);
    const auto attempt = [&](const auto& work) {
      try {
        work();
      } catch (const Error&) {
        ++refused;
      }
    };
    SampleOptions options = options_of({5, 5});
    options.seed = 3;
    const MergedBatch batch{nodes, {}, 3};
    MergedOptions cold;
    cold.past_page_cache = true;
    attempt([&] { sample_neighbours(*topology, nodes, {}, options); });
    attempt([&] { sample_merged(*topology, {&batch, 1}, options, cold); });
    attempt([&] { random_walks(*topology, nodes, {.length = 3, .seed = 1}, steps); });
    attempt([&] { compact_topology(*topology, test::scratch("compacted.gl"), {.threads = 2}); });
    CHECK_THROWS(FormatError, "", verify(topology->shared_file(), 2, nullptr));
  }
  CHECK(refused > 20);
}
