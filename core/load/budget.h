// budget: how a loader's memory is chosen and divided, based on the size of batches and the available memory.
//
// Sizes are measured: on a few batches before the first epoch, on all of them afterwards.
#pragma once

#include <exception>

#include "load/plan.h"

namespace gz {

// Measures batches of epoch 0, of the plan and of its guests, reads what fits into RAM and divides the budget. Throws
// BudgetError if the budget is below the minimum.
void first_division(LoadPlan& plan, const std::vector<std::shared_ptr<LoadPlan>>& guests, Progress* progress);

// The same at the start of a later epoch, when no other is in flight, with current facts: a file may have become
// resident or have been evicted. Keeps held rows if the memory for them stays the same.
void divide_again(LoadPlan& plan, Progress* progress);

// The memory for a loader and for its files in the page cache, including what they have already; UINT64_MAX / 4 if the
// system does not say. With plan.mutex held, or before the plan is shared.
uint64_t memory_for(const LoadPlan& plan);

// Whether dividing the budget again with current facts would change little.
bool division_is_current(LoadPlan& plan);

// The BudgetError for a batch that does not fit even alone: batches need `needed` bytes.
std::exception_ptr batch_too_large(const LoadPlan& plan, uint64_t batch, uint64_t needed);

// The expected cost of an epoch, by the model that is used to divide the budget.
struct Estimate {
  Division division;
  uint64_t batches = 0;
  uint64_t topology = 0;      // bytes of its files
  uint64_t mapped = 0;        // bytes of features that fit into RAM next to everything else
  uint64_t swept = 0;         // bytes of features read in file order, for many batches at once
  uint64_t swept_rows = 0;    // bytes of a batch's rows in them
  double load_seconds = 0;    // until the files that fit are in RAM, from a cold start
  double disk_seconds = 0;    // per batch after that
  double sample_seconds = 0;  // per batch on one thread, with its pages in RAM: measured
  // One per part: the slots of a device's cache, and the share of a batch's rows that it has.
  std::vector<uint64_t> slots;
  std::vector<double> hits;
};

// Samples a few batches, twice, and divides the budget; nothing is loaded or held. `device_bytes` are for rows on a
// device. Throws BudgetError.
Estimate estimate(LoadPlan& plan, const Disk& disk, uint64_t device_bytes, Progress* progress);

}  // namespace gz
