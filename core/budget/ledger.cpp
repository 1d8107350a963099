// ledger: the batches that the consumer holds.
#include "budget/ledger.h"

#include <algorithm>

namespace gz {

// All but the last `held` batches of an epoch. The same for finished epochs, and all of theirs once this epoch has
// delivered a batch of its own.
std::vector<size_t> Ledger::old_batches(Epoch epoch) const {
  std::vector<size_t> old;
  size_t own = 0, over = 0;
  for (size_t i = batches_.size(); i-- > 0;) {
    if (together_ || batches_[i].epoch == epoch) {
      if (++own > held_) old.push_back(i);
    } else if (batches_[i].epoch == nullptr && (++over > held_ || own > 0)) {
      old.push_back(i);
    }
  }
  return old;
}

uint64_t Ledger::leaving_bytes(Epoch epoch) const {
  uint64_t bytes = 0;
  const std::lock_guard lock(mutex_);
  for (const size_t i : old_batches(epoch)) {
    for (const auto& weak : batches_[i].buffers) {
      if (const auto buffer = weak.lock()) bytes += buffer->size();
    }
  }
  return bytes;
}

void Ledger::wait_for_room(Epoch epoch, uint64_t bytes, Progress& cancel) const {
  constexpr int kMilliseconds = 10;  // between checks for cancellation
  while (leaving_bytes(epoch) > 0 && !pool_->wait_for_room(bytes, kMilliseconds)) cancel.report("gather", 0, 1);
}

void Ledger::hand_out(Epoch epoch, std::vector<std::weak_ptr<Buffer>> batch) {
  const std::lock_guard lock(mutex_);
  batches_.push_back({epoch, std::move(batch)});
  if (keeps_more_) write_off_old(epoch);  // the consumer keeps its batches: there is nothing to wait for
}

void Ledger::next_is_asked_for(Epoch epoch) {
  const std::lock_guard lock(mutex_);
  write_off_old(epoch);
}

void Ledger::count_together() {
  const std::lock_guard lock(mutex_);
  together_ = true;
  write_off_old(nullptr);
}

void Ledger::is_over(Epoch epoch) {
  const std::lock_guard lock(mutex_);
  for (Batch& batch : batches_) {
    if (batch.epoch == epoch) batch.epoch = nullptr;
  }
}

void Ledger::write_off_old(Epoch epoch) {
  for (const size_t i : old_batches(epoch)) {  // in descending order
    for (const auto& weak : batches_[i].buffers) {
      const auto buffer = weak.lock();
      if (!buffer) continue;
      keeps_more_ = true;
      BufferPool::write_off(buffer);
    }
    batches_.erase(batches_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool Ledger::keeps_more() const {
  const std::lock_guard lock(mutex_);
  return keeps_more_;
}

bool Ledger::begin_exclusive(Epoch epoch) {
  const std::lock_guard lock(mutex_);
  if (exclusive_ != nullptr) return false;
  exclusive_ = epoch;
  return true;
}

void Ledger::end_exclusive() {
  const std::lock_guard lock(mutex_);
  exclusive_ = nullptr;
}

bool Ledger::is_excluded(Epoch epoch) const {
  const std::lock_guard lock(mutex_);
  return exclusive_ != nullptr && exclusive_ != epoch;
}

void Ledger::note_batch(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  largest_batch_ = std::max(largest_batch_, bytes);
}

uint64_t Ledger::largest_batch() const {
  const std::lock_guard lock(mutex_);
  return largest_batch_;
}

}  // namespace gz
