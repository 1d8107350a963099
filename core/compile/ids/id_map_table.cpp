// id_map_table: linear probing from the start of a cache line, at most three quarters full.
#include "compile/ids/id_map_table.h"

#include <algorithm>
#include <bit>

namespace gz {

uint64_t IdTable::capacity_for(const Part& part, uint32_t more) {
  const uint64_t keys = part.count + more;
  if (keys * 4 <= part.capacity * 3) return part.capacity;
  return std::bit_ceil(std::max<uint64_t>(16, keys * 4 / 3 + 1));
}

uint64_t IdTable::bytes_with(const std::array<uint32_t, kParts>& more) const {
  uint64_t bytes = 0;
  for (size_t p = 0; p < kParts; ++p) bytes += capacity_for(parts_[p], more[p]) * sizeof(Slot);
  return bytes;
}

void IdTable::make_room(size_t index, uint32_t more) {
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

}  // namespace gz
