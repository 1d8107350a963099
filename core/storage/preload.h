// preload: a whole file into RAM, in one run through it.
#pragma once

#include <cstdint>

#include "base/progress.h"
#include "storage/mounted.h"

namespace gz {

// Reads all of the file into the page cache, in huge pages where the system has them: a random read through those takes
// half the time of one through pages that came one by one (benchmarks/walks). Pages that are in RAM already stay as
// they are. The kernel may give them up again when memory is short. Throws BudgetError when the file is larger than the
// memory that is left, StorageError when it cannot be read.
void preload(const MountedFile& file, int threads, Progress* progress);

// Whether that would pay for a caller that will make `reads` random reads and keeps `reserved` bytes for other things:
// the file is not in RAM yet, takes less than half of what is left, and most of its pages will be read anyway.
bool worth_preloading(const MountedFile& file, uint64_t reads, uint64_t reserved);

}  // namespace gz
