// disk_probe: what the disk under a folder can do, measured: the ground that expectations stand on.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"

namespace gz {

struct DiskProbeOptions {
  uint64_t bytes = uint64_t{512} << 20;  // of the scratch file that is written and read
  double seconds = 1.0;                  // for each measurement
};

struct DiskProbe {
  bool direct = false;          // the file system lets reads go past the page cache
  std::string uring_refusal;    // empty: io_uring works
  double write_bytes = 0;       // per second, sequential, synced
  double sequential_bytes = 0;  // per second, 1 MiB reads
  double random_reads_1 = 0;    // per second, 4 KiB at a time, each waiting for the one before
  double random_reads_256 = 0;  // per second, 4 KiB, 256 in flight
};

// Writes a scratch file into `folder` that vanishes by itself, and reads it back. Throws StorageError when the folder
// cannot take it. Where reads cannot go past the page cache, its pages are dropped first and the figures are hints.
DiskProbe probe_disk(const std::string& folder, const DiskProbeOptions& options, Progress* progress);

}  // namespace gz
