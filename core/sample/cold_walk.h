// cold_walk: uniform walks over a topology that is not in RAM.
//
// All walks of a batch take a step together, so the pages that the step will read are known before it begins, and are
// requested at the depth of the disk (storage/prefetch.h) instead of one page fault after the other.
#pragma once

#include "sample/walk.h"

namespace gz {

// Whether the batch is small beside the file, and the rows where it starts are out of RAM as far as a few probes can
// tell; requests them if so.
template <class Id>
bool starts_cold(const Csr<Id>& csr, const WalkBatch& batch, int threads);

// The whole batch, with the same draws as the kernels for warm files.
template <class Id>
void walk_cold(const Csr<Id>& csr, const WalkBatch& batch, int threads, Progress* progress);

}  // namespace gz
