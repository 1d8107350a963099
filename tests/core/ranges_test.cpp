// ranges_test: one file from many writers: sums of pieces, pages at borders, writers that are repeated.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "compile/write/container_writer.h"
#include "compile/write/range_writer.h"
#include "storage/mounted.h"
#include "storage/verify.h"

using namespace gz;
using gz::test::scratch;

namespace {

std::vector<std::byte> random_bytes(size_t count) {
  Random random(make_key(11));
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

Container one_array(uint64_t rows) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = rows;
  ArrayInfo array;
  array.name = "x";
  array.dtype = DType::kUInt8;
  array.shape = {rows};
  c.arrays.push_back(std::move(array));
  return c;
}

std::vector<char> content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST(crc32c_of_two_messages_from_those_of_each) {
  const auto bytes = random_bytes(5000);
  const std::span<const std::byte> all(bytes);
  for (const size_t cut : {0, 1, 7, 8, 4095, 4096, 4999, 5000}) {
    const uint32_t first = crc32c(all.first(cut)), second = crc32c(all.subspan(cut));
    CHECK_EQ(crc32c_combine(first, second, bytes.size() - cut), crc32c_plain(all));
  }
}

// Ranges of a byte, inside a page, across pages and blocks: the file is that of one writer.
TEST(range_writers_together_write_the_file_of_one) {
  const auto bytes = random_bytes((size_t{5} << 20) / 2 + 123);
  const std::span<const std::byte> all(bytes);
  const std::string expected = scratch("ranges_one.gd"), target = scratch("ranges_many.gd");
  {
    ContainerWriter writer(expected, one_array(bytes.size()));
    writer.append(0, all);
    writer.finish();
  }
  const std::vector<size_t> cuts{0, 1, 100, 4096, 5000, 9000, 1 << 20, (1 << 20) + 77777, 2000000, bytes.size()};
  ContainerWriter shared(target, one_array(bytes.size()));
  const uint64_t offset = shared.container().arrays[0].offset;
  std::vector<BlockSum> sums;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto part = all.subspan(cuts[i], cuts[i + 1] - cuts[i]);
    for (const bool dies : {true, false}) {  // the first leaves some pages behind
      RangeWriter writer(shared.temporary(), {{"x", offset, cuts[i], cuts[i + 1]}}, 8192);
      for (size_t at = 0; at < part.size(); at += 30000) {
        writer.append(writer.index_of("x"), part.subspan(at, std::min<size_t>(30000, part.size() - at)));
        if (dies && at > 60000) break;
      }
      if (dies) continue;
      auto written = writer.finish();
      sums.insert(sums.end(), written[0].sums.begin(), written[0].sums.end());
      for (const auto& fragment : written[0].fragments) {
        CHECK(fragment.bytes.size() < kPageBytes);
        shared.write_scattered(0, fragment.at, fragment.bytes);
      }
    }
  }
  shared.set_digest(0, digest_of(sums));
  shared.finish();
  CHECK(content(target) == content(expected));
  verify(MountedFile::open(target), 1, nullptr);
}

TEST(range_writer_refuses_what_is_too_short_or_too_long) {
  const std::string target = scratch("ranges_refused.gd");
  ContainerWriter shared(target, one_array(10000));
  const uint64_t offset = shared.container().arrays[0].offset;
  const auto bytes = random_bytes(6000);
  RangeWriter writer(shared.temporary(), {{"x", offset, 1000, 6000}}, 4096);
  CHECK_THROWS(ArgumentError, "past the range's end at 6000", writer.append(0, std::span<const std::byte>(bytes)));
  writer.append(0, std::span<const std::byte>(bytes).first(4000));
  CHECK_THROWS(ArgumentError, "'x' has bytes up to 5000, expected 6000", writer.finish());
  CHECK_THROWS(ArgumentError, "no range of array 'y'", writer.index_of("y"));
}
