// residency: which pages of a file are in RAM. A hint that may be stale by the time it is used; never needed for the
// right bytes, only for the fast way to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "base/fork.h"
#include "format/container.h"
#include "storage/mapping.h"

namespace gz {

constexpr double kResident = 0.97;  // share of a file's pages that counts as resident

// Remembers for a moment that an array was found in RAM as a whole: counting the pages of a large file takes
// milliseconds, and a batch must not pay that each time. Thread-safe.
class Warmth {
 public:
  bool recent(uint64_t array_offset) const;
  void remember(uint64_t array_offset, std::chrono::steady_clock::duration cost);

 private:
  mutable ForkSafeMutex mutex_;
  std::map<uint64_t, std::chrono::steady_clock::time_point> until_;  // guarded by mutex_
};

// Sets resident[i] for each of `count` rows, in ascending order of offset(i), that are entirely in RAM.
template <class Offset>
void mark_resident(const Mapping& mapping, size_t count, uint64_t row_bytes, const Offset& offset,
                   std::vector<bool>& resident) {
  constexpr uint64_t kWindow = 256, kNear = 16;  // pages queried in one call; a call costs as much as some 16 of them
  std::vector<unsigned char> pages;
  const auto first_page = [&](size_t i) { return offset(i) / kPageBytes; };
  const auto end_page = [&](size_t i) { return (offset(i) + row_bytes + kPageBytes - 1) / kPageBytes; };
  for (size_t i = 0; i < count;) {
    const uint64_t begin = first_page(i);
    uint64_t end = end_page(i);
    size_t last = i + 1;
    while (last < count && first_page(last) < end + kNear && end_page(last) - begin <= kWindow) {
      end = std::max(end, end_page(last++));
    }
    pages.assign(end - begin, 0);
    const uint64_t bytes = (end - begin) * kPageBytes;
    if (mapping.resident(begin * kPageBytes, bytes, pages.data())) {
      for (size_t k = i; k < last; ++k) {
        bool all = true;
        for (uint64_t p = first_page(k); p < end_page(k); ++p) all = all && (pages[p - begin] & 1) != 0;
        resident[k] = all;
      }
    }
    i = last;
  }
}

}  // namespace gz
