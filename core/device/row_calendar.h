// row_calendar: which rows a cache holds, decided by their next use. No threads, locks or rows: batches of row numbers
// go in, slots come out, and equal calls give equal results (tests/core/row_calendar_test.cpp).
//
// Batches are expected up to kHorizon ahead, so the next use of a row is known within that horizon: a bit per batch.
// Beyond it, rows that were used more often come first. When a batch is planned, its misses take the slots of rows that
// are needed later than they are (Belady's rule, with bypass: a row that no cached row is worse than is not cached).
// Slots are filed under the batch of their next use, in a ring of lists; a list is dropped when its batch comes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory.h"

namespace gz {

class RowCalendar {
 public:
  static constexpr uint64_t kHorizon = 31;                         // batches after the one that is planned
  static constexpr uint64_t kMostSlots = (uint64_t{1} << 28) - 1;  // bits of a word

  // A cache may consist of several calendars, each for some of the rows: slot i of this one is i * stride + shift of
  // the cache.
  explicit RowCalendar(uint64_t rows, uint32_t stride = 1, uint32_t shift = 0);

  static uint64_t bytes_for(uint64_t rows, uint64_t slots) { return rows * 8 + slots * 9; }

  // Both: nothing is cached or expected any more. How often rows were used stays known.
  void resize(uint64_t slots);
  void forget();

  // Announces a batch, once, at most kHorizon ahead of the next one to be planned.
  void expect(uint64_t batch, std::span<const uint32_t> rows);

  struct Admission {
    uint32_t miss;  // its number among the misses of the batch
    uint32_t slot;
  };
  // Plans the next batch: numbers increase. A cached row's slot goes to source[positions[i]], any number to those of
  // the others, which are moved to the front of `rows` and `positions`, in order, and counted. `admitted` is appended
  // to: rows whose slots hold them once the batch was assembled. Rows may repeat.
  size_t plan(uint64_t batch, std::span<uint32_t> rows, std::span<uint32_t> positions, int32_t* source,
              std::vector<Admission>& admitted);

 private:
  // A row's word: a bit for each batch of the horizon that uses it; its slot + 1, or 0; the logarithm of its uses.
  static constexpr uint32_t kRing = 32, kLogs = 16, kRanks = kRing + kLogs;  // a rank is an order of next uses
  static constexpr uint64_t kSlotShift = 32, kLogShift = 60, kSlotMask = uint64_t{0xfffffff} << kSlotShift;
  static constexpr uint32_t kNone = UINT32_MAX;

  static uint32_t slot_of(uint64_t word) { return static_cast<uint32_t>((word & kSlotMask) >> kSlotShift) - 1; }
  static uint64_t with_slot(uint64_t word, uint32_t slot) {
    return (word & ~kSlotMask) | (uint64_t{slot + 1} << kSlotShift);
  }
  // The batch after `batch` has rank 0; rows without a known use come last, the least used of them at the end.
  static uint32_t rank_of(uint64_t word, uint64_t batch) {
    const uint32_t uses = std::rotr(static_cast<uint32_t>(word), static_cast<int>((batch + 1) % kRing));
    return uses != 0 ? static_cast<uint32_t>(std::countr_zero(uses))
                     : kRanks - 1 - static_cast<uint32_t>(word >> kLogShift);
  }
  static uint32_t list_of(uint32_t rank, uint64_t batch) {
    return rank < kRing ? static_cast<uint32_t>((batch + 1 + rank) % kRing) : rank;
  }
  void file(uint32_t slot, uint32_t rank, uint64_t batch) {
    const uint32_t list = list_of(rank, batch);
    filed_under_[slot] = static_cast<uint8_t>(list);
    lists_[list].push_back(slot);
  }
  void admit(uint64_t batch, std::span<const uint32_t> rows, std::vector<Admission>& admitted);
  uint32_t evict(uint32_t rank, uint64_t batch);
  void drop_outdated(uint32_t list);

  const uint64_t rows_;
  const uint32_t stride_, shift_;
  Buffer words_buffer_;
  uint64_t* words_;  // one per row
  uint64_t slots_ = 0, used_ = 0;
  std::vector<uint32_t> row_of_;                     // by slot
  std::vector<uint8_t> filed_under_;                 // by slot: the list that has its valid entry
  std::array<std::vector<uint32_t>, kRanks> lists_;  // slots by next use; entries may be outdated
  // Rows that are used again sooner than any row is evicted are not filed: most hits are such rows. Follows the rank of
  // the last victims at a distance.
  uint32_t near_ = 0;
  // While a batch is planned:
  struct Hit {
    uint32_t slot, rank;
  };
  std::vector<Hit> hits_;
  std::vector<uint8_t> ranks_;                         // of misses
  std::array<std::vector<uint32_t>, kRanks> waiting_;  // misses by rank
  uint32_t farthest_ = 0;                              // no list after it has a victim
};

}  // namespace gz
