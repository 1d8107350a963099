// claim: the rows that one batch needs from a window, their slots, and the mailbox through which claims reach the
// sweep.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/prefetch.h"
#include "base/sort_words.h"
#include "gather/row_reader.h"

namespace gz {

// One word per row: the upper half is its id while it is wanted and its slot in the window afterwards; the lower half
// is its position in the batch. Wanted rows come first, in file order, followed by those that were shared at admission.
// The sweep consumes the wanted rows circularly: from `start` to their end, then from their beginning to `start`.
class Claim : public RowRequest, public std::enable_shared_from_this<Claim> {
 public:
  Claim(uint64_t number_, std::span<const int64_t> ids)
      : number(number_), memory_(take_buffer(ids.size() * sizeof(uint64_t), Purpose::kTables)), size_(ids.size()) {
    words_ = memory_->as<uint64_t>();
    constexpr size_t kFew = 1024;  // rows for which a comparison sort is as fast
    uint32_t most = 0;
    for (size_t i = 0; i < size_; ++i) {
      words_[i] = static_cast<uint64_t>(ids[i]) << 32 | i;
      most = std::max(most, static_cast<uint32_t>(ids[i]));
    }
    if (size_ <= kFew) {
      std::sort(words_, words_ + size_);
    } else {
      auto spare = take_buffer(size_ * sizeof(uint64_t), Purpose::kTables);
      uint64_t* sorted = sort_words(words_, spare->as<uint64_t>(), size_, most);
      if (sorted != words_) {
        memory_ = std::move(spare);
        words_ = sorted;
      }
    }
    wanted = left = size_;
  }
  static uint64_t row_bytes() { return sizeof(uint64_t); }  // per row

  const uint64_t number;
  size_t size() const { return size_; }
  uint32_t value(size_t i) const { return static_cast<uint32_t>(words_[i] >> 32); }  // an id, or a slot
  uint32_t position(size_t i) const { return static_cast<uint32_t>(words_[i]); }
  void set_slot(size_t i, uint32_t slot) { words_[i] = uint64_t{slot} << 32 | position(i); }
  uint64_t* words() { return words_; }
  void prefetch_words() const { prefetch(words_ + cursor); }

  // Used only by the sweep until the claim is complete, and immutable from then on:
  size_t wanted = 0;  // rows that were not in RAM at admission
  size_t start = 0, cursor = 0;
  bool wrapped = false;
  size_t left = 0;            // rows that have not arrived
  uint64_t last_read = 0;     // the number of the last planned read for its rows,
  uint32_t last_waiting = 0;  // and the claim's position in that read's list
  std::exception_ptr error;   // of a read that failed

  // Wanted rows that the sweep has not reached yet, from cursor on.
  size_t end() const { return wrapped ? start : wanted; }
  bool has_slot(size_t i) const {
    if (i >= wanted) return true;
    return wrapped ? i >= start || i < cursor : i >= start && i < cursor;
  }

  // Access to the rows: a claim is copied once, or ended.
  void complete() { state_.store(kComplete, std::memory_order_release); }
  bool is_complete() const { return state_.load(std::memory_order_acquire) != kOpen; }
  bool begin_copy() {
    int expected = kComplete;
    return state_.compare_exchange_strong(expected, kCopying, std::memory_order_acq_rel);
  }
  // False if it is being copied: its slots are released afterwards.
  bool end_unless_copying() {
    int before = state_.load(std::memory_order_acquire);
    while (before != kCopying && !state_.compare_exchange_weak(before, kOver, std::memory_order_acq_rel)) {
    }
    return before != kCopying;
  }

 private:
  enum : int { kOpen, kComplete, kCopying, kOver };
  std::atomic<int> state_{kOpen};
  std::shared_ptr<Buffer> memory_;
  uint64_t* words_ = nullptr;
  size_t size_ = 0;
};

// All guarded by mutex, which is held briefly. Dropping claims under it takes the lock of the pool, and no other.
struct Mailbox {
  using Claims = std::vector<std::shared_ptr<Claim>>;
  std::mutex mutex;
  std::condition_variable changed;  // any member below changed
  Claims submitted, released;       // released: copied
  bool stopping = false;            // the sweep is to stop
  bool cancelling = false;          // the sweep is to drop all claims, and resets this when it has
  bool ended = false;               // the sweep has stopped and no longer responds
};

}  // namespace gz
