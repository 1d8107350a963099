// legacy_test: headers of GraphZero 0.1 and 0.2 as containers (FORMAT 8).
#include "format/legacy.h"

#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"

using namespace gz;

namespace {

// The eight words of a 0.2 topology header.
struct GraphHeader {
  uint64_t magic = 8388354976772092519ull, indptr_bytes = 56, indices_bytes = 32, indptr_at = 64, indices_at = 128;
  uint64_t num_nodes = 6, num_edges = 4, flags = 0;
};
struct DataHeader {
  char magic[8] = {'G', 'Z', 'D', 'A', 'T', 'A', '2', '6'};
  uint32_t flags = 0;
  int32_t dtype = 2;
  uint64_t num_nodes = 5, dim = 3;
};

template <class H>
std::optional<Container> parse(const H& header, uint64_t file_bytes) {
  std::vector<std::byte> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return parse_legacy(bytes, file_bytes, "f.gl");
}

}  // namespace

TEST(a_0_2_topology_is_a_container_with_wide_ids) {
  const auto c = parse(GraphHeader{}, 160);
  CHECK(c && c->kind == Kind::kTopology && c->major == 0 && c->direction == Direction::kOut && c->properties == 0);
  CHECK_EQ(c->arrays.size(), 2u);
  CHECK(c->arrays[0].offset == 64 && c->arrays[0].bytes == 56 && c->arrays[1].offset == 128);
  CHECK(c->arrays[1].dtype == DType::kUInt64);
  const auto weighted = parse(GraphHeader{.flags = 1}, 208);
  CHECK(weighted && weighted->find("out.weights")->offset == 192 && weighted->find("out.weights")->bytes == 16);
}

TEST(a_0_2_feature_file_has_one_array_named_x) {
  const DType types[] = {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64};
  for (int code = 0; code < 4; ++code) {
    const auto c = parse(DataHeader{.dtype = code}, 32 + 15 * (code % 2 == 0 ? 4 : 8));
    CHECK(c && c->kind == Kind::kFeatures && c->arrays.size() == 1);
    const ArrayInfo& x = c->arrays[0];
    CHECK(x.name == "x" && x.dtype == types[code] && x.offset == 32 && x.rows() == 5 && x.columns() == 3);
  }
}

TEST(what_has_neither_magic_is_not_legacy) {
  CHECK(!parse(GraphHeader{.magic = 1}, 160));
  CHECK(!parse_legacy({}, 0, "f.gl"));
  CHECK(!parse(DataHeader{.magic = {'G', 'Z', 'D', 'A', 'T', 'A', '2', '7'}}, 92));
}

TEST(a_0_2_header_that_contradicts_itself_is_refused) {
  const auto refuse = [](const auto& header, uint64_t file_bytes, const char* part) {
    CHECK_THROWS(FormatError, part, parse(header, file_bytes));
  };
  refuse(GraphHeader{.indptr_bytes = 48}, 160, "indptr has 48 bytes, num_nodes is 6");
  refuse(GraphHeader{.num_edges = 5}, 160, "indices has 32 bytes, num_edges is 5");
  refuse(GraphHeader{}, 159, "out.indices at byte 128 with 4 elements does not fit the file's 159 bytes");
  refuse(GraphHeader{.indices_at = 129}, 161, "out.indices at byte 129");
  refuse(GraphHeader{.indptr_at = UINT64_MAX - 7}, 160, "out.indptr at byte 18446744073709551608");
  refuse(GraphHeader{.indptr_bytes = 0, .num_nodes = UINT64_MAX}, 160, "num_nodes is 18446744073709551615");
  refuse(GraphHeader{.indptr_bytes = 8, .num_nodes = uint64_t{1} << 61}, 160, "num_nodes is 2305843009213693952");
  refuse(GraphHeader{.flags = 1}, 207, "out.weights at byte 192");
  refuse(DataHeader{.dtype = 4}, 92, "dtype is 4, expected 0 to 3");
  refuse(DataHeader{.dtype = -1}, 92, "expected 0 to 3");
  refuse(DataHeader{}, 91, "x at byte 32 with 15 elements does not fit the file's 91 bytes");
  refuse(DataHeader{.num_nodes = uint64_t{1} << 40, .dim = uint64_t{1} << 40}, 92, "overflow 64 bits");
  refuse(DataHeader{.num_nodes = UINT64_MAX, .dim = 0}, 92, "num_nodes is 18446744073709551615");
}

TEST(random_0_2_headers_are_refused_or_lie_inside_the_file) {
  Random random(make_key(12));
  size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    GraphHeader h{.flags = random.below(2)};
    uint64_t* words = &h.indptr_bytes;
    words[random.below(7)] = random.below(2) == 0 ? random.below(256) : (uint64_t{1} << random.below(64)) - 1;
    try {
      const auto c = parse(h, 224);
      for (const ArrayInfo& a : c->arrays) CHECK(a.bytes <= 224 && a.offset <= 224 - a.bytes);
      ++accepted;
    } catch (const FormatError&) {
    }
  }
  CHECK(accepted > 100);
}
