// gather_test: every way to the same bytes, reads that fail, and readers that live on.
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
#include "gather/copy.h"
#include "gather/read_rows.h"
#include "gather_files.h"

using namespace gz;
using namespace gz::test;

namespace {

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
