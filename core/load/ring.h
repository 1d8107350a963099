// ring: the batches of a pipeline from the next one in line on, by number, and the ways from one state to another.
//
// Guarded by the pipeline's lock. References to batches stay valid until they are delivered.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "load/batch.h"
#include "load/schedule.h"

namespace gz {

class BatchRing {
 public:
  void start_requests_at(uint64_t number) { first_request_ = next_request_ = number; }  // those before make none

  const std::deque<Batch>& slots() const { return batches_; }
  uint64_t front() const { return front_; }  // the number of the next batch in line
  BatchState front_state() const { return batches_.empty() ? BatchState::kPlanned : batches_.front().state; }
  bool is_idle() const { return sampling_ == 0 && finishing_ == 0; }  // no batch is in the hands of a thread
  uint64_t num_ready() const;
  Batch& at(uint64_t number);
  bool has(uint64_t number) const { return number >= front_ && number - front_ < batches_.size(); }
  void look(ScheduleView& view);  // fills in what the ring knows

  // kPlanned -> kSampled, or kRequested where there is nothing to request.
  std::vector<Batch*> begin_sampling(uint64_t first, uint64_t count, const Passes& passes);
  void end_sampling(const std::vector<Batch*>& batches, bool sampled);
  // kSampled -> kRequested, in the order of numbers.
  void request(const std::function<void(Batch&)>& submit);
  // kRequested -> kReady; without `loaded`, it stays as it was.
  Batch& begin_finishing(uint64_t number);
  void end_finishing(Batch& batch, std::optional<LoadedBatch> loaded);
  void set_ready(Batch& batch, LoadedBatch&& loaded);
  LoadedBatch deliver();  // the next one in line, which is kReady
  void fail(uint64_t number, std::exception_ptr error);

  // Back to kPlanned; both return how many will be made again. Those in the hands of threads go back when these end.
  uint64_t cancel_after(uint64_t number);  // of those that are not finished
  uint64_t cancel_all();
  void skip_request(uint64_t number);  // it is finished without one
  void clear() { batches_.clear(); }

 private:
  void go_back(Batch& batch);

  std::deque<Batch> batches_;
  uint64_t front_ = 0;
  uint64_t next_ = 0;  // no batch before this one waits to be begun
  uint64_t first_request_ = 0, next_request_ = 0;
  uint64_t failed_ = UINT64_MAX;           // the first that failed
  uint64_t sampling_ = 0, finishing_ = 0;  // batches in the hands of threads
};

}  // namespace gz
