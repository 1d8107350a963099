// pipeline: from top to bottom: its threads, the consumer's side, the jobs, and a batch that must be built exclusively.
#include "load/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "load/budget.h"
#include "load/divide.h"
#include "load/readers.h"

namespace gz {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// -- threads ----------------------------------------------------------------------------------------------------------

Pipeline::Pipeline(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share, Progress* progress,
                   const std::shared_ptr<LoadPlan>& source)
    : plan_(std::move(plan)), passes_(source ? source : plan_, epoch, share) {
  if (source && !deliver_alike(*plan_, *source))
    throw ArgumentError("the source loader does not deliver the same rows as this plan");
  try {
    const auto [first, released] = enter(*plan_, this);
    if (first && (epoch > 0 || source || released)) divide_again(*plan_, progress);
    {
      std::lock_guard lock(plan_->mutex);
      division_ = plan_->division;
    }
    if (!first) division_.window = 0;  // one sweep at a time: concurrent epochs read their rows batch by batch
    if (division_.window > 0) first_request_ = std::min({division_.direct, division_.window, passes_.end()});
    ring_.start_requests_at(first_request_);
    readers_ = start_readers(passes_.end() - first_request_);
    begin_to_count();
    start_threads();
  } catch (...) {
    stop();
    throw;
  }
}

Pipeline::~Pipeline() { stop(); }

void Pipeline::start_threads() {
  for (int i = 0; i < division_.threads; ++i) {
    try {
      threads_.emplace_back([this] {
        const BufferPool::Use use(*plan_->pool);
        if (plan_->feeds_device) give_way();  // to the thread that keeps the device busy
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
    if (!ring_.has(number)) return;
    Batch& batch = ring_.at(number);
    if (batch.missing > 0 && --batch.missing == 0) work_ready_.notify_all();
  };
  events.failed = [this](std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    ring_.fail(ring_.front(), std::move(error));
    batch_ready_.notify_all();
  };
  events.starving = [this] {
    std::lock_guard lock(mutex_);
    return consumer_waits_;
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
    ring_.clear();
    add_reads(
        stats_, readers_,
        reads_before_);  // an epoch that is over keeps its figures, but not the rows: the next one may hold others
    readers_.clear();
  }
  plan_->ledger->is_over(this);
  leave(*plan_, this);
}

// -- the consumer -----------------------------------------------------------------------------------------------------

Pipeline::State Pipeline::next(LoadedBatch& out, int milliseconds) {
  Lock lock(mutex_);
  if (ring_.front() >= passes_.now().end() || stopping_) return State::kEnd;
  const auto start = Clock::now();
  if (returned_ != Clock::time_point{}) {
    stats_.consumer_seconds += std::chrono::duration<double>(start - returned_).count();
    returned_ = {};
  }
  plan_->ledger->next_is_asked_for(this);
  const auto has_news = [&] {
    const BatchState state = ring_.front_state();
    return stopping_ || state == BatchState::kReady || state == BatchState::kFailed;
  };
  if (!has_news() && (!consumer_waits_ || paused_)) {
    consumer_waits_ = true;
    paused_ = false;
    work_ready_.notify_all();
  }
  const bool news = batch_ready_.wait_for(lock, std::chrono::milliseconds(milliseconds), has_news);
  stats_.starved_seconds += since(start);
  if (stopping_) return State::kEnd;
  if (!news) return State::kNotYet;
  consumer_waits_ = false;
  if (ring_.front_state() == BatchState::kFailed) std::rethrow_exception(ring_.at(ring_.front()).error);
  stats_.depth_sum += static_cast<double>(ring_.num_ready());
  out = ring_.deliver();
  plan_->ledger->hand_out(this, buffers_of(out));
  ++stats_.batches;
  stats_.nodes += num_nodes(out.graph);
  stats_.edges += num_edges(out.graph);
  returned_ = Clock::now();
  work_ready_.notify_all();
  return State::kReady;
}

uint64_t Pipeline::num_batches() const {
  std::lock_guard lock(mutex_);
  return passes_.now().batches.count();
}

bool Pipeline::expect(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share) {
  if (plan_->options.local.count > 1 || !deliver_alike(*plan_, *plan)) return false;
  std::lock_guard lock(mutex_);
  if (stopping_ || division_.window == 0) return false;
  passes_.add(std::move(plan), epoch, share);
  work_ready_.notify_all();
  return true;
}

bool Pipeline::looks_ahead() const {
  std::lock_guard lock(mutex_);
  return !stopping_ && !passes_.is_last();
}

bool Pipeline::go_on(const LoadPlan& plan, uint64_t epoch, const Share& share) {
  if (!divides_alike(*plan_)) return false;
  std::lock_guard lock(mutex_);
  if (stopping_ || division_.window == 0 || ring_.front() < passes_.now().end()) return false;
  if (!passes_.is_next(plan, epoch, share)) return false;
  passes_.go_on();
  begin_to_count();
  return true;
}

void Pipeline::begin_to_count() {
  plan_->pool->reset_peak();
  stats_ = {};
  returned_ = {};
  reads_before_ = reads_of(readers_);
}

LoadStats Pipeline::stats() const {
  std::lock_guard lock(mutex_);
  LoadStats stats = stats_;
  stats.peak_bytes = plan_->pool->peak_bytes();
  add_reads(stats, readers_, reads_before_);
  return stats;
}

// -- the jobs ---------------------------------------------------------------------------------------------------------

ScheduleView Pipeline::view() {
  ScheduleView v;
  ring_.look(v);
  const uint64_t next = ring_.front() + v.next;
  v.known = passes_.end() - ring_.front();
  v.depth = static_cast<uint64_t>(division_.depth);
  v.ahead = v.depth + 2;
  for (const auto& reader : readers_) {
    if (const uint64_t batches = reader->batches(); batches > 0) v.ahead = std::max(v.ahead, batches + v.depth);
  }
  v.merges = division_.merges;
  if (v.merges) {
    v.ahead += std::max<uint64_t>(lead_of(division_.group), 1);
    v.group = division_.group;
    if (next >= first_request_ && v.next < v.known) v.together = std::min(v.group, passes_.of(next)->end() - next);
  }
  v.batch_bytes = division_.batch_bytes;
  v.sampling_bytes = division_.sampling_bytes;
  v.merged_bytes = division_.merged_bytes;
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
    const Job job = next_job(ring_.slots(), view());
    if (job.kind == Job::Kind::kWait) wait_for_work(lock);
    if (job.kind == Job::Kind::kSample) sample_some(ring_.front() + job.first, job.count, lock);
    if (job.kind == Job::Kind::kFinish) finish_one(ring_.front() + job.first, lock);
    if (job.kind == Job::Kind::kBuildExclusively) build_exclusively(lock);
  }
}

void Pipeline::wait_for_work(Lock& lock) {
  // Waiting between two epochs, or after the last one, does not count.
  const uint64_t epoch_end = passes_.now().end();
  const bool counts = ring_.front() < epoch_end && ring_.num_ready() < passes_.end() - ring_.front();
  const auto start = Clock::now();
  work_ready_.wait(lock);
  if (counts && passes_.now().end() == epoch_end) stats_.blocked_seconds += since(start);
}

void Pipeline::sample_some(uint64_t first, uint64_t count, Lock& lock) {
  const std::vector<Batch*> batches = ring_.begin_sampling(first, count, passes_);
  const auto gap = division_.merges ? std::optional(division_.disk.gap()) : std::nullopt;
  Cancel cancel(stopping_, *batches.front());
  lock.unlock();
  const auto start = Clock::now();
  uint64_t bytes_read = 0;
  const Outcome outcome = attempt([&] {
    bytes_read = sample(batches, gap, cancel, [&](Batch& batch) {
      if (batch.number >= first_request_ && division_.window > 0) prepare_requests(batch, plan_->parts, readers_);
      if (division_.window > 0 || division_.merges) pack(batch);  // it will wait for a long time
    });
  });
  lock.lock();
  stats_.topology_bytes_read += bytes_read;
  if (outcome.is_good()) stats_.sample_seconds += since(start);
  const bool cancelled = batches.front()->cancelled || stopping_;
  ring_.end_sampling(batches, outcome.is_good());
  if (outcome.error && !cancelled) ring_.fail(first, outcome.error);
  if (outcome.needed > 0 && !cancelled) {
    // Retried when more memory is free, and finally built exclusively once it is next in line. Batches after it that
    // wait for it are rebuilt.
    division_.sampling_bytes += division_.sampling_bytes / 2;
    division_.merged_bytes += division_.merged_bytes / 2;
    division_.group = std::max<uint64_t>(division_.group / 2, 1);
    too_large_ = too_large_ || first == ring_.front();
    stats_.remade += ring_.cancel_after(first);
  }
  ring_.request([&](Batch& batch) { submit_requests(batch, readers_); });
  batch_ready_.notify_all();
  work_ready_.notify_all();
}

void Pipeline::finish_one(uint64_t number, Lock& lock) {
  Batch& batch = ring_.begin_finishing(number);
  const uint64_t wanted = minus(division_.batch_bytes, batch.taken_bytes);
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
  ring_.end_finishing(batch, std::move(loaded));
  if (outcome.error && !cancelled) ring_.fail(number, outcome.error);
  if (outcome.needed > 0 && !cancelled) {
    division_.batch_bytes += division_.batch_bytes / 2;
    too_large_ = too_large_ || number == ring_.front();
  }
  batch_ready_.notify_all();
  work_ready_.notify_all();
}

// The plan is adjusted when batches are larger than before.
void Pipeline::count_batch(const LoadedBatch& batch, const GatherStats& gathered) {
  const uint64_t bytes = bytes_of(batch);
  division_.batch_bytes = std::max(division_.batch_bytes, bytes);
  plan_->ledger->note_batch(bytes);
  stats_.add(gathered);
}

// -- where memory is short --------------------------------------------------------------------------------------------

void Pipeline::pause() {
  Lock lock(mutex_);
  paused_ = true;
  cancel_all(lock);
  work_ready_.wait(lock, [&] { return ring_.is_idle(); });
}

void Pipeline::cancel_all(Lock& lock) {
  stats_.remade += ring_.cancel_all();
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
  const uint64_t number = ring_.front();
  const auto pass = passes_.of(number);
  Cancel cancel(stopping_, ring_.at(number));
  lock.unlock();
  std::optional<LoadedBatch> loaded;
  GatherStats gathered;
  Outcome outcome;
  const bool begun = begin_exclusive();
  for (int round = 0; round < 3 && begun && !loaded && !outcome.error; ++round) {
    if (round == 1) plan_->ledger->count_together();
    if (round == 2) give_rows_to_batches();
    Batch batch;
    batch.number = number;
    batch.pass = pass;
    bool sampled = false;
    outcome = attempt([&] {
      sample({&batch}, std::nullopt, cancel, [&](Batch&) { sampled = true; });
      loaded = finish(batch, *plan_, readers_, cancel, gathered);
    });
    if (!sampled) outcome.needed += outcome.needed / 2;  // its final size is not known while it is being sampled
  }
  lock.lock();
  exclusive_ = false;
  if (begun) too_large_ = false;
  if (loaded) {
    count_batch(*loaded, gathered);
    ring_.skip_request(number);
    ring_.set_ready(ring_.at(number), std::move(*loaded));
  } else if (begun && !stopping_) {
    const uint64_t in_epoch = number - passes_.now().begin;
    ring_.fail(number, outcome.error ? outcome.error : too_large_for(*plan_, in_epoch, outcome.needed));
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
  for (Pipeline* other : plan_->epochs) {
    if (other != this) other->pause();
  }
  return true;
}

void Pipeline::end_exclusive() {
  plan_->ledger->end_exclusive();
  std::lock_guard guard(plan_->mutex);
  for (Pipeline* other : plan_->epochs) {
    if (other == this) continue;
    std::lock_guard lock(other->mutex_);  // a thread that decided to wait is waiting by now
    other->work_ready_.notify_all();
  }
}

// A batch needs the memory of the held rows: from now on rows are read batch by batch.
void Pipeline::give_rows_to_batches() {
  for (const auto& reader : readers_) reader->stop();
  Lock lock(mutex_);
  const bool swept = division_.window > 0;
  add_reads(stats_, readers_, reads_before_);
  readers_.clear();
  division_.window = 0;
  lock.unlock();
  release_rows(*plan_, swept);
  auto readers = start_readers(0);
  lock.lock();
  readers_ = std::move(readers);
}

}  // namespace gz
