// compile_test: the writer's promises, the sort, and the builder with wide keys, tiny budgets and huge rows.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "compile/build/graph_builder.h"
#include "compile/sort/radix.h"
#include "compile/text/edge_text.h"
#include "compile/text/parse_real.h"
#include "compile/write/container_writer.h"
#include "storage/topology.h"
#include "storage/verify.h"

using namespace gz;
using gz::test::scratch;

namespace {

Container features(std::vector<std::pair<std::string, uint64_t>> arrays, uint64_t rows) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = rows;
  for (auto& [name, columns] : arrays) {
    ArrayInfo array;
    array.name = name;
    array.dtype = DType::kInt64;
    array.shape = {rows, columns};
    c.arrays.push_back(std::move(array));
  }
  return c;
}

std::vector<int64_t> numbers(size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::string folder_with(const std::string& name) {
  const std::string folder = scratch(name);
  std::filesystem::create_directory(folder);
  return folder;
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::vector<char> content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Edges {
  std::vector<int64_t> src, dst, times;
  std::vector<float> weights;
};

Edges random_edges(size_t count, uint64_t nodes, uint64_t seed) {
  Random random(make_key(seed));
  Edges e;
  for (size_t i = 0; i < count; ++i) {
    e.src.push_back(static_cast<int64_t>(random.below(nodes)));
    e.dst.push_back(static_cast<int64_t>(random.below(nodes)));
    e.weights.push_back(static_cast<float>(random.unit()));
    e.times.push_back(static_cast<int64_t>(random.below(1000)) - 500);
  }
  return e;
}

GraphReport build(const Edges& e, const GraphOptions& options, const std::string& path, size_t block = 10000) {
  GraphBuilder builder(options, nullptr);
  for (size_t at = 0; at < e.src.size(); at += block) {
    EdgeBlock part;
    part.count = std::min(block, e.src.size() - at);
    part.src = {e.src.data() + at, 1, IdColumn::Type::kInt64};
    part.dst = {e.dst.data() + at, 1, IdColumn::Type::kInt64};
    part.weights = options.weights ? e.weights.data() + at : nullptr;
    part.times = options.times ? e.times.data() + at : nullptr;
    builder.add(part, part.count);
  }
  const GraphReport report = builder.finish(path);
  verify(MountedFile::open(path), 2, nullptr);
  return report;
}

}  // namespace

TEST(writer_leaves_nothing_without_finish) {
  const std::string folder = folder_with("unfinished"), target = folder + "/x.gd";
  {
    ContainerWriter writer(target, features({{"x", 2}}, 1000));
    writer.append<int64_t>(0, numbers(100));
    CHECK_EQ(files_in(folder), 1u);
    CHECK(!std::filesystem::exists(target));
  }
  CHECK_EQ(files_in(folder), 0u);
}

TEST(writer_refuses_incomplete_and_overlong_arrays) {
  const std::string folder = folder_with("incomplete"), target = folder + "/x.gd";
  ContainerWriter writer(target, features({{"x", 1}}, 100));
  writer.append<int64_t>(0, numbers(60));
  CHECK_THROWS(ArgumentError, "'x' has 480 of 800 bytes", writer.finish());
  CHECK_THROWS(ArgumentError, "past its end", writer.append<int64_t>(0, numbers(41)));
}

TEST(writer_gives_the_same_file_appended_scattered_and_shrunk) {
  const std::string folder = folder_with("same");
  const auto x = numbers(30000), y = numbers(10000);
  const auto bytes = [](std::span<const int64_t> values) { return std::as_bytes(values); };
  {
    ContainerWriter writer(folder + "/a.gd", features({{"x", 3}, {"y", 1}}, 10000), 4096);
    for (size_t at = 0; at < x.size(); at += 777) {
      writer.append<int64_t>(0, std::span(x).subspan(at, std::min<size_t>(777, x.size() - at)));
    }
    writer.append<int64_t>(1, y);
    writer.finish();
  }
  {
    ContainerWriter writer(folder + "/b.gd", features({{"x", 3}, {"y", 1}}, 10000));
    writer.append<int64_t>(0, std::span(x).first(10000));
    writer.write(0, 20000 * 8, bytes(std::span(x).subspan(20000)));
    writer.write(0, 10000 * 8, bytes(std::span(x).subspan(10000, 10000)));
    writer.append<int64_t>(1, y);
    writer.finish(2);
  }
  {
    ContainerWriter writer(folder + "/c.gd", features({{"x", 3}, {"y", 1}}, 12345));
    writer.append<int64_t>(0, x);
    writer.append<int64_t>(1, y);
    const std::vector<ContainerWriter::Rows> rows{{0, 10000}, {1, 10000}};
    writer.shrink(rows, 10000, 0);
    writer.finish();
  }
  CHECK(content(folder + "/a.gd") == content(folder + "/b.gd"));
  CHECK(content(folder + "/a.gd") == content(folder + "/c.gd"));
  verify(MountedFile::open(folder + "/a.gd"), 1, nullptr);
}

TEST(writer_past_the_page_cache_writes_every_byte) {
  const std::string folder = folder_with("direct");
  const auto x = numbers((size_t{33} << 20) / 8 + 77);  // large enough, and no whole number of pages
  ContainerWriter writer(folder + "/x.gd", features({{"x", 1}}, x.size()));
  for (size_t at = 0; at < x.size(); at += 100003) {
    writer.append<int64_t>(0, std::span(x).subspan(at, std::min<size_t>(100003, x.size() - at)));
  }
  writer.finish();
  verify(MountedFile::open(folder + "/x.gd"), 2, nullptr);
}

TEST(writer_says_how_much_room_is_missing) {
  CHECK_THROWS(StorageError, "the file needs",
               ContainerWriter(scratch("x.gd"), features({{"x", 1}}, uint64_t{1} << 50)));
}

TEST(radix_sort_is_stable_at_every_width) {
  Random random(make_key(4));
  for (const int bits : {1, 8, 11, 12, 32, 47, 64}) {
    for (const size_t n : {0, 1, 100, 191, 192, 5000}) {
      std::vector<uint64_t> keys(n), spare(n);
      std::vector<uint32_t> places(n), spare_places(n);
      for (uint64_t& key : keys) key = random.next() >> (64 - bits);
      if (n > 1) keys[0] = keys[n - 1];
      std::vector<std::pair<uint64_t, uint32_t>> expected(n);
      for (size_t i = 0; i < n; ++i) expected[i] = {keys[i], static_cast<uint32_t>(i)};
      std::sort(expected.begin(), expected.end());
      auto plain = keys, plain_spare = spare;
      const Sorted with = radix_sort(keys.data(), spare.data(), places.data(), spare_places.data(), n, bits);
      const Sorted without = radix_sort(plain.data(), plain_spare.data(), nullptr, nullptr, n, bits);
      for (size_t i = 0; i < n; ++i) {
        CHECK_EQ(with.keys[i], expected[i].first);
        CHECK_EQ(with.places[i], expected[i].second);
        CHECK_EQ(without.keys[i], expected[i].first);
      }
    }
  }
}

// One file for every budget, thread count, block size and key width.
TEST(builder_gives_the_same_file_whatever_the_means) {
  const std::string folder = folder_with("means");
  for (const bool rich : {false, true}) {
    GraphOptions options;
    options.spill_folder = folder;
    options.direction = Direction::kBoth;
    options.weights = options.times = options.edge_ids = rich;
    options.memory = uint64_t{1} << 28;
    const Edges e = random_edges(250000, 3000, 7);
    build(e, options, folder + "/a.gl");
    const auto expected = content(folder + "/a.gl");
    for (const int threads : {1, 3}) {
      for (const bool wide : {false, true}) {
        for (const size_t block : {size_t{333}, size_t{250000}}) {
          options.threads = threads;
          options.force_wide_ids = wide;
          options.memory = uint64_t{1} << 22;
          const GraphReport report = build(e, options, folder + "/b.gl", block);
          CHECK(report.spilled_bytes > 0);
          CHECK(content(folder + "/b.gl") == expected);
        }
      }
    }
  }
  CHECK_EQ(files_in(folder), 2u);
}

// A row that no worker can hold is split by neighbour, and copies of one edge come as they are.
TEST(builder_splits_huge_rows) {
  const std::string folder = folder_with("huge");
  for (const uint64_t targets : {uint64_t{1}, uint64_t{5000}}) {
    for (const bool dedup : {false, true}) {
      Edges e = random_edges(200000, targets, 9);
      std::fill(e.src.begin(), e.src.end(), 0);
      GraphOptions options;
      options.spill_folder = folder;
      options.num_nodes = 5000;
      options.weights = options.times = options.edge_ids = true;
      options.dedup = dedup;
      options.memory = uint64_t{1} << 28;
      build(e, options, folder + "/a.gl");
      options.memory = 1200000;
      const GraphReport report = build(e, options, folder + "/b.gl");
      CHECK(content(folder + "/a.gl") == content(folder + "/b.gl"));
      CHECK_EQ(report.edges, dedup ? targets : e.src.size());
      CHECK_EQ(report.duplicates_dropped, e.src.size() - report.edges);
    }
  }
}

TEST(builder_names_the_edge_that_is_wrong) {
  Edges e = random_edges(50000, 100, 3);
  GraphOptions options;
  options.num_nodes = 100;
  options.weights = true;
  options.memory = 1 << 24;
  options.threads = 2;
  e.dst[33333] = 100;
  CHECK_THROWS(InputError, "edge 33333: found dst 100, expected a node id from 0 to 99",
               build(e, options, scratch("bad.gl")));
  e.dst[33333] = -5;
  CHECK_THROWS(InputError, "found dst -5", build(e, options, scratch("bad.gl")));
  e.dst[33333] = 5;
  e.weights[44444] = -1;
  CHECK_THROWS(InputError, "edge 44444: found weight -1", build(e, options, scratch("bad.gl")));
}

TEST(builder_refuses_a_budget_below_the_least) {
  GraphOptions options;
  options.memory = 1000;
  CHECK_THROWS(BudgetError, "needs at least 1000000", GraphBuilder(options, nullptr));
}

TEST(parser_reads_every_count_of_digits_at_every_place) {
  GraphOptions graph;
  graph.memory = 1 << 24;
  GraphBuilder builder(graph, nullptr);
  std::string text;
  std::vector<std::pair<uint64_t, uint64_t>> expected;
  for (uint64_t u = 1; u < 4000000000000000000ull; u *= 10) {
    for (uint64_t v = 9; v < 400000000000000000ull; v = v * 10 + 9) {
      text += gz::text(u, ",", v, "\n");
      expected.emplace_back(u, v);
    }
  }
  const size_t size = text.size();
  text.resize(size + kTextPadding, '7');  // the padding must not be read as digits
  std::vector<uint64_t> src(expected.size() + 1), dst(expected.size() + 1);
  ChunkWriter writer;
  writer.src = src.data();
  writer.dst = dst.data();
  writer.capacity = src.size();
  ChunkLines lines;
  CHECK(parse_edges(std::string_view(text).substr(0, size), {}, graph, builder.id_limits(), writer, lines));
  CHECK_EQ(writer.count, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK_EQ(src[i], expected[i].first);
    CHECK_EQ(dst[i], expected[i].second);
  }
  writer.count = 0;  // and without the last newline
  CHECK(parse_edges(std::string_view(text).substr(0, size - 1), {}, graph, builder.id_limits(), writer, lines));
  CHECK_EQ(dst[expected.size() - 1], expected.back().second);
}

TEST(text_chunks_own_each_line_once) {
  std::string all;
  for (int i = 0; i < 3000; ++i) all += std::string(static_cast<size_t>(i * 7 % 61), 'x') + "\n";
  all += "no newline";
  const std::string path = scratch("lines.txt");
  std::ofstream(path, std::ios::binary) << all;
  const File file = File::open(path);
  for (const uint64_t step : {uint64_t{1}, uint64_t{17}, uint64_t{1000}, uint64_t{1} << 20}) {
    ChunkReader reader;
    std::string joined;
    for (uint64_t at = 5; at < all.size(); at += step) {
      joined += reader.read(file, 5, at, std::min<uint64_t>(at + step, all.size()));
    }
    CHECK(joined == all.substr(5));
  }
  LineCarry carry;
  std::string joined;
  for (size_t at = 0; at < all.size(); at += 13) joined += carry.push(std::string_view(all).substr(at, 13), false);
  joined += carry.push({}, true);
  CHECK(joined == all);
}

#if defined(__cpp_lib_to_chars) && !defined(_WIN32)
namespace {

template <class T>
void check_real(std::string_view text) {
  T expected = 7, found = 7;
  const char *begin = text.data(), *end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, expected);
  const auto by_strtod = parse_real_by_strtod(begin, end, found);
  CHECK_EQ(static_cast<int>(by_strtod.ec), static_cast<int>(error));
  if (error == std::errc()) CHECK_EQ(by_strtod.ptr - begin, stop - begin);
  CHECK(std::memcmp(&found, &expected, sizeof found) == 0);
}

}  // namespace

TEST(numbers_are_the_same_by_strtod_as_by_from_chars) {
  const std::vector<std::string> texts{
      "",      "0",     "-0",    "1",    "-1.5",  "+1",     " 1",       ".5",       "5.",         ".",
      "-",     "1e3",   "1E-3",  "1e",   "1e+",   "1e400",  "1e-400",   "-1e400",   "5e-324",     "2e-324",
      "1e60",  "1e-60", "1,5",   "0x10", "inf",   "-inf",   "infinity", "nan",      "x",          "1.5abc",
      "12 13", "1-2",   "00012", "3;",   "1.5.5", "1e5e5",  "1.5\r",    "16777217", "1e-45",      "0.1",
      "e5",    "-e",    "1_000", "1\n",  "--1",   "3.4e38", "3.5e38",   "1e-310",   "4.9407e-324"};
  for (const std::string& text : texts) {
    check_real<double>(text);
    check_real<float>(text);
  }
  check_real<double>(std::string(200, '9'));
  check_real<double>("0." + std::string(300, '3'));
  check_real<double>(
      std::string("1.5\0"
                  "7",
                  5));
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto word = random.next();
    double value;
    std::memcpy(&value, &word, sizeof value);
    char text[64];
    const int length = std::snprintf(text, sizeof text, "%.*g", 1 + i % 17, value);
    check_real<double>({text, static_cast<size_t>(length)});
    check_real<float>({text, static_cast<size_t>(length)});
  }
}
#endif
