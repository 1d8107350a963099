// pipeline: from top to bottom: its threads, the consumer's side, the jobs, and a batch that must be built exclusively.
#include "load/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/thread_name.h"
#include "base/threads.h"
#include "load/budget.h"
#include "load/rows.h"

namespace gz {
// -- threads ----------------------------------------------------------------------------------------------------------

Pipeline::Pipeline(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share, Progress* progress,
                   const std::shared_ptr<LoadPlan>& source)
    : plan_(std::move(plan)), epochs_(source ? source : plan_, epoch, share) {
  if (source && !can_share_pipeline(*plan_, *source))
    throw ArgumentError("the source loader does not deliver the same rows as this plan");
  try {
    const auto [first, released] = add_pipeline(*plan_, this);
    if (first && (epoch > 0 || source || released)) divide_again(*plan_, progress);
    {
      std::lock_guard lock(plan_->mutex);
      division_ = plan_->division;
    }
    if (!first) division_.window = 0;  // one sweep at a time: concurrent epochs read their rows batch by batch
    if (division_.window > 0) first_request_ = std::min({division_.direct, division_.window, epochs_.end()});
    queue_.start_requests_at(first_request_);
    readers_ = start_readers(epochs_.end() - first_request_);
    reset_stats();
    start_threads();
  } catch (...) {
    stop();
    throw;
  }
}

Pipeline::~Pipeline() { stop(); }

void Pipeline::start_threads() {
  // Threads inherit their priority: those of the pool are started here, not by a worker of a low one.
  parallel_for(static_cast<size_t>(division_.threads), 1, division_.threads, [](size_t, size_t, int) {});
  for (int i = 0; i < division_.threads; ++i) {
    try {
      threads_.emplace_back([this] {
        const BufferPool::Use use(*plan_->pool);
        name_thread("graphzero-load");
        // For the thread that keeps the device busy, or for the training step that the rows are read ahead of.
        if (plan_->feeds_device || division_.window > 0) lower_thread_priority();
        if (plan_->feeds_device) leave_processors(plan_->options.local.count);
        Lock lock(mutex_);
        work(lock);
      });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // fewer threads are slower, but one is required
      break;
    }
  }
}

Readers Pipeline::start_readers(uint64_t requests) {
  ReaderEvents events;
  events.ready = [this](uint64_t number) {
    std::lock_guard lock(mutex_);
    if (!queue_.has(number)) return;
    Batch& batch = queue_.at(number);
    if (batch.missing > 0 && --batch.missing == 0) work_ready_.notify_all();
  };
  events.failed = [this](std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    queue_.fail(queue_.front(), std::move(error));
    batch_ready_.notify_all();
  };
  events.starving = [this] {
    std::lock_guard lock(mutex_);
    return consumer_waits_;
  };
  events.end = [this] {
    std::lock_guard lock(mutex_);
    return epochs_.end();
  };
  return make_readers(plan_, division_, requests, events);
}

void Pipeline::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  batch_ready_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
  for (const auto& reader : readers_) reader->stop();
  {
    std::lock_guard lock(mutex_);
    if (!queue_.batches().empty()) forget_device_rows(*plan_);
    queue_.clear();
    stats_.add(readers_, reads_before_);  // an epoch that ended keeps its figures, but not the rows
    readers_.clear();
  }
  plan_->ledger->end_epoch(this);
  remove_pipeline(*plan_, this);
}

// -- the consumer -----------------------------------------------------------------------------------------------------

Pipeline::State Pipeline::next(LoadedBatch& out, int milliseconds) {
  Lock lock(mutex_);
  if (queue_.front() >= epochs_.current().end() || stopping_) return State::kEnd;
  const auto start = Clock::now();
  if (returned_ != Clock::time_point{}) {
    stats_.consumer_seconds += std::chrono::duration<double>(start - returned_).count();
    returned_ = {};
  }
  plan_->ledger->request_next(this);
  const auto is_done = [&] { return stopping_ || queue_.front_is_done(); };
  if (!is_done() && (!consumer_waits_ || paused_)) {
    consumer_waits_ = true;
    paused_ = false;
    work_ready_.notify_all();
  }
  const bool done = batch_ready_.wait_for(lock, std::chrono::milliseconds(milliseconds), is_done);
  stats_.starved_seconds += seconds_since(start);
  if (stopping_) return State::kEnd;
  if (!done) return State::kNotYet;
  consumer_waits_ = false;
  if (queue_.front_state() == BatchState::kFailed) std::rethrow_exception(queue_.at(queue_.front()).error);
  stats_.depth_sum += static_cast<double>(queue_.num_ready());
  out = queue_.deliver();
  plan_->ledger->deliver(this, buffers_of(out));
  ++stats_.batches;
  stats_.nodes += num_nodes(out.graph);
  stats_.edges += num_edges(out.graph);
  returned_ = Clock::now();
  work_ready_.notify_all();
  return State::kReady;
}

bool Pipeline::is_ready() const {
  std::lock_guard lock(mutex_);
  return stopping_ || queue_.front() >= epochs_.current().end() || queue_.front_is_done();
}

bool Pipeline::expect(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share) {
  if (plan_->options.local.count > 1 || !can_share_pipeline(*plan_, *plan)) return false;
  std::lock_guard lock(mutex_);
  if (stopping_ || division_.window == 0) return false;
  epochs_.add(std::move(plan), epoch, share);
  work_ready_.notify_all();
  return true;
}

bool Pipeline::has_next_epoch() const {
  std::lock_guard lock(mutex_);
  return !stopping_ && !epochs_.is_last();
}

bool Pipeline::continue_with(const LoadPlan& plan, uint64_t epoch, const Share& share) {
  if (!division_is_current(*plan_)) return false;
  std::lock_guard lock(mutex_);
  if (stopping_ || division_.window == 0 || queue_.front() < epochs_.current().end()) return false;
  if (!epochs_.is_next(plan, epoch, share)) return false;
  epochs_.advance();
  reset_stats();
  return true;
}

void Pipeline::reset_stats() {
  plan_->pool->reset_peak();
  stats_ = {};
  returned_ = {};
  reads_before_.clear();
  for (const auto& reader : readers_) reads_before_.push_back(reader->stats().value_or(WindowStats{}));
}

LoadStats Pipeline::stats() const {
  std::lock_guard lock(mutex_);
  LoadStats stats = stats_;
  stats.peak_bytes = plan_->pool->peak_bytes();
  stats.add(readers_, reads_before_);
  return stats;
}

// -- the jobs ---------------------------------------------------------------------------------------------------------

ScheduleView Pipeline::view() {
  ScheduleView v;
  queue_.fill(v);
  const uint64_t next = queue_.front() + v.next;
  v.known = epochs_.end() - queue_.front();
  v.depth = static_cast<uint64_t>(division_.depth);
  v.ahead = v.depth + 2;
  for (const auto& reader : readers_) {
    if (const uint64_t batches = reader->batches(); batches > 0) v.ahead = std::max(v.ahead, batches + v.depth);
  }
  v.merges = division_.merges;
  if (v.merges) {
    v.ahead += std::max<uint64_t>(lead_of(division_.group), 1);
    v.group = division_.group;
    if (next >= first_request_ && v.next < v.known) v.together = std::min(v.group, epochs_.of(next)->end() - next);
  }
  v.batch_bytes = division_.sizes.batch;
  v.sampling_bytes = division_.sizes.sampling * (v.merges ? static_cast<uint64_t>(division_.threads) : 1);
  v.merged_bytes = division_.sizes.merged;
  v.used_bytes = plan_->pool->used_bytes();
  v.limit_bytes = plan_->pool->limit();
  v.leaving_bytes = plan_->ledger->leaving_bytes(this);
  v.paused = exclusive_ || paused_ || cancelling_ > 0 || plan_->ledger->is_excluded(this);
  v.too_large = too_large_;
  v.consumer_waits = consumer_waits_;
  return v;
}

void Pipeline::work(Lock& lock) {
  while (!stopping_) {
    const Job job = next_job(queue_.batches(), view());
    if (job.kind == Job::Kind::kWait) wait_for_work(lock);
    if (job.kind == Job::Kind::kSample) sample_some(queue_.front() + job.first, job.count, lock);
    if (job.kind == Job::Kind::kFinish) finish_one(queue_.front() + job.first, lock);
    if (job.kind == Job::Kind::kBuildExclusively) build_exclusively(lock);
  }
}

void Pipeline::wait_for_work(Lock& lock) {
  // Waiting between two epochs, or after the last one, does not count.
  const uint64_t epoch_end = epochs_.current().end();
  const bool counts = queue_.front() < epoch_end && queue_.num_ready() < epochs_.end() - queue_.front();
  const auto start = Clock::now();
  work_ready_.wait(lock);
  if (counts && epochs_.current().end() == epoch_end) stats_.blocked_seconds += seconds_since(start);
}

void Pipeline::sample_some(uint64_t first, uint64_t count, Lock& lock) {
  const std::vector<Batch*> batches = queue_.begin_sampling(first, count, epochs_);
  const Division division = division_;
  Cancel cancel(stopping_, *batches.front());
  lock.unlock();
  const auto start = Clock::now();
  uint64_t bytes_read = 0;
  const Outcome outcome = attempt([&] {
    bytes_read = sample(batches, &division, cancel, [&](Batch& batch) {
      if (batch.number >= first_request_) prepare_requests(batch, plan_->parts, readers_);
      shrink(batch, *plan_, division_.window > 0 || division_.merges);
    });
  });
  lock.lock();
  stats_.topology_bytes_read += bytes_read;
  if (outcome.is_good()) stats_.sample_seconds += seconds_since(start);
  const bool cancelled = batches.front()->cancelled || stopping_;
  queue_.end_sampling(batches, outcome.is_good());
  if (outcome.error && !cancelled) queue_.fail(first, outcome.error);
  if (outcome.needed > 0 && !cancelled) {
    // Retried when more memory is free, and finally built exclusively once it is next in line. Batches after it that
    // wait for it are rebuilt.
    division_.sizes.sampling += division_.sizes.sampling / 2;
    division_.sizes.merged += division_.sizes.merged / 2;
    division_.group = std::max<uint64_t>(division_.group / 2, 1);
    too_large_ = too_large_ || first == queue_.front();
    stats_.remade += queue_.cancel_after(first);
  }
  queue_.request([&](Batch& batch) { submit_requests(batch, readers_); });
  batch_ready_.notify_all();
  work_ready_.notify_all();
}

void Pipeline::finish_one(uint64_t number, Lock& lock) {
  Batch& batch = queue_.begin_finishing(number);
  const uint64_t wanted = minus(division_.sizes.batch, batch.taken_bytes);
  Cancel cancel(stopping_, batch);
  lock.unlock();
  GatherStats gathered;
  std::optional<LoadedBatch> loaded;
  const Outcome outcome = attempt([&] {
    plan_->ledger->wait_for_room(this, wanted, cancel);
    loaded = finish(batch, *plan_, readers_, cancel, gathered);
  });
  lock.lock();
  const bool cancelled = batch.cancelled || stopping_;
  if (loaded && !cancelled) count_batch(*loaded, gathered);
  queue_.end_finishing(batch, std::move(loaded));
  if (outcome.error && !cancelled) queue_.fail(number, outcome.error);
  if (outcome.needed > 0 && !cancelled) {
    division_.sizes.batch += division_.sizes.batch / 2;
    too_large_ = too_large_ || number == queue_.front();
  }
  batch_ready_.notify_all();
  work_ready_.notify_all();
}

// The plan is adjusted when batches are larger than before.
void Pipeline::count_batch(const LoadedBatch& batch, const GatherStats& gathered) {
  const uint64_t bytes = bytes_of(batch);
  division_.sizes.batch = std::max(division_.sizes.batch, bytes);
  plan_->ledger->note_batch(bytes);
  stats_.add(gathered);
}

// -- where memory is short --------------------------------------------------------------------------------------------

void Pipeline::pause() {
  Lock lock(mutex_);
  paused_ = true;
  cancel_all(lock);
  work_ready_.wait(lock, [&] { return queue_.is_idle(); });
}

void Pipeline::cancel_all(Lock& lock) {
  stats_.remade += queue_.cancel_all();
  const auto readers = readers_;
  ++cancelling_;
  lock.unlock();
  for (const auto& reader : readers) reader->cancel();
  lock.lock();
  --cancelling_;
  work_ready_.notify_all();
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
  GatherStats gathered;
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
      sample({&batch}, nullptr, cancel, [&](Batch&) { sampled = true; });
      loaded = finish(batch, *plan_, readers_, cancel, gathered);
    });
    if (!sampled) outcome.needed += outcome.needed / 2;  // its final size is not known while it is being sampled
  }
  lock.lock();
  exclusive_ = false;
  if (begun) too_large_ = false;
  if (loaded) {
    count_batch(*loaded, gathered);
    queue_.skip_request(number);
    queue_.set_ready(queue_.at(number), std::move(*loaded));
  } else if (begun && !stopping_) {
    const uint64_t in_epoch = number - epochs_.current().begin;
    queue_.fail(number, outcome.error ? outcome.error : batch_too_large(*plan_, in_epoch, outcome.needed));
  }
  batch_ready_.notify_all();
  work_ready_.notify_all();
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
    other->work_ready_.notify_all();
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
