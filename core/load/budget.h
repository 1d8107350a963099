// budget: how a loader's memory is chosen and divided, from what batches take and from what the machine leaves.
//
// The order of needs: the batches in the making, in training and before it; the topology, in the page cache, where it
// fits; the features, in the page cache where they fit too; else rows that are held for coming batches, as many as the
// rest has room for. Sizes are learned: from a few batches before the first epoch, from all of them afterwards.
#pragma once

#include <exception>

#include "load/divide.h"
#include "load/plan.h"

namespace gz {

// Measures batches of epoch 0, of the plan and of its guests, reads what fits into RAM and divides the budget. Throws
// BudgetError when the budget cannot hold the least that the work needs.
void first_division(LoadPlan& plan, const std::vector<std::shared_ptr<LoadPlan>>& guests, Progress* progress);

// The same at the start of a later epoch, when no other is in flight, from the facts as they are then: a file that
// became resident, or lost its pages, is read accordingly. Keeps rows that are held if their room stays the same.
void divide_again(LoadPlan& plan, Progress* progress);

// Whether the budget would be divided much as it is, by the facts as they are now.
bool divides_alike(LoadPlan& plan);

// The BudgetError for a batch that does not fit even by itself: `needed` bytes for batches would do.
std::exception_ptr too_large_for(const LoadPlan& plan, uint64_t batch, uint64_t needed);

// What an epoch would take, by the model that the budget is divided with.
struct Estimate {
  Division division;
  uint64_t batches = 0;
  uint64_t topology = 0;      // bytes of its files
  uint64_t mapped = 0;        // bytes of features that fit into RAM beside the rest
  uint64_t swept = 0;         // bytes of features that are read in file order, for many batches at once
  uint64_t swept_rows = 0;    // bytes of a batch's rows in them
  double load_seconds = 0;    // until the files that fit are in RAM, when nothing of them is
  double disk_seconds = 0;    // a batch, once they are
  double sample_seconds = 0;  // a batch on one thread, once the pages it needs are in RAM: measured
};

// Samples a few batches, twice, and divides the budget; nothing is loaded or held. Throws BudgetError.
Estimate estimate(LoadPlan& plan, const Disk& disk, Progress* progress);

}  // namespace gz
