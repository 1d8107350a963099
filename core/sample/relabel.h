// relabel: the table that turns nodes into labels 0, 1, 2, ... in the order they are met.
//
// Open addressing, linear probing, one 64-bit word an entry: tag in the upper half, value in the lower. A value is a
// label, or a claim: the number of an edge of this hop (with the top bit set) whose neighbour is new. Of two values for
// one node the smaller stands: labels are below claims, and the claim of the earliest edge is the one that will count.
// So threads may enter edges in any order, and the labels come out as if one thread had walked the edges in order.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/memory.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/threads.h"

namespace gz {

constexpr uint32_t kClaim = uint32_t{1} << 31;  // and the limit on nodes of a subgraph and on edges of a hop

// Where to look, and what to compare. Narrow ids are their own tags; wide ids and (node, batch) pairs are hashed, and
// an equal tag is then confirmed against the node itself.
struct LabelKey {
  uint64_t hash;
  uint32_t tag;
};
inline LabelKey narrow_key(uint64_t node) { return {node * kGolden, static_cast<uint32_t>(node)}; }
inline LabelKey hashed_key(uint64_t node, uint64_t batch) {
  const uint64_t hash = mix(mix(node + kGolden) + batch);
  return {hash, static_cast<uint32_t>(hash)};
}

class LabelTable {
 public:
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  // Makes room for `most` nodes; true when the table is a new one, empty.
  bool reserve(size_t most, int threads) {
    size_t capacity = 1024;
    while (capacity < most + most / 2) capacity *= 2;
    if (entries_ != nullptr && capacity <= mask_ + 1) return false;
    buffer_.reset();  // back to the pool first: the larger one may be it
    buffer_ = BufferPool::take(capacity * sizeof(uint64_t), Purpose::kTables);
    entries_ = buffer_->as<uint64_t>();
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    parallel_for(capacity, size_t{1} << 16, threads, [&](size_t begin, size_t end, int) {
      std::memset(entries_ + begin, 0xff, (end - begin) * sizeof(uint64_t));
    });
    return true;
  }

  void prefetch_slot(LabelKey key) const { prefetch(entries_ + (key.hash >> shift_)); }

  // The value that stands for `key`: the one that was there, or `fresh` when there was none. `same(value)` confirms an
  // entry with an equal tag. One thread.
  template <class Same>
  uint32_t enter(LabelKey key, uint32_t fresh, const Same& same) {
    for (size_t at = key.hash >> shift_;; at = (at + 1) & mask_) {
      const uint64_t entry = entries_[at];
      if (entry == kEmpty) {
        entries_[at] = uint64_t{key.tag} << 32 | fresh;
        return fresh;
      }
      const auto value = static_cast<uint32_t>(entry);
      if (static_cast<uint32_t>(entry >> 32) == key.tag && same(value)) return value;
    }
  }

  struct Entered {
    uint32_t slot;
    uint32_t value;      // what stands now
    uint32_t displaced;  // the larger value that stood before; `value` itself when nothing was displaced
  };

  // The same for many threads at once, with `fresh` standing when it is smaller than what was there.
  template <class Same>
  Entered enter_shared(LabelKey key, uint32_t fresh, const Same& same) {
    const uint64_t ours = uint64_t{key.tag} << 32 | fresh;
    for (size_t at = key.hash >> shift_;; at = (at + 1) & mask_) {
      std::atomic_ref<uint64_t> slot(entries_[at]);
      uint64_t entry = slot.load(std::memory_order_acquire);
      if (entry == kEmpty && slot.compare_exchange_strong(entry, ours, std::memory_order_acq_rel)) {
        return {static_cast<uint32_t>(at), fresh, fresh};
      }
      if (static_cast<uint32_t>(entry >> 32) != key.tag || !same(static_cast<uint32_t>(entry))) continue;
      while (fresh < static_cast<uint32_t>(entry)) {  // only the value of an entry ever changes
        if (slot.compare_exchange_weak(entry, ours, std::memory_order_acq_rel)) {
          return {static_cast<uint32_t>(at), fresh, static_cast<uint32_t>(entry)};
        }
      }
      return {static_cast<uint32_t>(at), static_cast<uint32_t>(entry), static_cast<uint32_t>(entry)};
    }
  }

  uint32_t value(uint32_t slot) const {
    return static_cast<uint32_t>(std::atomic_ref<uint64_t>(entries_[slot]).load(std::memory_order_relaxed));
  }
  void prefetch_at(uint32_t slot) const { prefetch(entries_ + slot); }
  void set_value(uint32_t slot, uint32_t value) {  // by the one thread that owns the claim
    std::atomic_ref<uint64_t> entry(entries_[slot]);
    const uint64_t tag = entry.load(std::memory_order_relaxed) >> 32;
    entry.store(tag << 32 | value, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<Buffer> buffer_;
  uint64_t* entries_ = nullptr;
  size_t mask_ = 0;
  int shift_ = 64;
};

}  // namespace gz
