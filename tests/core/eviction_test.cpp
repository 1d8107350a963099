// eviction_test: which row a window evicts: the next one in circular order that no claim holds, whatever was used last
// or most often, or will be used next.
#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "check.h"
#include "sweep/row_window.h"

using namespace gz;

namespace {

// Slots of 8 bytes for rows that arrive at once.
struct Window {
  explicit Window(uint64_t capacity) : rows(capacity, 8, 2000, RowTable::Kind::kDirect) {}

  uint32_t take(uint64_t row, uint32_t uses = 1) {
    const uint32_t slot = rows.take(row, uses);
    rows.arrived(slot);
    return slot;
  }
  void release(uint64_t row) { rows.release(rows.find(row)); }
  void use(uint64_t row) { rows.use(rows.find(row), 1); }

  // Fills the window with rows 0, 1, 2, ... that no claim holds.
  void fill() {
    for (uint64_t row = 0; row < rows.capacity(); ++row) {
      take(row);
      release(row);
    }
  }

  // The row that makes place for `row`, which is released again.
  uint64_t evicted_by(uint64_t row, uint64_t most) {
    std::vector<bool> before;
    for (uint64_t i = 0; i < most; ++i) before.push_back(rows.find(i) != HeldRows::kNone);
    take(row);
    release(row);
    for (uint64_t i = 0; i < most; ++i) {
      if (before[i] && rows.find(i) == HeldRows::kNone) return i;
    }
    return UINT64_MAX;
  }

  HeldRows rows;
};

}  // namespace

TEST(slots_that_were_never_used_are_taken_first_and_in_order) {
  Window window(100);
  for (uint64_t row = 0; row < 100; ++row) {
    CHECK_EQ(window.take(row), row);
    if (row % 3 == 0) window.release(row);  // it is free, and its row stays
  }
  for (uint64_t row = 0; row < 100; ++row) CHECK_EQ(window.rows.find(row), row);
}

TEST(rows_are_evicted_in_circular_order) {
  Window window(100);
  window.fill();
  for (uint64_t row = 0; row < 100; ++row) window.use(row);
  for (uint64_t row = 100; row-- > 0;) window.release(row);  // the last one first: the order of release does not count
  for (uint64_t row = 0; row < 250; ++row) CHECK_EQ(window.evicted_by(1000 + row, 100), row < 100 ? row : UINT64_MAX);
  CHECK_EQ(window.rows.find(1000 + 149), HeldRows::kNone);
  for (uint64_t row = 150; row < 250; ++row) CHECK(window.rows.find(1000 + row) != HeldRows::kNone);
}

TEST(neither_recent_nor_frequent_use_keeps_a_row_that_is_not_held) {
  Window window(100);
  window.fill();
  for (int times = 0; times < 50; ++times) {
    window.use(0);  // claims use it and release it, the last one now
    window.release(0);
  }
  CHECK_EQ(window.evicted_by(1000, 100), 0u);
  CHECK_EQ(window.evicted_by(1001, 100), 1u);
}

TEST(rows_that_a_claim_holds_are_skipped_until_the_next_round) {
  Window window(100);
  window.fill();
  for (uint64_t row = 0; row < 100; ++row) window.use(row);
  window.use(41);
  for (const uint64_t row : {90, 41, 40, 7}) window.release(row);
  CHECK_EQ(window.rows.free(), 3u);  // 41 has another claim
  CHECK_EQ(window.evicted_by(1000, 100), 7u);
  CHECK_EQ(window.evicted_by(1001, 100), 40u);
  window.release(41);
  window.release(8);
  // 8 was passed by and waits for the next round.
  CHECK_EQ(window.evicted_by(1002, 100), 90u);
  CHECK_EQ(window.rows.free(), 5u);
  std::vector<uint64_t> next;
  for (uint64_t row = 1003; row < 1200 && next.size() < 2; ++row) {
    if (const uint64_t evicted = window.evicted_by(row, 100); evicted != UINT64_MAX) next.push_back(evicted);
  }
  CHECK(next == std::vector<uint64_t>({8, 41}));
}

// Rows that are taken, shared, released and lost at random: both kinds of tables, against a plain map.
TEST(rows_are_found_where_they_were_put_in_both_kinds_of_tables) {
  for (const uint64_t capacity : {1, 2, 63, 64, 65, 300}) {
    constexpr uint64_t kRows = 1000;
    HeldRows direct(capacity, 8, kRows, RowTable::Kind::kDirect), hashed(capacity, 8, kRows, RowTable::Kind::kHashed);
    std::vector<std::optional<uint64_t>> row_of(capacity);  // by slot: what find() must return
    std::vector<uint32_t> uses(capacity);
    std::mt19937_64 random(capacity);
    for (int step = 0; step < 20000; ++step) {
      const uint64_t row = random() % kRows;
      const auto at = std::find(row_of.begin(), row_of.end(), row);
      const uint32_t expected = at == row_of.end() ? HeldRows::kNone : static_cast<uint32_t>(at - row_of.begin());
      CHECK_EQ(direct.find(row), expected);
      CHECK_EQ(hashed.find(row), expected);
      const auto held = static_cast<uint32_t>(random() % capacity);
      if (expected != HeldRows::kNone && random() % 2 == 0) {
        direct.use(expected, 1);
        hashed.use(expected, 1);
        ++uses[expected];
      } else if (expected == HeldRows::kNone && direct.free() > 0) {
        const uint32_t slot = direct.take(row, 1);
        CHECK_EQ(hashed.take(row, 1), slot);
        CHECK_EQ(uses[slot], 0u);
        row_of[slot] = row;
        uses[slot] = 1;
        if (random() % 8 == 0) {
          direct.lose(slot);
          hashed.lose(slot);
          row_of[slot] = std::nullopt;
        } else {
          direct.arrived(slot);
          hashed.arrived(slot);
        }
      } else if (uses[held] > 0) {
        direct.release(held);
        hashed.release(held);
        --uses[held];
      }
      CHECK_EQ(direct.free(), hashed.free());
    }
  }
}

// Numbers of three bytes and of four, at both ends of what they hold; neighbours keep theirs.
TEST(a_table_keeps_the_largest_slots_that_its_numbers_hold) {
  using Kind = RowTable::Kind;
  constexpr uint64_t kRows = 5, kFew = RowTable::kMostOfFew;
  const auto no_id = [](uint32_t) { return uint64_t{0}; };
  CHECK_EQ(RowTable::fixed_bytes(Kind::kDirect, kRows, kFew + 1) - RowTable::fixed_bytes(Kind::kDirect, kRows, kFew),
           kRows);
  for (const uint64_t capacity : {uint64_t{1}, kFew, kFew + 1, uint64_t{UINT32_MAX} - 2}) {
    RowTable table(Kind::kDirect, kRows, capacity);
    const auto last = static_cast<uint32_t>(capacity - 1);
    for (uint64_t row = 0; row < kRows; ++row) CHECK_EQ(table.find(row, no_id), RowTable::kNone);
    for (uint64_t row = 0; row < kRows; row += 2) table.insert(row, row == 2 ? 0 : last);
    CHECK_EQ(table.find(0, no_id), last);
    CHECK_EQ(table.find(1, no_id), RowTable::kNone);
    CHECK_EQ(table.find(2, no_id), 0u);
    CHECK_EQ(table.find(3, no_id), RowTable::kNone);
    CHECK_EQ(table.find(4, no_id), last);
    table.erase(2, 0);
    CHECK_EQ(table.find(2, no_id), RowTable::kNone);
    CHECK_EQ(table.find(0, no_id), last);
  }
}
