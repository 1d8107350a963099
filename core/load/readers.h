// readers: how the rows of each part are read in an epoch: the way that the budget was divided for.
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
  std::function<void(uint64_t number)> ready;      // rows of a batch, of one part
  std::function<void(std::exception_ptr)> failed;  // reads cannot go on
  std::function<bool()> starving;                  // whether the consumer waits for the next batch
};

// One a part. `requests` of them will come; where division.window is 0, none.
Readers make_readers(const std::shared_ptr<LoadPlan>& plan, const Division& division, uint64_t requests,
                     const ReaderEvents& events);

// Gives the memory of rows that are held to batches, when the readers of an epoch have stopped. Whole copies stay while
// another epoch may be reading them, and windows unless `swept`: they are another's.
void release_rows(LoadPlan& plan, bool swept);

}  // namespace gz
