// stages: what the pipeline's threads do: sample, claim, finish.
#include "load/stages.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "load/divide.h"
#include "sample/merged.h"

namespace gz {
namespace {

// Batches sampled together at first. Few would come a moment sooner, and leave the first circle nearly empty. Groups
// grow fast: each of them reads most of the topology.
constexpr uint64_t kLeastGroup = 16, kGrowth = 4;

}  // namespace

void Pipeline::work() {
  const BufferPool::Use use(*plan_->pool);
  if (plan_->feeds_device) give_way();  // to the one thread that keeps the device busy
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (must_be_alone()) {
      make_alone(lock);
    } else if (const auto draft = may_finish(); draft != drafts_.end()) {
      finish_one(draft, lock);
    } else if (may_sample()) {
      sample_some(lock);
    } else {
      const auto start = Clock::now();
      // Waiting at the end of all, or between two epochs, says nothing.
      const bool at_end = next_to_sample_ >= passes_.end() && drafts_.empty();
      const uint64_t epoch_end = passes_.now().end();
      const bool between = next_to_deliver_ >= epoch_end;
      work_ready_.wait(lock, [&] { return stopping_ || has_work(); });
      if (!at_end && !between && passes_.now().end() == epoch_end) stats_.blocked_seconds += since(start);
    }
  }
}

bool Pipeline::has_work() const { return must_be_alone() || may_finish() != drafts_.end() || may_sample(); }

// Nothing may be begun: until next() is called, or until this epoch or another has made a batch by itself.
bool Pipeline::must_rest() const {
  return alone_ || quiet_ || dropping_ > 0 || (plan_->alone != nullptr && plan_->alone != this);
}

// The next batch in line did not fit: it waits until nothing else is in the making.
bool Pipeline::must_be_alone() const {
  return too_large_ && !must_rest() && sampling_ == 0 && finishing_ == 0 && consumer_waits_ &&
         !has_failed(next_to_deliver_);
}

uint64_t Pipeline::ahead() const {
  uint64_t most = static_cast<uint64_t>(division_.depth) + 2;
  for (const auto& window : windows_) {
    if (window) most = std::max(most, window->target() + static_cast<uint64_t>(division_.depth));
  }
  return most + (division_.merges ? std::max<uint64_t>(lead_of(division_.group), 1) : 0);
}

bool Pipeline::may_sample() const {
  if (next_to_sample_ >= passes_.end() || has_failed(next_to_sample_) || too_large_ || must_rest()) return false;
  if (next_to_sample_ - next_to_deliver_ >= ahead()) return false;
  if (division_.merges && sampling_ > 0) return false;  // one group at a time
  if (next_to_sample_ == next_to_deliver_ && sampling_ == 0 && finishing_ == 0) return true;
  // Room for this one and those in the making, and for the next in line to be finished.
  const uint64_t wanted =
      sampling_room(division_.merges ? division_.group : 1) + finishing_ * division_.batch_bytes + room_for_the_next();
  return plan_->pool->used_bytes() + wanted <= plan_->pool->limit();
}

// What is kept free for the next batch in line. Where it is ready, the one after it takes the memory of the batch that
// is in use now, and may be a little larger.
uint64_t Pipeline::room_for_the_next() const {
  if (ready_.count(next_to_deliver_) != 0) return division_.batch_bytes / 8;
  return in_hand_.count(next_to_deliver_) != 0 ? 0 : division_.batch_bytes;
}

// Of the batches that are being sampled and of `more`. Those of a group take little each, and one at a time is
// labelled.
uint64_t Pipeline::sampling_room(uint64_t more) const {
  const uint64_t batches = sampling_ + more;
  if (!division_.merges || batches == 0) return batches * division_.sampling_bytes;
  return division_.sampling_bytes + batches * division_.merged_bytes;
}

uint64_t Pipeline::finished_bytes(const Draft& draft) const {
  const uint64_t there = (draft.packed ? 0 : subgraph_bytes(draft.graph)) + array_bytes(draft.arrays);
  return division_.batch_bytes - std::min(division_.batch_bytes, there);
}

// The earliest batch whose rows are there. The next one in line may always be finished; later ones wait for room. Asked
// twice it may answer twice: the pool's room changes without our lock, as batches are dropped.
std::map<uint64_t, Pipeline::Draft>::const_iterator Pipeline::may_finish() const {
  if (too_large_ || must_rest()) return drafts_.end();
  const uint64_t end = next_to_deliver_ + static_cast<uint64_t>(division_.depth);
  for (auto it = drafts_.begin(); it != drafts_.end() && it->first < end; ++it) {
    if (it->second.open_claims > 0) continue;
    if (it->first == next_to_deliver_) return it;
    const uint64_t wanted = (finishing_ + 1) * finished_bytes(it->second) + sampling_room();
    const uint64_t leaving = plan_->handed_out.leaving_bytes(this, plan_->options.held);
    if (plan_->pool->used_bytes() + wanted <= plan_->pool->limit() + leaving) return it;
    break;
  }
  return drafts_.end();
}

// The consumer drops a batch a moment after it got the next one: its memory is for the one that is finished now.
void Pipeline::wait_for_batches_to_leave(uint64_t wanted, Progress& cancel) const {
  constexpr int kMilliseconds = 10;  // between two looks for a stop
  while (plan_->handed_out.leaving_bytes(this, plan_->options.held) > 0 &&
         !plan_->pool->wait_for_room(wanted, kMilliseconds)) {
    cancel.report("gather", 0, 1);
  }
}

// No batch comes after one that failed.
bool Pipeline::has_failed(uint64_t number) const { return !errors_.empty() && errors_.begin()->first <= number; }

void Pipeline::keep_error(uint64_t number, std::exception_ptr error) {
  errors_.emplace(number, std::move(error));
  batch_ready_.notify_all();
}

void Pipeline::sample_some(std::unique_lock<std::mutex>& lock) {
  const uint64_t first = next_to_sample_;
  uint64_t count = 1;
  if (division_.merges && first >= first_claim_) {  // groups grow, so that the first batches come soon
    const uint64_t rest = passes_.of(first)->end() - first;
    count = std::min({division_.group, std::max(kGrowth * (first - next_to_deliver_), kLeastGroup), rest});
  }
  for (uint64_t i = 1; i < count; ++i) {
    if (is_known(first + i)) count = i;
  }
  next_to_sample_ += count;
  skip_known();
  sampling_ += count;
  Cancel cancel(*this);
  lock.unlock();
  const auto start = Clock::now();
  double seconds = 0;
  std::exception_ptr error;
  bool full = false;
  try {
    std::vector<Draft> drafts = sample(first, count, cancel);
    seconds = since(start);
    hand_on(std::move(drafts), cancel.generation());
  } catch (const PoolFull&) {
    full = true;
  } catch (const Cancelled&) {
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  sampling_ -= count;
  stats_.sample_seconds += seconds;
  if (cancel.generation() == generation_) {
    if (error) keep_error(first, error);
    if (full) rewind(first);
  }
  work_ready_.notify_all();
}

bool Pipeline::is_known(uint64_t number) const {
  return number < next_to_deliver_ || drafts_.count(number) != 0 || in_hand_.count(number) != 0 ||
         ready_.count(number) != 0;
}

// After a rewind, later batches may be further than the one that is sampled again.
void Pipeline::skip_known() {
  while (next_to_sample_ < passes_.end() && is_known(next_to_sample_)) ++next_to_sample_;
}

// Batch `number` found no room to be sampled: it is tried again when there is more, and at last when it is next in line
// and alone. Those after it that wait for it go too; those that a window knows of, or that are finished, stay.
void Pipeline::rewind(uint64_t number) {
  if (is_known(number)) return;  // it was sampled twice, once with success
  division_.sampling_bytes += division_.sampling_bytes / 2;
  division_.merged_bytes += division_.merged_bytes / 2;
  division_.group = std::max<uint64_t>(division_.group / 2, 1);
  too_large_ = too_large_ || number == next_to_deliver_;
  next_to_sample_ = std::min(next_to_sample_, number);
  const auto later = drafts_.lower_bound(std::max(next_to_sample_, next_to_offer_));
  stats_.remade += static_cast<uint64_t>(std::distance(later, drafts_.end()));
  drafts_.erase(later, drafts_.end());
  skip_known();
}

// What is drawn around is left in `seeds`.
Pipeline::Draft Pipeline::draft_of(uint64_t number, BatchSeeds& seeds) const {
  Draft draft;
  draft.number = number;
  {
    std::lock_guard lock(mutex_);
    draft.pass = passes_.of(number);
  }
  const uint64_t i = number - draft.pass->begin;
  draft.input = draft.pass->batches.input(i);
  seeds = batch_seeds(*draft.pass->plan, draft.pass->epoch, draft.pass->batches.number(i), draft.input);
  draft.arrays = std::move(seeds.arrays);
  return draft;
}

std::vector<Pipeline::Draft> Pipeline::sample(uint64_t first, uint64_t count, Progress& cancel) {
  std::vector<Draft> drafts;
  std::vector<BatchSeeds> seeds(count);
  for (uint64_t i = 0; i < count; ++i) drafts.push_back(draft_of(first + i, seeds[i]));
  if (division_.merges) {
    sample_together(drafts, seeds, cancel);
    return drafts;
  }
  for (uint64_t i = 0; i < count; ++i) {
    drafts[i].graph = sample_batch(*drafts[i].pass->plan, seeds[i]);
    claim_rows(drafts[i]);
  }
  return drafts;
}

// From a topology that is not in RAM: of homogeneous graphs only.
void Pipeline::sample_together(std::vector<Draft>& drafts, const std::vector<BatchSeeds>& seeds, Progress& cancel) {
  std::vector<MergedBatch> group;
  for (const BatchSeeds& batch : seeds) {
    group.push_back({batch.seeds.at(0).nodes, batch.seeds.at(0).times, batch.key, batch.exclude_of(0)});
  }
  const LoadPlan& plan = *drafts.front().pass->plan;  // all are of one pass
  SampleOptions options = plan.options.sample;
  options.threads = 1;
  MergedStats read;
  MergedOptions merged;
  merged.progress = &cancel;
  merged.gap = division_.disk.gap();
  merged.stats = &read;
  sample_merged(plan.graph.topology(0), group, options, merged, [&](size_t i, SampledSubgraph&& graph) {
    drafts[i].graph = as_typed(std::move(graph));
    claim_rows(drafts[i]);
  });
  std::lock_guard lock(mutex_);
  stats_.topology_bytes_read += read.bytes_read;
}

void Pipeline::claim_rows(Draft& draft) {
  draft.claims.resize(plan_->parts.size());
  if (division_.window == 0 && !division_.merges) return;
  if (draft.number >= first_claim_) {
    for (size_t part = 0; part < windows_.size(); ++part) {
      if (!windows_[part]) continue;
      draft.claims[part] = windows_[part]->claim(draft.number, ids_of(plan_->parts[part], draft.graph));
      ++draft.open_claims;
    }
  }
  draft.packed = std::make_shared<const PackedSubgraph>(std::move(draft.graph));
}

// Windows hear of batches in order.
void Pipeline::hand_on(std::vector<Draft>&& drafts, uint64_t generation) {
  std::lock_guard lock(mutex_);
  if (generation != generation_) return;
  for (Draft& draft : drafts) {
    const uint64_t number = draft.number;
    // Else an earlier one found no room, or this one was sampled twice after that.
    if (number < next_to_sample_ && !is_known(number)) drafts_.emplace(number, std::move(draft));
  }
  for (auto it = drafts_.find(next_to_offer_); it != drafts_.end() && it->first == next_to_offer_; ++it) {
    for (size_t part = 0; part < it->second.claims.size(); ++part) {
      if (it->second.claims[part]) windows_[part]->offer(it->second.claims[part]);
    }
    ++next_to_offer_;
  }
}

void Pipeline::finish_one(std::map<uint64_t, Draft>::const_iterator which, std::unique_lock<std::mutex>& lock) {
  auto node = drafts_.extract(which);
  Draft draft = std::move(node.mapped());
  ++finishing_;
  in_hand_.insert(draft.number);
  const uint64_t wanted = finished_bytes(draft);
  Cancel cancel(*this);
  lock.unlock();
  GatherStats gathered;
  LoadedBatch batch;
  std::exception_ptr error;
  bool full = false;
  try {
    wait_for_batches_to_leave(wanted, cancel);
    batch = finish(draft, cancel, gathered);
  } catch (const PoolFull&) {
    full = true;
  } catch (const Cancelled&) {
    error = stopping_ ? nullptr : std::current_exception();
  } catch (...) {
    error = std::current_exception();
  }
  const uint64_t number = draft.number;
  if (!full) draft = {};
  lock.lock();
  --finishing_;
  in_hand_.erase(number);
  if (cancel.generation() == generation_ && !stopping_) {
    if (error) {
      keep_error(number, error);
    } else if (full) {
      division_.batch_bytes += division_.batch_bytes / 2;
      too_large_ = too_large_ || number == next_to_deliver_;
      drafts_.emplace(number, std::move(draft));
    } else {
      stats_.gather.add(gathered);
      stats_.read_seconds += gathered.read_seconds;
      stats_.copy_seconds += gathered.copy_seconds;
      learn(batch);
      ready_.emplace(number, std::move(batch));
    }
  }
  batch_ready_.notify_all();
  work_ready_.notify_all();
}

// Memory for the rows. PoolFull then says what all of them need.
void Pipeline::take_parts(const HeteroSubgraph& graph, LoadedBatch& batch) const {
  uint64_t missing = 0;
  for (const Part& part : plan_->parts) {
    const Matrix& matrix = part.file->matrix(part.matrix);
    const GatherOptions how = gather_options(part);
    GatheredPart result;
    result.rows = ids_of(part, graph).size();
    result.columns = matrix.columns;
    result.is_vector = matrix.is_vector;
    result.dtype = gathered_dtype(matrix, how);
    const uint64_t bytes = result.rows * gathered_row_bytes(matrix, how);
    if (missing > 0) {
      missing += bytes;
      continue;
    }
    try {
      result.buffer = take_buffer(bytes);
    } catch (const PoolFull& full) {
      missing = full.needed;
    }
    batch.parts.push_back(std::move(result));
  }
  if (missing > 0) throw PoolFull(missing);
}

// Memory first: when there is none the draft is as it was.
LoadedBatch Pipeline::finish(Draft& draft, Progress& cancel, GatherStats& stats) {
  LoadedBatch batch;
  batch.number = draft.number - draft.pass->begin;
  if (draft.packed) batch.graph = draft.packed->unpack();
  take_parts(draft.packed ? batch.graph : draft.graph, batch);
  batch.input.size = draft.input.size();
  batch.input.buffer = take_buffer(batch.input.size * sizeof(int64_t));
  std::copy(draft.input.begin(), draft.input.end(), batch.input.data());
  if (!draft.packed) batch.graph = std::move(draft.graph);
  draft.packed = nullptr;
  batch.arrays = std::move(draft.arrays);
  for (size_t part = 0; part < plan_->parts.size(); ++part) gather_part(part, draft, batch, cancel, stats);
  return batch;
}

void Pipeline::gather_part(size_t at, const Draft& draft, LoadedBatch& batch, Progress& cancel, GatherStats& stats) {
  const Part& part = plan_->parts[at];
  const Matrix& matrix = part.file->matrix(part.matrix);
  const auto ids = ids_of(part, batch.graph);
  std::byte* out = batch.parts[at].buffer->data();
  GatherOptions how = gather_options(part);
  how.io = plan_->options.io;
  how.threads = 1;  // the pipeline's threads are the parallelism
  if (draft.claims[at]) {
    windows_[at]->deliver(*draft.claims[at], out, how, &stats, &cancel);
  } else if (wholes_[at]) {
    wholes_[at]->gather(ids, out, how, &stats, &cancel);
  } else {
    // A file that does not fit leaves nothing in the page cache, which the topology needs.
    how.past_page_cache = how.io == Io::kAuto && division_.ways[at] == Way::kWindow;
    gather(*part.file, matrix, ids, out, how, &stats, &cancel);
  }
}

// Batches that are larger than those before make the plan follow.
void Pipeline::learn(const LoadedBatch& batch) {
  uint64_t bytes = subgraph_bytes(batch.graph) + batch.input.buffer->size() + array_bytes(batch.arrays);
  for (const GatheredPart& part : batch.parts) bytes += part.buffer->size();
  if (bytes <= division_.batch_bytes) return;
  division_.batch_bytes = bytes;
  uint64_t largest = plan_->largest_batch;
  while (bytes > largest && !plan_->largest_batch.compare_exchange_weak(largest, bytes)) {
  }
}

}  // namespace gz
