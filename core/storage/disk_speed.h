// disk_speed: what the disk under a file can do, as far as the way of reading depends on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "storage/mounted.h"

namespace gz {

struct Disk {
  double reads = 200e3, bytes = 3e9;  // a second: pages at random, and in sequence

  // Unneeded bytes that are read to save a request: half of what is read in the time of one. Where bandwidth is the
  // limit, as in a sweep, requests cost nothing.
  uint64_t gap() const {
    constexpr double kLeast = 4096, kMost = 128 << 10;
    const double worth = bytes / std::max(reads, 1.0) / 2;
    return (static_cast<uint64_t>(std::clamp(worth, kLeast, kMost)) + 4095) / 4096 * 4096;
  }
};

// Measured by reading the file past the page cache for some 60 ms, once for each device, and kept while the process
// lives. What is assumed of any disk, as above, where that cannot be measured: small files, file systems without direct
// reads, reads that fail.
constexpr uint64_t kLeastMeasured = uint64_t{256} << 20;  // in a smaller file the disk's own cache would answer
Disk disk_of(const MountedFile& file, uint64_t least = kLeastMeasured);

}  // namespace gz
