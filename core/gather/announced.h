// announced: which of the next batches will need a row, for those rows that one of them needs.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "base/memory.h"
#include "base/random.h"

namespace gz {

// A table of row -> bits, one bit a batch by its number modulo 64: 16 bytes a row and the room between them, so a
// window of many batches costs what its distinct rows cost. Not thread-safe.
class Announced {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr uint64_t kWindow = 64;  // batches that may be announced at once

  void add(uint64_t number, std::span<const int64_t> ids) {
    for (const int64_t id : ids) {
      if ((used_ + 1) * 3 > entries_.size() * 2) grow();
      Entry& entry = *find(static_cast<uint64_t>(id));
      if (entry.bits == 0) {
        entry.id = static_cast<uint64_t>(id);
        ++used_;
      }
      entry.bits |= bit(number);
    }
  }

  // How many batches after `first`, the first of those that are announced, the row is needed; kNever when it is not.
  uint64_t next(uint64_t id, uint64_t first) const {
    if (used_ == 0) return kNever;
    const uint64_t turned = std::rotr(find(id)->bits, static_cast<int>(first % kWindow));
    return turned == 0 ? kNever : static_cast<uint64_t>(std::countr_zero(turned));
  }

  // Batch `number` has its rows.
  void remove(uint64_t number, std::span<const int64_t> ids) {
    for (const int64_t id : ids) {
      if (used_ == 0) return;
      Entry* entry = find(static_cast<uint64_t>(id));
      if (entry->bits == 0) continue;
      entry->bits &= ~bit(number);
      if (entry->bits == 0) close(entry);
    }
  }

  void clear() {
    buffer_ = Buffer();
    entries_ = {};
    used_ = 0;
  }
  uint64_t bytes() const { return buffer_.size(); }

 private:
  struct Entry {
    uint64_t id, bits;  // bits == 0: empty
  };

  static uint64_t bit(uint64_t number) { return uint64_t{1} << (number % kWindow); }
  size_t home(uint64_t id) const { return static_cast<size_t>(multiply_high(mix(id), entries_.size())); }
  Entry* after(Entry* at) const { return at + 1 == entries_.data() + entries_.size() ? entries_.data() : at + 1; }

  Entry* find(uint64_t id) const {  // the entry, or the empty one where it would be
    Entry* at = &entries_[home(id)];
    while (at->bits != 0 && at->id != id) at = after(at);
    return at;
  }

  void close(Entry* hole) {
    --used_;
    for (Entry* at = after(hole); at->bits != 0; at = after(at)) {
      const Entry* wants = &entries_[home(at->id)];
      const bool stays = hole <= at ? (hole < wants && wants <= at) : (hole < wants || wants <= at);
      if (stays) continue;
      *hole = *at;
      at->bits = 0;
      hole = at;
    }
  }

  void grow() {
    const auto old = entries_;
    Buffer kept = std::move(buffer_);
    const size_t size = old.empty() ? 4096 : old.size() * 2;
    buffer_ = Buffer(size * sizeof(Entry), Purpose::kCache);
    entries_ = {buffer_.as<Entry>(), size};
    for (Entry& entry : entries_) entry.bits = 0;
    for (const Entry& entry : old) {
      if (entry.bits != 0) *find(entry.id) = entry;
    }
  }

  Buffer buffer_;
  std::span<Entry> entries_;
  size_t used_ = 0;
};

}  // namespace gz
