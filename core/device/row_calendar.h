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

namespace gz {

class RowCalendar {
 public:
  static constexpr uint64_t kHorizon = 31;                         // batches after the one that is planned
  static constexpr uint64_t kMostSlots = (uint64_t{1} << 27) - 1;  // bits of a word

  // What planning needs besides, and keeps nothing in: calendars that are planned one after the other share it.
  class Scratch;

  // Keeps one word per row, which are zero at first.
  explicit RowCalendar(std::span<uint64_t> words) : words_(words.data()), rows_(words.size()) {}

  // Lists take up to 18 bytes per slot, where the horizon has several uses of each cached row.
  static uint64_t bytes_for(uint64_t rows, uint64_t slots) { return rows * 8 + slots * 24; }

  size_t list_bytes() const;  // of the lists: what they take now

  // Both: nothing is cached or expected any more. How often rows were used stays known.
  void resize(uint64_t slots);
  void forget();

  // Announces a batch, once, at most kHorizon ahead of the next one to be planned.
  void expect(uint64_t batch, std::span<const uint32_t> rows);

  // Plans the next batch: numbers increase. Rows may repeat. Replaces each row by its slot; by kMiss if it has none; or
  // by kMiss + kAdmitted + the slot that has it once the batch was assembled. Rows that are missing go to `missed`, in
  // order; there must be room for all of them.
  static constexpr uint32_t kMiss = uint32_t{1} << 31, kAdmitted = uint32_t{1} << 30;
  struct Planned {
    size_t misses = 0, admissions = 0;
  };
  Planned plan(uint64_t batch, std::span<uint32_t> rows, std::span<uint32_t> missed, Scratch& scratch);

 private:
  // A row's word: a bit for each batch of the horizon that uses it; its slot + 1, or 0; the logarithm of its uses so
  // far.
  static constexpr uint32_t kRing = 32, kLogs = 32, kRanks = kRing + kLogs;  // a rank is an order of next uses
  static constexpr uint64_t kSlotShift = 32, kLogShift = 59, kSlotMask = uint64_t{0x7ffffff} << kSlotShift;
  static constexpr uint32_t kNone = UINT32_MAX;

  static uint32_t slot_of(uint64_t word) { return static_cast<uint32_t>((word & kSlotMask) >> kSlotShift) - 1; }
  static uint64_t with_slot(uint64_t word, uint32_t slot) {
    return (word & ~kSlotMask) | (uint64_t{slot + 1} << kSlotShift);
  }
  // The batch after `batch` has rank 0; rows without a known use come last, the least used of them at the end.
  static uint32_t rank_of(uint64_t word, uint64_t batch) {
    const uint64_t uses = std::rotr(static_cast<uint32_t>(word), static_cast<int>((batch + 1) % kRing));
    const uint64_t none = uint64_t{1} << (kRanks - 1) >> (word >> kLogShift);  // past those: no branch on what is known
    return static_cast<uint32_t>(std::countr_zero(uses | none));
  }
  static uint32_t list_of(uint32_t rank, uint64_t batch) {
    return rank < kRing ? static_cast<uint32_t>((batch + 1 + rank) % kRing) : rank;
  }
  void file(uint32_t slot, uint32_t rank, uint64_t batch) {
    const auto list = static_cast<uint8_t>(list_of(rank, batch));
    Filed& filed = filed_[slot];
    filed.under = list;
    if (list >= kRing) {
      if (list <= filed.entry) return;  // it is moved from there once it is the next one there
      filed.entry = list;
    }
    lists_[list].push_back(slot);
  }
  size_t admit(uint64_t batch, std::span<uint32_t> rows, std::span<const uint32_t> missed, Scratch& scratch);
  uint32_t evict(uint32_t rank, uint64_t batch);
  void drop_outdated();

  uint64_t* const words_;  // one per row
  const uint64_t rows_;
  uint64_t slots_ = 0, used_ = 0;
  std::vector<uint32_t> row_of_;  // by slot
  struct Filed {
    uint8_t under = 0;  // the list that the slot belongs to
    uint8_t entry = 0;  // of the lists of rows without a known use, the one that has its valid entry; or 0
  };
  std::vector<Filed> filed_;                         // by slot
  std::array<std::vector<uint32_t>, kRanks> lists_;  // slots by next use; entries may be outdated
  // Rows that are used again sooner than any row is evicted are not filed: most hits are such rows. Follows the rank of
  // the last victims at a distance.
  uint32_t near_ = 0;
  uint32_t farthest_ = 0;  // while a batch is planned: no list after it has a victim
};

class RowCalendar::Scratch {
  friend class RowCalendar;
  struct Hit {
    uint32_t slot, rank;
  };
  std::vector<Hit> hits;                              // that are filed
  std::vector<uint32_t> places;                       // of misses in the batch
  std::vector<uint8_t> ranks;                         // of those
  std::array<std::vector<uint32_t>, kRanks> waiting;  // misses by rank
};

}  // namespace gz
