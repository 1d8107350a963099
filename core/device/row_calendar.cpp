// row_calendar: next uses, slots, and which row makes room for which.
#include "device/row_calendar.h"

#include <algorithm>
#include <array>

#include "base/prefetch.h"

namespace gz {
namespace {

constexpr size_t kAhead = 24;          // rows whose words are prefetched
constexpr size_t kSpareEntries = 256;  // of all lists, or of one

// How often a row was used is kept as a logarithm to the base of the square root of 2: it grows from n to n + 1 with
// probability 2^(-n / 2), here times 2^24, and the largest one does not grow.
constexpr auto kGrowth = [] {
  std::array<uint32_t, 32> found{};
  for (uint32_t n = 0; n + 1 < found.size(); ++n) found[n] = (n % 2 == 0 ? 16'777'216u : 11'863'283u) >> (n / 2);
  return found;
}();

// By a hash of row and batch: the same in every run.
uint64_t count_use(uint64_t word, uint32_t row, uint64_t batch, uint64_t log_shift) {
  const uint64_t log = word >> log_shift;
  const uint64_t hash = (row * uint64_t{0x9e3779b97f4a7c15} ^ batch * uint64_t{0xc2b2ae3d27d4eb4f}) >> 40;
  return word + (uint64_t{hash < kGrowth[log]} << log_shift);
}

}  // namespace

size_t RowCalendar::list_bytes() const {
  size_t bytes = row_of_.capacity() * sizeof(uint32_t) + filed_.capacity() * sizeof(Filed);
  for (const auto& list : lists_) bytes += list.capacity() * sizeof(uint32_t);
  return bytes;
}

void RowCalendar::resize(uint64_t slots) {
  slots_ = 0;  // until there is memory for them
  forget();
  const uint64_t wanted = std::min({slots, kMostSlots, rows_});
  row_of_.assign(wanted, 0);
  filed_.assign(wanted, {});
  slots_ = wanted;
}

void RowCalendar::forget() {
  used_ = 0;
  near_ = 0;
  for (auto& list : lists_) list.clear();
  std::ranges::fill(filed_, Filed{});
  for (uint64_t row = 0; row < rows_; ++row) words_[row] &= ~kSlotMask & ~uint64_t{UINT32_MAX};
}

void RowCalendar::expect(uint64_t batch, std::span<const uint32_t> rows) {
  const uint64_t bit = uint64_t{1} << (batch % kRing);
  const size_t count = rows.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch(&words_[rows[i + kAhead]]);
    words_[rows[i]] |= bit;
  }
}

RowCalendar::Planned RowCalendar::plan(uint64_t batch, std::span<uint32_t> rows, std::span<uint32_t> missed,
                                       Scratch& scratch) {
  const uint64_t bit = uint64_t{1} << (batch % kRing);
  const size_t count = rows.size();
  lists_[batch % kRing].clear();  // the slots of rows that are used now: they are filed again
  scratch.hits.resize(count + 1);
  scratch.places.resize(count + 1);
  scratch.ranks.resize(count + 1);
  Scratch::Hit* const filed = scratch.hits.data();
  uint32_t* const places = scratch.places.data();
  uint8_t* const ranks = scratch.ranks.data();
  // Without branches on what is a hit, which no processor predicts: both outcomes are written, and one is kept.
  size_t hits = 0, misses = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) prefetch(&words_[rows[i + kAhead]]);
    const uint32_t row = rows[i];
    const uint64_t word = count_use(words_[row] & ~bit, row, batch, kLogShift);
    words_[row] = word;
    const uint32_t rank = rank_of(word, batch), slot = slot_of(word);
    const bool is_hit = slot != kNone;
    rows[i] = is_hit ? slot : kMiss;
    filed[hits] = {slot, rank};
    hits += is_hit & (rank >= near_);
    missed[misses] = row;
    places[misses] = static_cast<uint32_t>(i);
    ranks[misses] = static_cast<uint8_t>(rank);
    misses += !is_hit;
  }
  for (size_t i = 0; i < hits; ++i) file(filed[i].slot, filed[i].rank, batch);
  const size_t admissions = slots_ == 0 ? 0 : admit(batch, rows, missed.first(misses), scratch);
  if (farthest_ > near_ + 3) ++near_;
  if (farthest_ < near_ + 2) near_ = near_ > 2 ? near_ - 2 : 0;
  drop_outdated();
  return {misses, admissions};
}

// The misses that are needed soonest come first. Those that are needed after all rows in the cache wait for nothing.
size_t RowCalendar::admit(uint64_t batch, std::span<uint32_t> rows, std::span<const uint32_t> missed,
                          Scratch& scratch) {
  size_t admissions = 0;
  farthest_ = kRanks - 1;
  while (used_ == slots_ && farthest_ > 0 && lists_[list_of(farthest_, batch)].empty()) --farthest_;
  for (auto& waiting : scratch.waiting) waiting.clear();
  for (size_t i = 0; i < missed.size(); ++i) {
    const uint32_t rank = scratch.ranks[i];
    if (used_ < slots_ || rank < farthest_) scratch.waiting[rank].push_back(static_cast<uint32_t>(i));
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const auto& waiting = scratch.waiting[rank];
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (i + kAhead < waiting.size()) prefetch(&words_[missed[waiting[i + kAhead]]]);
      const uint32_t row = missed[waiting[i]];
      if (slot_of(words_[row]) != kNone) continue;  // it is in the batch twice
      const uint32_t slot = used_ < slots_ ? static_cast<uint32_t>(used_++) : evict(rank, batch);
      if (slot == kNone) return admissions;  // those that follow are needed later still
      words_[row] = with_slot(words_[row], slot);
      row_of_[slot] = row;
      file(slot, rank, batch);
      rows[scratch.places[waiting[i]]] = kMiss + kAdmitted + slot;
      ++admissions;
    }
  }
  return admissions;
}

// The slot of a row whose next use comes after `rank`; kNone if there is none.
uint32_t RowCalendar::evict(uint32_t rank, uint64_t batch) {
  for (; farthest_ > rank; --farthest_) {
    const uint32_t number = list_of(farthest_, batch);
    auto& list = lists_[number];
    while (!list.empty()) {
      const uint32_t slot = list.back();
      list.pop_back();
      const size_t left = list.size();
      if (left > kAhead) {
        prefetch(&row_of_[list[left - kAhead]]);
        prefetch(&words_[row_of_[list[left - kAhead / 2]]]);
      }
      Filed& filed = filed_[slot];
      if (number >= kRing) {
        if (filed.entry != number) continue;
        filed.entry = 0;
        if (filed.under != number && filed.under >= kRing) file(slot, filed.under, batch);  // used more often since
      }
      if (filed.under != number) continue;
      uint64_t& word = words_[row_of_[slot]];
      const uint32_t now = rank_of(word, batch);
      if (list_of(now, batch) != number) {  // a use became known
        file(slot, now, batch);
        continue;
      }
      word &= ~kSlotMask;
      return slot;
    }
  }
  return kNone;
}

// Of the lists of rows without a known use: most of their entries are valid, and memory that they needed once is freed.
void RowCalendar::drop_outdated() {
  const auto far = std::span(lists_).subspan(kRing);
  size_t entries = 0;
  for (const auto& list : far) entries += list.size();
  if (entries > slots_ + slots_ / 2 + kSpareEntries) {
    for (auto& list : far) {
      const auto number = static_cast<uint8_t>(&list - lists_.data());
      std::erase_if(list, [&](uint32_t slot) {
        const bool is_valid = filed_[slot].entry == number;
        if (is_valid) filed_[slot].entry = 0;  // another entry of this slot would be the same
        return !is_valid;
      });
      for (const uint32_t slot : list) filed_[slot].entry = number;
    }
  }
  for (auto& list : far) {
    if (list.capacity() > 2 * list.size() + kSpareEntries) list.shrink_to_fit();
  }
}

}  // namespace gz
