// measure: reads are counted, stay within the file, and failures are reported.
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "gather_files.h"
#include "storage/disk_speed.h"

namespace gz {
namespace {

File zeros_file(size_t bytes) {
  File file = File::create_nameless(std::filesystem::temp_directory_path().string());
  const std::vector<std::byte> zeros(bytes);
  file.write_at(zeros, 0);
  return file;
}

}  // namespace

TEST(measure_counts_reads_of_every_kind_and_depth) {
  const File file = zeros_file(size_t{1} << 20);
  for (const ReaderKind kind : {ReaderKind::kPread, ReaderKind::kUring}) {
    if (kind == ReaderKind::kUring && !uring_works()) continue;
    for (const size_t depth : {1, 7, 256}) {
      for (const bool sequential : {false, true}) {
        MeasureOptions options;
        options.kind = kind;
        options.depth = depth;
        options.threads = depth == 1 ? 1 : 2;
        options.sequential = sequential;
        options.seconds = 0.01;
        const ReadRate rate = measure_reads(file, options);
        CHECK(rate.reads > 0);
        CHECK(rate.seconds > 0);
        CHECK(rate.per_second() > 0);
      }
    }
  }
}

TEST(measure_refuses_what_it_cannot_read) {
  const File file = zeros_file(8192);
  MeasureOptions options;
  options.kind = ReaderKind::kPread;
  options.read_bytes = 1000;
  CHECK_THROWS(ArgumentError, "cannot measure", measure_reads(file, options));
  options.read_bytes = 1 << 20;
  CHECK_THROWS(ArgumentError, "cannot measure", measure_reads(file, options));
}

TEST(a_gap_is_worth_what_the_disk_reads_in_the_time_of_a_request) {
  CHECK_EQ(Disk{}.gap(), uint64_t{8} << 10);
  CHECK_EQ((Disk{10e3, 1e9}.gap()), uint64_t{52} << 10);
  CHECK_EQ((Disk{200, 200e6}.gap()), uint64_t{128} << 10);  // a disk that turns: more would be read for long
  CHECK_EQ((Disk{1e6, 4e9}.gap()), uint64_t{4} << 10);
}

TEST(the_disk_of_a_large_file_is_measured_once) {
  const auto features = FeatureFile::open(test::write_features("speed.gd", {{"x", DType::kFloat32, 10000, 64}}));
  CHECK_EQ(disk_of(features->file()).reads, Disk{}.reads);  // too small
  const Disk first = disk_of(features->file(), 1), again = disk_of(features->file(), 1);
  CHECK(first.reads > 0 && first.bytes > 0);
  if (features->file().direct() != nullptr) CHECK(first.reads != Disk{}.reads);
  CHECK_EQ(first.reads, again.reads);
  CHECK_EQ(first.bytes, again.bytes);
}

}  // namespace gz
