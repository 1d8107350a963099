// probe: the sizes of a loader's batches, measured on a few of them before the first epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "load/plan.h"

namespace gz {

constexpr uint64_t kProbeBatches = 4;  // of epoch 0, from its begin to its end

// The sizes of batches of `plan`, measured in `pool`.
Sizes probe(const LoadPlan& plan, BufferPool& pool, Progress* progress);

// The largest sizes of the plan and of its guests. Nothing is known about them before: a limit keeps sampling from
// exhausting the memory, and what exceeds it is a BudgetError.
Sizes first_probe(LoadPlan& plan, const std::vector<std::shared_ptr<LoadPlan>>& guests, Progress* progress);

}  // namespace gz
