// row_table: row id -> slot, in 12 bytes a row whatever the number of rows in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/prefetch.h"
#include "base/random.h"

namespace gz {

// Open addressing over memory that the caller brings (zeroed). An entry is 32 bits of the id's hash and the slot's
// number plus one; the slot itself keeps the whole id, and `id_of(slot)` tells it.
class RowTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static size_t entries_for(uint64_t capacity) { return static_cast<size_t>(capacity + capacity / 2 + 2); }

  RowTable() = default;
  explicit RowTable(std::span<uint64_t> entries) : entries_(entries) {}

  void prefetch_entry(uint64_t id) const { prefetch(&entries_[home(mix(id))]); }

  template <class IdOf>
  uint32_t find(uint64_t id, const IdOf& id_of) const {
    const uint64_t hash = mix(id);
    for (size_t at = home(hash); entries_[at] != 0; at = after(at)) {
      if (tag_of(entries_[at]) == tag(hash) && id_of(slot_of(entries_[at])) == id) return slot_of(entries_[at]);
    }
    return kNone;
  }

  // The slot that most probably holds the id, without a look at it: what to prefetch.
  uint32_t likely(uint64_t id) const {
    const uint64_t hash = mix(id);
    for (size_t at = home(hash); entries_[at] != 0; at = after(at)) {
      if (tag_of(entries_[at]) == tag(hash)) return slot_of(entries_[at]);
    }
    return kNone;
  }

  void insert(uint64_t id, uint32_t slot) {  // the id is not there
    const uint64_t hash = mix(id);
    size_t at = home(hash);
    while (entries_[at] != 0) at = after(at);
    entries_[at] = tag(hash) << 32 | (uint64_t{slot} + 1);
  }

  // Closes the hole by moving later entries back, so that searches stay short for ever.
  template <class IdOf>
  void erase(uint64_t id, const IdOf& id_of) {
    size_t hole = home(mix(id));
    while (entries_[hole] != 0 && id_of(slot_of(entries_[hole])) != id) hole = after(hole);
    if (entries_[hole] == 0) return;
    for (size_t at = after(hole); entries_[at] != 0; at = after(at)) {
      const size_t wants = home(mix(id_of(slot_of(entries_[at]))));
      const bool stays = hole <= at ? (hole < wants && wants <= at) : (hole < wants || wants <= at);
      if (stays) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = 0;
  }

 private:
  size_t home(uint64_t hash) const { return static_cast<size_t>(multiply_high(hash, entries_.size())); }
  size_t after(size_t at) const { return at + 1 == entries_.size() ? 0 : at + 1; }
  static uint64_t tag(uint64_t hash) { return hash & 0xffffffffu; }  // the upper bits chose the place
  static uint64_t tag_of(uint64_t entry) { return entry >> 32; }
  static uint32_t slot_of(uint64_t entry) { return static_cast<uint32_t>(entry & 0xffffffffu) - 1; }

  std::span<uint64_t> entries_;
};

}  // namespace gz
