// pipeline: from top to bottom: its threads, the consumer's side, the jobs, and a batch that must be built exclusively.
#include "load/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "load/budget.h"
#include "load/divide.h"
#include "load/local.h"

namespace gz {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// Ends work that is not waited for any more: the epoch was stopped, or its batch is thrown away.
class Pipeline::Cancel : public Progress {
 public:
  Cancel(const Pipeline& pipeline, const Batch& batch) : pipeline_(pipeline), batch_(batch) {}
  void report(const char*, uint64_t, uint64_t) override {
    if (pipeline_.stopping_ || batch_.cancelled) throw Cancelled();
  }

 private:
  const Pipeline& pipeline_;
  const Batch& batch_;
};

// -- threads ----------------------------------------------------------------------------------------------------------

Pipeline::Pipeline(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share, Progress* progress,
                   const std::shared_ptr<LoadPlan>& source)
    : plan_(std::move(plan)), passes_(source ? source : plan_, epoch, share) {
  if (source && !deliver_alike(*plan_, *source)) throw ArgumentError("the plan delivers other rows than its guest");
  bool first = false, released = false;
  {
    std::lock_guard lock(plan_->mutex);
    first = plan_->epochs.empty();
    released = plan_->released;
    plan_->epochs.push_back(this);
    registered_ = true;
  }
  try {
    if (first && (epoch > 0 || source || released)) divide_again(*plan_, progress);
    {
      std::lock_guard lock(plan_->mutex);
      division_ = plan_->division;
      windows_ = plan_->windows;
      wholes_ = plan_->wholes;
    }
    if (!first) {  // one sweep at a time: epochs that run beside another read their rows batch by batch
      windows_.assign(windows_.size(), nullptr);
      division_.window = 0;
    }
    begin_to_count();
    if (division_.window > 0) first_request_ = std::min({division_.direct, division_.window, passes_.end()});
    next_request_ = first_request_;
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
        if (plan_->feeds_device) give_way();  // to the one thread that keeps the device busy
        Lock lock(mutex_);
        work(lock);
      });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // fewer threads are slower, none is no loader
      break;
    }
  }
  for (size_t part = 0; part < windows_.size(); ++part) {
    if (!windows_[part]) continue;
    windows_[part]->expect_sweep();
    sweeps_.emplace_back([this, part] { sweep(part); });
  }
}

void Pipeline::sweep(size_t part) {
  RowWindow::SweepOptions options;
  options.target = division_.window;
  options.most = most_window(division_.window);
  options.gap = division_.disk.gap();
  options.io = plan_->options.io;
  options.part = part;
  options.ring_bytes = division_.ring_bytes;
  options.hungry = [this] {
    std::lock_guard lock(mutex_);
    return consumer_waits_;
  };
  {
    std::lock_guard lock(plan_->mutex);
    options.group = plan_->group;
  }
  {
    std::lock_guard lock(mutex_);
    options.claims = passes_.end() - first_request_;
  }
  try {
    windows_[part]->sweep(options, [this, grouped = options.group != nullptr](uint64_t number) {
      if (Lock lock(plan_->mutex, std::defer_lock); grouped && lock.try_lock()) tell_held_bytes(*plan_);
      rows_are_there(number);
    });
  } catch (...) {
    std::lock_guard lock(mutex_);
    fail(front_, std::current_exception());
  }
}

void Pipeline::rows_are_there(uint64_t number) {
  std::lock_guard lock(mutex_);
  if (number < front_ || number - front_ >= ring_.size()) return;
  Batch& batch = at(number);
  if (batch.missing > 0 && --batch.missing == 0) work_ready_.notify_all();
}

void Pipeline::stop_sweeps() {
  for (const auto& window : windows_) {
    if (window && !sweeps_.empty()) window->stop_sweep();
  }
  for (std::thread& t : sweeps_) t.join();
  sweeps_.clear();
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
  stop_sweeps();
  {
    std::lock_guard lock(mutex_);
    ring_.clear();
    // An epoch that is over keeps its figures, but not the rows: the next one may hold others.
    add_windows(stats_);
    windows_.clear();
    wholes_.clear();
  }
  plan_->ledger->is_over(this);
  std::lock_guard lock(plan_->mutex);
  if (!registered_) return;
  std::erase(plan_->epochs, this);
  registered_ = false;
  if (!plan_->epochs.empty()) return;
  for (auto& window : plan_->windows) {  // rows are held for an epoch in flight
    plan_->released |= window != nullptr;
    window.reset();
  }
}

// -- the consumer -----------------------------------------------------------------------------------------------------

Pipeline::State Pipeline::next(LoadedBatch& out, int milliseconds) {
  Lock lock(mutex_);
  if (front_ >= passes_.now().end() || stopping_) return State::kEnd;
  const auto start = Clock::now();
  if (returned_ != Clock::time_point{}) {
    stats_.consumer_seconds += std::chrono::duration<double>(start - returned_).count();
    returned_ = {};
  }
  plan_->ledger->next_is_asked_for(this);
  const auto has_news = [&] {
    const BatchState state = ring_.empty() ? BatchState::kPlanned : ring_.front().state;
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
  Batch& batch = ring_.front();
  if (batch.state == BatchState::kFailed) std::rethrow_exception(batch.error);
  out = std::move(batch.loaded);
  stats_.depth_sum +=
      static_cast<double>(std::ranges::count_if(ring_, [](const Batch& b) { return b.state == BatchState::kReady; }));
  batch.state = BatchState::kDelivered;
  ring_.pop_front();
  ++front_;
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
  if (stopping_ || division_.window == 0 || front_ < passes_.now().end()) return false;
  if (!passes_.is_next(plan, epoch, share)) return false;
  passes_.go_on();
  begin_to_count();
  return true;
}

void Pipeline::begin_to_count() {
  plan_->pool->reset_peak();
  stats_ = {};
  returned_ = {};
  windows_before_.clear();
  for (const auto& window : windows_) windows_before_.push_back(window ? window->stats() : WindowStats{});
}

void Pipeline::add_windows(LoadStats& stats) const {
  for (size_t part = 0; part < windows_.size() && part < windows_before_.size(); ++part) {
    if (!windows_[part]) continue;
    const WindowStats window = windows_[part]->stats();
    const WindowStats& before = windows_before_[part];
    stats.gather.bytes_read += window.bytes_read - before.bytes_read;
    stats.gather.reads += window.reads - before.reads;
    stats.read_seconds += window.read_seconds - before.read_seconds;
    stats.windows.push_back(window);
  }
}

LoadStats Pipeline::stats() const {
  std::lock_guard lock(mutex_);
  LoadStats stats = stats_;
  stats.peak_bytes = plan_->pool->peak_bytes();
  add_windows(stats);
  return stats;
}

// -- the schedule -----------------------------------------------------------------------------------------------------

Batch& Pipeline::at(uint64_t number) {
  while (number - front_ >= ring_.size()) {
    const uint64_t next = front_ + ring_.size();
    ring_.emplace_back().number = next;
  }
  return ring_[number - front_];
}

ScheduleView Pipeline::view() {
  next_ = std::max(next_, front_);
  while (next_ - front_ < ring_.size() && ring_[next_ - front_].is_begun()) ++next_;
  ScheduleView v;
  v.known = passes_.end() - front_;
  v.failed = failed_ == UINT64_MAX ? failed_ : failed_ - front_;
  v.next = next_ - front_;
  v.depth = static_cast<uint64_t>(division_.depth);
  v.ahead = ahead();
  v.merges = division_.merges;
  v.group = division_.group;
  if (v.merges && next_ >= first_request_ && next_ < passes_.end()) {
    v.together = std::min(division_.group, passes_.of(next_)->end() - next_);
  }
  v.sampling = sampling_;
  v.finishing = finishing_;
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

uint64_t Pipeline::ahead() const {
  uint64_t most = static_cast<uint64_t>(division_.depth) + 2;
  for (const auto& window : windows_) {
    if (window) most = std::max(most, window->target() + static_cast<uint64_t>(division_.depth));
  }
  return most + (division_.merges ? std::max<uint64_t>(lead_of(division_.group), 1) : 0);
}

void Pipeline::work(Lock& lock) {
  while (!stopping_) {
    const Job job = next_job(ring_, view());
    switch (job.kind) {
      case Job::Kind::kWait:
        wait_for_work(lock);
        break;
      case Job::Kind::kSample:
        sample_some(front_ + job.first, job.count, lock);
        break;
      case Job::Kind::kFinish:
        finish_one(front_ + job.first, lock);
        break;
      case Job::Kind::kBuildExclusively:
        build_exclusively(lock);
        break;
    }
  }
}

void Pipeline::wait_for_work(Lock& lock) {
  // Waiting at the end of all, or between two epochs, does not count.
  const uint64_t epoch_end = passes_.now().end();
  const bool counts = front_ < epoch_end && (next_ < passes_.end() || !ring_.empty());
  const auto start = Clock::now();
  work_ready_.wait(lock);
  if (counts && passes_.now().end() == epoch_end) stats_.blocked_seconds += since(start);
}

// -- the jobs ---------------------------------------------------------------------------------------------------------

void Pipeline::sample_some(uint64_t first, uint64_t count, Lock& lock) {
  std::vector<Batch*> batches;
  for (uint64_t number = first; number < first + count; ++number) {
    Batch& batch = at(number);
    batch.busy = true;
    batch.pass = passes_.of(number);
    batches.push_back(&batch);
  }
  sampling_ += count;
  const auto gap = division_.merges ? std::optional(division_.disk.gap()) : std::nullopt;
  Cancel cancel(*this, *batches.front());
  lock.unlock();
  const auto start = Clock::now();
  std::exception_ptr error;
  bool full = false, sampled = false;
  uint64_t bytes_read = 0;
  try {
    bytes_read = sample(batches, gap, cancel, [&](Batch& batch) { request_rows(batch); });
    sampled = true;
  } catch (const PoolFull&) {
    full = true;
  } catch (const Cancelled&) {
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  sampling_ -= count;
  stats_.sample_seconds += sampled ? since(start) : 0;
  stats_.topology_bytes_read += bytes_read;
  const bool cancelled = batches.front()->cancelled;
  for (Batch* batch : batches) {
    batch->busy = false;
    if (!sampled || cancelled) {
      go_back(*batch);
      continue;
    }
    batch->taken_bytes = (batch->packed ? 0 : subgraph_bytes(batch->graph)) + array_bytes(batch->arrays);
    batch->missing = static_cast<uint32_t>(std::ranges::count_if(batch->claims, [](const auto& c) { return !!c; }));
    batch->state = batch->missing > 0 ? BatchState::kSampled : BatchState::kRequested;
  }
  if (error && !cancelled) fail(first, error);
  if (full && !cancelled) shrink(first);
  request_in_order();
  work_ready_.notify_all();
}

void Pipeline::request_rows(Batch& batch) {
  if (division_.window == 0 && !division_.merges) return;
  batch.claims.resize(windows_.size());
  for (size_t part = 0; batch.number >= first_request_ && part < windows_.size(); ++part) {
    if (!windows_[part]) continue;
    batch.claims[part] = windows_[part]->claim(batch.number, ids_of(plan_->parts[part], batch.graph));
  }
  batch.packed = std::make_shared<const PackedSubgraph>(std::move(batch.graph));
}

void Pipeline::request_in_order() {
  for (next_request_ = std::max(next_request_, front_); next_request_ - front_ < ring_.size(); ++next_request_) {
    Batch& batch = at(next_request_);
    if (batch.state != BatchState::kSampled) return;
    batch.state = BatchState::kRequested;
    for (size_t part = 0; part < batch.claims.size(); ++part) {
      if (batch.claims[part]) windows_[part]->offer(batch.claims[part]);
    }
  }
}

void Pipeline::finish_one(uint64_t number, Lock& lock) {
  Batch& batch = at(number);
  batch.busy = true;
  ++finishing_;
  const uint64_t wanted = minus(division_.batch_bytes, batch.taken_bytes);
  Cancel cancel(*this, batch);
  lock.unlock();
  GatherStats gathered;
  LoadedBatch loaded;
  std::exception_ptr error;
  bool full = false;
  try {
    plan_->ledger->wait_for_room(this, wanted, cancel);
    loaded = finish(batch, cancel, gathered);
  } catch (const PoolFull&) {
    full = true;
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --finishing_;
  batch.busy = false;
  if (batch.cancelled || stopping_) {
    go_back(batch);
  } else if (error) {
    fail(number, error);
  } else if (full) {
    division_.batch_bytes += division_.batch_bytes / 2;
    too_large_ = too_large_ || number == front_;
  } else {
    set_ready(batch, std::move(loaded), gathered);
  }
  work_ready_.notify_all();
}

// Memory first: when there is none the batch is as it was.
LoadedBatch Pipeline::finish(Batch& batch, Progress& cancel, GatherStats& stats) {
  LoadedBatch loaded = take_memory(batch, plan_->parts);
  for (size_t i = 0; i < plan_->parts.size(); ++i) {
    const Part& part = plan_->parts[i];
    std::byte* out = loaded.parts[i].buffer->data();
    GatherOptions how = gather_options(part);
    how.io = plan_->options.io;
    how.threads = 1;  // the pipeline's threads are the parallelism
    if (i < batch.claims.size() && batch.claims[i]) {
      windows_[i]->deliver(*batch.claims[i], out, how, &stats, &cancel);
    } else if (wholes_[i]) {
      wholes_[i]->gather(ids_of(part, loaded.graph), out, how, &stats, &cancel);
    } else {
      // A file that does not fit leaves nothing in the page cache, which the topology needs.
      how.past_page_cache = how.io == Io::kAuto && division_.ways[i] == Way::kWindow;
      gather(*part.file, matrix_of(part), ids_of(part, loaded.graph), out, how, &stats, &cancel);
    }
  }
  return loaded;
}

// Batches that are larger than those before make the plan follow.
void Pipeline::set_ready(Batch& batch, LoadedBatch&& loaded, const GatherStats& gathered) {
  const uint64_t bytes = bytes_of(loaded);
  division_.batch_bytes = std::max(division_.batch_bytes, bytes);
  plan_->ledger->note_batch(bytes);
  stats_.gather.add(gathered);
  stats_.read_seconds += gathered.read_seconds;
  stats_.copy_seconds += gathered.copy_seconds;
  batch.claims.clear();
  batch.loaded = std::move(loaded);
  batch.state = batch.error ? BatchState::kFailed : BatchState::kReady;
  batch_ready_.notify_all();
}

void Pipeline::fail(uint64_t number, std::exception_ptr error) {
  Batch& batch = at(number);
  batch.error = std::move(error);
  if (!batch.busy) batch.state = BatchState::kFailed;
  failed_ = std::min(failed_, number);
  batch_ready_.notify_all();
}

// -- where memory is short --------------------------------------------------------------------------------------------

void Pipeline::go_back(Batch& batch) {
  batch.go_back();
  if (batch.error) batch.state = BatchState::kFailed;
  next_ = std::min(next_, batch.number);
}

// Batch `number` found no room to be sampled: it is tried again when there is more, and at last when it is next in
// line, exclusively. Those after it that wait for it go too.
void Pipeline::shrink(uint64_t number) {
  division_.sampling_bytes += division_.sampling_bytes / 2;
  division_.merged_bytes += division_.merged_bytes / 2;
  division_.group = std::max<uint64_t>(division_.group / 2, 1);
  too_large_ = too_large_ || number == front_;
  for (Batch& batch : ring_) {
    const bool waits = batch.state == BatchState::kSampled || batch.state == BatchState::kRequested;
    if (batch.number <= number || batch.busy || !waits) continue;
    ++stats_.remade;
    go_back(batch);
  }
}

void Pipeline::pause() {
  Lock lock(mutex_);
  paused_ = true;
  cancel_all(lock);
  work_ready_.wait(lock, [&] { return sampling_ == 0 && finishing_ == 0; });
}

// All batches of the ring are made again.
void Pipeline::cancel_all(Lock& lock) {
  for (Batch& batch : ring_) {
    if (batch.state != BatchState::kPlanned && batch.state != BatchState::kFailed) ++stats_.remade;
    if (batch.busy) {
      batch.cancelled = true;
    } else {
      go_back(batch);
    }
  }
  next_request_ = std::max(first_request_, front_);
  const auto windows = windows_;
  ++cancelling_;
  lock.unlock();
  for (const auto& window : windows) {
    if (window) window->forget();
  }
  lock.lock();
  --cancelling_;
  work_ready_.notify_all();
}

// The next batch in line: at first beside the rows that are held, at last without them.
void Pipeline::build_exclusively(Lock& lock) {
  exclusive_ = true;
  cancel_all(lock);
  const uint64_t number = front_;
  const auto pass = passes_.of(number);
  const Batch& in_ring = at(number);
  Cancel cancel(*this, in_ring);
  lock.unlock();
  LoadedBatch loaded;
  GatherStats gathered;
  std::exception_ptr error;
  uint64_t needed = 0;
  const bool begun = begin_exclusive();
  bool over = !begun, built = false;
  for (int attempt = 0; attempt < 3 && !over; ++attempt) {
    if (attempt == 1) plan_->ledger->count_together();
    if (attempt == 2) release_rows();
    Batch batch;
    batch.number = number;
    batch.pass = pass;
    bool sampled = false;
    try {
      sample({&batch}, std::nullopt, cancel, [&](Batch&) { sampled = true; });
      loaded = finish(batch, cancel, gathered);
      built = over = true;
    } catch (const PoolFull& full) {
      // How large it will be is not known while it is sampled.
      needed = sampled ? full.needed : full.needed + full.needed / 2;
    } catch (const Cancelled&) {
      over = true;
    } catch (...) {
      error = std::current_exception();
      over = true;
    }
  }
  lock.lock();
  exclusive_ = false;
  if (begun) too_large_ = false;
  if (built) {
    next_request_ = std::max(first_request_, number + 1);
    set_ready(at(number), std::move(loaded), gathered);
  } else if (error) {
    fail(number, error);
  } else if (!over) {
    const uint64_t ranks = plan_->options.local.count;
    const uint64_t least = ranks * ((needed + plan_->division.fixed_bytes) / 8 * 9 + 8);  // others may be larger still
    fail(number,
         std::make_exception_ptr(BudgetError(
             text("batch ", number - passes_.now().begin, " takes more than memory=", ranks * plan_->division.memory,
                  " bytes allow: raise memory to ", least, " or lower batch_size or fanouts"),
             least)));
  }
  work_ready_.notify_all();
  if (!begun) return;
  lock.unlock();
  end_exclusive();
  lock.lock();
}

// Pauses the other epochs of the loader. False where another one is exclusive already: it wakes this one afterwards.
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
    std::lock_guard lock(other->mutex_);  // whoever decided to wait before, waits by now
    other->work_ready_.notify_all();
  }
}

// Ends the sweeps of this epoch and gives the memory of the rows held to batches. Whole copies stay while another epoch
// may be reading them, and so do windows that are another's.
void Pipeline::release_rows() {
  stop_sweeps();
  std::lock_guard guard(plan_->mutex);
  std::lock_guard lock(mutex_);
  const bool is_only = plan_->epochs.size() == 1;
  add_windows(stats_);
  division_.window = 0;
  uint64_t kept = 0;
  for (size_t part = 0; part < windows_.size(); ++part) {
    if (is_only || windows_[part]) plan_->windows[part] = nullptr;
    if (is_only) wholes_[part] = plan_->wholes[part] = nullptr;
    windows_[part] = nullptr;
    if (plan_->windows[part]) kept += plan_->windows[part]->stats().budget_bytes;
    if (plan_->wholes[part]) kept += WholeRows::bytes_for(plan_->wholes[part]->matrix());
  }
  plan_->outgrown = true;
  const uint64_t rest = plan_->division.memory - plan_->division.fixed_bytes - plan_->division.shared_bytes;
  plan_->pool->set_limit(std::max(plan_->pool->limit(), rest - std::min(rest, kept)));
}

}  // namespace gz
