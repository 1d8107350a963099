// sweep_test: a sweep, step by step, on a disk and with peers that do what the test says. No threads.
#include "sweep/sweep.h"

#include <cerrno>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "check.h"
#include "fake_reader.h"
#include "gather_files.h"

using namespace gz;

namespace {

using test::FakeReader;

std::string noise(uint64_t rows, uint64_t columns) {
  return test::write_features("sweep.gd", {{.name = "x", .dtype = DType::kFloat32, .rows = rows, .columns = columns}});
}

int32_t no_fault(const ReadRequest&, int32_t result, int) { return result; }

std::vector<int64_t> every(int64_t step, int64_t count) {
  std::vector<int64_t> ids(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) ids[static_cast<size_t>(i)] = i * step;
  return ids;
}

struct Steps {
  Steps(uint64_t rows, uint64_t columns, uint64_t capacity, const SweepOptions& options,
        FakeReader::Fault fault = no_fault, std::unique_ptr<SweepPeers> peers = std::make_unique<NoPeers>())
      : file(FeatureFile::open(noise(rows, columns))),
        matrix(file->matrix("x")),
        window(file, matrix, capacity * RowWindow::row_cost(matrix) / 63 * 64 + 64),
        disk(std::make_shared<FakeReader>(8, fault)),
        sweep(window, mailbox, options, std::move(peers), [this](uint64_t number) { ready.push_back(number); }, disk) {}

  std::shared_ptr<Claim> submit(uint64_t number, const std::vector<int64_t>& ids) {
    auto claim = std::make_shared<Claim>(number, ids);
    mailbox.submitted.push_back(claim);
    return claim;
  }

  void run() {  // until it would wait for mail
    do {
      CHECK(sweep.step());
    } while (!sweep.is_idle());
  }

  void check_rows(Claim& claim, const std::vector<int64_t>& ids) {
    CHECK(claim.begin_copy());
    std::vector<std::byte> want(ids.size() * matrix.row_bytes);
    gather(*file, matrix, ids, want.data(), {.io = Io::kMmap});
    for (size_t i = 0; i < claim.size(); ++i) {
      if (!claim.has_slot(i)) continue;
      const std::byte* expected = want.data() + claim.position(i) * matrix.row_bytes;
      CHECK(std::memcmp(window.rows().row(claim.value(i)), expected, matrix.row_bytes) == 0);
    }
    mailbox.released.push_back(claim.shared_from_this());
  }

  std::shared_ptr<const FeatureFile> file;
  const Matrix& matrix;
  RowWindow window;
  Mailbox mailbox;
  std::vector<uint64_t> ready;
  std::shared_ptr<FakeReader> disk;
  Sweep sweep;
};

// Has all that `file` has, as if it had just read it.
class RichPeers : public NoPeers {
 public:
  bool find(uint64_t, uint64_t) override { return true; }
  bool copy(uint64_t offset, size_t bytes, std::byte* to) override {
    source->read_some_at({to, bytes}, offset);
    return true;
  }
  bool must_wait(uint64_t) override { return ++asked <= 3; }
  void wait(bool, bool) override { ++waits; }
  const File* source = nullptr;
  int asked = 0, waits = 0;
};

}  // namespace

TEST(a_sweep_brings_the_rows_of_all_claims_whatever_arrives_first) {
  Steps steps(5000, 64, 3000, {.target = 8, .most = 8, .claims = 3, .gap = 0});
  const std::vector<std::vector<int64_t>> ids{every(7, 500), every(11, 400), {4999, 0, 4999, 17}};
  std::vector<std::shared_ptr<Claim>> claims;
  for (uint64_t i = 0; i < 3; ++i) claims.push_back(steps.submit(i, ids[i]));
  steps.run();
  CHECK_EQ(std::set<uint64_t>(steps.ready.begin(), steps.ready.end()).size(), 3u);
  for (size_t i = 0; i < 3; ++i) steps.check_rows(*claims[i], ids[i]);
  CHECK(steps.disk->count > 3);  // the last read that is requested arrives first
}

TEST(a_sweep_reads_a_row_once_for_all_claims) {
  Steps steps(5000, 64, 3000, {.target = 8, .most = 8, .claims = 4});
  for (uint64_t i = 0; i < 4; ++i) steps.submit(i, every(5, 1000));
  steps.run();
  CHECK_EQ(steps.ready.size(), 4u);
  CHECK_EQ(steps.window.stats().rows_read, 1000u);
  CHECK_EQ(steps.window.stats().held, 1000u);
}

TEST(a_read_that_fails_fails_the_claims_that_wait_for_it_and_is_tried_again_for_others) {
  Steps steps(5000, 64, 3000, {.target = 8, .most = 8, .claims = 2},
              [](const ReadRequest&, int32_t result, int count) { return count == 1 ? -EIO : result; });
  const auto failed = steps.submit(0, {3, 4});
  steps.run();
  CHECK(failed->is_complete() && failed->error);
  const auto good = steps.submit(1, {3, 4});
  steps.run();
  CHECK(good->is_complete() && !good->error);
  steps.check_rows(*good, {3, 4});
}

TEST(a_claim_that_finds_no_slots_is_detached_and_the_next_one_goes_on) {
  Steps steps(5000, 64, 80, {.target = 4, .most = 4, .claims = 2});
  const auto large = steps.submit(0, every(1, 3000)), small = steps.submit(1, every(50, 60));
  steps.run();
  CHECK(large->is_complete() && !large->error && !small->is_complete());
  CHECK_EQ(steps.window.stats().stalls, 1u);
  CHECK(!large->has_slot(2999));
  steps.check_rows(*large, every(1, 3000));
  steps.run();
  CHECK(small->is_complete());
  steps.check_rows(*small, every(50, 60));
}

TEST(claims_are_admitted_evenly_spaced_over_the_circle) {
  Steps steps(8 * 64, 4096, 400, {.target = 4, .most = 4});  // 8 segments of 64 rows
  std::vector<std::shared_ptr<Claim>> claims;
  for (uint64_t i = 0; i < 6; ++i)
    claims.push_back(steps.submit(i, {1 + static_cast<int64_t>(i), 70, 140, 200, 270, 330, 400, 460}));
  steps.run();
  CHECK(steps.ready.front() == 0);
  for (size_t i = 0; i < 4; ++i) CHECK(claims[i]->wanted == 8 ? claims[i]->start == 2 * i : claims[i]->wanted < 8);
  CHECK(!claims[4]->is_complete());  // there is a cushion of those that are
}

TEST(a_sweep_that_drops_its_claims_has_all_slots_free) {
  Steps steps(5000, 64, 3000, {.target = 8, .most = 8, .gap = 0});
  const auto first = steps.submit(0, every(3, 1000));
  steps.submit(1, every(7, 700));
  CHECK(steps.sweep.step());
  CHECK(steps.window.stats().held > 0);
  steps.mailbox.cancelling = true;
  CHECK(steps.sweep.step());
  CHECK(!steps.mailbox.cancelling);
  CHECK(!first->begin_copy());
  CHECK_EQ(steps.window.rows().free(), steps.window.rows().capacity());
  const auto again = steps.submit(0, every(3, 1000));
  steps.run();
  steps.check_rows(*again, every(3, 1000));
}

TEST(a_sweep_that_stops_waits_for_its_reads) {
  Steps steps(5000, 64, 3000, {.target = 8, .most = 8, .gap = 0});
  steps.submit(0, every(3, 1000));
  CHECK(steps.sweep.step());
  CHECK(steps.disk->in_flight() > 0);
  steps.mailbox.stopping = true;
  CHECK(!steps.sweep.step());
  CHECK_EQ(steps.disk->in_flight(), 0u);
}

TEST(a_sweep_waits_for_its_peers_and_copies_their_reads) {
  auto peers = std::make_unique<RichPeers>();
  RichPeers& rich = *peers;
  Steps steps(5000, 64, 3000, {.target = 8, .most = 8, .claims = 1}, no_fault, std::move(peers));
  rich.source = &steps.file->file().file();
  const auto claim = steps.submit(0, every(3, 1000));
  steps.run();
  CHECK(claim->is_complete());
  CHECK_EQ(rich.waits, 3);
  CHECK_EQ(steps.disk->count, 0);
  steps.check_rows(*claim, every(3, 1000));
}
