// shared_test: ranks of one host, here in one process: which waits for which, what one copies from another, and rows of
// the file in any case.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/per_process.h"
#include "base/random.h"
#include "check.h"
#include "gather_files.h"
#include "sweep/rank_peers.h"
#include "sweep/sweep_reader.h"

using namespace gz;

#ifdef __linux__
namespace {

constexpr uint64_t kMB = uint64_t{1} << 20;

LocalRanks rank_of(uint32_t rank, uint32_t count = 2) {
  return {rank, count, "shared_test " + std::to_string(process_id())};
}

std::shared_ptr<LocalGroup> join(uint32_t rank, const std::string& purpose, size_t bytes = kSweepBytes) {
  auto group = LocalGroup::join(rank_of(rank), purpose, bytes);
  CHECK(group != nullptr);
  group->settle();
  return group;
}

std::unique_ptr<RankPeers> sweep_of(const std::shared_ptr<LocalGroup>& group, uint64_t identity = 7) {
  return RankPeers::make(group, 0, identity, 100, kMB, 12 * kMB);  // 7 segments apart at most
}

void wait_for(const std::shared_ptr<LocalGroup>& group, uint32_t rank, bool there) {
  while ((group->member(rank) != nullptr) != there) std::this_thread::yield();
}

}  // namespace

TEST(local_ranks_see_each_others_blocks_and_exits) {
  auto first = join(0, "blocks", 8192);
  CHECK(first->member(1) == nullptr);
  auto second = join(1, "blocks", 4096);
  wait_for(first, 1, true);
  wait_for(second, 0, true);
  second->own()[17] = std::byte{42};
  const auto seen = first->member(1);
  CHECK_EQ(seen->block().size(), 4096u);
  CHECK(seen->block()[17] == std::byte{42});
  CHECK_EQ(second->member(0)->block().size(), 8192u);
  CHECK(LocalGroup::join(rank_of(1), "blocks", 4096) == nullptr);  // the place is taken
  CHECK(LocalGroup::join(rank_of(1), "other", 4096)->member(0) == nullptr);
  second.reset();
  wait_for(first, 1, false);
  CHECK(seen->is_gone());
  CHECK(seen->block()[17] == std::byte{42});  // who looks may look on
  second = join(1, "blocks", 4096);           // and the place is free
  wait_for(first, 1, true);
  CHECK(first->member(1)->block()[17] == std::byte{0});
}

TEST(a_rank_alone_has_no_group) {
  CHECK(LocalGroup::join({0, 1, "alone"}, "x", 4096) == nullptr);
  CHECK(LocalGroup::join({0, 2, ""}, "x", 4096) == nullptr);
  CHECK(LocalGroup::join({2, 2, "alone"}, "x", 4096) == nullptr);
}

TEST(shared_sweeps_wait_for_reads_for_their_turn_and_for_those_behind) {
  using State = RankPeers::State;
  auto groups = std::vector{join(0, "order"), join(1, "order")};
  wait_for(groups[0], 1, true);
  wait_for(groups[1], 0, true);
  const auto a = sweep_of(groups[0]), b = sweep_of(groups[1]);
  CHECK(!a->must_wait(10) && !b->must_wait(10));  // both are idle
  a->announce(State::kMoving, 10, 3);
  CHECK(!b->must_wait(6));  // its reads are there
  CHECK(b->must_wait(7));   // these are in flight
  CHECK(b->must_wait(9));
  CHECK(b->must_wait(10));  // it is there, and rank 0 goes first
  a->announce(State::kHeld, 10, 0);
  CHECK(!b->must_wait(10));  // it cannot: we may
  a->announce(State::kMoving, 10, 0);
  CHECK(!b->must_wait(9));
  b->announce(State::kMoving, 10, 0);
  CHECK(!a->must_wait(10));
  CHECK(!a->must_wait(16));
  CHECK(a->must_wait(17));  // too far ahead
  b->announce(State::kIdle, 10, 0);
  CHECK(!a->must_wait(17));
  b->announce(State::kMoving, 95, 0);
  a->announce(State::kMoving, 2, 0);
  CHECK(a->must_wait(2));  // round the end of the file
  b->announce(State::kMoving, 96, 0);
  CHECK(a->must_wait(2));  // until there is some way to go
  b->announce(State::kMoving, 97, 0);
  CHECK(!a->must_wait(2));
  CHECK_EQ(b->meeting_point(1), 1u);  // near enough
  CHECK_EQ(b->meeting_point(50), 2u);
}

TEST(shared_sweeps_do_not_wait_for_one_that_is_gone_or_while_starving_for_long) {
  using State = RankPeers::State;
  auto first = join(0, "gone"), second = join(1, "gone");
  wait_for(first, 1, true);
  const auto a = sweep_of(first);
  auto b = sweep_of(second);
  b->announce(State::kMoving, 10, 5);
  CHECK(a->must_wait(30));
  while (a->must_wait(30)) a->wait(true, false);  // our consumer starves: it is left behind,
  b->announce(State::kMoving, 11, 5);
  CHECK(!a->must_wait(30));  // though it moves,
  b->announce(State::kMoving, 25, 5);
  CHECK(!a->must_wait(30));
  CHECK(a->must_wait(32));  // until it was near
  CHECK(a->must_wait(8) == false && a->must_wait(20));
  b.reset();
  second.reset();
  while (a->must_wait(20)) a->wait(false, false);
}

// Wherever it stops: a rank that moved a little while it was waited for must not be waited for without end.
TEST(shared_sweeps_leave_one_that_stops_at_any_distance) {
  using State = RankPeers::State;
  for (uint64_t moved = 0; moved < 12; ++moved) {
    auto groups = std::vector{join(0, "stops"), join(1, "stops")};
    wait_for(groups[1], 0, true);
    const auto a = sweep_of(groups[0]), b = sweep_of(groups[1]);
    a->announce(State::kMoving, 10, 0);
    CHECK(b->must_wait(17));
    a->announce(State::kHeld, 10 + moved, 0);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    for (uint64_t segment = 17; segment < 40;) {
      CHECK(std::chrono::steady_clock::now() < give_up);
      if (b->must_wait(segment)) {
        b->wait(true, false);
      } else {
        ++segment;
      }
    }
  }
}

TEST(shared_chunks_are_copied_while_they_are_there) {
  auto first = join(0, "chunks"), second = join(1, "chunks");
  wait_for(second, 0, true);
  const auto a = sweep_of(first), b = sweep_of(second), alone = sweep_of(nullptr);
  CHECK(alone == nullptr);
  CHECK(!b->must_wait(0));  // refreshes what it knows of the others
  PublishedReads& reads = a->published();
  std::vector<std::byte> row(512);
  const auto put = [&](uint64_t offset, size_t bytes, int value) {
    const auto buffer = reads.take(bytes);
    CHECK(buffer.has_value());
    std::memset(buffer->data, value, bytes);
    reads.publish(offset, static_cast<uint32_t>(bytes), buffer->data);
    reads.give_back(buffer->index);
  };
  put(4096, 8192, 1);
  put(64 * 4096, 4096, 2);
  b->find(0, kMB);
  CHECK(!b->copy(0, 512, row.data()));
  CHECK(b->copy(4096, 512, row.data()));
  CHECK(row[0] == std::byte{1} && row[511] == std::byte{1});
  CHECK(b->copy(3 * 4096 - 512, 512, row.data()));
  CHECK(!b->copy(3 * 4096 - 256, 512, row.data()));  // its end is not there
  CHECK(b->copy(64 * 4096, 512, row.data()));
  CHECK(row[0] == std::byte{2});
  b->find(0, kMB);
  for (uint64_t i = 0; i < 48; ++i) put(kMB * (i + 1), 256 * 1024, 3);  // enough to overwrite all
  CHECK(!b->copy(4096, 512, row.data()));
  const auto in_flight = reads.take(reads.most_bytes());
  CHECK(in_flight.has_value());
  size_t more = 0;
  while (reads.take(reads.most_bytes())) ++more;
  CHECK(more + 1 <= reads.most_in_flight() / reads.most_bytes());  // reads in flight leave what was read before
}

namespace {

// One rank: a window with its sweep, and its requests.
struct Rank {
  Rank(uint32_t rank, const std::string& path, uint64_t rows)
      : file(FeatureFile::open(path)),
        matrix(file->matrix("x")),
        group(join(rank, path)),
        window(std::make_shared<RowWindow>(file, matrix, rows * RowWindow::row_cost(matrix))),
        reader(window, {.target = 6, .most = 6}, make_peers(*file, matrix, group, 0, 4 * kMB),
               {[this](uint64_t number) {
                  std::lock_guard lock(mutex);
                  complete[number] = true;
                  news.notify_all();
                },
                [](const std::exception_ptr& error) { std::rethrow_exception(error); }}) {}

  void request(uint64_t number, uint64_t rows) {
    Random random(make_key(number));
    std::vector<int64_t> ids(6000);
    for (auto& id : ids) id = static_cast<int64_t>(random.below(rows));
    open[number] = {reader.prepare(number, ids), ids};
    reader.submit(open[number].first);
  }

  void check(uint64_t number) {
    {
      std::unique_lock lock(mutex);
      news.wait(lock, [&] { return complete[number]; });
    }
    const auto& [request, ids] = open[number];
    std::vector<std::byte> got(ids.size() * matrix.row_bytes), want(got.size());
    reader.copy(request.get(), ids, got.data(), {}, nullptr, nullptr);
    gather(*file, matrix, ids, want.data(), {.io = Io::kMmap});
    CHECK(std::memcmp(got.data(), want.data(), got.size()) == 0);
    open.erase(number);
  }

  std::shared_ptr<const FeatureFile> file;
  const Matrix& matrix;
  std::shared_ptr<LocalGroup> group;
  std::mutex mutex;
  std::condition_variable news;
  std::map<uint64_t, bool> complete;  // guarded by mutex
  std::map<uint64_t, std::pair<std::shared_ptr<RowRequest>, std::vector<int64_t>>> open;
  std::shared_ptr<RowWindow> window;
  SweepReader reader;
};

}  // namespace

TEST(windows_of_two_ranks_give_the_rows_of_the_file_and_take_from_each_other) {
  constexpr uint64_t kRows = 32768, kClaims = 40;
  const std::string path =
      test::write_features("shared.gd", {{.name = "x", .dtype = DType::kFloat32, .rows = kRows, .columns = 128}});
  Rank first(0, path, 30000), second(1, path, 30000);
  for (uint64_t next = 0, done = 0; done < kClaims; ++done) {
    for (; next < kClaims && next < done + 8; ++next) {
      first.request(2 * next, kRows);
      if (next < kClaims / 2) second.request(2 * next + 1, kRows);
    }
    first.check(2 * done);
    if (done < kClaims / 2) second.check(2 * done + 1);  // then it is idle, and the other continues
  }
  CHECK(first.window->stats().rows_taken + second.window->stats().rows_taken > 0);
}
#endif
