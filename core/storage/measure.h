// measure: how many reads a second the disk under a file gives, in sequence or at random, one or many in flight.
#pragma once

#include <cstdint>

#include "storage/file.h"
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

}  // namespace gz
