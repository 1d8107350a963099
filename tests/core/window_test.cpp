// window_test: rows of many claims through a sweep, against the file's own bytes.
#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "gather_files.h"
#include "sweep/sweep_reader.h"

using namespace gz;

namespace {

// A window with its sweep, and the numbers of the requests that are ready.
struct Swept {
  Swept(const std::string& path, const std::string& matrix, uint64_t rows, const SweepOptions& options)
      : file(FeatureFile::open(path)),
        window(std::make_shared<RowWindow>(file, file->matrix(matrix),
                                           rows * RowWindow::row_cost(file->matrix(matrix)) / 63 * 64 + 64)),
        reader(window, options, std::make_unique<NoPeers>(),
               {[this](uint64_t number) {
                  std::lock_guard lock(mutex);
                  complete[number] = true;
                  news.notify_all();
                },
                [](const std::exception_ptr& error) { std::rethrow_exception(error); }}) {}

  std::shared_ptr<RowRequest> request(uint64_t number, const std::vector<int64_t>& ids) {
    auto request = reader.prepare(number, ids);
    reader.submit(request);
    return request;
  }

  void wait_for(uint64_t number) {
    std::unique_lock lock(mutex);
    news.wait(lock, [&] { return complete[number]; });
  }

  WindowStats stats() const { return window->stats(); }

  std::shared_ptr<const FeatureFile> file;
  std::mutex mutex;
  std::condition_variable news;
  std::map<uint64_t, bool> complete;  // guarded by mutex
  std::shared_ptr<RowWindow> window;
  SweepReader reader;
};

std::string noise(const std::string& name, uint64_t rows, uint64_t columns) {
  return test::write_features(name, {{.name = "x", .dtype = DType::kFloat32, .rows = rows, .columns = columns}});
}

std::vector<int64_t> random_ids(uint64_t key, size_t count, uint64_t rows) {
  Random random(make_key(key));
  std::vector<int64_t> ids(count);
  for (auto& id : ids) id = static_cast<int64_t>(random.below(rows));
  return ids;
}

void check_rows(Swept& swept, RowRequest* request, const std::vector<int64_t>& ids) {
  const Matrix& matrix = swept.window->matrix();
  std::vector<std::byte> got(ids.size() * matrix.row_bytes), want(got.size());
  GatherOptions options;
  swept.reader.copy(request, ids, got.data(), options, nullptr, nullptr);
  options.io = Io::kMmap;
  gather(*swept.file, matrix, ids, want.data(), options);
  CHECK(got == want);
}

// `claims` claims of `size` rows, `ahead` of them offered before the first is delivered.
void run_claims(uint64_t rows, uint64_t columns, uint64_t capacity, size_t claims, size_t size, size_t ahead,
                uint64_t target, uint64_t gap = 16 << 10) {
  const std::string path = noise("window.gd", rows, columns);
  SweepOptions sweep{.target = target, .most = target * 2, .claims = UINT64_MAX, .io = Io::kAuto};
  sweep.gap = gap;
  Swept swept(path, "x", capacity, sweep);
  std::map<uint64_t, std::pair<std::shared_ptr<RowRequest>, std::vector<int64_t>>> open;
  for (uint64_t next = 0, done = 0; done < claims; ++done) {
    for (; next < claims && next < done + ahead; ++next) {
      auto ids = random_ids(next, next % 7 == 3 ? 0 : size, rows);
      auto request = swept.request(next, ids);
      open[next] = {std::move(request), std::move(ids)};
    }
    swept.wait_for(done);
    check_rows(swept, open[done].first.get(), open[done].second);
    open.erase(done);
  }
}

}  // namespace

TEST(window_gives_the_rows_of_the_file) {
  run_claims(5000, 16, 2000, 40, 300, 8, 4);
  run_claims(5000, 16, 2000, 40, 300, 1, 4);
  run_claims(64, 16, 64, 40, 30, 8, 8);          // a file of one segment
  run_claims(100000, 3, 20000, 30, 5000, 6, 6);  // rows of 12 bytes, across pages
  for (const uint64_t gap : {0, 4 << 10, 128 << 10}) run_claims(50000, 16, 5000, 20, 200, 4, 4, gap);
}

TEST(window_with_too_few_places_still_delivers) {
  run_claims(20000, 16, 100, 30, 400, 6, 6);  // no claim fits as a whole
  run_claims(20000, 16, 64, 10, 64, 10, 10);
}

// Claims want the same few rows, again and again: many more than the places would hold of others.
TEST(window_learns_what_claims_share_in_its_first_circle) {
  const std::string path = noise("window.gd", 100000, 128);
  constexpr uint64_t kClaims = 48, kRows = 1000;
  Swept swept(path, "x", 4 * kRows, {.target = 8, .most = 40, .claims = UINT64_MAX, .io = Io::kAuto});
  std::vector<std::shared_ptr<RowRequest>> claims;
  std::vector<std::vector<int64_t>> ids;
  for (uint64_t i = 0; i < kClaims; ++i) {
    ids.push_back(random_ids(i, kRows, 2000));
    for (int64_t& id : ids.back()) id *= 50;  // all over the file
    claims.push_back(swept.request(i, ids.back()));
  }
  for (uint64_t i = 0; i < kClaims; ++i) {
    swept.wait_for(i);
    check_rows(swept, claims[i].get(), ids[i]);
  }
  CHECK_EQ(swept.stats().stalls, 0u);
  CHECK(swept.stats().target > 16);
  CHECK(swept.stats().circles < kClaims / 8);  // what it would take without learning
}

TEST(window_rows_are_read_once_for_all_claims) {
  const std::string path = noise("window.gd", 4096, 128);
  Swept swept(path, "x", 4096, {.target = 8, .most = 8, .claims = 4, .io = Io::kAuto});
  std::vector<int64_t> ids(4096);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<std::shared_ptr<RowRequest>> claims;
  for (uint64_t number = 0; number < 4; ++number) {
    claims.push_back(swept.request(number, ids));
  }
  for (uint64_t number = 0; number < 4; ++number) {
    swept.wait_for(number);
    check_rows(swept, claims[number].get(), ids);
  }
  const WindowStats stats = swept.stats();
  CHECK_EQ(stats.rows_read, 4096u);
  CHECK(stats.bytes_read <= (4096 * 512) + 8192);
}

TEST(window_forgets_claims_and_goes_on) {
  const std::string path = noise("window.gd", 20000, 16);
  Swept swept(path, "x", 3000, {.target = 4, .most = 4, .claims = UINT64_MAX, .io = Io::kAuto});
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<RowRequest>> claims;
    const auto ids = random_ids(round, 500, 20000);
    for (uint64_t i = 0; i < 6; ++i) {
      claims.push_back(swept.request(round * 100 + i, random_ids(round * 7 + i, 500, 20000)));
    }
    if (round % 2 == 0) swept.wait_for(round * 100);
    swept.reader.cancel();
    CHECK_THROWS(Cancelled, "", check_rows(swept, claims[5].get(), random_ids(round * 7 + 5, 500, 20000)));
    const auto request = swept.request(round * 100 + 50, ids);
    swept.wait_for(round * 100 + 50);
    check_rows(swept, request.get(), ids);
  }
}

#ifndef _WIN32  // where a mapped file cannot be truncated
TEST(a_window_reports_a_truncated_file) {
  const std::string path = noise("cut.gd", 20000, 128);
  Swept swept(path, "x", 5000, {.target = 4, .most = 4, .claims = 1, .io = Io::kPread});
  std::filesystem::resize_file(path, 1 << 20);
  const std::vector<int64_t> ids{1, 2, 19999};
  const auto request = swept.request(0, ids);
  swept.wait_for(0);
  std::vector<std::byte> out(3 * 512);
  CHECK_THROWS(StorageError, "the file ends at byte",
               swept.reader.copy(request.get(), ids, out.data(), {}, nullptr, nullptr));
}
#endif

TEST(window_reads_rows_across_pages_to_the_last_byte_of_the_file) {
  const std::string path = test::write_legacy_features("legacy.gd", 1000, 77);
  const std::string name = FeatureFile::open(path)->matrices()[0].name;
  for (const Io io : {Io::kAuto, Io::kPread}) {
    Swept swept(path, name, 400, {.target = 4, .most = 4, .claims = UINT64_MAX, .io = io});
    for (uint64_t number = 0; number < 8; ++number) {
      auto ids = random_ids(number, 200, 1000);
      ids.push_back(999);
      const auto request = swept.request(number, ids);
      swept.wait_for(number);
      check_rows(swept, request.get(), ids);
    }
  }
}
