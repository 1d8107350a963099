// relabel: the table that turns nodes into labels 0, 1, 2, ... in the order they are met.
//
// Open addressing, linear probing, one 64-bit word an entry: tag in the upper half, value in the lower. A value is a
// label, or a claim (top bit set): the number of the edge that met the node first, whose label is written elsewhere.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/memory.h"
#include "base/prefetch.h"
#include "base/random.h"

namespace gz {

constexpr uint32_t kClaim = uint32_t{1} << 31;  // and the limit on nodes and on edges of a subgraph

// Where to look, and what to compare. Narrow ids are their own tags; wide ids and (node, batch) pairs are hashed, and
// an equal tag is then confirmed against the node itself.
struct LabelKey {
  uint64_t hash;
  uint32_t tag;

  // Which of 2^bits tables the key belongs to. The table itself looks at the bits below those.
  size_t part(int bits) const { return bits == 0 ? 0 : static_cast<size_t>(hash >> (64 - bits)); }
};
inline LabelKey narrow_key(uint64_t node) { return {node * kGolden, static_cast<uint32_t>(node)}; }
inline LabelKey hashed_key(uint64_t node, uint64_t batch) {
  const uint64_t hash = mix(mix(node + kGolden) + batch);
  return {hash, static_cast<uint32_t>(hash)};
}

// One thread at a time.
class LabelTable {
 public:
  // Makes room for `more` further nodes. When that takes a larger table, what is in the old one moves over:
  // `key_of(tag, value)` is the key it was entered under.
  template <class KeyOf>
  void reserve(size_t more, int part_bits, const KeyOf& key_of) {
    const size_t most = size_ + more;
    if (entries_ != nullptr && most + most / 2 <= mask_ + 1) return;
    size_t capacity = 1024;
    while (capacity < most + most / 2) capacity *= 2;
    const auto old_buffer = std::move(buffer_);
    const uint64_t* old = std::exchange(entries_, nullptr);
    const size_t old_capacity = old == nullptr ? 0 : mask_ + 1;
    buffer_ = BufferPool::take(capacity * sizeof(uint64_t), Purpose::kTables);
    entries_ = buffer_->as<uint64_t>();
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    skip_ = part_bits;
    std::memset(entries_, 0xff, capacity * sizeof(uint64_t));
    for (size_t i = 0; i < old_capacity; ++i) {
      if (old[i] == kEmpty) continue;
      size_t at = home(key_of(static_cast<uint32_t>(old[i] >> 32), static_cast<uint32_t>(old[i])));
      while (entries_[at] != kEmpty) at = (at + 1) & mask_;
      entries_[at] = old[i];
    }
  }

  void prefetch_slot(LabelKey key) const { prefetch(entries_ + home(key)); }

  // The value that stands for `key`: the one that was there, or `fresh` when there was none. `same(value)` confirms an
  // entry with an equal tag. The table must have room.
  template <class Same>
  uint32_t enter(LabelKey key, uint32_t fresh, const Same& same) {
    for (size_t at = home(key);; at = (at + 1) & mask_) {
      const uint64_t entry = entries_[at];
      if (entry == kEmpty) {
        entries_[at] = uint64_t{key.tag} << 32 | fresh;
        ++size_;
        return fresh;
      }
      const auto value = static_cast<uint32_t>(entry);
      if (static_cast<uint32_t>(entry >> 32) == key.tag && same(value)) return value;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // the claim of edge 2^31 - 1, which no subgraph has

  size_t home(LabelKey key) const { return static_cast<size_t>((key.hash << skip_) >> shift_); }

  std::shared_ptr<Buffer> buffer_;
  uint64_t* entries_ = nullptr;
  size_t mask_ = 0, size_ = 0;
  int shift_ = 64, skip_ = 0;
};

}  // namespace gz
