// pipeline_memory: a pipeline where memory is short: batches that are dropped, and one that is built exclusively.
#include "load/budget.h"
#include "load/pipeline.h"
#include "load/rows.h"

namespace gz {

void Pipeline::pause() {
  Lock lock(mutex_);
  paused_ = true;
  cancel_all(lock);
  idle_.wait(lock, [&] { return queue_.is_idle(); });
}

void Pipeline::cancel_all(Lock& lock) {
  stats_.remade += queue_.cancel_all();
  if (queue_.num_sampling() == 0) sampler_.forget(), begun_bytes_ = 0;  // else the thread that samples does so
  const auto readers = readers_;
  ++cancelling_;
  lock.unlock();
  for (const auto& reader : readers) reader->cancel();
  lock.lock();
  --cancelling_;
  wake_worker();
}

// Builds the next batch in line: first with the held rows in memory, finally without them.
void Pipeline::build_exclusively(Lock& lock) {
  exclusive_ = true;
  cancel_all(lock);
  const uint64_t number = queue_.front();
  const auto epoch = epochs_.of(number);
  Cancel cancel(stopping_, queue_.at(number));
  lock.unlock();
  std::optional<LoadedBatch> loaded;
  Outcome outcome;
  const bool begun = begin_exclusive();
  for (int round = 0; round < 3 && begun && !loaded && !outcome.error; ++round) {
    if (round == 1) plan_->ledger->count_together();
    if (round == 2) release_held_rows();
    Batch batch;
    batch.number = number;
    batch.epoch = epoch;
    bool sampled = false;
    outcome = attempt([&] {
      sample(batch, *plan_, true);
      sampled = true;
      loaded = finish(batch, *plan_, readers_, cancel);
    });
    if (!sampled) outcome.needed += outcome.needed / 2;  // its final size is not known while it is being sampled
  }
  lock.lock();
  exclusive_ = false;
  if (begun) too_large_ = false;
  if (loaded) {
    note_size(*loaded);
    queue_.skip_request(number);
    queue_.set_ready(queue_.at(number), std::move(*loaded));
  } else if (begun && !stopping_) {
    const uint64_t in_epoch = number - epochs_.current().begin;
    queue_.fail(number, outcome.error ? outcome.error : batch_too_large(*plan_, in_epoch, outcome.needed));
  }
  report_end_of_job();
  if (!begun) return;
  lock.unlock();
  end_exclusive();
  lock.lock();
}

// Pauses the other epochs of the loader. False if another one is already exclusive; it wakes this one when done.
bool Pipeline::begin_exclusive() {
  if (!plan_->ledger->begin_exclusive(this)) return false;
  std::lock_guard guard(plan_->mutex);
  for (Pipeline* other : plan_->pipelines) {
    if (other != this) other->pause();
  }
  return true;
}

void Pipeline::end_exclusive() {
  plan_->ledger->end_exclusive();
  std::lock_guard guard(plan_->mutex);
  for (Pipeline* other : plan_->pipelines) {
    if (other == this) continue;
    std::lock_guard lock(other->mutex_);  // a thread that decided to wait is waiting by now
    other->wake_worker();
  }
}

// A batch needs the memory of the held rows: from now on rows are read batch by batch.
void Pipeline::release_held_rows() {
  for (const auto& reader : readers_) reader->stop();
  Lock lock(mutex_);
  const bool swept = division_.window > 0;
  stats_.add(readers_, reads_before_);
  readers_.clear();
  division_.window = 0;
  lock.unlock();
  release_rows(*plan_, swept);
  auto readers = start_readers(0);
  lock.lock();
  readers_ = std::move(readers);
}

}  // namespace gz
