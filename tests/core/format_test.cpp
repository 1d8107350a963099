// format_test: the container's header: what is written is read back, and whatever else is refused by name.
#include <cstring>
#include <functional>
#include <limits>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "format/container.h"

using namespace gz;

namespace {

constexpr size_t kChecksumAt = 76, kTableAt = 128, kEntry = 96;  // FORMAT 2 and 3, stated apart from the code

Container topology(uint64_t nodes = 5, uint64_t edges = 7) {
  Container c;
  c.kind = Kind::kTopology;
  c.num_nodes = nodes;
  c.num_edges = edges;
  c.direction = Direction::kBoth;
  c.properties = kSortedRows | kUndirected;
  for (const char* side : {"out.", "in."}) {
    c.arrays.push_back({side + std::string("indptr"), DType::kUInt64, {nodes + 1}, 0, 0, 11});
    c.arrays.push_back({side + std::string("indices"), DType::kUInt32, {edges}, 0, 0, 22});
  }
  c.arrays.push_back({"out.weights", DType::kFloat32, {edges}, 0, 0, 33});
  lay_out(c);
  return c;
}

Container features(uint64_t nodes = 6) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = nodes;
  c.arrays.push_back({"x", DType::kInt8, {nodes, 3}, 0, 0, 1});
  c.arrays.push_back({"x.scale", DType::kFloat32, {3}, 0, 0, 2});
  c.arrays.push_back({"label", DType::kInt64, {nodes}, 0, 0, 3});
  lay_out(c);
  return c;
}

template <class T>
void put(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void sum_again(std::vector<std::byte>& header) {
  put(header, kChecksumAt, uint32_t{0});
  put(header, kChecksumAt, crc32c_plain(header));
}

// The message that a header gets when `change` was made to it and the checksum was made to fit again.
std::string refusal(const Container& c, const std::function<void(std::vector<std::byte>&)>& change) {
  auto header = serialize_header(c);
  change(header);
  sum_again(header);
  return test::message_of<FormatError>([&] { parse_header(header, c.file_bytes, "f.gl"); }, __FILE__, __LINE__);
}

void expect(const std::string& message, const std::string& part) {
  if (message.find("f.gl: ") != 0 || message.find(part) == std::string::npos) {
    test::fail_at(__FILE__, __LINE__, "message '" + message + "' lacks '" + part + "'");
  }
}

// A copy that went through lay_out again after `change`.
Container changed(Container c, const std::function<void(Container&)>& change) {
  change(c);
  lay_out(c);
  return c;
}

std::string schema_refusal(const Container& c) {
  return refusal(c, [](auto&) {});
}

// What parse_header promises about any header that it lets through (container.h).
void check_promises(const Container& c, uint64_t file_bytes) {
  uint64_t end = c.header_bytes;
  for (const ArrayInfo& a : c.arrays) {
    CHECK(a.offset == end && a.offset % kPageBytes == 0);
    CHECK(a.bytes <= file_bytes && a.offset <= file_bytes - a.bytes);
    CHECK(a.shape.size() == 1 || a.shape.size() == 2);
    CHECK(a.rows() == 0 || a.columns() == 0 || a.bytes / a.rows() == a.row_bytes());
    end = round_up(a.offset + a.bytes, kPageBytes);
  }
  CHECK_EQ(end, file_bytes);
  for (const ArrayInfo& a : c.arrays) {
    if (c.kind == Kind::kFeatures && !c.is_scale(a)) CHECK_EQ(a.rows(), c.num_nodes);
    if (const ArrayInfo* scale = c.scale_of(a)) CHECK(scale->rows() == a.columns() && scale->dtype == DType::kFloat32);
  }
}

}  // namespace

TEST(a_header_comes_back_as_it_was_written) {
  for (const Container& c : {topology(), features(), topology(1, 0), features(0)}) {
    const auto header = serialize_header(c);
    CHECK_EQ(header.size(), c.header_bytes);
    CHECK_EQ(announced_header_bytes(header, "f.gl"), c.header_bytes);
    const Container back = parse_header(header, c.file_bytes, "f.gl");
    CHECK(back.kind == c.kind && back.direction == c.direction && back.properties == c.properties);
    CHECK(back.num_nodes == c.num_nodes && back.num_edges == c.num_edges && back.file_bytes == c.file_bytes);
    CHECK_EQ(back.arrays.size(), c.arrays.size());
    for (size_t i = 0; i < c.arrays.size(); ++i) {
      const ArrayInfo &a = back.arrays[i], &b = c.arrays[i];
      CHECK(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.offset == b.offset);
      CHECK(a.bytes == b.bytes && a.digest == b.digest);
    }
    check_promises(back, c.file_bytes);
  }
}

TEST(dtypes_are_found_by_name) {
  CHECK(dtype_from_name("bfloat16") == DType::kBFloat16);
  CHECK_THROWS(ArgumentError, "unsupported dtype 'x'; expected one of float64, float32", dtype_from_name("x"));
}

TEST(a_table_that_outgrows_one_page_takes_more) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = 2;
  for (int i = 0; i < 1000; ++i) c.arrays.push_back({"column_" + std::to_string(i), DType::kBool, {2}, 0, 0, 0});
  lay_out(c);
  CHECK_EQ(c.header_bytes, round_up(kTableAt + 1000 * kEntry, kPageBytes));
  const Container back = parse_header(serialize_header(c), c.file_bytes, "f.gl");
  CHECK(back.find("column_999") != nullptr && back.find("column_1000") == nullptr);
  auto header = serialize_header(c);
  header.resize(kPageBytes);
  CHECK_THROWS(FormatError, "ends inside its header", parse_header(header, c.file_bytes, "f.gl"));
}

TEST(every_flipped_bit_of_a_header_is_refused) {
  for (const Container& c : {topology(), features()}) {
    auto header = serialize_header(c);
    for (size_t bit = 0; bit < header.size() * 8; ++bit) {
      header[bit / 8] ^= std::byte{1} << (bit % 8);
      CHECK_THROWS(FormatError, "f.gl: ", parse_header(header, c.file_bytes, "f.gl"));
      header[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    parse_header(header, c.file_bytes, "f.gl");
  }
}

TEST(invalid_headers_are_rejected) {
  const auto parse = [](size_t size) {
    std::vector<std::byte> zeros(size);
    return test::message_of<FormatError>([&] { parse_header(zeros, size, "f.gl"); }, __FILE__, __LINE__);
  };
  expect(parse(0), "0 bytes, a GraphZero file has at least 4096");
  expect(parse(4095), "4095 bytes");
  expect(parse(4096), "not a GraphZero file");
}

TEST(each_header_field_is_refused_by_name) {
  const Container c = topology();
  const auto with = [&](size_t at, auto value) { return refusal(c, [&](auto& h) { put(h, at, value); }); };
  expect(with(8, uint16_t{2}), "format version 2.0, this GraphZero reads version 1.x; upgrade");
  expect(with(12, uint32_t{0}), "kind is 0, expected 1 (topology) or 2 (features)");
  expect(with(24, uint64_t{4}), "incompatible flags are 4 (version 1.0)");
  expect(with(32, c.file_bytes + 1), "it was truncated");
  expect(with(32, c.file_bytes - 1), "data was appended");
  expect(with(64, uint32_t{4}), "direction is 4, expected 0 to 3");
  expect(with(64, uint32_t{0}), "direction is 0, a topology has 1 to 3");
  expect(with(72, uint32_t{42}), "num_arrays is 42, the header has room for 41");
  expect(with(72, UINT32_MAX), "num_arrays is 4294967295");
  expect(with(72, uint32_t{4}), "the arrays end at");
  expect(with(100, uint8_t{1}), "reserved header bytes are not zero");
  expect(with(kTableAt + 5 * kEntry, uint8_t{'x'}), "bytes after the array table are not zero");
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{4095}, uint64_t{6000}, uint64_t{1} << 21, UINT64_MAX}) {
    expect(with(40, bytes), "header_bytes is " + std::to_string(bytes));
  }
  auto header = serialize_header(c);
  put(header, kChecksumAt, uint32_t{7});
  CHECK_THROWS(FormatError, "header checksum is 7, expected ", parse_header(header, c.file_bytes, "f.gl"));
}

TEST(a_later_minor_version_and_compatible_flags_are_read) {
  const Container c = topology();
  auto header = serialize_header(c);
  put(header, 10, uint16_t{9});
  put(header, 16, UINT64_MAX);
  sum_again(header);
  const Container back = parse_header(header, c.file_bytes, "f.gl");
  CHECK(back.minor == 9 && back.compatible == UINT64_MAX);
}

TEST(each_field_of_a_table_entry_is_refused_by_name) {
  const Container c = topology();
  const size_t entry = kTableAt + kEntry;  // 'out.indices'
  const auto with = [&](size_t at, auto value) { return refusal(c, [&](auto& h) { put(h, entry + at, value); }); };
  expect(with(0, uint8_t{0}), "array 1: name is not 1 to 31 letters");
  expect(with(0, uint8_t{' '}), "array 1: name is not 1 to 31 letters");
  expect(with(20, uint8_t{'x'}), "array 1: name is not 1 to 31 letters");
  expect(refusal(c, [&](auto& h) { std::memset(h.data() + entry, 'a', 32); }), "array 1: name");
  expect(with(32, uint32_t{0}), "array 'out.indices': dtype code is 0, expected 1 to 12");
  expect(with(32, uint32_t{13}), "dtype code is 13");
  expect(with(36, uint32_t{0}), "array 'out.indices': rank is 0, expected 1 or 2");
  expect(with(36, uint32_t{3}), "rank is 3");
  expect(with(48, uint64_t{1}), "array 'out.indices': shape[1] is 1, expected 0 for a vector");
  expect(with(56, uint64_t{4096}), "array 'out.indices': offset is 4096, expected 8192");
  expect(with(56, uint64_t{12288}), "offset is 12288, expected 8192");
  expect(with(64, uint64_t{29}), "array 'out.indices': bytes is 29, expected 28 from its dtype and shape");
  expect(with(95, uint8_t{1}), "array 'out.indices': reserved bytes are not zero");
  expect(refusal(c, [&](auto& h) { std::memcpy(h.data() + entry, h.data() + kTableAt, 32); }), "is listed twice");
}

TEST(sizes_at_the_edges_of_words_are_refused_before_they_are_used) {
  const Container c = topology();
  for (const int shift : {31, 32, 62, 63}) {
    for (const uint64_t nudge : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
      const uint64_t value = (uint64_t{1} << shift) + nudge;
      for (const size_t at : {size_t{32}, size_t{40}, size_t{48}, size_t{56}}) {
        expect(refusal(c, [&](auto& h) { put(h, at, value); }), "");
      }
      for (const size_t at : {size_t{40}, size_t{48}, size_t{56}, size_t{64}}) {
        expect(refusal(c, [&](auto& h) { put(h, kTableAt + at, value); }), "");
      }
      // Shape and bytes that agree with one another, and reach past the file or past 64 bits.
      expect(refusal(c,
                     [&](auto& h) {
                       put(h, kTableAt + 40, value);
                       put(h, kTableAt + 64, value * 8);
                     }),
             "array 'out.indptr'");
    }
  }
  expect(refusal(c,
                 [](auto& h) {
                   put(h, kTableAt + 36, uint32_t{2});
                   put(h, kTableAt + 40, uint64_t{1} << 32);
                   put(h, kTableAt + 48, uint64_t{1} << 32);
                 }),
         "array 'out.indptr': the shape overflows 64 bits");
}

TEST(a_topology_without_its_arrays_is_refused) {
  const Container c = topology();
  const auto missing = [&](size_t i) {
    return schema_refusal(changed(c, [&](Container& x) { x.arrays.erase(x.arrays.begin() + static_cast<long>(i)); }));
  };
  expect(missing(0), "array 'out.indptr' is missing");
  expect(missing(3), "array 'in.indices' is missing");
  const auto with = [&](size_t i, const std::function<void(ArrayInfo&)>& change) {
    return schema_refusal(changed(c, [&](Container& x) { change(x.arrays[i]); }));
  };
  expect(with(0, [](ArrayInfo& a) { a.shape = {5}; }), "'out.indptr' has 5 elements, expected a vector of 6");
  expect(with(0, [](ArrayInfo& a) { a.shape = {6, 1}; }), "'out.indptr' has 6 rows, expected a vector of 6");
  expect(with(1, [](ArrayInfo& a) { a.dtype = DType::kUInt64; }), "'out.indices' has dtype uint64, expected uint32");
  expect(with(4, [](ArrayInfo& a) { a.dtype = DType::kFloat64; }), "'out.weights' has dtype float64, expected float32");
  expect(with(4, [](ArrayInfo& a) { a = {"out.edge_ids", DType::kInt64, {7}, 0, 0, 0}; }), "expected uint32 or uint64");
  expect(with(4, [](ArrayInfo& a) { a = {"out.cumulative", DType::kFloat64, {7}, 0, 0, 0}; }),
         "'out.cumulative' is there without 'out.weights'");
  expect(with(4, [](ArrayInfo& a) { a = {"out.by_time", DType::kUInt32, {7}, 0, 0, 0}; }),
         "'out.by_time' is there without 'out.times'");
  // An array that this version does not know is let be.
  const Container more =
      changed(c, [](Container& x) { x.arrays.push_back({"out.later", DType::kBool, {3}, 0, 0, 0}); });
  CHECK(parse_header(serialize_header(more), more.file_bytes, "f.gl").find("out.later") != nullptr);
}

TEST(feature_arrays_must_agree_with_num_nodes) {
  const Container c = features();
  const auto with = [&](size_t i, const std::function<void(ArrayInfo&)>& change) {
    return schema_refusal(changed(c, [&](Container& x) { change(x.arrays[i]); }));
  };
  expect(with(2, [](ArrayInfo& a) { a.shape = {5}; }), "array 'label' has 5 rows, num_nodes is 6");
  expect(with(1, [](ArrayInfo& a) { a.shape = {4}; }), "'x.scale' has 4 elements, expected a vector of 3");
  expect(with(1, [](ArrayInfo& a) { a.dtype = DType::kFloat64; }), "'x.scale' has dtype float64, expected float32");
  // Next to an array that is not int8, ".scale" is an ordinary name.
  expect(with(0, [](ArrayInfo& a) { a.dtype = DType::kUInt8; }), "array 'x.scale' has 3 rows, num_nodes is 6");
  expect(schema_refusal(changed(c, [](Container& x) { x.direction = Direction::kOut; })), "direction is 1, features");
  expect(schema_refusal(changed(c,
                                [](Container& x) {
                                  x.num_nodes = UINT64_MAX;
                                  x.arrays = {{"x", DType::kBool, {UINT64_MAX, 0}, 0, 0, 0}};
                                })),
         "num_nodes is 18446744073709551615");
}

TEST(wide_ids_are_asked_for_where_narrow_ones_end) {
  constexpr uint64_t kMost = uint64_t{1} << 32;
  for (const uint64_t nodes : {kMost, kMost + 1}) {
    Container c = topology(nodes, 7);
    const bool wide = nodes > kMost;
    const auto parse = [&] { return parse_header(serialize_header(c), c.file_bytes, "f.gl"); };
    if (wide) CHECK_THROWS(FormatError, "has dtype uint32, expected uint64", parse());
    for (ArrayInfo& a : c.arrays) a.dtype = wide && a.name.ends_with("indices") ? DType::kUInt64 : a.dtype;
    lay_out(c);
    CHECK_EQ(parse().num_nodes, nodes);
  }
}

TEST(lay_out_refuses_what_the_format_cannot_hold) {
  const auto lay = [](std::vector<ArrayInfo> arrays) {
    Container c;
    c.arrays = std::move(arrays);
    lay_out(c);
  };
  CHECK_THROWS(ArgumentError, "array name '' is not", lay({{"", DType::kBool, {1}, 0, 0, 0}}));
  CHECK_THROWS(ArgumentError, "is not 1 to 31", lay({{std::string(32, 'a'), DType::kBool, {1}, 0, 0, 0}}));
  CHECK_THROWS(ArgumentError, "array name 'a b' is not", lay({{"a b", DType::kBool, {1}, 0, 0, 0}}));
  CHECK_THROWS(ArgumentError, "used twice",
               lay({{"a", DType::kBool, {1}, 0, 0, 0}, {"a", DType::kBool, {1}, 0, 0, 0}}));
  CHECK_THROWS(ArgumentError, "too large", lay({{"a", DType::kInt64, {UINT64_MAX}, 0, 0, 0}}));
  CHECK_THROWS(ArgumentError, "too large", lay({{"a", DType::kBool, {UINT64_MAX - 4096}, 0, 0, 0}}));
  CHECK_THROWS(ArgumentError, "at most 10921 arrays", lay(std::vector<ArrayInfo>(10922)));
}

TEST(any_change_that_passes_the_checksum_is_refused_or_keeps_the_promises) {
  Random random(make_key(2024));
  size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const Container c = round % 2 == 0 ? topology() : features();
    auto header = serialize_header(c);
    const size_t used = kTableAt + c.arrays.size() * kEntry;
    const auto changes = 1 + random.below(3);
    for (uint64_t i = 0; i < changes; ++i) {
      const size_t at = 8 + random.below(used - 16);
      switch (random.below(4)) {
        case 0:
          header[at] = static_cast<std::byte>(random.next());
          break;
        case 1:
          header[at] ^= std::byte{1} << random.below(8);
          break;
        case 2:
          put(header, at & ~size_t{7}, (uint64_t{1} << random.below(64)) + random.below(3) - 1);
          break;
        default:
          put(header, at & ~size_t{3}, static_cast<uint32_t>(random.below(5)));
      }
    }
    sum_again(header);
    try {
      check_promises(parse_header(header, c.file_bytes, "f.gl"), c.file_bytes);
      ++accepted;
    } catch (const FormatError& e) {
      CHECK(std::string(e.what()).find("f.gl: ") == 0);
    }
  }
  CHECK(accepted > 100);  // a harness that refuses everything would prove nothing
}

TEST(arbitrary_bytes_behind_the_magic_are_refused) {
  Random random(make_key(7));
  for (int round = 0; round < 500; ++round) {
    std::vector<std::byte> header(kPageBytes * (1 + random.below(3)));
    for (std::byte& b : header) b = static_cast<std::byte>(random.next());
    std::memcpy(header.data(), kMagic.data(), kMagic.size());
    put(header, 8, kVersionMajor);
    put(header, 40, uint64_t{kPageBytes});
    header.resize(kPageBytes);
    sum_again(header);
    CHECK_THROWS(FormatError, "f.gl: ", parse_header(header, header.size(), "f.gl"));
  }
}

TEST(digests_have_the_values_that_the_specification_prints) {
  const std::vector<std::byte> zeros(kBlockBytes + 1);
  const char* digits = "123456789";
  CHECK_EQ(digest({}, 1), 0x9E3779B97F4A7C15ull);
  CHECK_EQ(digest(std::span(reinterpret_cast<const std::byte*>(digits), 9), 1), 0xD0F376FEA9B8C1A9ull);
  CHECK_EQ(digest(zeros, 2), 0x63CF86C91367879Aull);
}
