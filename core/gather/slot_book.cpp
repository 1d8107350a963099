// slot_book: SIEVE, with the future where it is known.
#include "gather/slot_book.h"

#include <algorithm>
#include <utility>

namespace gz {
namespace {

constexpr int kMostLooks = 32;  // awaited rows looked at before one of them has to go
constexpr size_t kAhead = 32;   // look-ups in flight

}  // namespace

uint64_t SlotBook::bytes_for(uint64_t capacity) {
  return capacity * sizeof(Slot) + RowTable::entries_for(capacity) * sizeof(uint64_t);
}

SlotBook::SlotBook(std::byte* memory, uint64_t capacity)
    : slots_(reinterpret_cast<Slot*>(memory), static_cast<size_t>(capacity)) {
  const std::span<uint64_t> entries(reinterpret_cast<uint64_t*>(memory + capacity * sizeof(Slot)),
                                    RowTable::entries_for(capacity));
  std::fill(entries.begin(), entries.end(), 0);
  table_ = RowTable(entries);
}

// Two cache misses a row, the table's and the slot's: each is asked for a block ahead of its use.
void SlotBook::find_all(std::span<const int64_t> ids, std::span<uint32_t> found) {
  for (size_t begin = 0; begin < ids.size(); begin += kAhead) {
    const auto block = ids.subspan(begin, std::min(kAhead, ids.size() - begin));
    for (const int64_t id : block) table_.prefetch_entry(static_cast<uint64_t>(id));
    for (const int64_t id : block) {
      const uint32_t slot = table_.likely(static_cast<uint64_t>(id));
      if (slot != kNone) prefetch(&slots_[slot]);
    }
    for (size_t i = 0; i < block.size(); ++i) {
      const uint32_t slot = find(static_cast<uint64_t>(block[i]));
      if (slot != kNone) slots_[slot].visited = true;
      found[begin + i] = slot;
    }
  }
}

void SlotBook::link(uint32_t s) {
  slots_[s].older = newest_;
  slots_[s].newer = kNone;
  (newest_ == kNone ? oldest_ : slots_[newest_].newer) = s;
  newest_ = s;
}

void SlotBook::unlink(uint32_t s) {
  const Slot& slot = slots_[s];
  if (hand_ == s) hand_ = slot.newer;
  (slot.older == kNone ? oldest_ : slots_[slot.older].newer) = slot.newer;
  (slot.newer == kNone ? newest_ : slots_[slot.newer].older) = slot.older;
}

// SIEVE: the hand goes from old to new over rows that stay where they are; one that was used since it last passed is
// spared once. Rows that a coming batch needs are spared too. When the hand meets nothing but those, the one that is
// due last has to go, if the new row is due before it.
uint32_t SlotBook::victim(uint64_t new_due) {
  uint32_t last = kNone;
  uint64_t last_due = new_due;
  for (int looks = 0; looks < kMostLooks;) {
    if (hand_ == kNone) hand_ = oldest_;
    if (hand_ == kNone) return kNone;  // all is pinned
    const uint32_t s = hand_;
    hand_ = slots_[s].newer;
    const uint64_t when = due(slots_[s].id);
    if (when != Announced::kNever) {
      ++looks;
      if (when > last_due) {
        last = s;
        last_due = when;
      }
    } else if (slots_[s].visited) {
      slots_[s].visited = false;
    } else {
      return s;
    }
  }
  return last;
}

uint32_t SlotBook::place(uint64_t id, bool pinned) {
  uint32_t s = kNone;
  if (free_ != kNone) {
    s = free_;
    free_ = slots_[s].newer;
  } else if (touched_ < slots_.size()) {
    s = touched_++;
  } else {
    s = victim(pinned ? 0 : due(id));
    if (s == kNone) return kNone;
    unlink(s);
    table_.erase(slots_[s].id, s);
    ++evicted_;
    --resident_;
  }
  slots_[s] = {id, kNone, kNone, false, pinned, true};
  table_.insert(id, s);
  if (pinned) {
    ++pinned_;
  } else {
    link(s);
  }
  ++resident_;
  return s;
}

void SlotBook::pin(uint32_t slot) {
  if (slots_[slot].pinned) return;
  unlink(slot);
  slots_[slot].pinned = true;
  ++pinned_;
}

bool SlotBook::take_fresh(uint32_t slot) { return std::exchange(slots_[slot].fresh, false); }

void SlotBook::clear() {
  for (uint32_t s = oldest_; s != kNone;) {
    const uint32_t next = slots_[s].newer;
    table_.erase(slots_[s].id, s);
    slots_[s].newer = free_;
    free_ = s;
    --resident_;
    s = next;
  }
  oldest_ = newest_ = hand_ = kNone;
}

void SlotBook::announce(uint64_t number, std::span<const int64_t> ids) {
  pending_.insert(number);
  announced_.add(number, ids);
}

bool SlotBook::served(uint64_t number, std::span<const int64_t> ids) {
  if (pending_.erase(number) == 0) return false;
  announced_.remove(number, ids);
  if (pending_.empty()) announced_.clear();
  return true;
}

void SlotBook::forget_announced() {
  pending_.clear();
  announced_.clear();
}

}  // namespace gz
