// row_calendar_test: which rows a device's cache holds, against tables and against Belady's rule with the same horizon.
#include "device/row_calendar.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "budget/uses.h"
#include "check.h"

using namespace gz;

namespace {

using Batches = std::vector<std::vector<uint32_t>>;

// A calendar that is driven over batches, with a device that has what it says.
struct Driven {
  Driven(uint64_t rows, uint64_t slots, uint64_t horizon_)
      : words(rows), calendar(words), cache(slots, kNothing), horizon(horizon_) {
    calendar.resize(slots);
  }

  // The rows that are not cached, batch by batch.
  Batches run(const Batches& batches) {
    Batches missed;
    uint64_t expected = 0;
    for (size_t b = 0; b < batches.size(); ++b) {
      expected = std::max<uint64_t>(expected, b + 1);
      for (; expected < batches.size() && expected <= b + horizon; ++expected) {
        calendar.expect(begun + expected, batches[expected]);
      }
      missed.push_back(plan(begun + b, batches[b]));
    }
    begun += batches.size();
    return missed;
  }

  std::vector<uint32_t> plan(uint64_t number, const std::vector<uint32_t>& rows) {
    std::vector<uint32_t> found = rows, missed, listed(rows.size());
    const auto planned = calendar.plan(number, found, listed, scratch);
    size_t admissions = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if ((found[i] & RowCalendar::kMiss) != 0) {
        missed.push_back(rows[i]);
      } else {
        CHECK_EQ(cache.at(found[i]), rows[i]);
      }
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      if ((found[i] & RowCalendar::kAdmitted) == 0) continue;
      CHECK((found[i] & RowCalendar::kMiss) != 0);
      cache.at(found[i] & (RowCalendar::kAdmitted - 1)) = rows[i];
      ++admissions;
    }
    CHECK(std::ranges::equal(std::span(listed).first(planned.misses), missed));
    CHECK_EQ(planned.admissions, admissions);
    return missed;
  }

  static constexpr uint32_t kNothing = UINT32_MAX;
  std::vector<uint64_t> words;
  RowCalendar calendar;
  RowCalendar::Scratch scratch;
  std::vector<uint32_t> cache;
  uint64_t horizon, begun = 0;
};

uint64_t count(const Batches& batches) {
  uint64_t sum = 0;
  for (const auto& rows : batches) sum += rows.size();
  return sum;
}

// Misses of Belady's rule with bypass that sees `horizon` batches ahead; beyond them all rows are alike.
uint64_t simulate(const Batches& batches, uint64_t slots, uint64_t horizon) {
  std::map<uint32_t, std::vector<uint64_t>> uses;
  for (uint64_t b = 0; b < batches.size(); ++b) {
    for (const uint32_t row : batches[b]) uses[row].push_back(b);
  }
  const auto next_use = [&](uint32_t row, uint64_t b) {
    const auto& of_row = uses[row];
    const auto found = std::upper_bound(of_row.begin(), of_row.end(), b);
    return found == of_row.end() || *found > b + horizon ? UINT64_MAX : *found;
  };
  std::set<uint32_t> cached;
  uint64_t misses = 0;
  for (uint64_t b = 0; b < batches.size(); ++b) {
    for (const uint32_t row : batches[b]) misses += cached.contains(row) ? 0 : 1;
    std::set<uint32_t> candidates = cached;
    candidates.insert(batches[b].begin(), batches[b].end());
    std::vector<std::pair<uint64_t, uint32_t>> order;
    for (const uint32_t row : candidates) {
      // Where all is equal, a row that is cached stays.
      order.push_back({next_use(row, b), row + (cached.contains(row) ? 0 : 1u << 20)});
    }
    std::ranges::sort(order);
    cached.clear();
    for (size_t i = 0; i < std::min<size_t>(slots, order.size()); ++i) cached.insert(order[i].second % (1u << 20));
  }
  return misses;
}

// Rows by a power law, each at most once in a batch; which rows are used often is random.
Batches skewed(uint32_t rows, size_t batches, size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> names(rows);
  std::iota(names.begin(), names.end(), 0u);
  std::shuffle(names.begin(), names.end(), random);
  Batches made;
  for (size_t b = 0; b < batches; ++b) {
    std::set<uint32_t> batch;
    while (batch.size() < size) {
      const double u = static_cast<double>(random() >> 11) * 0x1.0p-53;
      batch.insert(names[static_cast<size_t>(std::pow(u, 3) * rows)]);
    }
    std::vector<uint32_t> order(batch.begin(), batch.end());
    std::shuffle(order.begin(), order.end(), random);
    made.push_back(order);
  }
  return made;
}

}  // namespace

TEST(a_row_that_is_used_again_soonest_stays_in_the_cache) {
  // With one slot, row 1 is used again before row 0, and row 2 never.
  CHECK(Driven(3, 1, 31).run({{0, 1}, {2}, {1}, {0}, {1}}) == (Batches{{0, 1}, {2}, {}, {0}, {}}));
  // A row that is not used within the horizon gives way to one that is.
  CHECK(Driven(4, 1, 2).run({{3}, {0}, {1}, {0}, {0}, {0}}) == (Batches{{3}, {0}, {1}, {}, {}, {}}));
  // Nothing is known ahead: those that come first stay.
  CHECK(Driven(4, 2, 0).run({{0}, {1}, {2}, {0}, {1}}) == (Batches{{0}, {1}, {2}, {}, {}}));
}

TEST(no_slots_cache_nothing_and_slots_for_all_rows_cache_each_once) {
  const Batches batches = skewed(500, 40, 60, 1);
  CHECK_EQ(count(Driven(500, 0, 31).run(batches)), count(batches));
  std::set<uint32_t> distinct;
  for (const auto& rows : batches) distinct.insert(rows.begin(), rows.end());
  CHECK_EQ(count(Driven(500, 500, 31).run(batches)), distinct.size());
}

TEST(rows_that_repeat_in_a_batch_take_one_slot) {
  Driven driven(10, 2, 31);
  const Batches missed = driven.run({{4, 4, 5}, {5, 4, 4}, {4, 5}});
  CHECK(missed == (Batches{{4, 4, 5}, {}, {}}));
}

TEST(misses_are_those_of_beladys_rule_with_the_same_horizon) {
  const Batches batches = skewed(4000, 150, 300, 7);
  for (const uint64_t horizon : {3, 12, 31}) {
    for (const uint64_t slots : {100, 400, 1000, 2500}) {
      const auto misses = static_cast<double>(count(Driven(4000, slots, horizon).run(batches)));
      CHECK(misses <= 1.02 * static_cast<double>(simulate(batches, slots, horizon)));
    }
  }
}

// Hits of the second half of the batches, when the cache is full, against the model that is fitted to what two share.
// With 100 rows per batch and more slots than these, it would take many more batches to know which rows are used often.
TEST(hits_are_those_that_the_model_of_uses_expects) {
  const uint32_t rows = 20'000;
  using Slots = std::vector<uint64_t>;
  for (const auto& [size, sizes] : {std::pair{100, Slots{50, 400}}, std::pair{1000, Slots{50, 400, 4'000, 12'000}}}) {
    const auto half = static_cast<ptrdiff_t>(200'000 / size);
    const Batches batches = skewed(rows, static_cast<size_t>(2 * half), static_cast<size_t>(size), 11);
    double shared = 0;
    for (size_t b = 0; b < 100; ++b) {
      const std::set<uint32_t> first(batches[b].begin(), batches[b].end());
      shared +=
          static_cast<double>(std::ranges::count_if(batches[b + 1], [&](auto row) { return first.contains(row); }));
    }
    const Uses uses(size, shared / 100, rows);
    for (const uint64_t slots : sizes) {
      const Batches missed = Driven(rows, slots, 31).run(batches);
      const double hits = 1 - static_cast<double>(count({missed.begin() + half, missed.end()})) / (half * size);
      CHECK(std::abs(uses.hits(static_cast<double>(slots), 31) - hits) < 0.04);
    }
  }
}

TEST(beyond_the_horizon_rows_that_were_used_more_often_stay) {
  const Batches batches = skewed(4000, 300, 100, 3);  // so many rows fit that few uses are in sight
  const uint64_t slots = 800;
  const auto misses = static_cast<double>(count(Driven(4000, slots, 2).run(batches)));
  CHECK(misses < 0.95 * static_cast<double>(simulate(batches, slots, 2)));
}

TEST(a_second_epoch_finds_what_the_first_left_and_equal_runs_are_equal) {
  const Batches batches = skewed(2000, 60, 100, 5);
  Driven one(2000, 400, 31), other(2000, 400, 31);
  const Batches first = one.run(batches), second = one.run(batches);
  CHECK(first == other.run(batches));
  CHECK(second == other.run(batches));
  CHECK(count({second[0]}) < count({first[0]}));
  one.calendar.forget();
  CHECK_EQ(count({one.run(batches)[0]}), batches[0].size());
}

TEST(a_cache_that_is_hit_for_long_stays_small_and_right) {
  Driven driven(64, 64, 1);
  Batches batches;
  for (uint32_t b = 0; b < 2000; ++b) batches.push_back({b % 60, (b + 30) % 60, 60 + b % 4});
  CHECK_EQ(count(driven.run(batches)), 64u);
}

// With batches of a few rows, rows are filed in lists of rows without a known use again and again.
TEST(lists_take_the_memory_that_is_counted) {
  struct Setting {
    uint32_t rows, slots;
    size_t size;
  };
  for (const auto& [rows, slots, size] : {Setting{20'000, 10'000, 60}, {20'000, 3'000, 400}, {20'000, 19'000, 20}}) {
    const Batches batches = skewed(rows, 4000, size, 13);
    Driven driven(rows, slots, 31);
    size_t most = 0;
    for (size_t begin = 0; begin < batches.size(); begin += 200) {
      driven.run(
          {batches.begin() + static_cast<ptrdiff_t>(begin), batches.begin() + static_cast<ptrdiff_t>(begin + 200)});
      most = std::max(most, driven.calendar.list_bytes());
    }
    CHECK(most <= RowCalendar::bytes_for(0, slots));
  }
}
