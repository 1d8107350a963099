// shortage_test: reads go on where the system gives less than it promised: no descriptor for a ring, direct reads that
// are refused after all, unknown residency, pages of another size.
#ifndef _WIN32
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "check.h"
#include "fake_reader.h"
#include "gather/read_rows.h"
#include "gather_files.h"
#include "storage/reader.h"
#include "storage/residency.h"
#include "sweep/sweep_reader.h"

using namespace gz;
using test::FakeReader;

namespace {

// Takes every file descriptor that is left while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 256);
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = dup(0); fd >= 0; fd = dup(0)) taken_.push_back(fd);
  }
  ~NoDescriptors() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace

TEST(without_a_descriptor_for_a_ring_rows_are_read_by_pread) {
  const auto file = FeatureFile::open(test::write_features("shortage.gd", {{"x", DType::kFloat32, 500, 32}}));
  std::vector<int64_t> ids(500);
  std::iota(ids.begin(), ids.end(), 0);
  const Matrix& matrix = file->matrices()[0];
  std::vector<std::byte> expected(ids.size() * matrix.row_bytes), out(expected.size());
  gather(*file, matrix, ids, expected.data(), {.io = Io::kMmap});
  if (!uring_works()) return;
  drop_idle_readers();
  {
    const NoDescriptors none;
    CHECK_EQ(take_reader(ReaderKind::kUring)->depth(), 1u);
    gather(*file, matrix, ids, out.data(), {.io = Io::kUring});
    CHECK(uring_works());  // a shortage is not a refusal
  }
  CHECK(out == expected);
  CHECK_EQ(take_reader(ReaderKind::kUring)->depth(), kRingDepth);  // there is room again
}

TEST(without_a_descriptor_for_a_ring_a_window_reads_by_threads) {
  const auto file = FeatureFile::open(test::write_features("window.gd", {{"x", DType::kFloat32, 500, 32}}));
  const auto window = std::make_shared<RowWindow>(file, file->matrix("x"), uint64_t{1} << 20);
  const std::vector<int64_t> ids{3, 400, 17};
  if (!uring_works()) return;
  drop_idle_readers();
  const NoDescriptors none;
  std::atomic<bool> complete{false};
  SweepReader reader(window, {}, std::make_unique<NoPeers>(), {[&](uint64_t) { complete = true; }, {}});
  reader.submit(reader.prepare(0, ids));
  for (int i = 0; i < 30'000 && !complete; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  reader.stop();
  CHECK(complete);
}

TEST(a_file_system_that_refuses_direct_reads_is_read_through_the_page_cache_for_good) {
  const auto file = FeatureFile::open(test::write_features("refused.gd", {{"x", DType::kFloat32, 500, 32}}));
  const Matrix& matrix = file->matrices()[0];
  if (file->file().direct() == nullptr) return;
  const auto reader = std::make_shared<FakeReader>(
      4, [](const ReadRequest&, int32_t result, int count) { return count == 1 ? -EINVAL : result; });
  std::vector<int64_t> ids(500);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<std::byte> expected(ids.size() * matrix.row_bytes), out(expected.size());
  gather(*file, matrix, ids, expected.data(), {.io = Io::kMmap});
  const RowCopier copier(matrix, matrix.dtype, false);
  ReadJob job;
  job.file = &file->file();
  job.matrix = &matrix;
  job.copier = &copier;
  job.out = out.data();
  job.source = file->file().direct();
  job.reader = [&] { return reader; };
  SortedRows rows(ids.size(), matrix.rows, [&](size_t i) { return static_cast<uint64_t>(ids[i]); });
  GatherStats stats;
  read_rows(job, rows, stats);
  CHECK(out == expected);
  CHECK(file->file().direct() == nullptr);
}

TEST(residency_is_unknown_without_ownership_or_write_permission) {
  const std::string path = test::scratch("owned");
  std::ofstream(path) << std::string(8192, 'a');
  chmod(path.c_str(), 0644);
  unsigned char pages[2] = {};
  CHECK(Mapping::map(File::open(path), 8192, Mapping::Access::kReadOnly)->resident(0, 8192, pages));
  if (geteuid() != 0) return;
  const int fd = open(path.c_str(), O_RDONLY);  // other users may not enter the folder
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(12345, 12345, 12345) != 0) _exit(2);
    const auto mapping =
        Mapping::map(File::open("/proc/self/fd/" + std::to_string(fd)), 8192, Mapping::Access::kReadOnly);
    _exit(mapping->resident(0, 8192, pages) ? 1 : 0);
  }
  close(fd);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST(residency_is_reported_per_4_kib_whatever_the_page_size) {
  const unsigned char system[3] = {1, 0, 1};
  std::vector<unsigned char> out(7, 9);
  // 16 KiB pages; bytes 12 K to 37 K lie in pages 0, 1 and 2, and touch 4 KiB pages 3 to 9.
  spread_pages(system, 16384, 12288, 25600, out.data());
  CHECK(out == (std::vector<unsigned char>{1, 0, 0, 0, 0, 1, 1}));
  out.assign(4, 9);
  spread_pages(system + 1, 65536, 70000, 8192, out.data());  // within the second of 64 KiB
  CHECK(out == (std::vector<unsigned char>{0, 0, 0, 9}));
  out.assign(3, 9);
  spread_pages(system, 4096, 4096, 12288, out.data());
  CHECK(out == (std::vector<unsigned char>{1, 0, 1}));
}
#endif
