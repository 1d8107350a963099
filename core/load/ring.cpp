// ring: from one state to another.
#include "load/ring.h"

#include <algorithm>

namespace gz {

Batch& BatchRing::at(uint64_t number) {
  while (number - front_ >= batches_.size()) {
    const uint64_t next = front_ + batches_.size();
    batches_.emplace_back().number = next;
  }
  return batches_[number - front_];
}

uint64_t BatchRing::num_ready() const {
  return static_cast<uint64_t>(
      std::ranges::count_if(batches_, [](const Batch& batch) { return batch.state == BatchState::kReady; }));
}

void BatchRing::look(ScheduleView& view) {
  next_ = std::max(next_, front_);
  while (has(next_) && at(next_).is_begun()) ++next_;
  view.next = next_ - front_;
  view.failed = failed_ == UINT64_MAX ? failed_ : failed_ - front_;
  view.sampling = sampling_;
  view.finishing = finishing_;
}

std::vector<Batch*> BatchRing::begin_sampling(uint64_t first, uint64_t count, const Passes& passes) {
  std::vector<Batch*> batches;
  for (uint64_t number = first; number < first + count; ++number) {
    Batch& batch = at(number);
    batch.busy = true;
    batch.pass = passes.of(number);
    batches.push_back(&batch);
  }
  sampling_ += count;
  return batches;
}

void BatchRing::end_sampling(const std::vector<Batch*>& batches, bool sampled) {
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

void BatchRing::request(const std::function<void(Batch&)>& submit) {
  next_request_ = std::max(next_request_, front_);
  for (; has(next_request_) && at(next_request_).state == BatchState::kSampled; ++next_request_) {
    at(next_request_).state = BatchState::kRequested;
    submit(at(next_request_));
  }
}

void BatchRing::skip_request(uint64_t number) { next_request_ = std::max(next_request_, number + 1); }

Batch& BatchRing::begin_finishing(uint64_t number) {
  Batch& batch = at(number);
  batch.busy = true;
  ++finishing_;
  return batch;
}

void BatchRing::end_finishing(Batch& batch, std::optional<LoadedBatch> loaded) {
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

void BatchRing::set_ready(Batch& batch, LoadedBatch&& loaded) {
  batch.requests.clear();
  batch.loaded = std::move(loaded);
  batch.state = batch.error ? BatchState::kFailed : BatchState::kReady;
}

LoadedBatch BatchRing::deliver() {
  LoadedBatch loaded = std::move(batches_.front().loaded);
  batches_.front().state = BatchState::kDelivered;
  batches_.pop_front();
  ++front_;
  return loaded;
}

void BatchRing::fail(uint64_t number, std::exception_ptr error) {
  Batch& batch = at(number);
  batch.error = std::move(error);
  if (!batch.busy) batch.state = BatchState::kFailed;
  failed_ = std::min(failed_, number);
}

void BatchRing::go_back(Batch& batch) {
  batch.go_back();
  if (batch.error) batch.state = BatchState::kFailed;
  next_ = std::min(next_, batch.number);
}

uint64_t BatchRing::cancel_after(uint64_t number) {
  uint64_t count = 0;
  for (Batch& batch : batches_) {
    const bool waits = batch.state == BatchState::kSampled || batch.state == BatchState::kRequested;
    if (batch.number <= number || batch.busy || !waits) continue;
    ++count;
    go_back(batch);
  }
  return count;
}

uint64_t BatchRing::cancel_all() {
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
