// labels: the table that turns nodes into labels 0, 1, 2, ... in the order they are reached.
//
// Open addressing, linear probing, one 64-bit word per entry: tag in the upper half, label in the lower.
// Used by one thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/interrupt.h"
#include "base/memory.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/threads.h"
#include "sample/subgraph/growing.h"

namespace gz {

// kNarrow: ids are 32-bit and subgraphs share nodes, so an id is its own tag. Otherwise ids and (node, batch) pairs are
// hashed, and an equal tag is confirmed against the node itself.
template <bool kNarrow>
class Labels {
 public:
  // Labels go to these nodes. Those there are are entered now; a seed that comes again keeps its first label. There
  // is room for `more`.
  explicit Labels(GrowingNodes& nodes, size_t more = 0) : nodes_(nodes) {
    reserve(nodes_.nodes + more, 1);
    for (size_t i = 0; i < nodes_.nodes; ++i) {
      if (i % kAtOnce == 0) check_interrupt();
      const auto node = static_cast<uint64_t>(nodes_.node[i]);
      const int64_t batch = nodes_.disjoint ? nodes_.batch[i] : 0;
      const Key key = key_of(node, batch);
      const size_t at = find(key, node, batch);
      if (entries_[at] == kEmpty) entries_[at] = entry(key, i);
    }
  }

  // Reserves capacity for `nodes` in total.
  void reserve(size_t nodes, int threads) {
    if (entries_ != nullptr && nodes + nodes / 2 <= mask_ + 1) return;
    const size_t capacity = std::bit_ceil(std::max<size_t>(nodes + nodes / 2, 1024));
    const auto old_buffer = std::move(buffer_);
    const uint64_t* old = std::exchange(entries_, nullptr);
    const size_t old_capacity = old == nullptr ? 0 : mask_ + 1;
    buffer_ = take_buffer(capacity * sizeof(uint64_t), Purpose::kTables);
    entries_ = buffer_->template as<uint64_t>();
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    parallel_for(capacity, kAtOnce, threads, [&](size_t begin, size_t end, int) {
      std::memset(entries_ + begin, 0xff, (end - begin) * sizeof(uint64_t));
    });
    for (size_t i = 0; i < old_capacity; ++i) {
      if (i % kAtOnce == 0) check_interrupt();
      if (old[i] == kEmpty) continue;
      size_t at = home(key_of_entry(old[i]));
      while (entries_[at] != kEmpty) at = (at + 1) & mask_;
      entries_[at] = old[i];
    }
  }

  uint64_t bytes() const { return buffer_->size(); }

  // Labels edges from `first` on, whose `col` is there and whose neighbours are given: writes their `row` and adds the
  // nodes that are new. `trees` are the batches of the nodes that `col` counts. There must be room.
  template <class Id>
  void label(const GrowingEdges& edges, size_t first, const int64_t* trees, const Id* neighbours, size_t count) {
    constexpr size_t kAhead = 24;  // benchmarks/sampling: flat from 16 to 48
    size_t nodes = nodes_.nodes;
    int64_t *const node = nodes_.node, *const batches = nodes_.batch, *const row = edges.row + first;
    const int64_t* const col = edges.col + first;
    const auto batch_of = [&](size_t i) { return nodes_.disjoint ? trees[col[i]] : 0; };
    const auto ask = [&](size_t i) { prefetch(entries_ + home(key_of(neighbours[i], batch_of(i)))); };
    for (size_t i = 0; i < std::min(kAhead, count); ++i) ask(i);
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) ask(i + kAhead);
      const Id neighbour = neighbours[i];
      const int64_t batch = batch_of(i);
      const Key key = key_of(neighbour, batch);
      const size_t at = find(key, neighbour, batch);
      // New or not is a coin toss that no processor guesses: written as a choice of values, it is not guessed at.
      const bool fresh = entries_[at] == kEmpty;
      const uint64_t word = fresh ? entry(key, nodes) : entries_[at];
      entries_[at] = word;
      node[nodes] = static_cast<int64_t>(neighbour);
      if (nodes_.disjoint) batches[nodes] = batch;
      nodes += fresh;
      row[i] = static_cast<int64_t>(word & UINT32_MAX);
    }
    nodes_.nodes = nodes;
  }

 private:
  static constexpr size_t kAtOnce = size_t{1} << 15;  // entries that a thread empties
  static constexpr uint64_t kEmpty = ~uint64_t{0};    // label 2^32 - 1, which no subgraph has

  struct Key {
    uint64_t hash, tag;
  };

  Key key_of(uint64_t node, int64_t batch) const {
    if constexpr (kNarrow) return {node * kGolden, node};
    const uint64_t hash = mix(mix(node + kGolden) + static_cast<uint64_t>(batch));
    return {hash, hash & UINT32_MAX};
  }
  Key key_of_entry(uint64_t word) const {
    if constexpr (kNarrow) return key_of(word >> 32, 0);
    const auto label = static_cast<size_t>(word & UINT32_MAX);
    return key_of(static_cast<uint64_t>(nodes_.node[label]), nodes_.disjoint ? nodes_.batch[label] : 0);
  }
  static uint64_t entry(Key key, size_t label) { return key.tag << 32 | label; }
  size_t home(Key key) const { return static_cast<size_t>(key.hash >> shift_); }

  // The slot of (node, batch), or the empty slot for it.
  size_t find(Key key, uint64_t node, int64_t batch) const {
    size_t at = home(key);
    if constexpr (kNarrow) {
      while (is_another(entries_[at], key)) [[unlikely]] {
        at = (at + 1) & mask_;
      }
      return at;
    }
    while (entries_[at] != kEmpty && !is(entries_[at], key, node, batch)) [[unlikely]] {
      at = (at + 1) & mask_;
    }
    return at;
  }
  // Neither empty nor the key's. Nearly every place is one of the two, but which one is unpredictable: a single
  // arithmetic test leaves one branch that is predicted well, where compilers split `&&` and `&` into two
  // (benchmarks/hetero).
  static bool is_another(uint64_t word, Key key) {
    const uint64_t other = word >> 32 ^ key.tag, label = ~word & UINT32_MAX;
    return static_cast<int64_t>((0 - other) & (0 - label)) < 0;
  }
  bool is(uint64_t word, Key key, uint64_t node, int64_t batch) const {
    if (word >> 32 != key.tag) return false;
    const auto label = static_cast<size_t>(word & UINT32_MAX);
    return static_cast<uint64_t>(nodes_.node[label]) == node && (!nodes_.disjoint || nodes_.batch[label] == batch);
  }

  GrowingNodes& nodes_;
  std::shared_ptr<Buffer> buffer_;
  uint64_t* entries_ = nullptr;
  size_t mask_ = 0;
  int shift_ = 64;
};

}  // namespace gz
