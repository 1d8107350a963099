// passes: what a pipeline delivers: an epoch of a loader, and those that are known to follow it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "load/order.h"
#include "load/plan.h"

namespace gz {

// An epoch, or what is left of it. Its batches are numbered on from those of the pass before.
struct Pass {
  std::shared_ptr<LoadPlan> plan;  // of the seeds and the sampling; memory is that of the pipeline's own plan
  uint64_t epoch;
  Share share;
  EpochBatches batches;
  uint64_t begin;

  uint64_t end() const { return begin + batches.count(); }
};

// Whether batches of both can be made by one pipeline: the same graph, and the same rows of the same files, read alike.
bool deliver_alike(const LoadPlan& a, const LoadPlan& b);

// No locks.
class Passes {
 public:
  Passes(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share) { add(std::move(plan), epoch, share); }

  const Pass& now() const { return *passes_.front(); }
  bool is_last() const { return passes_.size() == 1; }
  uint64_t end() const { return passes_.back()->end(); }  // past the last batch that is known to come
  std::shared_ptr<const Pass> of(uint64_t number) const;

  void add(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share);
  bool is_next(const LoadPlan& plan, uint64_t epoch, const Share& share) const;
  void go_on() { passes_.pop_front(); }

 private:
  std::deque<std::shared_ptr<const Pass>> passes_;
};

}  // namespace gz
