// measure: reads are counted, stay within the file, and failures are told.
#include "storage/measure.h"

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "check.h"

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

}  // namespace gz
