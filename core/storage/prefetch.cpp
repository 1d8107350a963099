// prefetch: pages to ranges, ranges to requests.
#include "storage/prefetch.h"

#include <algorithm>

#include "base/threads.h"

namespace gz {
namespace {

constexpr uint64_t kPage = 4096;
// Two reads with this much between them are asked for as one: on the disks measured a request costs what 8 to 16 KiB of
// transfer cost (benchmarks/sampling).
constexpr uint64_t kBridge = 2 * kPage;

}  // namespace

bool PagePrefetcher::cold(uint64_t offset) const {
  if (const auto cached = file_.file().cached(offset)) return !*cached;
  unsigned char page = 1;
  return file_.mapping().resident(static_cast<size_t>(offset), 1, &page) && (page & 1) == 0;
}

void PagePrefetcher::request_all() {
  for (ByteRange& r : ranges_) {
    r.begin &= ~(kPage - 1);
    r.end = std::max(r.end, r.begin + 1);
  }
  std::sort(ranges_.begin(), ranges_.end(), [](ByteRange a, ByteRange b) { return a.begin < b.begin; });
  size_t last = 0;
  for (size_t i = 1; i < ranges_.size(); ++i) {
    if (ranges_[i].begin <= ranges_[last].end + kBridge) {
      ranges_[last].end = std::max(ranges_[last].end, ranges_[i].end);
    } else {
      ranges_[++last] = ranges_[i];
    }
  }
  const size_t count = last + 1;
  const Mapping& mapping = file_.mapping();
  // A page that comes too late after all must not drag in the device's whole readahead, which may be megabytes.
  mapping.advise(static_cast<size_t>(ranges_.front().begin),
                 static_cast<size_t>(ranges_[last].end - ranges_.front().begin), Mapping::Advice::kRandom);
  parallel_for(count, 64, threads_, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      mapping.advise(static_cast<size_t>(ranges_[i].begin), static_cast<size_t>(ranges_[i].end - ranges_[i].begin),
                     Mapping::Advice::kWillNeed);
    }
  });
}

}  // namespace gz
