// pipeline: from top to bottom: its threads, the consumer's side, and the jobs.
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
    if (batch.missing > 0 && --batch.missing == 0) wake_worker();
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
    queue_.clear();
    sampler_.forget();
    stats_.add(readers_, reads_before_);  // an epoch that ended keeps its figures, but not the rows
    readers_.clear();
  }
  plan_->ledger->end_epoch(this);
  remove_pipeline(*plan_, this);
}

// -- statistics -------------------------------------------------------------------------------------------------------

void LoadStats::add(const LoadedBatch& batch) {
  ++batches;
  nodes += num_nodes(batch.graph);
  edges += num_edges(batch.graph);
  gather.add(batch.gathered);
  read_seconds += batch.gathered.read_seconds;
  copy_seconds += batch.gathered.copy_seconds;
  device.resize(batch.parts.size());
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    const GatheredPart& part = batch.parts[i];
    device[i].rows += part.device ? part.device->rows : part.rows;
    if (!part.device) continue;
    device[i].hits += part.device->rows - part.device->misses;
    device[i].admitted += part.device->admissions;
  }
}

void LoadStats::add(const Readers& readers, const std::vector<WindowStats>& before) {
  for (size_t part = 0; part < readers.size() && part < before.size(); ++part) {
    const auto window = readers[part]->stats();
    if (!window) continue;
    gather.bytes_read += window->bytes_read - before[part].bytes_read;
    gather.reads += window->reads - before[part].reads;
    read_seconds += window->read_seconds - before[part].read_seconds;
    windows.push_back(*window);
  }
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
    wake_worker();
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
  stats_.add(out);
  wake_worker();
  returned_ = Clock::now();
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
  wake_worker();
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
  const bool only_ids =
      !readers_.empty() && std::ranges::all_of(readers_, [](const auto& reader) { return reader->is_on_device(); });
  v.depth = static_cast<uint64_t>(only_ids ? std::max(division_.depth, plan_->depth_of_ids) : division_.depth);
  // One thread that takes longer must not make the others wait: batches are delivered in order.
  v.ahead = v.depth + static_cast<uint64_t>(std::max(division_.threads, 2));
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
  v.begun_bytes = begun_bytes_;
  v.used_bytes = plan_->pool->used_bytes();
  v.limit_bytes = plan_->pool->limit();
  v.leaving_bytes = plan_->ledger->leaving_bytes(this);
  v.paused = exclusive_ || paused_ || cancelling_ > 0 || plan_->ledger->is_excluded(this);
  v.too_large = too_large_;
  v.consumer_waits = consumer_waits_;
  return v;
}

// Wakes one thread if there is a job. It wakes the next one when it has taken the job: if all were woken, they would
// wait for the lock that next() needs too.
void Pipeline::wake_worker() {
  if (next_job(queue_.batches(), view()).kind != Job::Kind::kWait) work_ready_.notify_one();
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
  FollowingBatches following;
  // If the next in line is among these, the consumer waits for them: nothing else is begun.
  if (division_.merges && first > queue_.front())
    following = following_batches(queue_, epochs_, first + count, division_.group);
  const std::vector<Batch*> batches = queue_.begin_sampling(first, count, epochs_);
  const Division division = division_;
  Cancel cancel(stopping_, *batches.front());
  wake_worker();
  lock.unlock();
  const auto start = Clock::now();
  uint64_t bytes_read = 0;
  const bool waits = division.window > 0 || division.merges;
  const auto sampled = [&](Batch& batch) {
    if (batch.number >= first_request_) prepare_requests(batch, plan_->parts, readers_);
    shrink(batch, *plan_, waits);
  };
  const Outcome outcome = attempt([&] {
    if (division.merges) {
      bytes_read = sampler_.sample(batches, following, division, cancel, sampled);
      return;
    }
    for (Batch* batch : batches) sample(*batch, *plan_, waits), sampled(*batch);
  });
  lock.lock();
  stats_.topology_bytes_read += bytes_read;
  if (outcome.is_good()) stats_.sample_seconds += seconds_since(start);
  const bool cancelled = batches.front()->cancelled || stopping_;
  if (division.merges && (cancelled || !outcome.is_good())) sampler_.forget();
  begun_bytes_ = division.merges ? sampler_.bytes() : 0;
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
  report_end_of_job();
}

void Pipeline::finish_one(uint64_t number, Lock& lock) {
  Batch& batch = queue_.begin_finishing(number);
  const uint64_t wanted = minus(division_.sizes.batch, batch.taken_bytes);
  Cancel cancel(stopping_, batch);
  wake_worker();
  lock.unlock();
  std::optional<LoadedBatch> loaded;
  const Outcome outcome = attempt([&] {
    plan_->ledger->wait_for_room(this, wanted, cancel);
    loaded = finish(batch, *plan_, readers_, cancel);
  });
  lock.lock();
  const bool cancelled = batch.cancelled || stopping_;
  if (loaded && !cancelled) note_size(*loaded);
  queue_.end_finishing(batch, std::move(loaded));
  if (outcome.error && !cancelled) queue_.fail(number, outcome.error);
  if (outcome.needed > 0 && !cancelled) {
    division_.sizes.batch += division_.sizes.batch / 2;
    too_large_ = too_large_ || number == queue_.front();
  }
  report_end_of_job();
}

// The thread itself looks for the next job.
void Pipeline::report_end_of_job() {
  if (queue_.front_is_done()) batch_ready_.notify_all();
  if (queue_.is_idle()) idle_.notify_all();
}

// The plan is adjusted when batches are larger than before.
void Pipeline::note_size(const LoadedBatch& batch) {
  const uint64_t bytes = bytes_of(batch);
  division_.sizes.batch = std::max(division_.sizes.batch, bytes);
  plan_->ledger->note_batch(bytes);
}

}  // namespace gz
