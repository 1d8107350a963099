// rows: the rows that a loader holds in memory, what it shares with other ranks of the host, and the readers of an
// epoch.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "load/batch.h"
#include "load/plan.h"

namespace gz {

// Allocates the windows and whole copies that a division gives memory to; parts whose share is too small for a window
// are read batch by batch. With plan.mutex held.
void hold_rows(LoadPlan& plan, const Sizes& sizes, Division& division, Progress* progress);

// Joins the group of the other ranks, if there are any and the plan has not joined yet.
void join_local_ranks(LoadPlan& plan);

// Bytes that this plan holds now, shown to the other ranks, which choose their memory by it; what those hold.
uint64_t held_bytes(const LoadPlan& plan);      // with plan.mutex held
void publish_held_bytes(const LoadPlan& plan);  // with plan.mutex held
uint64_t held_by_others(const LoadPlan& plan);

// Called by the threads of readers, without their locks.
struct ReaderEvents {
  std::function<void(uint64_t number)> ready;      // the rows of a batch, for one part
  std::function<void(std::exception_ptr)> failed;  // reads cannot go on
  std::function<bool()> starving;                  // whether the consumer waits for the next batch
  std::function<uint64_t()> end;                   // past the last batch that is known to come
};

// One per part. `requests` is the number of requests to come; none if division.window is 0.
Readers make_readers(const std::shared_ptr<LoadPlan>& plan, const Division& division, uint64_t requests,
                     const ReaderEvents& events);

// Gives the memory of held rows to batches, after the readers of an epoch have stopped. Keeps whole copies while
// another epoch may be reading them, and windows unless `swept`: they belong to another epoch.
void release_rows(LoadPlan& plan, bool swept);

}  // namespace gz
