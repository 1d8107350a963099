// open_table: a hash table with open addressing and linear probing, for keys that are only added.
//
// Tables that a benchmark depends on have layouts of their own: sample/subgraph/growing.h, sweep/row_window.h and
// compile/ids/id_map_table.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace gz {

template <class Slot>
class OpenTable {
 public:
  // Empties the table and makes room for `most` keys; half of the slots stay free.
  void reset(size_t most, const Slot& empty = {}) {
    slots_.assign(slots_for(most), empty);
    mask_ = slots_.size() - 1;
  }

  // Makes room without emptying, for slots that say themselves whether they are out of date.
  void resize(size_t most) {
    const size_t slots = slots_for(most);
    if (slots > slots_.size()) slots_.assign(slots, {});
    mask_ = slots - 1;
  }

  // The first slot from the hash on for which `stop` is true: it holds the key, or is empty.
  template <class Stop>
  Slot& find(uint64_t hash, const Stop& stop) {
    return slots_[place(hash, stop)];
  }
  template <class Stop>
  const Slot& find(uint64_t hash, const Stop& stop) const {
    return slots_[place(hash, stop)];
  }

 private:
  static size_t slots_for(size_t most) { return std::bit_ceil(std::max<size_t>(2 * most, 16)); }

  template <class Stop>
  size_t place(uint64_t hash, const Stop& stop) const {
    size_t at = static_cast<size_t>(hash) & mask_;
    while (!stop(slots_[at])) at = (at + 1) & mask_;
    return at;
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

// Where a key first occurs in a list of fewer than 2^32 - 1 keys. The list belongs to the caller.
class IndexTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit IndexTable(size_t most) { table_.reset(most, kNone); }

  // The index of `key`, kNone where it has none yet.
  uint32_t& find(std::span<const int64_t> keys, int64_t key) { return table_.find(hash(key), Stop{keys, key}); }
  uint32_t find(std::span<const int64_t> keys, int64_t key) const { return table_.find(hash(key), Stop{keys, key}); }

 private:
  struct Stop {
    std::span<const int64_t> keys;
    int64_t key;
    bool operator()(uint32_t index) const { return index == kNone || keys[index] == key; }
  };
  static uint64_t hash(int64_t key) { return mix(static_cast<uint64_t>(key)); }

  OpenTable<uint32_t> table_;
};

}  // namespace gz
