// ledger: what the batches of a loader hold of its budget, and who may take more of it.
//
// Buffers are taken from the pool, whose limit is the part of the budget that batches have. The ledger knows besides
// which of them the consumer holds. Whoever asks an epoch for the next batch holds `held` batches of it; what is kept
// beyond those is written off: it is the user's own and does not count. Until then the consumer may be about to drop a
// batch: `for batch in loader` does so a moment after it got the next one, be it of the next epoch.
//
// Thread-safe. Its lock is taken last but for the pool's.
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
  using Epoch = const void*;  // whatever distinguishes them

  Ledger(std::shared_ptr<BufferPool> pool, int held) : pool_(std::move(pool)), held_(static_cast<size_t>(held)) {}

  // Of batches that will be dropped soon, or written off when the next one of `epoch` is asked for.
  uint64_t leaving_bytes(Epoch epoch) const;
  // Waits for batches that are about to be dropped, until `bytes` fit or there are none; reports to `cancel` meanwhile.
  void wait_for_room(Epoch epoch, uint64_t bytes, Progress& cancel) const;

  void hand_out(Epoch epoch, std::vector<std::weak_ptr<Buffer>> batch);
  void next_is_asked_for(Epoch epoch);
  void is_over(Epoch epoch);
  // There is no room for a batch of each epoch: from now on consumers hold `held` batches of all of them together.
  void count_together();
  bool keeps_more() const;  // whether more than `held` were ever kept

  // One epoch may have all the room for a batch that does not fit beside others. False where another one has it.
  bool begin_exclusive(Epoch epoch);
  void end_exclusive();
  bool is_excluded(Epoch epoch) const;  // another one has it

  void note_batch(uint64_t bytes);  // that was finished
  uint64_t largest_batch() const;

 private:
  struct Batch {
    Epoch epoch;  // null where it is over
    std::vector<std::weak_ptr<Buffer>> buffers;
  };
  // Those of batches_ that the consumer of `epoch` need not hold any more.
  std::vector<size_t> old_batches(Epoch epoch) const;
  void write_off_old(Epoch epoch);

  const std::shared_ptr<BufferPool> pool_;
  const size_t held_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::deque<Batch> batches_;  // handed out, the latest last
  bool keeps_more_ = false;
  bool together_ = false;
  Epoch exclusive_ = nullptr;
  uint64_t largest_batch_ = 0;
};

}  // namespace gz
