// window_test: rows of many claims through a sweep, against the file's own bytes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "gather/row_window.h"
#include "gather/window_claim.h"
#include "gather_files.h"

using namespace gz;

namespace {

// A window with its sweep's thread, and the numbers of the claims that are complete.
struct Swept {
  Swept(const std::string& path, const std::string& matrix, uint64_t rows, RowWindow::SweepOptions options)
      : file(FeatureFile::open(path)),
        window(file, file->matrix(matrix), rows * RowWindow::row_cost(file->matrix(matrix)) / 63 * 64 + 64),
        thread([this, options] {
          window.sweep(options, [this](uint64_t number) {
            std::lock_guard lock(mutex);
            complete[number] = true;
            news.notify_all();
          });
        }) {}
  ~Swept() {
    window.stop_sweep();
    thread.join();
  }

  void wait_for(uint64_t number) {
    std::unique_lock lock(mutex);
    news.wait(lock, [&] { return complete[number]; });
  }

  std::shared_ptr<const FeatureFile> file;
  RowWindow window;
  std::mutex mutex;
  std::condition_variable news;
  std::map<uint64_t, bool> complete;  // guarded by mutex
  std::thread thread;
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

void check_rows(Swept& swept, RowWindow::Claim& claim, const std::vector<int64_t>& ids) {
  const Matrix& matrix = swept.window.matrix();
  std::vector<std::byte> got(ids.size() * matrix.row_bytes), want(got.size());
  GatherOptions options;
  swept.window.deliver(claim, got.data(), options, nullptr, nullptr);
  options.io = Io::kMmap;
  gather(*swept.file, matrix, ids, want.data(), options);
  CHECK(got == want);
}

// `claims` claims of `size` rows, `ahead` of them offered before the first is delivered.
void run_claims(uint64_t rows, uint64_t columns, uint64_t capacity, size_t claims, size_t size, size_t ahead,
                uint64_t target, uint64_t gap = 16 << 10) {
  const std::string path = noise("window.gd", rows, columns);
  RowWindow::SweepOptions sweep{.target = target, .most = target * 2, .claims = UINT64_MAX, .io = Io::kAuto};
  sweep.gap = gap;
  Swept swept(path, "x", capacity, sweep);
  std::map<uint64_t, std::pair<std::shared_ptr<RowWindow::Claim>, std::vector<int64_t>>> open;
  for (uint64_t next = 0, done = 0; done < claims; ++done) {
    for (; next < claims && next < done + ahead; ++next) {
      auto ids = random_ids(next, next % 7 == 3 ? 0 : size, rows);
      auto claim = swept.window.claim(next, ids);
      open[next] = {claim, std::move(ids)};
      swept.window.offer(std::move(claim));
    }
    swept.wait_for(done);
    check_rows(swept, *open[done].first, open[done].second);
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
  std::vector<std::shared_ptr<RowWindow::Claim>> claims;
  std::vector<std::vector<int64_t>> ids;
  for (uint64_t i = 0; i < kClaims; ++i) {
    ids.push_back(random_ids(i, kRows, 2000));
    for (int64_t& id : ids.back()) id *= 50;  // all over the file
    claims.push_back(swept.window.claim(i, ids.back()));
    swept.window.offer(claims.back());
  }
  swept.wait_for(0);
  CHECK_EQ(swept.window.stats().circles, 1u);
  CHECK(swept.window.stats().target > 16);
  for (uint64_t i = 0; i < kClaims; ++i) {
    swept.wait_for(i);
    check_rows(swept, *claims[i], ids[i]);
  }
  CHECK_EQ(swept.window.stats().stalls, 0u);
}

TEST(window_rows_are_read_once_for_all_claims) {
  const std::string path = noise("window.gd", 4096, 128);
  Swept swept(path, "x", 4096, {.target = 8, .most = 8, .claims = 4, .io = Io::kAuto});
  std::vector<int64_t> ids(4096);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<std::shared_ptr<RowWindow::Claim>> claims;
  for (uint64_t number = 0; number < 4; ++number) {
    claims.push_back(swept.window.claim(number, ids));
    swept.window.offer(claims.back());
  }
  for (uint64_t number = 0; number < 4; ++number) {
    swept.wait_for(number);
    check_rows(swept, *claims[number], ids);
  }
  const WindowStats stats = swept.window.stats();
  CHECK_EQ(stats.rows_read, 4096u);
  CHECK(stats.bytes_read <= (4096 * 512) + 8192);
}

TEST(window_forgets_claims_and_goes_on) {
  const std::string path = noise("window.gd", 20000, 16);
  Swept swept(path, "x", 3000, {.target = 4, .most = 4, .claims = UINT64_MAX, .io = Io::kAuto});
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<RowWindow::Claim>> claims;
    const auto ids = random_ids(round, 500, 20000);
    for (uint64_t i = 0; i < 6; ++i) {
      claims.push_back(swept.window.claim(round * 100 + i, random_ids(round * 7 + i, 500, 20000)));
      swept.window.offer(claims.back());
    }
    if (round % 2 == 0) swept.wait_for(round * 100);
    swept.window.forget();
    CHECK(!claims[5]->begin_delivery());
    auto claim = swept.window.claim(round * 100 + 50, ids);
    swept.window.offer(claim);
    swept.wait_for(round * 100 + 50);
    check_rows(swept, *claim, ids);
  }
}

TEST(window_tells_a_truncated_file) {
  const std::string path = noise("cut.gd", 20000, 128);
  Swept swept(path, "x", 5000, {.target = 4, .most = 4, .claims = 1, .io = Io::kPread});
  std::filesystem::resize_file(path, 1 << 20);
  const std::vector<int64_t> ids{1, 2, 19999};
  auto claim = swept.window.claim(0, ids);
  swept.window.offer(claim);
  swept.wait_for(0);
  std::vector<std::byte> out(3 * 512);
  CHECK_THROWS(StorageError, "the file ends at byte", swept.window.deliver(*claim, out.data(), {}, nullptr, nullptr));
}

TEST(window_sweeps_again_after_a_stop_that_came_too_late) {
  const auto file = FeatureFile::open(noise("late.gd", 500, 16));
  RowWindow window(file, file->matrix("x"), uint64_t{1} << 20);
  window.stop_sweep();  // as after a sweep that failed: nobody hears it
  const auto ids = random_ids(1, 50, 500);
  const auto claim = window.claim(0, ids);
  std::atomic<bool> complete{false};
  window.expect_sweep();
  std::thread thread([&] { window.sweep({}, [&](uint64_t) { complete = true; }); });
  window.offer(claim);
  for (int i = 0; i < 3000 && !complete; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  window.stop_sweep();
  thread.join();
  CHECK(complete);
}

TEST(window_reads_rows_across_pages_to_the_last_byte_of_the_file) {
  const std::string path = test::write_legacy_features("legacy.gd", 1000, 77);
  const std::string name = FeatureFile::open(path)->matrices()[0].name;
  for (const Io io : {Io::kAuto, Io::kPread}) {
    Swept swept(path, name, 400, {.target = 4, .most = 4, .claims = UINT64_MAX, .io = io});
    for (uint64_t number = 0; number < 8; ++number) {
      auto ids = random_ids(number, 200, 1000);
      ids.push_back(999);
      const auto claim = swept.window.claim(number, ids);
      swept.window.offer(claim);
      swept.wait_for(number);
      check_rows(swept, *claim, ids);
    }
  }
}
