// ledger: accounts for the part of a loader's budget that its batches hold, and decides who may take more of it.
//
// Buffers are taken from the pool, whose limit is the part of the budget reserved for batches. The ledger also knows
// which of them the consumer holds. A consumer that requests the next batch of an epoch may hold `held` batches of it;
// any it keeps beyond those are written off: they belong to the user and no longer count. Until then the consumer may
// be about to drop a batch: `for batch in loader` does so shortly after it received the next one, also across epochs.
//
// Thread-safe. Its lock is taken after all others except the pool's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/memory.h"
#include "base/progress.h"

namespace gz {

class Ledger {
 public:
  using Epoch = const void*;  // an opaque key

  Ledger(std::shared_ptr<BufferPool> pool, int held) : pool_(std::move(pool)), held_(static_cast<size_t>(held)) {}

  // Bytes of batches that will be dropped soon, or written off when the next batch of `epoch` is requested.
  uint64_t leaving_bytes(Epoch epoch) const;
  // Waits for batches that are about to be dropped until `bytes` fit or none are left; polls `cancel` while waiting.
  void wait_for_room(Epoch epoch, uint64_t bytes, Progress& cancel) const;

  void hand_out(Epoch epoch, std::vector<std::weak_ptr<Buffer>> batch);
  void next_is_asked_for(Epoch epoch);
  void is_over(Epoch epoch);
  // Memory is too short for `held` batches per epoch: from now on consumers hold `held` batches in total.
  void count_together();
  bool keeps_more() const;  // whether a consumer ever kept more than `held`

  // Grants one epoch all batch memory, for a batch that does not fit next to others. False if another epoch has it.
  bool begin_exclusive(Epoch epoch);
  void end_exclusive();
  bool is_excluded(Epoch epoch) const;  // another epoch has exclusive access

  void note_batch(uint64_t bytes);  // size of a finished batch
  uint64_t largest_batch() const;

 private:
  struct Batch {
    Epoch epoch;  // null once it has ended
    std::vector<std::weak_ptr<Buffer>> buffers;
  };
  // Indices into batches_ that the consumer of `epoch` no longer needs to hold, in descending order.
  std::vector<size_t> old_batches(Epoch epoch) const;
  void write_off_old(Epoch epoch);

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
