// segment_rows: the wanted rows of one segment of the file, and the claims that want them.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gz {

// Rows are counted from the first of the segment. Filled and cleared repeatedly, reusing its memory.
class SegmentRows {
 public:
  struct Entry {     // one row of one claim
    uint32_t claim;  // index in the caller's list
    uint32_t word;   // of the claim
    uint32_t next;   // entry of the same row
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit SegmentRows(size_t rows) : heads_(rows, kNone), slots_(rows, kNone), wanted_((rows + 63) / 64, 0) {}

  void add(uint32_t row, uint32_t claim, uint32_t word) {
    wanted_[row / 64] |= uint64_t{1} << row % 64;
    entries_.push_back({claim, word, heads_[row]});
    heads_[row] = static_cast<uint32_t>(entries_.size() - 1);
  }

  // The rows that have entries, in order. Call once, after the last add().
  std::span<const uint32_t> list() {
    for (uint32_t word = 0; word < wanted_.size(); ++word) {
      for (uint64_t bits = std::exchange(wanted_[word], 0); bits != 0; bits &= bits - 1) {
        rows_.push_back(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
    return rows_;
  }
  std::span<const uint32_t> rows() const { return rows_; }
  std::span<const Entry> entries() const { return entries_; }

  uint32_t slot(uint32_t row) const { return slots_[row]; }
  void set_slot(uint32_t row, uint32_t slot) { slots_[row] = slot; }

  template <class F>
  void for_each_entry(uint32_t row, const F& f) const {
    for (uint32_t e = heads_[row]; e != kNone; e = entries_[e].next) f(entries_[e]);
  }

  void clear() {
    for (const uint32_t row : rows_) heads_[row] = kNone;
    rows_.clear();
    entries_.clear();
  }

 private:
  std::vector<Entry> entries_;
  std::vector<uint32_t> heads_, slots_;  // by row: its first entry, and its slot in the window
  std::vector<uint64_t> wanted_;         // one bit per row: whether it has entries
  std::vector<uint32_t> rows_;
};

}  // namespace gz
