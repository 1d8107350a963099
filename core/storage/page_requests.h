// page_requests: brings pages into the page cache before they are read, some or all of a file, and the rules for which.
//
// A kernel asks for the pages that it is about to read, all at once, so that a cold file is read at the queue depth of
// its disk and not one page fault after the other. Pages come into the page cache, where the mapping finds them;
// nothing is copied. A file whose pages are in RAM pays for a few probes per request and no more (benchmarks/sampling).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/progress.h"
#include "storage/mounted.h"

namespace gz {

// Bytes [begin, end) of a mapped file.
struct ByteRange {
  uint64_t begin, end;
};

class PagePrefetcher {
 public:
  PagePrefetcher(const MountedFile& file, int threads) : file_(file), threads_(threads) {}

  // range(i), for i below `count`, says which bytes the i-th read will touch; pages that are not in RAM are requested.
  // Returns at once: the reads go on while the kernel starts. True when anything had to be requested.
  template <class RangeOf>
  bool request(size_t count, const RangeOf& range) {
    if (count == 0 || !any_cold(count, range)) return false;
    ranges_.clear();
    ranges_.reserve(count);
    for (size_t i = 0; i < count; ++i) ranges_.push_back(range(i));
    request_all();
    return true;
  }

  // The same for reads that are given one by one: add() each of them, then request_added().
  template <class T>
  void add(const T* begin, uint64_t count = 1) {
    const uint64_t at = offset_of(begin);
    ranges_.push_back({at, at + count * sizeof(T)});
  }
  bool request_added();

  // What of these `bytes` is not in RAM, all of it, in order: for calls that read most of them anyway. Returns when the
  // last request is made, which is about when the last byte arrives. Pages stay small: preload() makes better ones for
  // callers that read repeatedly, but where memory is lent to a virtual machine the first answer takes twice as long.
  void request_whole(const void* begin, uint64_t bytes) const;

  // Whether any of these reads would go to disk, judged by some of them, evenly spread: 24 probes see a
  // file that is one tenth cold with 92 %.
  template <class RangeOf>
  bool any_cold(size_t count, const RangeOf& range, size_t probes = kProbes) const {
    std::atomic<int>& watched = file_.closely_watched();
    const int left = watched.load(std::memory_order_relaxed);
    probes = std::min(count, left > 0 ? kCloser * probes : probes);
    for (size_t i = 0; i < probes; ++i) {
      if (cold(range(i * count / probes).begin)) {
        watched.store(kWatched, std::memory_order_relaxed);
        return true;
      }
    }
    if (left > 0) watched.store(left - 1, std::memory_order_relaxed);  // threads may lose a step: it is a guess anyway
    return false;
  }

  // The file offset of `address`, which is in the mapping.
  uint64_t offset_of(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - file_.mapping().bytes().data());
  }

 private:
  // Probes a request. A file that was found cold is looked at closely for the next requests: the last few pages that
  // are missing hide from few probes, and each of them would be a fault.
  static constexpr size_t kProbes = 24, kCloser = 16;
  static constexpr int kWatched = 64;

  bool cold(uint64_t offset) const;
  void request_all();  // ranges_

  const MountedFile& file_;
  const int threads_;
  std::vector<ByteRange> ranges_;
};

// Whether `touches` random reads would touch so many of the pages that reading all in order is faster, and there is RAM
// for them.
bool better_whole(uint64_t touches, uint64_t bytes);

// Reads all of the file into the page cache, in huge pages where the system has them: a random read through those takes
// half the time of one through pages that came one by one (benchmarks/walks). Pages that are in RAM already stay as
// they are. The kernel may give them up again when memory is short. Throws BudgetError when the file is larger than the
// memory that is left, StorageError when it cannot be read.
void preload(const MountedFile& file, int threads, Progress* progress);

// Whether that would pay for a caller that will make `reads` random reads and keeps `reserved` bytes for other things:
// the file is not in RAM yet, takes less than half of what is left, and most of its pages will be read anyway.
bool worth_preloading(const MountedFile& file, uint64_t reads, uint64_t reserved);

}  // namespace gz
