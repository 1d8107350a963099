// row_table: row id -> slot, in 16 bytes per row, independent of the number of rows in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/prefetch.h"
#include "base/random.h"

namespace gz {

// Open addressing over zeroed memory provided by the caller. An entry is a tag, which determines its home position, and
// the slot number plus one; the slot itself stores the whole id, which `id_of(slot)` returns. Sixteen neighbouring ids
// are stored next to each other, at a hash of their common bits: rows are mostly looked up in file order, so lookups
// share cache lines and pages. Half of the entries stay free, which keeps searches short.
class RowTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static size_t entries_for(uint64_t capacity) { return static_cast<size_t>(2 * capacity + 2); }

  RowTable() = default;
  explicit RowTable(std::span<uint64_t> entries) : entries_(entries) {}

  void prefetch_entry(uint64_t id) const { prefetch(&entries_[home(tag(id))]); }

  template <class IdOf>
  uint32_t find(uint64_t id, const IdOf& id_of) const {
    const uint64_t tag = RowTable::tag(id);
    for (size_t at = home(tag); entries_[at] != 0; at = after(at)) {
      if (tag_of(entries_[at]) == tag && id_of(slot_of(entries_[at])) == id) return slot_of(entries_[at]);
    }
    return kNone;
  }

  // The slot that most probably holds the id, without verifying it: for prefetching.
  uint32_t likely(uint64_t id) const {
    const uint64_t tag = RowTable::tag(id);
    for (size_t at = home(tag); entries_[at] != 0; at = after(at)) {
      if (tag_of(entries_[at]) == tag) return slot_of(entries_[at]);
    }
    return kNone;
  }

  void insert(uint64_t id, uint32_t slot) {  // the id must be absent
    const uint64_t tag = RowTable::tag(id);
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
    const size_t at = static_cast<size_t>(multiply_high(tag & kHash, entries_.size()) + (tag >> 32 & 15));
    return at < entries_.size() ? at : at % entries_.size();
  }
  size_t after(size_t at) const { return at + 1 == entries_.size() ? 0 : at + 1; }
  static uint32_t slot_of(uint64_t entry) { return static_cast<uint32_t>(entry & 0xffffffffu) - 1; }

  std::span<uint64_t> entries_;
};

}  // namespace gz
