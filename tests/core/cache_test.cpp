// cache_test: the row cache against plain models: a dictionary for the bytes, a list for SIEVE, a scan for the future.
#include <algorithm>
#include <list>
#include <map>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "gather/announced.h"
#include "gather/row_cache.h"
#include "gather/slot_book.h"
#include "gather_files.h"

using namespace gz;
using namespace gz::test;

namespace {

// Ids as graphs have them: a few are everywhere.
std::vector<int64_t> skewed_ids(uint64_t rows, size_t count, Random& random) {
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) {
    const double u = random.unit();
    id = static_cast<int64_t>(static_cast<double>(rows) * u * u * u);
  }
  return ids;
}

// SIEVE as its paper tells it, on a list: newest in front, the hand moves from the back to the front.
struct PlainSieve {
  size_t capacity;
  std::list<std::pair<uint64_t, bool>> order;
  std::list<std::pair<uint64_t, bool>>::iterator hand = order.end();

  bool use(uint64_t id) {
    const auto found = std::find_if(order.begin(), order.end(), [&](const auto& entry) { return entry.first == id; });
    if (found != order.end()) {
      found->second = true;
      return true;
    }
    if (order.size() == capacity) {
      auto at = hand == order.end() ? std::prev(order.end()) : hand;
      while (at->second) {
        at->second = false;
        at = at == order.begin() ? std::prev(order.end()) : std::prev(at);
      }
      hand = at == order.begin() ? order.end() : std::prev(at);
      order.erase(at);
    }
    order.emplace_front(id, false);
    return false;
  }
};

struct Book {
  explicit Book(uint64_t capacity) : memory(SlotBook::bytes_for(capacity)), book(memory.data(), capacity) {}
  std::vector<std::byte> memory;
  SlotBook book;
};

}  // namespace

TEST(slot_book_is_sieve_when_nothing_is_announced) {
  for (const uint64_t capacity : {1, 2, 7, 100}) {
    Book ours(capacity);
    PlainSieve plain{capacity, {}, {}};
    plain.hand = plain.order.end();
    Random random(make_key(capacity));
    for (int step = 0; step < 5000; ++step) {
      const std::vector<int64_t> id = skewed_ids(300, 1, random);
      uint32_t slot = SlotBook::kNone;
      ours.book.find_all(id, {&slot, 1});
      const bool hit = plain.use(static_cast<uint64_t>(id[0]));
      CHECK_EQ(slot != SlotBook::kNone, hit);
      if (slot == SlotBook::kNone) CHECK(ours.book.place(static_cast<uint64_t>(id[0]), false) != SlotBook::kNone);
    }
    for (const auto& entry : plain.order) CHECK(ours.book.find(entry.first) != SlotBook::kNone);
    CHECK_EQ(ours.book.resident(), plain.order.size());
  }
}

TEST(announced_knows_the_next_batch_of_every_row) {
  Random random(make_key(5));
  Announced announced;
  std::map<uint64_t, std::vector<int64_t>> window;
  for (uint64_t number = 0; number < 300; ++number) {
    window[number] = skewed_ids(500, 40, random);
    announced.add(number, window[number]);
    if (window.size() > 12) {
      announced.remove(window.begin()->first, window.begin()->second);
      window.erase(window.begin());
    }
    const uint64_t first = window.begin()->first;
    for (uint64_t id = 0; id < 500; ++id) {
      uint64_t expected = Announced::kNever;
      for (const auto& [batch, ids] : window) {
        if (std::find(ids.begin(), ids.end(), static_cast<int64_t>(id)) == ids.end()) continue;
        expected = batch - first;
        break;
      }
      CHECK_EQ(announced.next(id, first), expected);
    }
  }
}

TEST(rows_that_coming_batches_need_are_kept) {
  Book ours(4);
  for (const uint64_t id : {1, 2, 3, 4}) ours.book.place(id, false);
  ours.book.announce(10, std::vector<int64_t>{1, 2});
  ours.book.announce(11, std::vector<int64_t>{3});
  ours.book.announce(12, std::vector<int64_t>{4, 9});
  CHECK_EQ(ours.book.place(7, false), SlotBook::kNone);  // nobody needs 7, all the others are needed
  const uint32_t slot = ours.book.place(9, false);       // due with 4, not before it
  CHECK_EQ(slot, SlotBook::kNone);
  ours.book.announce(13, std::vector<int64_t>{5});
  CHECK(ours.book.served(10, std::vector<int64_t>{1, 2}));
  CHECK(!ours.book.served(10, std::vector<int64_t>{1, 2}));
  CHECK(ours.book.place(5, false) != SlotBook::kNone);  // 1 and 2 are free now
  CHECK(ours.book.find(3) != SlotBook::kNone);
  CHECK(ours.book.find(4) != SlotBook::kNone);
  ours.book.announce(14, std::vector<int64_t>{1, 2});
  CHECK(ours.book.can_announce(11 + 63));
  CHECK(!ours.book.can_announce(11 + 64));
  ours.book.forget_announced();
  CHECK_EQ(ours.book.announced_bytes(), 0u);
}

TEST(cache_gives_the_bytes_of_the_file_whatever_it_holds) {
  for (const uint64_t columns : {1, 33, 128}) {
    const auto file =
        FeatureFile::open(write_features(text("cache-", columns, ".gd"), {{"x", DType::kFloat16, 3000, columns}}));
    const Matrix& matrix = file->matrix("x");
    for (const uint64_t budget : {uint64_t{4096}, uint64_t{20000}, uint64_t{200000}, uint64_t{4} << 20}) {
      RowCache cache(file, matrix, budget);
      CHECK(cache.stats().held_bytes <= budget);
      Random random(make_key(budget, columns));
      std::vector<std::vector<int64_t>> batches;
      for (int i = 0; i < 30; ++i) batches.push_back(skewed_ids(3000, 200, random));
      const std::vector<int64_t> hot{0, 1, 2, 1, 2999};
      GatherOptions options;
      options.io = Io::kPread;
      if (columns != 33) CHECK_EQ(cache.pin(hot, options), std::min<uint64_t>(4, cache.stats().capacity));
      for (uint64_t i = 0; i < batches.size(); ++i) {
        if (columns == 128) cache.announce(i, batches[i]);
      }
      for (uint64_t i = 0; i < batches.size(); ++i) {
        for (const bool convert : {false, true}) {
          GatherOptions now = options;
          if (convert) now.out_dtype = DType::kFloat32;
          std::vector<std::byte> out(200 * gathered_row_bytes(matrix, now)), expected(out);
          GatherStats stats;
          cache.gather(batches[i], out.data(), now, &stats, columns == 128 && !convert ? i : RowCache::kUnannounced);
          gather(*file, matrix, batches[i], expected.data(), now);
          CHECK(out == expected);
          CHECK_EQ(stats.rows, 200u);
        }
        CHECK(cache.stats().resident <= cache.stats().capacity);
      }
      const CacheStats stats = cache.stats();
      CHECK_EQ(stats.hits + stats.misses, 2u * 30 * 200);
      CHECK(stats.hits > 0);
      CHECK_EQ(stats.inserted, stats.resident + stats.evicted);
      cache.clear();
      CHECK_EQ(cache.stats().resident, cache.stats().pinned);
    }
  }
}

TEST(cache_that_knows_the_future_beats_one_that_guesses) {
  const auto file = FeatureFile::open(write_features("future.gd", {{"x", DType::kFloat32, 4000, 16}}));
  const auto hits = [&](bool announce) {
    RowCache cache(file, file->matrix("x"), 100000);
    Random random(make_key(1));
    std::vector<std::vector<int64_t>> batches;
    for (int i = 0; i < 200; ++i) batches.push_back(skewed_ids(4000, 100, random));
    std::vector<std::byte> out(100 * 64);
    GatherOptions options;
    options.io = Io::kMmap;
    for (uint64_t i = 0; i < batches.size(); ++i) {
      for (uint64_t k = i == 0 ? 0 : i + 15; announce && k < std::min<uint64_t>(i + 16, batches.size()); ++k) {
        cache.announce(k, batches[k]);
      }
      cache.gather(batches[i], out.data(), options, nullptr, announce ? i : RowCache::kUnannounced);
    }
    return cache.stats().hits;
  };
  CHECK(hits(true) > hits(false));
}

TEST(cache_serves_many_threads) {
  const auto file = FeatureFile::open(write_features("threads.gd", {{"x", DType::kFloat32, 2000, 128}}));
  const Matrix& matrix = file->matrix("x");
  RowCache cache(file, matrix, 300000);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(make_key(t));
      std::vector<std::byte> out(300 * 512), expected(out);
      GatherOptions options;
      options.io = t % 2 == 0 ? Io::kPread : Io::kMmap;
      options.threads = 2;
      for (int i = 0; i < 20; ++i) {
        const auto ids = skewed_ids(2000, 300, random);
        cache.gather(ids, out.data(), options);
        gather(*file, matrix, ids, expected.data(), options);
        wrong[t] += out == expected ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST(cache_without_room_for_a_row_says_so) {
  const auto file = FeatureFile::open(write_features("poor.gd", {{"x", DType::kFloat32, 100, 2000}}));
  CHECK_THROWS(BudgetError, "give at least", RowCache(file, file->matrix("x"), 5000));
  CHECK_THROWS(BudgetError, "give at least", RowCache(file, file->matrix("x"), 1));
  RowCache cache(file, file->matrix("x"), 12288);
  CHECK_EQ(cache.stats().capacity, 1u);
  const std::vector<int64_t> bad{100};
  CHECK_THROWS(IndexError, "out of range", cache.gather(bad, nullptr, {}));
  CHECK_THROWS(IndexError, "out of range", cache.announce(0, bad));
}
