// walk_test: walks, fanouts and negatives on a graph with more than 2^32 nodes, searches probe by probe, pair numbers.
#include "sample/walk/walk.h"

#include <array>
#include <set>
#include <vector>

#include "check.h"
#include "sample/link/negatives.h"
#include "sample/rows/fanout.h"
#include "sample/rows/row_search.h"
#include "sample/walk/pairs.h"
#include "storage/file.h"

using namespace gz;

namespace {

// Nodes on both sides of 2^32, all joined to one another but for one pair, in a file that is nearly all hole.
constexpr int64_t kFar = (int64_t{1} << 32) + 5, kFarther = kFar + 3, kNear = 7;
constexpr uint64_t kNodes = (uint64_t{1} << 32) + 10;

template <class T>
void put(File& file, const ArrayInfo& array, uint64_t index, const T& value) {
  file.write_at(std::as_bytes(std::span(&value, 1)), array.offset + index * sizeof(T));
}

std::shared_ptr<const Topology> huge_graph() {
  const std::array<uint64_t, 5> indices{kFar, kNear, kFarther, kNear, kFar};  // rows of kNear, kFar, kFarther
  Container c;
  c.num_nodes = kNodes;
  c.num_edges = indices.size();
  c.direction = Direction::kOut;
  c.properties = kSortedRows;
  c.arrays = {{.name = "out.indptr", .dtype = DType::kUInt64, .shape = {kNodes + 1}},
              {.name = "out.indices", .dtype = DType::kUInt64, .shape = {indices.size()}}};
  lay_out(c);
  const std::string path = test::scratch("huge.gl");
  File file = File::create(path);
  file.resize(c.file_bytes);
  file.write_at(serialize_header(c), 0);
  const auto row = [&](int64_t node, uint64_t begin, uint64_t end) {
    put(file, c.arrays[0], static_cast<uint64_t>(node), begin);
    put(file, c.arrays[0], static_cast<uint64_t>(node) + 1, end);
  };
  row(kNear, 0, 1);
  row(kFar, 1, 3);
  row(kFarther, 3, 5);
  for (size_t i = 0; i < indices.size(); ++i) put(file, c.arrays[1], i, indices[i]);
  return Topology::open(path);
}

}  // namespace

#ifndef _WIN32  // files have no holes there unless asked

TEST(walks_reach_nodes_past_2_to_the_32) {
  const auto graph = huge_graph();
  CHECK(graph->wide());
  const std::vector<int64_t> starts(200, kFar);
  for (const double q : {1.0, 0.5}) {
    WalkOptions options{.length = 20, .q = q, .seed = 3, .threads = 2};
    std::vector<int64_t> fast(starts.size() * 21), plain(fast.size());
    random_walks(*graph, starts, options, fast);
    options.plain = true;
    random_walks(*graph, starts, options, plain);
    CHECK(fast == plain);
    CHECK((std::set(fast.begin(), fast.end()) == std::set<int64_t>{kNear, kFar, kFarther}));
  }
}

TEST(fanouts_and_negatives_reach_nodes_past_2_to_the_32) {
  const auto graph = huge_graph();
  const std::vector<int64_t> nodes{kFar, kFarther};
  std::vector<int64_t> out(4);
  random_fanout(*graph, nodes, {.count = 2, .pad = std::nullopt, .seed = 1}, out);
  CHECK((std::set(out.begin(), out.begin() + 2) == std::set<int64_t>{kNear, kFarther}));
  CHECK((std::set(out.begin() + 2, out.end()) == std::set<int64_t>{kNear, kFar}));
  std::vector<int64_t> source(500), target(500);
  negative_edges(*graph, std::span<const int64_t>(nodes), {.seed = 2}, source, target);
  bool past = false;
  for (size_t i = 0; i < source.size(); ++i) {
    CHECK_EQ(source[i], nodes[i / 250]);
    CHECK(target[i] >= 0 && static_cast<uint64_t>(target[i]) < kNodes);
    past = past || target[i] > (int64_t{1} << 31);
  }
  CHECK(past);
}

#endif

TEST(a_row_search_probe_by_probe_agrees_with_one_in_one_go) {
  for (const uint64_t degree : {0, 1, 15, 16, 17, 33, 100, 1000}) {
    std::vector<uint32_t> ids(degree + 40, 999'999);                                    // a row with others after it
    for (uint64_t i = 0; i < degree; ++i) ids[i] = static_cast<uint32_t>(3 * (i / 2));  // pairs of equals, gaps between
    for (const bool ends_there : {false, true}) {
      Csr<uint32_t> csr;
      csr.num_nodes = csr.num_others = 1'000'000;
      csr.num_edges = csr.limit = ends_there ? degree : ids.size();
      csr.indices = ids.data();
      csr.sorted = true;
      for (uint64_t node = 0; node < 2 * degree + 4; ++node) {
        RowSearch search;
        search.begin(csr, {0, degree}, node);
        while (!search.step(csr)) {
        }
        CHECK_EQ(search.found(), row_holds(csr, {0, degree}, node));
      }
    }
  }
}

TEST(a_node_search_probe_by_probe_finds_the_row_of_each_edge) {
  const std::vector<uint64_t> indptr{0, 0, 3, 3, 4, 9, 9, 9, 10, 10};  // with empty rows, at both ends too
  Csr<uint32_t> csr;
  csr.num_nodes = csr.num_others = indptr.size() - 1;
  csr.num_edges = csr.limit = indptr.back();
  csr.indptr = indptr.data();
  for (uint64_t edge = 0; edge < csr.num_edges; ++edge) {
    NodeSearch search;
    search.begin(csr, edge);
    while (!search.step(csr)) {
    }
    CHECK(indptr[search.node()] <= edge);
    CHECK(edge < indptr[search.node() + 1]);
  }
}

TEST(shuffled_pairs_are_those_in_order) {
  std::vector<int64_t> walks;
  for (int64_t i = 0; i < 30; ++i) walks.push_back(i);
  const WalkMatrix matrix{walks.data(), 3, 10};
  for (const uint64_t window : {1, 4, 9, 50}) {
    std::multiset<std::pair<int64_t, int64_t>> seen[2];
    for (const bool shuffle : {false, true}) {
      const WalkPairs pairs(matrix, {.window = window, .shuffle = shuffle, .limit = std::nullopt, .seed = 5});
      std::vector<int64_t> center(pairs.size()), context(pairs.size());
      pairs.fill(center, context);
      for (size_t i = 0; i < center.size(); ++i) seen[shuffle].insert({center[i], context[i]});
    }
    CHECK_EQ(seen[0].size(), 6 * (std::min<uint64_t>(window, 9) * 10 -
                                  std::min<uint64_t>(window, 9) * (std::min<uint64_t>(window, 9) + 1) / 2));
    CHECK(seen[0] == seen[1]);
  }
}
