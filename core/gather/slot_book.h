// slot_book: which row is in which slot of a cache, and which one gives up its place. No bytes, no locks.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "gather/announced.h"
#include "gather/row_table.h"

namespace gz {

class SlotBook {
 public:
  static constexpr uint32_t kNone = RowTable::kNone;

  struct Slot {
    uint64_t id;
    uint32_t older, newer;  // neighbours in the order of arrival
    bool visited;           // used since the hand last passed
    bool pinned;            // in no order, never given up
    bool fresh;             // its bytes are still to come
  };

  // Memory for `capacity` slots, laid out by the caller.
  static uint64_t bytes_for(uint64_t capacity);
  SlotBook() = default;
  SlotBook(std::byte* memory, uint64_t capacity);

  uint32_t capacity() const { return static_cast<uint32_t>(slots_.size()); }
  uint32_t resident() const { return resident_; }
  uint32_t pinned() const { return pinned_; }
  uint64_t evicted() const { return evicted_; }
  const Slot& operator[](uint32_t slot) const { return slots_[slot]; }

  uint32_t find(uint64_t id) const { return table_.find(id, id_of()); }
  // The slots of many ids, kNone where there is none, with the look-ups interleaved; found ones count as used.
  void find_all(std::span<const int64_t> ids, std::span<uint32_t> found);

  // A place for a row that is not held; kNone when what is held is worth more. The slot is fresh.
  uint32_t place(uint64_t id, bool pinned);
  void pin(uint32_t slot);
  bool take_fresh(uint32_t slot);  // whether the slot was fresh; it no longer is
  void clear();                    // all that is not pinned

  // Batches to come; see RowCache. served() tells whether the batch had been announced.
  bool can_announce(uint64_t number) const {
    return pending_.empty() || (number >= *pending_.begin() && number - *pending_.begin() < Announced::kWindow);
  }
  void announce(uint64_t number, std::span<const int64_t> ids);
  bool served(uint64_t number, std::span<const int64_t> ids);
  void forget_announced();
  uint64_t announced_bytes() const { return announced_.bytes(); }

 private:
  struct IdOf {
    const Slot* slots;
    uint64_t operator()(uint32_t slot) const { return slots[slot].id; }
  };
  IdOf id_of() const { return {slots_.data()}; }
  // How many batches from now the row is needed, kNever when none that was announced needs it.
  uint64_t due(uint64_t id) const {
    return pending_.empty() ? Announced::kNever : announced_.next(id, *pending_.begin());
  }
  uint32_t victim(uint64_t new_due);
  void link(uint32_t slot);
  void unlink(uint32_t slot);

  std::span<Slot> slots_;
  RowTable table_;
  Announced announced_;
  std::set<uint64_t> pending_;  // batches announced and not yet served
  uint32_t oldest_ = kNone, newest_ = kNone, hand_ = kNone;
  uint32_t free_ = kNone;  // slots that were cleared, linked by `newer`
  uint32_t touched_ = 0;   // slots from here on were never used
  uint32_t resident_ = 0, pinned_ = 0;
  uint64_t evicted_ = 0;
};

}  // namespace gz
