// row_window: memory for rows of one matrix: which row is in which slot, how long it stays, and how many fit a budget.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/prefetch.h"
#include "gather/row_reader.h"
#include "storage/features.h"
#include "sweep/row_table.h"

namespace gz {

// Which row is in which slot of a window, how many claims hold it, and which slot is free. No locks.
//
// A slot whose row is no longer held by any claim is free, but its row stays and can be reused until take() evicts it:
// slots are reused in circular order (find_free). That is the whole eviction policy.
class HeldRows {
  struct Slot {
    uint32_t id, uses;  // claims that hold it
  };

 public:
  static constexpr uint32_t kNone = RowTable::kNone;
  // Bytes per row, including its slot, its table entries, and its bit (counted as a byte).
  static uint64_t row_cost(uint64_t row_bytes, RowTable::Kind kind) {
    return row_bytes + sizeof(Slot) + RowTable::slot_bytes(kind) + 1;
  }

  // For rows of a file that has `rows`.
  HeldRows(uint64_t capacity, uint64_t row_bytes, uint64_t rows, RowTable::Kind kind)
      : capacity_(static_cast<uint32_t>(capacity)),
        row_bytes_(row_bytes),
        rows_(capacity * row_bytes, Purpose::kCache, Buffer::Pages::kHuge),
        slots_memory_(Buffer::zeroed(capacity * sizeof(Slot), Purpose::kCache, Buffer::Pages::kHuge)),
        unused_memory_((capacity + 63) / 64 * 8, Purpose::kCache, Buffer::Pages::kSmall),
        unused_(unused_memory_.as<uint64_t>()),
        table_(kind, rows, capacity),
        slots_(slots_memory_.as<Slot>()),
        free_(capacity_) {
    mark_all_unused();
  }

  uint32_t capacity() const { return capacity_; }
  uint32_t free() const { return free_; }  // slots that take() can hand out
  std::byte* row(uint32_t slot) const { return rows_.data() + slot * row_bytes_; }
  const std::byte* rows() const { return rows_.data(); }

  // Populates the next block of memory that slots will use for the first time: clearing a huge page takes long, in a
  // virtual machine milliseconds. To be called when the sweep is idle.
  void populate_ahead() {
    const uint64_t bytes = capacity_ * row_bytes_, touched = touched_ * row_bytes_;
    if (bytes < kPopulateAhead || touched + kPopulateAhead <= populated_ || populated_ >= bytes) return;
    populated_ = std::max(populated_, touched / kStretch * kStretch);
    populate({rows_.data() + populated_, std::min(kStretch, bytes - populated_)});
    populated_ += kStretch;
  }

  void prefetch_entry(uint64_t id) const { table_.prefetch_entry(id); }
  void prefetch_slot(uint32_t slot) const { prefetch(slots_ + slot); }
  // The slot that a row most probably has, to prefetch it.
  void prefetch_slot_of(uint64_t id) const {
    if (const uint32_t slot = table_.likely(id); slot != kNone) prefetch_slot(slot);
  }
  // The slot of a row, kNone if it is not in RAM.
  uint32_t find(uint64_t id) const { return table_.find(id, id_of()); }

  bool is_unused(uint32_t slot) const { return slots_[slot].uses == 0; }
  bool is_loading(uint32_t slot) const { return (slots_[slot].uses & kLoading) != 0; }
  void arrived(uint32_t slot) { slots_[slot].uses &= ~kLoading; }

  void use(uint32_t slot, uint32_t times) {
    if (slots_[slot].uses == 0) mark_used(slot);
    slots_[slot].uses += times;
  }
  void release(uint32_t slot) {
    if (--slots_[slot].uses != 0) return;
    unused_[slot / 64] |= uint64_t{1} << slot % 64;
    ++free_;
  }

  // Assigns a slot to a row that is not in RAM, with `times` uses and marked as loading; a slot must be free. Evicts
  // the next row in circular order that no claim holds.
  uint32_t take(uint64_t id, uint32_t times) {
    const uint32_t slot = next_free();
    if (slot >= touched_) {
      touched_ = slot + 1;
    } else if (slots_[slot].id != kLost) {
      table_.erase(slots_[slot].id, slot);
    }
    slots_[slot] = {static_cast<uint32_t>(id), times | kLoading};
    table_.insert(id, slot);
    mark_used(slot);
    return slot;
  }

  // The read failed: find() must not return the row. Claims that use its slot still release it.
  void lose(uint32_t slot) {
    arrived(slot);
    table_.erase(slots_[slot].id, slot);
    slots_[slot].id = kLost;
  }

  void release_all() {
    for (uint32_t slot = 0; slot < touched_; ++slot) slots_[slot].uses = 0;
    free_ = capacity_;
    mark_all_unused();
  }

 private:
  static constexpr uint32_t kLoading = uint32_t{1} << 31;  // flag next to the use count: its bytes have not arrived yet
  static constexpr uint32_t kAhead = 32, kNear = 16;       // free slots that are searched, and prefetched, ahead of use
  static constexpr uint64_t kStretch = uint64_t{2} << 20;  // bytes that are populated at a time,
  static constexpr uint64_t kPopulateAhead = 16 * kStretch;  // and how far ahead of those in use
  static constexpr uint32_t kLost = UINT32_MAX;              // no row has this id (RowWindow::supports)

  struct IdOf {
    const Slot* slots;
    uint64_t operator()(uint32_t at) const { return slots[at].id; }
  };
  IdOf id_of() const { return {slots_}; }
  void mark_used(uint32_t slot) {
    unused_[slot / 64] &= ~(uint64_t{1} << slot % 64);
    --free_;
  }
  void mark_all_unused() {
    const uint32_t words = (capacity_ + 63) / 64;
    std::fill(unused_, unused_ + words, ~uint64_t{0});
    if (capacity_ % 64 != 0) unused_[words - 1] = (uint64_t{1} << capacity_ % 64) - 1;
  }

  // Free slots are searched ahead of use, in circular order, so that they and the table entries of their rows are in
  // cache when they are reused.
  uint32_t next_free() {
    for (;;) {
      while (found_ - used_ < kAhead && find_free()) {
      }
      if (found_ - used_ > kNear) {
        const uint32_t soon = free_slots_[(used_ + kNear) % kAhead];
        if (soon < touched_ && slots_[soon].id != kLost) table_.prefetch_entry(slots_[soon].id);
      }
      const uint32_t slot = free_slots_[used_++ % kAhead];
      if (slots_[slot].uses == 0) return slot;  // otherwise it was reused, or found twice
    }
  }

  // When the window is full, few slots are unused: their bits are scanned word by word.
  bool find_free() {
    const uint32_t words = (capacity_ + 63) / 64;
    uint32_t word = hand_ / 64;
    uint64_t bits = unused_[word] & ~uint64_t{0} << hand_ % 64;
    for (uint32_t looked = 0; bits == 0; ++looked) {
      if (looked == words) return false;
      word = word + 1 == words ? 0 : word + 1;
      bits = unused_[word];
    }
    const uint32_t slot = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
    hand_ = slot + 1 == capacity_ ? 0 : slot + 1;
    prefetch_slot(slot);
    free_slots_[found_++ % kAhead] = slot;
    return true;
  }

  const uint32_t capacity_;
  const uint64_t row_bytes_;
  Buffer rows_, slots_memory_, unused_memory_;
  uint64_t* unused_;  // a bit for each slot
  RowTable table_;
  Slot* slots_;
  uint32_t hand_ = 0;
  std::array<uint32_t, kAhead> free_slots_{};
  uint32_t found_ = 0, used_ = 0;  // positions in free_slots_, ever increasing
  uint32_t touched_ = 0;           // slots that were ever used: the first ones. The others cost no memory yet
  uint32_t free_;
  uint64_t populated_ = 0;  // bytes of rows_, from its start
};

// The memory of one matrix, kept from one sweep to the next with its statistics.
class RowWindow {
 public:
  // Rows of more than 64 KiB, and files of 2^32 rows, are read batch by batch.
  static bool supports(const Matrix& matrix) {
    return matrix.row_bytes > 0 && matrix.row_bytes <= (uint64_t{64} << 10) && matrix.rows < UINT32_MAX;
  }
  // Memory per row, including its table entries, where a window holds few rows.
  static uint64_t row_cost(const Matrix& matrix) {
    return HeldRows::row_cost(matrix.row_bytes, RowTable::Kind::kHashed);
  }
  // Memory for so many rows, with all tables.
  static double bytes_for(const Matrix& matrix, double rows) { return bytes_of(matrix, rows, kind_for(matrix, rows)); }
  // The minimum for a window.
  static uint64_t least_bytes(const Matrix& matrix) {
    constexpr uint64_t kLeastRows = 64;
    return std::max<uint64_t>(std::min(kLeastRows, matrix.rows), 1) * row_cost(matrix);
  }

  // Allocates the memory. Throws BudgetError if not even a few rows fit.
  RowWindow(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes)
      : file_(std::move(file)), matrix_(matrix), rows_(make_rows(*file_, matrix, budget_bytes)) {
    stats_.budget_bytes = budget_bytes;
    stats_.capacity = rows_.capacity();
  }

  const std::shared_ptr<const FeatureFile>& file() const { return file_; }
  const Matrix& matrix() const { return matrix_; }
  HeldRows& rows() { return rows_; }  // used by the sweep; any thread may read the rows of a complete claim

  WindowStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void set_stats(const WindowStats& stats) {
    std::lock_guard lock(mutex_);
    stats_ = stats;
  }

 private:
  static uint64_t capacity_of(const Matrix& matrix, uint64_t budget, RowTable::Kind kind) {
    const uint64_t row_cost = HeldRows::row_cost(matrix.row_bytes, kind), most = std::min(matrix.rows, kMostRows);
    const auto fit = [&](uint64_t capacity) {  // beside a table for so many
      return (budget - std::min(budget, RowTable::fixed_bytes(kind, matrix.rows, capacity))) / row_cost;
    };
    const uint64_t few = std::min(fit(0), RowTable::kMostOfFew);
    return std::min(std::max(few, fit(most)), most);
  }

  // Throws before allocating if too few rows fit.
  static HeldRows make_rows(const FeatureFile& file, const Matrix& matrix, uint64_t budget) {
    using Kind = RowTable::Kind;
    const uint64_t least = least_bytes(matrix);
    if (!supports(matrix) || budget < least) {
      throw BudgetError(text(file.file().path(), ": a window over '", matrix.name, "' needs at least ", least,
                             " bytes, the budget is ", budget),
                        least);
    }
    const uint64_t hashed = capacity_of(matrix, budget, Kind::kHashed);
    const Kind kind = kind_for(matrix, static_cast<double>(hashed));
    return {capacity_of(matrix, budget, kind), matrix.row_bytes, matrix.rows, kind};
  }

  // Direct, unless that is at the cost of an eighth of so many rows in a hashed table.
  static RowTable::Kind kind_for(const Matrix& matrix, double rows) {
    using Kind = RowTable::Kind;
    return bytes_of(matrix, rows * 7 / 8, Kind::kDirect) <= bytes_of(matrix, rows, Kind::kHashed) ? Kind::kDirect
                                                                                                  : Kind::kHashed;
  }
  static double bytes_of(const Matrix& matrix, double rows, RowTable::Kind kind) {
    return rows * static_cast<double>(HeldRows::row_cost(matrix.row_bytes, kind)) +
           static_cast<double>(RowTable::fixed_bytes(kind, matrix.rows, static_cast<uint64_t>(rows)));
  }

  static constexpr uint64_t kMostRows = UINT32_MAX - 2;

  const std::shared_ptr<const FeatureFile> file_;
  const Matrix matrix_;
  HeldRows rows_;
  mutable std::mutex mutex_;
  WindowStats stats_;  // guarded by mutex_
};

}  // namespace gz
