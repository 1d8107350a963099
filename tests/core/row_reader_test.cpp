// row_reader_test: the readers give the same rows, whether they are asked ahead or not.
#include "gather/row_reader.h"

#include <memory>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "gather_files.h"
#include "sweep/sweep_reader.h"

using namespace gz;

TEST(all_readers_give_the_rows_of_the_file) {
  const auto file = FeatureFile::open(
      test::write_features("readers.gd", {{.name = "x", .dtype = DType::kFloat16, .rows = 3000, .columns = 48}}));
  const Matrix& matrix = file->matrix("x");
  const auto window = std::make_shared<RowWindow>(file, matrix, 1000 * RowWindow::row_cost(matrix));
  const SweepReader::Events events{[](uint64_t) {}, [](const std::exception_ptr&) {}};
  const std::vector<std::shared_ptr<RowReader>> readers{
      std::make_shared<FileRows>(file, matrix, false), std::make_shared<FileRows>(file, matrix, true),
      std::make_shared<WholeRows>(file, matrix, nullptr),
      std::make_shared<SweepReader>(window, SweepOptions{}, std::make_unique<NoPeers>(), events)};
  const std::vector<int64_t> ids{2999, 5, 5, 0, 1700, 42};
  for (const std::optional<DType> dtype : {std::optional<DType>(), std::optional(DType::kFloat32)}) {
    const GatherOptions options{.io = Io::kAuto, .threads = 1, .out_dtype = dtype};
    std::vector<std::byte> want(ids.size() * gathered_row_bytes(matrix, options)), got(want.size());
    gather(*file, matrix, ids, want.data(), {.io = Io::kMmap, .threads = 1, .out_dtype = dtype});
    for (const auto& reader : readers) {
      GatherStats stats;
      reader->copy(nullptr, ids, got.data(), options, &stats, nullptr);
      CHECK(got == want);
      CHECK_EQ(stats.rows, ids.size());
      CHECK_EQ(reader->stats().has_value(), reader->batches() > 0);
    }
  }
  CHECK(readers[0]->prepare(0, ids) == nullptr && readers[0]->ready(nullptr));
  CHECK_THROWS(IndexError, "3000", readers[3]->prepare(0, std::vector<int64_t>{3000}));
}
