// pipeline: the threads of one epoch, and the consumer's side.
#include "load/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "load/budget.h"
#include "load/local.h"
#include "load/stages.h"

namespace gz {
namespace {

std::vector<std::weak_ptr<Buffer>> buffers_of(const LoadedBatch& batch) {
  std::vector<std::weak_ptr<Buffer>> buffers;
  buffers.emplace_back(batch.input.buffer);
  for_each_array(batch.graph, [&](const Int64Array& array) { buffers.emplace_back(array.buffer); });
  for (const GatheredPart& part : batch.parts) buffers.emplace_back(part.buffer);
  for (const BatchArray& array : batch.arrays) buffers.emplace_back(array.buffer);
  return buffers;
}

}  // namespace

Pipeline::Pipeline(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share, Progress* progress,
                   const std::shared_ptr<LoadPlan>& source)
    : plan_(std::move(plan)), passes_(source ? source : plan_, epoch, share) {
  if (source && !deliver_alike(*plan_, *source)) fail<ArgumentError>("the plan delivers other rows than its guest");
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
    if (division_.window > 0) {
      first_claim_ = std::min(division_.direct, std::min(division_.window, passes_.end()));
    }
    next_to_offer_ = first_claim_;
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
      threads_.emplace_back([this] { work(); });
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

void Pipeline::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  batch_ready_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
  if (!sweeps_.empty()) {
    for (const auto& window : windows_) {
      if (window) window->stop_sweep();
    }
  }
  for (std::thread& t : sweeps_) t.join();
  sweeps_.clear();
  {
    std::lock_guard lock(mutex_);
    drafts_.clear();
    ready_.clear();
    // An epoch that is over keeps its figures, but not the rows: the next one may hold others.
    add_windows(stats_);
    windows_.clear();
    wholes_.clear();
  }
  plan_->handed_out.is_over(this);
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
    options.claims = passes_.end() - first_claim_;
  }
  try {
    windows_[part]->sweep(options, [this, grouped = options.group != nullptr](uint64_t number) {
      // Not waited for: whoever holds it may be waiting for this sweep to forget its claims.
      if (std::unique_lock lock(plan_->mutex, std::defer_lock); grouped && lock.try_lock()) tell_held_bytes(*plan_);
      std::lock_guard lock(mutex_);
      const auto draft = drafts_.find(number);
      if (draft == drafts_.end() || draft->second.open_claims == 0) return;
      if (--draft->second.open_claims == 0) work_ready_.notify_all();
    });
  } catch (...) {
    std::lock_guard lock(mutex_);
    errors_.emplace(next_to_deliver_, std::current_exception());
    batch_ready_.notify_all();
  }
}

Pipeline::State Pipeline::next(LoadedBatch& out, int milliseconds) {
  using std::chrono::duration;
  std::unique_lock lock(mutex_);
  if (next_to_deliver_ >= passes_.now().end() || stopping_) return State::kEnd;
  const auto start = Clock::now();
  if (returned_ != Clock::time_point{}) {
    stats_.consumer_seconds += duration<double>(start - returned_).count();
    returned_ = {};
  }
  plan_->handed_out.next_is_asked_for(this, plan_->options.held);
  const auto has_news = [&] {
    return stopping_ || ready_.count(next_to_deliver_) != 0 || errors_.count(next_to_deliver_) != 0;
  };
  if (!has_news() && (!consumer_waits_ || quiet_)) {
    consumer_waits_ = true;
    quiet_ = false;
    work_ready_.notify_all();
  }
  const bool news = batch_ready_.wait_for(lock, std::chrono::milliseconds(milliseconds), has_news);
  stats_.starved_seconds += since(start);
  if (stopping_) return State::kEnd;
  if (!news) return State::kNotYet;
  consumer_waits_ = false;
  if (const auto error = errors_.find(next_to_deliver_); error != errors_.end()) {
    std::rethrow_exception(error->second);
  }
  auto node = ready_.extract(next_to_deliver_++);
  stats_.depth_sum += static_cast<double>(ready_.size() + 1);
  out = std::move(node.mapped());
  plan_->handed_out.add(this, buffers_of(out), plan_->options.held);
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

void Pipeline::begin_to_count() {
  plan_->pool->reset_peak();
  stats_ = {};
  returned_ = {};
  windows_before_.clear();
  for (const auto& window : windows_) windows_before_.push_back(window ? window->stats() : WindowStats{});
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
  if (stopping_ || division_.window == 0 || next_to_deliver_ < passes_.now().end()) return false;
  if (!passes_.is_next(plan, epoch, share)) return false;
  passes_.go_on();
  begin_to_count();
  return true;
}

void Pipeline::shed() {
  std::unique_lock lock(mutex_);
  quiet_ = true;
  drop_all(lock);
  work_ready_.wait(lock, [&] { return sampling_ == 0 && finishing_ == 0; });
}

// Everything that is not finished and next in line is forgotten; it will be made again.
void Pipeline::drop_all(std::unique_lock<std::mutex>& lock) {
  ++generation_;
  stats_.remade += drafts_.size() + ready_.size();
  std::map<uint64_t, Draft> drafts;
  std::map<uint64_t, LoadedBatch> ready;
  drafts.swap(drafts_);
  ready.swap(ready_);
  next_to_sample_ = next_to_deliver_;
  next_to_offer_ = std::max(first_claim_, next_to_deliver_);
  const auto windows = windows_;
  ++dropping_;  // a claim that is offered before the window has forgotten the others would be forgotten with them
  lock.unlock();
  for (const auto& window : windows) {
    if (window) window->forget();
  }
  drafts.clear();
  ready.clear();
  lock.lock();
  --dropping_;
  work_ready_.notify_all();
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

}  // namespace gz
