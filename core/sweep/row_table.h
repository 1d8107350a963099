// row_table: which slot of a window a row is in.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/memory.h"
#include "base/prefetch.h"
#include "base/random.h"

namespace gz {

// Row id -> slot for a window of so many slots, in 16 bytes per slot, independent of the number of rows in the file.
//
// Open addressing. An entry is a tag, which determines its home position, and the slot number plus one; the slot itself
// stores the whole id, which `id_of(slot)` returns. Sixteen neighbouring ids are stored next to each other, at a hash
// of their common bits: rows are mostly looked up in file order, so lookups share cache lines and pages. Half of the
// entries stay free, which keeps searches short.
class HashedRows {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kSlotBytes = 2 * sizeof(uint64_t);  // per slot

  HashedRows() = default;
  explicit HashedRows(uint64_t capacity)
      : count_(static_cast<size_t>(2 * capacity + 2)),
        memory_(Buffer::zeroed(count_ * sizeof(uint64_t), Purpose::kCache, Buffer::Pages::kHuge)),
        entries_(memory_.as<uint64_t>()) {}

  void prefetch_entry(uint64_t id) const { prefetch(entries_ + home(tag(id))); }

  template <class IdOf>
  uint32_t find(uint64_t id, const IdOf& id_of) const {
    const uint64_t tag = HashedRows::tag(id);
    for (size_t at = home(tag); entries_[at] != 0; at = after(at)) {
      if (tag_of(entries_[at]) == tag && id_of(slot_of(entries_[at])) == id) return slot_of(entries_[at]);
    }
    return kNone;
  }

  // The slot that most probably holds the id, without verifying it: for prefetching.
  uint32_t likely(uint64_t id) const {
    const uint64_t tag = HashedRows::tag(id);
    for (size_t at = home(tag); entries_[at] != 0; at = after(at)) {
      if (tag_of(entries_[at]) == tag) return slot_of(entries_[at]);
    }
    return kNone;
  }

  void insert(uint64_t id, uint32_t slot) {  // the id must be absent
    const uint64_t tag = HashedRows::tag(id);
    size_t at = home(tag);
    while (entries_[at] != 0) at = after(at);
    entries_[at] = tag | (uint64_t{slot} + 1);
  }

  // Removes the entry of a slot under `id`. Closes the gap by moving later entries back, so that searches stay short.
  void erase(uint64_t id, uint32_t slot) {
    size_t hole = home(tag(id));
    while (entries_[hole] != 0 && slot_of(entries_[hole]) != slot) hole = after(hole);
    if (entries_[hole] == 0) return;
    for (size_t at = after(hole); entries_[at] != 0; at = after(at)) {
      const size_t wants = home(tag_of(entries_[at]));
      const bool stays = hole <= at ? (hole < wants && wants <= at) : (hole < wants || wants <= at);
      if (stays) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = 0;
  }

 private:
  static constexpr int kNear = 4;  // bits of an id in which neighbours differ
  static constexpr uint64_t kTag = ~uint64_t{0xffffffff}, kHash = ~uint64_t{0xfffffffff};

  // The upper half of a word: 28 bits of a hash of the common bits, and the four in which neighbours differ.
  static uint64_t tag(uint64_t id) { return (mix(id >> kNear) & kHash) | (id & 15) << 32; }
  static uint64_t tag_of(uint64_t entry) { return entry & kTag; }
  size_t home(uint64_t tag) const {
    const size_t at = static_cast<size_t>(multiply_high(tag & kHash, count_) + (tag >> 32 & 15));
    return at < count_ ? at : at % count_;
  }
  size_t after(size_t at) const { return at + 1 == count_ ? 0 : at + 1; }
  static uint32_t slot_of(uint64_t entry) { return static_cast<uint32_t>(entry & 0xffffffffu) - 1; }

  size_t count_ = 0;
  Buffer memory_;
  uint64_t* entries_ = nullptr;
};

// Row id -> slot: by a number for each row of the file where that takes little memory, otherwise hashed. Rows are
// looked up in file order, so a number per row is found without a search, mostly on the cache line of the row before
// it. Numbers have three bytes where that suffices: memory is for rows.
class RowTable {
 public:
  static constexpr uint32_t kNone = HashedRows::kNone;
  static constexpr uint64_t kMostOfFew = (uint64_t{1} << 24) - 1;  // slots whose numbers have three bytes
  enum class Kind { kDirect, kHashed };

  static uint64_t slot_bytes(Kind kind) { return kind == Kind::kDirect ? 0 : HashedRows::kSlotBytes; }
  // For a file of so many rows and a window of so many slots.
  static uint64_t fixed_bytes(Kind kind, uint64_t rows, uint64_t capacity) {
    return kind == Kind::kDirect ? rows * width_for(capacity) + sizeof(uint32_t) : 0;  // whole words are loaded
  }

  RowTable(Kind kind, uint64_t rows, uint64_t capacity) : width_(width_for(capacity)) {
    if (kind == Kind::kHashed) {
      hashed_ = HashedRows(capacity);
      return;
    }
    memory_ = Buffer::zeroed(fixed_bytes(kind, rows, capacity), Purpose::kCache, Buffer::Pages::kHuge);
    direct_ = memory_.data();
  }

  void prefetch_entry(uint64_t id) const {
    if (direct_ != nullptr) return prefetch(direct_ + id * width_);
    hashed_.prefetch_entry(id);
  }
  template <class IdOf>
  uint32_t find(uint64_t id, const IdOf& id_of) const {
    return direct_ != nullptr ? number_of(id) - 1 : hashed_.find(id, id_of);
  }
  // The slot that most probably holds the id, to prefetch it.
  uint32_t likely(uint64_t id) const { return direct_ != nullptr ? number_of(id) - 1 : hashed_.likely(id); }
  void insert(uint64_t id, uint32_t slot) {  // the id must be absent
    if (direct_ != nullptr) {
      set_number(id, slot + 1);
    } else {
      hashed_.insert(id, slot);
    }
  }
  void erase(uint64_t id, uint32_t slot) {
    if (direct_ != nullptr) {
      set_number(id, 0);
    } else {
      hashed_.erase(id, slot);
    }
  }

 private:
  static uint64_t width_for(uint64_t capacity) { return capacity <= kMostOfFew ? 3 : 4; }

  static_assert(std::endian::native == std::endian::little);  // a number begins with its lowest byte

  // Its slot plus one, 0 if it has none.
  uint32_t number_of(uint64_t id) const {
    uint32_t word;
    std::memcpy(&word, direct_ + id * width_, sizeof word);
    return word & (UINT32_MAX >> (32 - 8 * width_));
  }
  void set_number(uint64_t id, uint32_t number) {
    std::byte* const to = direct_ + id * width_;
    std::memcpy(to, &number, 3);
    if (width_ == 4) to[3] = static_cast<std::byte>(number >> 24);
  }

  const uint64_t width_;  // bytes of a number
  Buffer memory_;
  std::byte* direct_ = nullptr;  // numbers by row; null: hashed
  HashedRows hashed_;
};

}  // namespace gz
