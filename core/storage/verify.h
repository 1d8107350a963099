// verify: the deep check of a file: what opening cannot afford to look at.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/progress.h"
#include "storage/mounted.h"

namespace gz {

struct VerifyReport {
  uint64_t bytes = 0;  // read and summed
  uint64_t arrays = 0;
  double seconds = 0;
  bool checksummed = true;  // false for files from before checksums
};

// Array digests, padding, indptr from 0 to num_edges and monotone, neighbours below num_nodes, rows sorted where
// promised, cumulative weights and by_time consistent. A delta by itself: digests and padding. A file with deltas: all
// of them one by one, then the table of changed rows and those rows. Throws FormatError for the first fault, by field
// and position.
VerifyReport verify(const std::shared_ptr<const MountedFile>& file, int threads, Progress* progress);

}  // namespace gz
