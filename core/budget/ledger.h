// ledger: accounts for the part of a loader's budget that its batches hold, and decides who may take more of it.
//
// Buffers are taken from the pool, whose limit is the part of the budget reserved for batches. The ledger also knows
// which of them the consumer holds. A consumer that requests the next batch of an epoch may hold `held` batches of it;
// any it keeps beyond those are written off: they belong to the user and no longer count. Until then the consumer may
// be about to drop a batch: `for batch in loader` does so shortly after it received the next one, also across epochs.
//
// Thread-safe. Its lock is taken after all others except the pool's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/progress.h"

namespace gz {

class Ledger {
 public:
  using Epoch = const void*;  // an opaque key
  using Buffers = std::vector<std::weak_ptr<Buffer>>;

  Ledger(std::shared_ptr<BufferPool> pool, int held) : pool_(std::move(pool)), held_(static_cast<size_t>(held)) {}

  // Bytes of batches that will be dropped soon, or written off when the next batch of `epoch` is requested.
  uint64_t leaving_bytes(Epoch epoch) const {
    uint64_t bytes = 0;
    const std::lock_guard lock(mutex_);
    for (const size_t i : old_batches(epoch)) {
      for (const auto& weak : batches_[i].buffers) {
        if (const auto buffer = weak.lock()) bytes += buffer->size();
      }
    }
    return bytes;
  }

  // Waits for batches that are about to be dropped until `bytes` fit or none are left; polls `cancel` while waiting.
  void wait_for_room(Epoch epoch, uint64_t bytes, Progress& cancel) const {
    constexpr int kMilliseconds = 10;  // between checks for cancellation
    while (leaving_bytes(epoch) > 0 && !pool_->wait_for_room(bytes, kMilliseconds)) cancel.report("gather", 0, 1);
  }

  // The consumer received a batch, requests the next one, and has reached the end of an epoch.
  void deliver(Epoch epoch, Buffers batch) {
    const std::lock_guard lock(mutex_);
    batches_.push_back({epoch, std::move(batch)});
    if (keeps_more_) write_off_old(epoch);  // it keeps its batches: there is nothing to wait for
  }
  void request_next(Epoch epoch) {
    const std::lock_guard lock(mutex_);
    write_off_old(epoch);
  }
  void end_epoch(Epoch epoch) {
    const std::lock_guard lock(mutex_);
    for (Batch& batch : batches_) {
      if (batch.epoch == epoch) batch.epoch = nullptr;
    }
  }

  // Memory is too short for `held` batches per epoch: from now on consumers hold `held` batches in total.
  void count_together() {
    const std::lock_guard lock(mutex_);
    together_ = true;
    write_off_old(nullptr);
  }
  bool keeps_more() const {  // whether a consumer ever kept more than `held`
    const std::lock_guard lock(mutex_);
    return keeps_more_;
  }

  // Grants one epoch all batch memory, for a batch that does not fit next to others. False if another epoch has it.
  bool begin_exclusive(Epoch epoch) {
    const std::lock_guard lock(mutex_);
    if (exclusive_ != nullptr) return false;
    exclusive_ = epoch;
    return true;
  }
  void end_exclusive() {
    const std::lock_guard lock(mutex_);
    exclusive_ = nullptr;
  }
  bool is_excluded(Epoch epoch) const {  // another epoch has exclusive access
    const std::lock_guard lock(mutex_);
    return exclusive_ != nullptr && exclusive_ != epoch;
  }

  void note_batch(uint64_t bytes) {  // size of a finished batch
    const std::lock_guard lock(mutex_);
    largest_batch_ = std::max(largest_batch_, bytes);
  }
  uint64_t largest_batch() const {
    const std::lock_guard lock(mutex_);
    return largest_batch_;
  }

 private:
  struct Batch {
    Epoch epoch;  // null once it has ended
    Buffers buffers;
  };

  // Indices into batches_ that the consumer of `epoch` no longer needs to hold, in descending order: all but the last
  // `held` batches of an epoch. The same for finished epochs, and all of theirs once this epoch has delivered a batch
  // of its own.
  std::vector<size_t> old_batches(Epoch epoch) const {
    std::vector<size_t> old;
    size_t own = 0, ended = 0;
    for (size_t i = batches_.size(); i-- > 0;) {
      if (together_ || batches_[i].epoch == epoch) {
        if (++own > held_) old.push_back(i);
      } else if (batches_[i].epoch == nullptr && (++ended > held_ || own > 0)) {
        old.push_back(i);
      }
    }
    return old;
  }

  void write_off_old(Epoch epoch) {
    for (const size_t i : old_batches(epoch)) {
      for (const auto& weak : batches_[i].buffers) {
        const auto buffer = weak.lock();
        if (!buffer) continue;
        keeps_more_ = true;
        BufferPool::write_off(buffer);
      }
      batches_.erase(batches_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const std::shared_ptr<BufferPool> pool_;
  const size_t held_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::deque<Batch> batches_;  // delivered, the latest last
  bool keeps_more_ = false;
  bool together_ = false;
  Epoch exclusive_ = nullptr;
  uint64_t largest_batch_ = 0;
};

}  // namespace gz
