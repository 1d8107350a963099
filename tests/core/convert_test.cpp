// convert_test: rows that become floats on the way: kernels against the plain ones, and every way to the same values.
#include "gather/convert.h"

#include <bit>
#include <cstring>
#include <vector>

#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "gather/gather.h"
#include "gather_files.h"
#include "storage/reader.h"

using namespace gz;
using namespace gz::test;

TEST(halves_become_the_floats_they_are) {
  CHECK_EQ(half_to_float(0x3c00), 1.0f);
  CHECK_EQ(half_to_float(0xc000), -2.0f);
  CHECK_EQ(half_to_float(0x0001), 0x1.0p-24f);
  CHECK_EQ(half_to_float(0x7bff), 65504.0f);
  CHECK_EQ(std::bit_cast<uint32_t>(half_to_float(0xfc00)), 0xff800000u);
  CHECK_EQ(std::bit_cast<uint32_t>(half_to_float(0x8000)), 0x80000000u);
  CHECK_EQ(bfloat_to_float(0x3f80), 1.0f);
}

TEST(every_kernel_equals_the_plain_one_for_all_values_and_cuts) {
  std::vector<std::byte> in(1 << 17);
  for (size_t i = 0; i < in.size() / 2; ++i) {  // every 16-bit pattern, signalling NaNs too
    const auto word = static_cast<uint16_t>(i);
    std::memcpy(&in[2 * i], &word, 2);
  }
  std::vector<float> scale(in.size());
  Random random(make_key(1));
  for (float& s : scale) s = static_cast<float>(random.unit()) - 0.3f;
  for (const DType from : {DType::kFloat16, DType::kBFloat16, DType::kInt8, DType::kFloat32}) {
    const size_t element = dtype_bytes(from);
    const RowKernel oracle = row_kernel({.from = from, .scaled = from == DType::kInt8});
    for (const Vectors vectors : {Vectors::kAvx2, Vectors::kAvx512}) {
      if (vectors > best_vectors()) continue;
      for (const bool streaming : {false, true}) {
        const RowKernel kernel =
            row_kernel({.from = from, .vectors = vectors, .streaming = streaming, .scaled = from == DType::kInt8});
        for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{16}, size_t{129}, in.size() / element}) {
          for (const size_t shift : {0, 4, 20, 36}) {  // where in a line the row begins
            std::vector<std::byte> a(count * 4 + 128, std::byte{1}), b(a);
            oracle(in.data(), count * element, a.data() + shift, scale.data());
            kernel(in.data(), count * element, b.data() + shift, scale.data());
            finish_streaming();
            CHECK(a == b);
          }
        }
      }
    }
  }
}

TEST(many_converted_rows_equal_those_converted_one_by_one) {
  for (const uint64_t columns : {8, 12, 16, 24, 128, 136, 1032}) {
    const auto file =
        FeatureFile::open(write_features(text("convert-", columns, ".gd"), {{"h", DType::kFloat16, 200, columns},
                                                                            {"b", DType::kBFloat16, 200, columns},
                                                                            {"q", DType::kInt8, 200, columns},
                                                                            {"q.scale", DType::kFloat32, columns, 0}}));
    const auto ids = some_ids(200, 333, columns);
    std::vector<RowMove> moves;
    for (size_t i = 0; i < ids.size(); ++i) moves.push_back({static_cast<uint64_t>(ids[i]), ids.size() - 1 - i});
    for (const char* name : {"h", "b", "q"}) {
      const Matrix& matrix = file->matrix(name);
      const uint64_t row_bytes = columns * sizeof(float);
      std::vector<std::byte> in_order(ids.size() * row_bytes), moved(in_order);
      const RowCopier one_by_one(matrix, DType::kFloat32, false, Vectors::kPlain);
      for (const RowMove& move : moves) {
        const std::byte* row = matrix.data + move.from * matrix.row_bytes;
        one_by_one.piece(row, 0, matrix.row_bytes, moved.data(), move.to);
        one_by_one.piece(row, 0, matrix.row_bytes, in_order.data(), ids.size() - 1 - move.to);
      }
      for (const Vectors vectors : {Vectors::kPlain, Vectors::kAvx2, Vectors::kAvx512}) {
        if (vectors > best_vectors()) continue;
        const RowCopier copier(matrix, DType::kFloat32, true, vectors);
        for (const size_t shift : {0, 4, 32, 64}) {
          Buffer out(moved.size() + 64, Purpose::kBatches);
          copier.gather(matrix.data, ids, out.data() + shift, 0);
          finish_streaming();
          CHECK(std::memcmp(out.data() + shift, in_order.data(), in_order.size()) == 0);
          copier.gather(matrix.data, std::span<const RowMove>(moves), out.data() + shift);
          finish_streaming();
          CHECK(std::memcmp(out.data() + shift, moved.data(), moved.size()) == 0);
        }
      }
    }
  }
}

TEST(conversion_on_the_way_gives_floats_by_every_way) {
  const auto file = FeatureFile::open(write_features("convert.gd", {{"h", DType::kFloat16, 900, 37},
                                                                    {"q", DType::kInt8, 900, 65},
                                                                    {"q.scale", DType::kFloat32, 65, 0},
                                                                    {"n", DType::kInt64, 900, 0}}));
  const auto ids = some_ids(900, 1700, 6);
  for (const char* name : {"h", "q", "n"}) {
    const Matrix& matrix = file->matrix(name);
    std::vector<float> expected;
    for (const int64_t id : ids) {
      const std::byte* row = matrix.data + static_cast<uint64_t>(id) * matrix.row_bytes;
      for (uint64_t c = 0; c < matrix.columns; ++c) {
        if (matrix.dtype == DType::kFloat16) expected.push_back(half_to_float(load_element<uint16_t>(row + 2 * c)));
        if (matrix.dtype == DType::kInt8) {
          expected.push_back(static_cast<float>(load_element<int8_t>(row + c)) * matrix.scale[c]);
        }
        if (matrix.dtype == DType::kInt64) expected.push_back(static_cast<float>(load_element<int64_t>(row)));
      }
    }
    for (const Io io : {Io::kMmap, Io::kPread, Io::kUring}) {
      if (io == Io::kUring && !uring_works()) continue;
      std::vector<float> out(expected.size());
      GatherOptions options;
      options.io = io;
      options.out_dtype = DType::kFloat32;
      gather(*file, matrix, ids, reinterpret_cast<std::byte*>(out.data()), options);
      CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
    }
  }
}
