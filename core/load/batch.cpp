// batch: the steps that build it, and the ways from one state to another.
#include "load/batch.h"

#include <algorithm>

namespace gz {
namespace {

// A device converts the rows that it assembles.
GatherOptions options_of(const Part& part, const GatheredPart& result) {
  return result.device ? GatherOptions{} : gather_options(part);
}

// Allocates memory for the rows. PoolFull reports what all of them need.
void take_parts(const std::vector<Part>& parts, const HeteroSubgraph& graph, const Requests& requests,
                const Readers& readers, LoadedBatch& batch) {
  uint64_t missing = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Matrix& matrix = matrix_of(parts[i]);
    const auto ids = ids_of(parts[i], graph);
    GatheredPart result;
    result.device = readers[i]->on_device(requests.empty() ? nullptr : requests[i].get(), ids);
    const GatherOptions how = options_of(parts[i], result);
    result.rows = !result.device ? ids.size() : result.device->reads_host ? 0 : result.device->misses;
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

// The batch without its rows. Allocates first: if that fails, the batch is unchanged.
LoadedBatch take_memory(Batch& batch, const LoadPlan& plan, const Readers& readers) {
  LoadedBatch loaded;
  loaded.number = batch.number - batch.epoch->begin;
  if (batch.packed) loaded.graph = batch.packed->unpack();
  const HeteroSubgraph& graph = batch.packed ? loaded.graph : batch.graph;
  take_parts(plan.parts, graph, batch.requests, readers, loaded);
  if (plan.options.device_bytes > 0 && !batch.narrow.buffer) loaded.narrow = narrow_ids(graph);
  loaded.input.size = batch.input.size();
  loaded.input.buffer = take_buffer(loaded.input.size * sizeof(int64_t));
  std::copy(batch.input.begin(), batch.input.end(), loaded.input.data());
  if (!batch.packed) loaded.graph = std::move(batch.graph);
  if (batch.narrow.buffer) loaded.narrow = std::move(batch.narrow);
  batch.packed = nullptr;
  loaded.arrays = std::move(batch.arrays);
  return loaded;
}

// The buffers of its rows, and of its narrow ids.
template <class Call>
void for_each_buffer(const LoadedBatch& batch, const Call& call) {
  if (batch.narrow.buffer) call(batch.narrow.buffer);
  for (const GatheredPart& part : batch.parts) {
    call(part.buffer);
    if (!part.device || part.device->is_whole) continue;
    call(part.device->lists);
  }
}

// Whether ids of edges are needed after sampling, in addition to those that a device gets.
bool needs_edges(const LoadPlan& plan) {
  return plan.options.device_bytes == 0 ||
         std::ranges::any_of(plan.parts, [](const Part& part) { return part.by_edge; });
}

}  // namespace

uint64_t bytes_of(const LoadedBatch& batch) {
  uint64_t bytes = subgraph_bytes(batch.graph) + batch.input.buffer->size() + array_bytes(batch.arrays);
  for_each_buffer(batch, [&](const std::shared_ptr<Buffer>& buffer) { bytes += buffer->size(); });
  return bytes;
}

std::vector<std::weak_ptr<Buffer>> buffers_of(const LoadedBatch& batch) {
  std::vector<std::weak_ptr<Buffer>> buffers;
  buffers.emplace_back(batch.input.buffer);
  for_each_array(batch.graph, [&](const Int64Array& array) { buffers.emplace_back(array.buffer); });
  for_each_buffer(batch, [&](const std::shared_ptr<Buffer>& buffer) { buffers.emplace_back(buffer); });
  for (const BatchArray& array : batch.arrays) buffers.emplace_back(array.buffer);
  return buffers;
}

void Batch::go_back() {
  static_cast<BatchStatus&>(*this) = {};
  input.clear();
  graph = {};
  packed = nullptr;
  narrow = {};
  arrays.clear();
  requests.clear();
  loaded = {};
  cancelled = false;
}

DrawnSeeds draw_seeds(uint64_t number, const Epoch& epoch) {
  const uint64_t i = number - epoch.begin;
  DrawnSeeds drawn;
  drawn.input = epoch.batches.input(i);
  drawn.seeds = batch_seeds(*epoch.plan, epoch.number, epoch.batches.number(i), drawn.input);
  return drawn;
}

void sample(Batch& batch, const LoadPlan& plan, bool waits) {
  DrawnSeeds drawn = draw_seeds(batch.number, *batch.epoch);
  batch.graph = sample_batch(*batch.epoch->plan, drawn.seeds, !waits && !needs_edges(plan));
  batch.input = std::move(drawn.input);
  batch.arrays = std::move(drawn.seeds.arrays);
}

void prepare_requests(Batch& batch, const std::vector<Part>& parts, const Readers& readers) {
  for (size_t i = 0; i < readers.size(); ++i) {
    batch.requests.push_back(readers[i]->prepare(batch.number, ids_of(parts[i], batch.graph)));
  }
}

void submit_requests(const Batch& batch, const Readers& readers) {
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    if (batch.requests[i]) readers[i]->submit(batch.requests[i]);
  }
}

void shrink(Batch& batch, const LoadPlan& plan, bool waits) {
  if (waits) {
    batch.packed = std::make_shared<const PackedSubgraph>(std::move(batch.graph));
  } else if (plan.options.device_bytes > 0) {
    batch.narrow = narrow_ids(batch.graph);
    if (batch.narrow.buffer && !needs_edges(plan)) release_edges(batch.graph);
  }
}

LoadedBatch finish(Batch& batch, const LoadPlan& plan, const Readers& readers, Progress& cancel) {
  LoadedBatch loaded = take_memory(batch, plan, readers);
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const GatheredPart& part = loaded.parts[i];
    if (part.device && part.device->is_whole) continue;
    GatherOptions how = options_of(plan.parts[i], part);
    how.io = plan.options.io;
    how.threads = 1;  // the pipeline's threads are the parallelism
    RowRequest* request = batch.requests.empty() ? nullptr : batch.requests[i].get();
    const auto ids = ids_of(plan.parts[i], loaded.graph);
    readers[i]->copy(request, ids, part.buffer->data(), how, &loaded.gathered, &cancel);
  }
  return loaded;
}

Batch& BatchQueue::at(uint64_t number) {
  while (number - front_ >= batches_.size()) {
    const uint64_t next = front_ + batches_.size();
    batches_.emplace_back().number = next;
  }
  return batches_[number - front_];
}

uint64_t BatchQueue::num_ready() const {
  return static_cast<uint64_t>(
      std::ranges::count_if(batches_, [](const Batch& batch) { return batch.state == BatchState::kReady; }));
}

void BatchQueue::fill(ScheduleView& view) {
  next_ = std::max(next_, front_);
  while (has(next_) && at(next_).is_begun()) ++next_;
  view.next = next_ - front_;
  view.failed = failed_ == UINT64_MAX ? failed_ : failed_ - front_;
  view.sampling = sampling_;
  view.finishing = finishing_;
}

std::vector<Batch*> BatchQueue::begin_sampling(uint64_t first, uint64_t count, const EpochQueue& epochs) {
  std::vector<Batch*> batches;
  for (uint64_t number = first; number < first + count; ++number) {
    Batch& batch = at(number);
    batch.busy = true;
    batch.epoch = epochs.of(number);
    batches.push_back(&batch);
  }
  sampling_ += count;
  return batches;
}

void BatchQueue::end_sampling(const std::vector<Batch*>& batches, bool sampled) {
  sampling_ -= batches.size();
  for (Batch* batch : batches) {
    batch->busy = false;
    if (!sampled || batch->cancelled) {
      go_back(*batch);
      continue;
    }
    const auto is_there = [](const auto& request) { return request != nullptr; };
    batch->taken_bytes = (batch->packed ? 0 : subgraph_bytes(batch->graph)) + array_bytes(batch->arrays);
    batch->missing = static_cast<uint32_t>(std::ranges::count_if(batch->requests, is_there));
    batch->state = batch->error         ? BatchState::kFailed
                   : batch->missing > 0 ? BatchState::kSampled
                                        : BatchState::kRequested;
  }
}

void BatchQueue::request(const std::function<void(Batch&)>& submit) {
  next_request_ = std::max(next_request_, front_);
  for (; has(next_request_); ++next_request_) {
    Batch& batch = at(next_request_);
    if (batch.state == BatchState::kPlanned || batch.state == BatchState::kFailed) break;
    if (batch.state != BatchState::kSampled) continue;  // it has no requests: a device had all rows when it was sampled
    batch.state = BatchState::kRequested;
    submit(batch);
  }
}

void BatchQueue::skip_request(uint64_t number) { next_request_ = std::max(next_request_, number + 1); }

Batch& BatchQueue::begin_finishing(uint64_t number) {
  Batch& batch = at(number);
  batch.busy = true;
  ++finishing_;
  return batch;
}

void BatchQueue::end_finishing(Batch& batch, std::optional<LoadedBatch> loaded) {
  --finishing_;
  batch.busy = false;
  if (batch.cancelled) {
    go_back(batch);
  } else if (loaded) {
    set_ready(batch, std::move(*loaded));
  } else if (batch.error) {
    batch.state = BatchState::kFailed;
  }
}

void BatchQueue::set_ready(Batch& batch, LoadedBatch&& loaded) {
  batch.requests.clear();
  batch.loaded = std::move(loaded);
  batch.state = batch.error ? BatchState::kFailed : BatchState::kReady;
}

LoadedBatch BatchQueue::deliver() {
  LoadedBatch loaded = std::move(batches_.front().loaded);
  batches_.front().state = BatchState::kDelivered;
  batches_.pop_front();
  ++front_;
  return loaded;
}

void BatchQueue::fail(uint64_t number, std::exception_ptr error) {
  Batch& batch = at(number);
  batch.error = std::move(error);
  if (!batch.busy) batch.state = BatchState::kFailed;
  failed_ = std::min(failed_, number);
}

void BatchQueue::go_back(Batch& batch) {
  batch.go_back();
  if (batch.error) batch.state = BatchState::kFailed;
  next_ = std::min(next_, batch.number);
}

uint64_t BatchQueue::cancel_after(uint64_t number) {
  uint64_t count = 0;
  for (Batch& batch : batches_) {
    const bool waits = batch.state == BatchState::kSampled || batch.state == BatchState::kRequested;
    if (batch.number <= number || batch.busy || !waits) continue;
    ++count;
    go_back(batch);
  }
  return count;
}

uint64_t BatchQueue::cancel_all() {
  uint64_t count = 0;
  for (Batch& batch : batches_) {
    count += batch.state != BatchState::kPlanned && batch.state != BatchState::kFailed ? 1 : 0;
    if (batch.busy) {
      batch.cancelled = true;
    } else {
      go_back(batch);
    }
  }
  next_request_ = std::max(first_request_, front_);
  return count;
}

}  // namespace gz
