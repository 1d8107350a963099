// id_map_table: maps keys to dense ids in RAM: 256 hash tables of 16-byte slots, partitioned by the key's hash, so that
// threads share nothing and growing rehashes one part at a time.
//
// Keys themselves are not stored: 96 bits of their hash identify them (64 in the slot, 24 next to the id, 8 by the
// part). Searches are linear from the start of a cache line, and a part is at most three quarters full. The probability
// that two of 10^9 keys collide is 10^-11, less than that of a wrong byte from a disk.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/key_hash.h"
#include "base/memory.h"
#include "base/prefetch.h"

namespace gz {

class IdTable {
 public:
  static constexpr size_t kParts = 256;
  static constexpr uint64_t kMostIds = (uint64_t{1} << 39) - 1;

  struct Slot {
    uint64_t high = 0;
    uint64_t tag_id = 0;  // 24 bits of the hash, 40 of id + 1; 0: empty
    uint64_t id() const { return (tag_id & kIdMask) - 1; }
    void set_id(uint64_t id) { tag_id = (tag_id & ~kIdMask) | (id + 1); }
  };

  static size_t part_of(const KeyHash& hash) { return static_cast<size_t>(hash.low >> 56); }
  static uint64_t tag_of(const KeyHash& hash) { return hash.low << 40; }  // the lower 40 bits are 0

  // Bytes of all parts with capacity for `more[p]` more keys in part p.
  uint64_t bytes_with(const std::array<uint32_t, kParts>& more) const {
    uint64_t bytes = 0;
    for (size_t p = 0; p < kParts; ++p) bytes += capacity_for(parts_[p], more[p]) * sizeof(Slot);
    return bytes;
  }
  void make_room(size_t index, uint32_t more) {
    Part& part = parts_[index];
    const uint64_t capacity = capacity_for(part, more);
    if (capacity == part.capacity) return;
    Buffer larger = Buffer::zeroed(static_cast<size_t>(capacity) * sizeof(Slot), Purpose::kCompile);
    Slot* to = larger.as<Slot>();
    const Slot* from = slots(part);
    for (uint64_t i = 0; i < part.capacity; ++i) {
      if (from[i].tag_id == 0) continue;
      uint64_t at = first_of(from[i].high, capacity);
      while (to[at].tag_id != 0) at = (at + 1) & (capacity - 1);
      to[at] = from[i];
    }
    part.buffer = std::move(larger);
    part.capacity = capacity;
  }

  void prefetch(size_t part, uint64_t high) const {
    const Part& p = parts_[part];
    if (p.capacity > 0) gz::prefetch(&slots(p)[first_of(high, p.capacity)]);
  }

  // The slot of a key, or the empty slot for it (call make_room() first); null if the part is full.
  Slot* find(size_t part, uint64_t high, uint64_t tag) {
    Part& p = parts_[part];
    if (p.capacity == 0) return nullptr;
    Slot* all = slots(p);
    for (uint64_t at = first_of(high, p.capacity);; at = (at + 1) & (p.capacity - 1)) {
      Slot& slot = all[at];
      if (slot.tag_id == 0 || (slot.high == high && (slot.tag_id & ~kIdMask) == tag)) return &slot;
    }
  }
  void fill(size_t part, Slot* slot, uint64_t high, uint64_t tag, uint64_t id) {
    slot->high = high;
    slot->tag_id = tag | (id + 1);
    ++parts_[part].count;
  }

 private:
  static constexpr uint64_t kIdMask = (uint64_t{1} << 40) - 1;
  static constexpr uint64_t kLine = 64 / sizeof(Slot);
  struct Part {
    Buffer buffer;
    uint64_t capacity = 0, count = 0;
  };
  // Where the search for a key begins: at the start of a cache line, so that most searches end in the prefetched line.
  static uint64_t first_of(uint64_t high, uint64_t capacity) { return high & (capacity - 1) & ~(kLine - 1); }
  static Slot* slots(const Part& part) { return part.buffer.as<Slot>(); }
  static uint64_t capacity_for(const Part& part, uint32_t more) {
    const uint64_t keys = part.count + more;
    if (keys * 4 <= part.capacity * 3) return part.capacity;
    return std::bit_ceil(std::max<uint64_t>(16, keys * 4 / 3 + 1));
  }

  std::array<Part, kParts> parts_;
};

}  // namespace gz
