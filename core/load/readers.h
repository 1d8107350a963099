// readers: creates the reader of each part for an epoch, as the budget was divided.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "load/batch.h"
#include "load/plan.h"

namespace gz {

// Called by the threads of readers, without their locks.
struct ReaderEvents {
  std::function<void(uint64_t number)> ready;      // the rows of a batch, for one part
  std::function<void(std::exception_ptr)> failed;  // reads cannot go on
  std::function<bool()> starving;                  // whether the consumer waits for the next batch
};

// One per part. `requests` is the number of requests to come; none if division.window is 0.
Readers make_readers(const std::shared_ptr<LoadPlan>& plan, const Division& division, uint64_t requests,
                     const ReaderEvents& events);

// Gives the memory of held rows to batches, after the readers of an epoch have stopped. Keeps whole copies while
// another epoch may be reading them, and windows unless `swept`: they belong to another epoch.
void release_rows(LoadPlan& plan, bool swept);

}  // namespace gz
