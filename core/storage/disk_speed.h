// disk_speed: what the disk under a file can do: reads in sequence or at random, one or many in flight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "storage/file.h"
#include "storage/mounted.h"
#include "storage/reader.h"

namespace gz {

struct MeasureOptions {
  ReaderKind kind = ReaderKind::kUring;
  size_t depth = 256;  // in flight in all, over the threads
  int threads = 1;     // that share the depth; a pread reader has one read in flight, so depth is its threads
  uint32_t read_bytes = 4096;
  bool sequential = false;  // one after another, wrapping at the end; otherwise anywhere
  double seconds = 0.5;
  uint64_t seed = 0;
};

struct ReadRate {
  uint64_t reads = 0;
  double seconds = 0;
  double per_second() const { return seconds > 0 ? static_cast<double>(reads) / seconds : 0; }
};

// Reads of whole multiples of 4 KiB within the file. `file` should be open past the page cache, or it is the cache that
// is measured. Throws StorageError for a read that fails, ArgumentError for a file smaller than one read.
ReadRate measure_reads(const File& file, const MeasureOptions& options);

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
