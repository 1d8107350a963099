// budget: how a loader's memory is chosen and divided, from what batches take and from what the machine leaves.
//
// The order of needs: the batches in the making, in training and before it; the topology, in the page cache, where it
// fits; the features, in the page cache where they fit too; else rows that are held for coming batches, as many as the
// rest has room for. Sizes are learned: from a few batches before the first epoch, from all of them afterwards.
#pragma once

#include "load/plan.h"

namespace gz {

// Measures batches of epoch 0, reads what fits into RAM and divides the budget. Throws BudgetError when the budget
// cannot hold the least that the work needs.
void first_division(LoadPlan& plan, Progress* progress);

// The same at the start of a later epoch, when no other is in flight, from the facts as they are then: a file that
// became resident, or lost its pages, is read accordingly. Keeps rows that are held if their room stays the same.
void divide_again(LoadPlan& plan, Progress* progress);

}  // namespace gz
