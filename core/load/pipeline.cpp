// pipeline: the threads of one epoch.
#include "load/pipeline.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace gz {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Ends a gather when the epoch is stopped, instead of after its last row.
class StopSignal : public Progress {
 public:
  explicit StopSignal(const std::atomic<bool>& stopping) : stopping_(stopping) {}
  void report(const char*, uint64_t, uint64_t) override {
    if (stopping_) throw Cancelled();
  }

 private:
  const std::atomic<bool>& stopping_;
};

}  // namespace

Pipeline::Pipeline(std::shared_ptr<const LoadPlan> plan, uint64_t epoch, const Share& share, Allocate allocate)
    : plan_(std::move(plan)),
      epoch_(epoch),
      allocate_(std::move(allocate)),
      batches_(epoch_batches(*plan_, epoch, share)),
      announces_(!plan_->announcing.exchange(true)) {
  for (int i = 0; i < plan_->threads; ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) {  // fewer threads are slower, none is no loader
        stop();
        throw;
      }
      break;
    }
  }
}

Pipeline::~Pipeline() { stop(); }

void Pipeline::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  batch_ready_.notify_all();
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
  threads_.clear();
  if (!announces_) return;
  for (const auto& cache : plan_->caches) {
    if (cache) cache->forget_announced();  // the epoch may have been cut short
  }
  announces_ = false;
  plan_->announcing = false;
}

void Pipeline::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (may_gather()) {
      gather_one(lock);
    } else if (may_sample()) {
      sample_one(lock);
    } else {
      const auto start = Clock::now();
      const bool at_end = next_to_sample_ >= num_batches() && sampled_.empty();  // waiting then says nothing
      work_ready_.wait(lock, [&] { return stopping_ || may_gather() || may_sample(); });
      if (!at_end) stats_.blocked_seconds += since(start);
    }
  }
}

bool Pipeline::may_sample() const {
  if (next_to_sample_ >= num_batches() || !errors_.empty()) return false;
  return next_to_sample_ - next_to_deliver_ < static_cast<uint64_t>(plan_->window);
}

// The next batch in line may always be made: the budget was checked to hold it. Later ones wait for room.
bool Pipeline::may_gather() const {
  if (sampled_.empty()) return false;
  const uint64_t number = sampled_.begin()->first;
  if (number == next_to_deliver_) return true;
  return number - next_to_deliver_ < static_cast<uint64_t>(plan_->depth) &&
         held_bytes_ + plan_->batch_bytes <= plan_->batches_budget;
}

void Pipeline::keep_error(uint64_t number) {
  std::lock_guard lock(mutex_);
  errors_.emplace(number, std::current_exception());
  batch_ready_.notify_all();
}

void Pipeline::sample_one(std::unique_lock<std::mutex>& lock) {
  const uint64_t number = next_to_sample_++;
  ++sampling_;
  lock.unlock();
  try {
    const auto start = Clock::now();
    LoadedBatch batch;
    batch.number = number;
    batch.input = batches_.input(number);
    batch.graph = sample_batch(*plan_, epoch_, batches_.number(number), batch.input);
    batch.bytes = subgraph_bytes(batch.graph);
    const double seconds = since(start);
    announce(std::move(batch));
    lock.lock();
    stats_.sample_seconds += seconds;
    --sampling_;
  } catch (...) {
    keep_error(number);
    lock.lock();
    --sampling_;
  }
  work_ready_.notify_all();
}

// Hands sampled batches on in order, so that a cache hears of them in the order in which they will be gathered.
void Pipeline::announce(LoadedBatch&& batch) {
  std::lock_guard order(announce_mutex_);
  unannounced_.emplace(batch.number, std::move(batch));
  for (auto it = unannounced_.begin(); it != unannounced_.end() && it->first == next_to_announce_;
       it = unannounced_.erase(it), ++next_to_announce_) {
    for (size_t i = 0; i < plan_->parts.size(); ++i) {
      if (announces_ && plan_->caches[i])
        plan_->caches[i]->announce(it->first, ids_of(plan_->parts[i], it->second.graph));
    }
    std::lock_guard lock(mutex_);
    held_bytes_ += it->second.bytes;
    stats_.peak_bytes = std::max(stats_.peak_bytes, held_bytes_);
    sampled_.emplace(it->first, std::move(it->second));
  }
}

void Pipeline::gather_one(std::unique_lock<std::mutex>& lock) {
  auto node = sampled_.extract(sampled_.begin());
  LoadedBatch batch = std::move(node.mapped());
  const uint64_t sampled_bytes = batch.bytes;
  held_bytes_ += plan_->batch_bytes;  // a promise, replaced by the truth below
  lock.unlock();
  GatherStats gathered;
  StopSignal stop_signal(stopping_);
  bool made = false;
  try {
    const LoadOptions& options = plan_->options;
    for (size_t i = 0; i < plan_->parts.size(); ++i) {
      const Part& part = plan_->parts[i];
      const Matrix& matrix = part.file->matrix(part.matrix);
      const auto ids = ids_of(part, batch.graph);
      GatherOptions how;
      how.io = options.io;
      how.threads = 1;  // the pipeline's threads are the parallelism
      how.out_dtype = part.out_dtype;
      GatheredPart result;
      result.rows = ids.size();
      result.columns = matrix.columns;
      result.is_vector = matrix.is_vector;
      result.dtype = gathered_dtype(matrix, how);
      const size_t bytes = ids.size() * gathered_row_bytes(matrix, how);
      result.buffer = allocate_(bytes);
      if (plan_->caches[i]) {
        const uint64_t number = announces_ ? batch.number : RowCache::kUnannounced;
        plan_->caches[i]->gather(ids, result.buffer.data, how, &gathered, number, &stop_signal);
      } else {
        gather(*part.file, matrix, ids, result.buffer.data, how, &gathered, &stop_signal);
      }
      batch.bytes += bytes;
      batch.parts.push_back(std::move(result));
    }
    made = true;
  } catch (...) {
    keep_error(batch.number);
  }
  lock.lock();
  held_bytes_ -= plan_->batch_bytes + sampled_bytes;
  if (made) {
    stats_.gather.add(gathered);
    stats_.read_seconds += gathered.read_seconds;
    stats_.copy_seconds += gathered.copy_seconds;
    held_bytes_ += batch.bytes;
    stats_.peak_bytes = std::max(stats_.peak_bytes, held_bytes_);
    ready_.emplace(batch.number, std::move(batch));
  }
  batch_ready_.notify_all();
  work_ready_.notify_all();
}

Pipeline::State Pipeline::next(LoadedBatch& out, int milliseconds) {
  std::unique_lock lock(mutex_);
  if (next_to_deliver_ >= num_batches()) return State::kEnd;
  if (stopping_) return State::kEnd;
  const auto start = Clock::now();
  if (returned_ != Clock::time_point{}) {
    stats_.consumer_seconds += std::chrono::duration<double>(start - returned_).count();
    returned_ = {};
  }
  const auto has_news = [&] {
    return stopping_ || ready_.count(next_to_deliver_) != 0 || errors_.count(next_to_deliver_) != 0;
  };
  const bool news = batch_ready_.wait_for(lock, std::chrono::milliseconds(milliseconds), has_news);
  stats_.starved_seconds += since(start);
  if (stopping_) return State::kEnd;
  if (!news) return State::kNotYet;
  if (const auto error = errors_.find(next_to_deliver_); error != errors_.end()) {
    std::rethrow_exception(error->second);
  }
  auto node = ready_.extract(next_to_deliver_++);
  stats_.depth_sum += static_cast<double>(ready_.size() + 1);
  out = std::move(node.mapped());
  held_bytes_ -= out.bytes;
  ++stats_.batches;
  stats_.nodes += out.graph.node.size;
  stats_.edges += out.graph.edge.size;
  returned_ = Clock::now();
  work_ready_.notify_all();
  return State::kReady;
}

LoadStats Pipeline::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace gz
