// gather_test: every way to the same bytes, kernels against the plain ones, reads that fail, and readers that live on.
#include "gather/gather.h"

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "fake_reader.h"
#include "gather/convert.h"
#include "gather/copy.h"
#include "gather/read_rows.h"
#include "gather_files.h"

using namespace gz;
using namespace gz::test;

namespace {

std::vector<int64_t> some_ids(uint64_t rows, size_t count, uint64_t seed) {
  Random random(make_key(seed));
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.below(rows));
  return ids;
}

std::vector<std::byte> plain(const Matrix& matrix, std::span<const int64_t> ids) {
  std::vector<std::byte> out;
  for (const int64_t id : ids) {
    const std::byte* row = matrix.data + static_cast<uint64_t>(id) * matrix.row_bytes;
    out.insert(out.end(), row, row + matrix.row_bytes);
  }
  return out;
}

// Reads all rows of `ids` through a fake reader and returns them; the reader is left for a look.
std::vector<std::byte> read_through(const FeatureFile& file, std::span<const int64_t> ids,
                                    const std::shared_ptr<FakeReader>& reader, GatherStats* stats = nullptr) {
  const Matrix& matrix = file.matrices()[0];
  const RowCopier copier(matrix, matrix.dtype, false);
  std::vector<std::byte> out(ids.size() * matrix.row_bytes);
  ReadJob job;
  job.file = &file.file();
  job.matrix = &matrix;
  job.copier = &copier;
  job.out = out.data();
  job.source = &file.file().file();
  job.reader = [&] { return reader; };
  SortedRows rows(ids.size(), matrix.rows, [&](size_t i) { return ids[i]; });
  GatherStats ignored;
  read_rows(job, rows, stats == nullptr ? ignored : *stats);
  return out;
}

int32_t no_fault(const ReadRequest&, int32_t result, int) { return result; }

}  // namespace

TEST(gather_gives_the_same_bytes_by_every_way) {
  for (const uint64_t columns : {1, 3, 128, 255, 1024, 1433}) {
    const auto path = write_features(text("ways-", columns, ".gd"), {{"x", DType::kFloat32, 700, columns}});
    const auto file = FeatureFile::open(path);
    const Matrix& matrix = file->matrix("x");
    const auto ids = some_ids(700, 1500, columns);
    const auto expected = plain(matrix, ids);
    for (const Io io : {Io::kAuto, Io::kMmap, Io::kUring, Io::kPread}) {
      if (io == Io::kUring && !uring_works()) continue;
      for (const int threads : {1, 2, 5}) {
        std::vector<std::byte> out(expected.size());
        GatherStats stats;
        GatherOptions options;
        options.io = io;
        options.threads = threads;
        gather(*file, matrix, ids, out.data(), options, &stats);
        CHECK(out == expected);
        CHECK_EQ(stats.rows, ids.size());
        CHECK_EQ(stats.bytes_useful, expected.size());
        CHECK((io == Io::kMmap) == (stats.reads == 0) || io == Io::kAuto);
      }
    }
  }
}

TEST(gather_reads_rows_that_are_not_in_ram_and_copies_those_that_are) {
  const auto path = write_features("mixed.gd", {{"x", DType::kFloat32, 4096, 256}});  // 4 rows per page
  const auto file = FeatureFile::open(path);
  const Matrix& matrix = file->matrix("x");
  const auto ids = some_ids(4096, 3000, 5);
  const auto expected = plain(matrix, ids);
  File writable = File::open(path);
  file->file().mapping().advise(0, file->file().container().file_bytes, Mapping::Advice::kDontNeed);
  writable.drop_cache(matrix.offset, 2048 * 1024);  // the first half; the system may not do it
  std::vector<std::byte> out(expected.size());
  GatherStats stats;
  gather(*file, matrix, ids, out.data(), {}, &stats);
  CHECK(out == expected);
  CHECK(stats.rows_mapped <= stats.rows);
  CHECK((stats.rows_mapped == stats.rows) == (stats.reads == 0));
}

TEST(gather_moves_rows_to_any_place) {
  const auto path = write_features("moves.gd", {{"x", DType::kInt16, 300, 5}});
  const auto file = FeatureFile::open(path);
  const Matrix& matrix = file->matrix("x");
  const std::vector<RowMove> moves{{7, 3}, {299, 0}, {7, 1}};
  for (const Io io : {Io::kMmap, Io::kPread}) {
    std::vector<std::byte> out(4 * matrix.row_bytes, std::byte{0xee});
    GatherOptions options;
    options.io = io;
    gather(*file, matrix, std::span<const RowMove>(moves), out.data(), options);
    for (const RowMove& move : moves) {
      CHECK(std::memcmp(&out[move.to * matrix.row_bytes], matrix.data + move.from * matrix.row_bytes,
                        matrix.row_bytes) == 0);
    }
    CHECK(out[2 * matrix.row_bytes] == std::byte{0xee});  // row 2 was not requested
  }
}

TEST(gather_reads_files_from_before_page_boundaries_to_their_last_byte) {
  const auto path = write_legacy_features("old.gd", 1000, 7);
  const auto file = FeatureFile::open(path);
  const Matrix& matrix = file->matrices()[0];
  std::vector<int64_t> ids{999, 0, 998, 500, 999};
  const auto expected = plain(matrix, ids);
  for (const Io io : {Io::kUring, Io::kPread}) {
    if (io == Io::kUring && !uring_works()) continue;
    std::vector<std::byte> out(expected.size());
    GatherOptions options;
    options.io = io;
    gather(*file, matrix, ids, out.data(), options);
    CHECK(out == expected);
  }
}

TEST(gather_refuses_bad_ids_and_conversions_before_work) {
  const auto file = FeatureFile::open(write_features("ids.gd", {{"x", DType::kFloat32, 10, 4}}));
  const Matrix& matrix = file->matrix("x");
  for (const int64_t id : {int64_t{-1}, int64_t{10}, INT64_MIN, INT64_MAX}) {
    const std::vector<int64_t> ids{0, id};
    CHECK_THROWS(IndexError, "out of range", gather(*file, matrix, ids, nullptr, {}));
  }
  GatherOptions options;
  options.out_dtype = DType::kInt8;
  CHECK_THROWS(ArgumentError, "int8", gather(*file, matrix, std::vector<int64_t>{0}, nullptr, options));
  gather(*file, matrix, std::span<const int64_t>{}, nullptr, {});
  CHECK_THROWS(ArgumentError, "'auto'", io_from_name("fast"));
}

TEST(reads_cover_each_page_once_and_join_neighbours) {
  const auto file = FeatureFile::open(write_features("dense.gd", {{"x", DType::kFloat32, 8192, 128}}));
  std::vector<int64_t> ids(8192);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>((i * 4099) % 8192);
  GatherStats stats;
  CHECK(read_through(*file, ids, std::make_shared<FakeReader>(8, no_fault), &stats) == plain(file->matrices()[0], ids));
  CHECK_EQ(stats.bytes_read, file->matrices()[0].rows * 512);  // dense: no page twice
  CHECK(stats.reads <= 8192 * 512 / (128 << 10));
  const std::vector<int64_t> far{0, 8000, 4000, 0, 1};
  GatherStats sparse;
  read_through(*file, far, std::make_shared<FakeReader>(8, no_fault), &sparse);
  CHECK_EQ(sparse.reads, 3u);
  CHECK_EQ(sparse.bytes_read, 3u * 4096);
}

TEST(rows_larger_than_a_reader_can_hold_arrive_in_pieces) {
  const auto file = FeatureFile::open(write_features("huge.gd", {{"x", DType::kFloat32, 3, 700001}}));
  const std::vector<int64_t> ids{2, 0, 2};
  CHECK(read_through(*file, ids, std::make_shared<FakeReader>(4, no_fault)) == plain(file->matrices()[0], ids));
  CHECK(read_through(*file, ids, std::make_shared<FakeReader>(1, no_fault)) == plain(file->matrices()[0], ids));
}

TEST(a_failed_read_is_an_error_and_the_reader_lives_on) {
  const auto file = FeatureFile::open(write_features("eio.gd", {{"x", DType::kFloat32, 9000, 128}}));
  const auto ids = some_ids(9000, 500, 9);
  const auto reader = std::make_shared<FakeReader>(
      32, [](const ReadRequest&, int32_t result, int count) { return count == 40 ? -EIO : result; });
  CHECK_THROWS(StorageError, "read failed", read_through(*file, ids, reader));
  CHECK_EQ(reader->in_flight(), 0u);
  CHECK(read_through(*file, ids, reader) == plain(file->matrices()[0], ids));
}

TEST(short_reads_are_continued_and_interrupted_ones_repeated) {
  const auto file = FeatureFile::open(write_features("short.gd", {{"x", DType::kFloat32, 2000, 300}}));
  const auto ids = some_ids(2000, 2000, 3);
  const auto expected = plain(file->matrices()[0], ids);
  const auto halves = std::make_shared<FakeReader>(8, [](const ReadRequest& request, int32_t result, int) {
    return request.bytes > 4096 ? std::min<int32_t>(result, 4096) : result;
  });
  CHECK(read_through(*file, ids, halves) == expected);
  const auto stutter = std::make_shared<FakeReader>(8, [](const ReadRequest&, int32_t result, int count) {
    return count % 3 == 0 ? -EINTR : count % 3 == 1 ? -EAGAIN : result;
  });
  CHECK(read_through(*file, ids, stutter) == expected);
  const auto never = std::make_shared<FakeReader>(8, [](const ReadRequest&, int32_t, int) { return -EAGAIN; });
  CHECK_THROWS(StorageError, "read failed", read_through(*file, ids, never));
}

TEST(the_end_of_the_file_is_an_error_by_every_way) {
  const auto early = FeatureFile::open(write_features("early.gd", {{"x", DType::kFloat32, 500, 128}}));
  const std::vector<int64_t> ids{1, 400};
  const auto end = std::make_shared<FakeReader>(
      8, [](const ReadRequest& request, int32_t result, int) { return request.offset > 100000 ? 0 : result; });
  CHECK_THROWS(StorageError, "the file ends", read_through(*early, ids, end));
#ifndef _WIN32  // where a mapped file cannot be truncated
  for (const Io io : {Io::kUring, Io::kPread}) {
    if (io == Io::kUring && !uring_works()) continue;
    const auto path = write_features(text("cut-", io_name(io), ".gd"), {{"x", DType::kFloat32, 50000, 128}});
    const auto file = FeatureFile::open(path);
    CHECK_EQ(truncate(path.c_str(), 1 << 20), 0);
    std::vector<std::byte> out(1000 * 512);
    GatherOptions options;
    options.io = io;
    const auto all = some_ids(50000, 1000, 4);
    for (int round = 0; round < 3; ++round) {
      CHECK_THROWS(StorageError, "the file ends", gather(*file, file->matrix("x"), all, out.data(), options));
    }
    const auto low = some_ids(2000, 1000, 4);  // rings work afterwards, for rows that are still there
    gather(*file, file->matrix("x"), low, out.data(), options);
  }
#endif
}

TEST(a_cancelled_gather_leaves_nothing_in_flight) {
  struct Stop : Progress {
    void report(const char*, uint64_t, uint64_t) override { throw Cancelled(); }
  };
  const auto file = FeatureFile::open(write_features("stop.gd", {{"x", DType::kFloat32, 20000, 128}}));
  const auto ids = some_ids(20000, 20000, 8);
  std::vector<std::byte> out(ids.size() * 512);
  for (const Io io : {Io::kUring, Io::kPread, Io::kMmap}) {
    if (io == Io::kUring && !uring_works()) continue;
    GatherOptions options;
    options.io = io;
    Stop stop;
    CHECK_THROWS(Cancelled, "", gather(*file, file->matrix("x"), ids, out.data(), options, nullptr, &stop));
    gather(*file, file->matrix("x"), ids, out.data(), options);
    CHECK(out == plain(file->matrix("x"), ids));
  }
}

#ifndef _WIN32  // which has no fork
TEST(a_forked_child_makes_its_own_rings) {
  if (!uring_works()) return;
  const auto file = FeatureFile::open(write_features("fork.gd", {{"x", DType::kFloat32, 5000, 128}}));
  const auto ids = some_ids(5000, 3000, 2);
  const auto expected = plain(file->matrix("x"), ids);
  GatherOptions options;
  options.io = Io::kUring;
  options.threads = 2;
  std::vector<std::byte> out(expected.size());
  gather(*file, file->matrix("x"), ids, out.data(), options);
  const pid_t child = fork();
  if (child == 0) {
    bool same = false;
    try {
      std::memset(out.data(), 0, out.size());
      gather(*file, file->matrix("x"), ids, out.data(), options);
      same = out == expected;
    } catch (const std::exception&) {
    }
    _exit(same ? 0 : 1);
  }
  std::memset(out.data(), 0, out.size());
  gather(*file, file->matrix("x"), ids, out.data(), options);
  CHECK(out == expected);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

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

TEST(rows_of_whole_lines_stream_to_where_they_belong) {
  for (const uint64_t columns : {16, 48, 128, 1024}) {
    const auto file =
        FeatureFile::open(write_features(text("lines-", columns, ".gd"), {{"x", DType::kFloat32, 200, columns}}));
    const Matrix& matrix = file->matrix("x");
    const auto ids = some_ids(200, 333, columns);
    const auto expected = plain(matrix, ids);
    std::vector<RowMove> moves;
    for (size_t i = 0; i < ids.size(); ++i) moves.push_back({static_cast<uint64_t>(ids[i]), ids.size() - 1 - i});
    for (const Vectors vectors : {Vectors::kPlain, Vectors::kAvx2, Vectors::kAvx512}) {
      if (vectors > best_vectors()) continue;
      const RowCopier copier(matrix, matrix.dtype, true, vectors);
      for (const size_t shift : {0, 4, 64}) {
        Buffer out(expected.size() + 64, Purpose::kBatches);
        copier.gather(matrix.data, ids, out.data() + shift, 0);
        finish_streaming();
        CHECK(std::memcmp(out.data() + shift, expected.data(), expected.size()) == 0);
        copier.gather(matrix.data, std::span<const RowMove>(moves), out.data() + shift);
        finish_streaming();
        for (const RowMove& move : moves) {
          CHECK(std::memcmp(out.data() + shift + move.to * matrix.row_bytes, matrix.data + move.from * matrix.row_bytes,
                            matrix.row_bytes) == 0);
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
