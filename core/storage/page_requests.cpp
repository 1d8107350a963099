// page_requests: pages to ranges, ranges to requests; and whole files, two megabytes at a time.
#include "storage/page_requests.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/threads.h"
#include "storage/residency.h"

namespace gz {
namespace {

// Two reads with this much between them are combined into one: on the disks measured a request costs what 8 to 16 KiB
// of transfer cost (benchmarks/sampling).
constexpr uint64_t kBridge = 2 * kPageBytes;
// Linux cuts one request down to the device's readahead without a word, and that may be as little as this.
constexpr uint64_t kMost = 32 * kPageBytes;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr int kReaders = 4;  // they wait for the disk more than they compute

}  // namespace

bool PagePrefetcher::cold(uint64_t offset) const {
  if (const auto pages = file_.cached_pages(offset, 1)) return *pages == 0;
  unsigned char page = 1;
  if (file_.mapping().resident(static_cast<size_t>(offset), 1, &page)) return (page & 1) == 0;
  return !file_.cached(offset).value_or(true);
}

bool PagePrefetcher::request_added() {
  const bool cold = !ranges_.empty() && any_cold(ranges_.size(), [&](size_t i) { return ranges_[i]; });
  if (cold) request_all();
  ranges_.clear();
  return cold;
}

void PagePrefetcher::request_whole(const void* begin, uint64_t bytes) const {
  const uint64_t offset = offset_of(begin);
  // Long pieces, because a thread takes many in a row: that is the order that disks like best.
  parallel_for(static_cast<size_t>((bytes + kMost - 1) / kMost), 1024, threads_, [&](size_t first, size_t last, int) {
    for (size_t i = first; i < last; ++i) {
      const uint64_t at = offset + i * kMost, piece = std::min(bytes - i * kMost, kMost);
      const uint64_t pages = (at + piece - 1) / system_page() - at / system_page() + 1;  // as cached_pages() counts
      if (file_.cached_pages(at, piece).value_or(0) >= pages) continue;
      file_.mapping().advise(static_cast<size_t>(at), static_cast<size_t>(piece), Mapping::Advice::kWillNeed);
    }
  });
}

void PagePrefetcher::request_all() {
  for (ByteRange& r : ranges_) {
    r.begin &= ~(kPageBytes - 1);
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
  ranges_.resize(last + 1);
  const Mapping& mapping = file_.mapping();
  // A page that comes too late after all must not drag in the device's whole readahead, which may be megabytes. Set for
  // the whole mapping: the kernel keeps a record for every range whose advice differs from that of its neighbours.
  mapping.advise(0, mapping.bytes().size(), Mapping::Advice::kRandom);
  parallel_for(ranges_.size(), 64, threads_, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      for (uint64_t at = ranges_[i].begin; at < ranges_[i].end; at += kMost) {
        mapping.advise(static_cast<size_t>(at), static_cast<size_t>(std::min(ranges_[i].end - at, kMost)),
                       Mapping::Advice::kWillNeed);
      }
    }
  });
}

bool better_whole(uint64_t touches, uint64_t bytes) {
  // A page costs a third as much in order as at random (benchmarks/walks), and half as many touches as there are pages
  // meet 39 % of them.
  return touches >= bytes / kPageBytes / 2 && bytes <= available_memory() / 2;
}

void preload(const MountedFile& file, int threads, Progress* progress) {
  const uint64_t bytes = file.container().file_bytes, left = available_memory();
  if (left > 0 && bytes > left) {
    throw BudgetError(text(file.path(), ": the file is ", bytes, " bytes, ", left,
                           " are available: leave it on disk, where sampling and gather read what they need"),
                      bytes);
  }
  const Mapping& mapping = file.mapping();
  mapping.prefer_huge_pages(0, static_cast<size_t>(bytes));
  mapping.advise(0, static_cast<size_t>(bytes), Mapping::Advice::kNormal);  // cold calls may have set kRandom
  const int readers = std::max(resolve_threads(threads), kReaders);
  parallel_for(static_cast<size_t>(bytes), kHugePage, readers, [&](size_t begin, size_t end, int worker) {
    if (!mapping.populate(begin, end - begin)) {  // an old kernel, or a page that cannot be read: then this finds it
      std::vector<std::byte> read(end - begin);
      file.read_at(read, begin);
    }
    // A virtual machine may be lent its memory at the first touch of each small page: better here, while others wait
    // for the disk, than in the midst of a kernel.
    const volatile std::byte* pages = mapping.bytes().data();
    for (size_t at = begin; at < end; at += kPageBytes) static_cast<void>(pages[at]);
    if (worker == 0 && progress != nullptr) progress->report("reading into RAM", end, bytes);
  });
  file.check();
}

bool worth_preloading(const MountedFile& file, uint64_t reads, uint64_t reserved) {
  const uint64_t bytes = file.container().file_bytes, left = available_memory();
  if (reads < bytes / kPageBytes || left < reserved || bytes > (left - reserved) / 2) return false;
  const auto cached = cached_bytes(file, 0, bytes);
  return cached && *cached < bytes / 10 * 9;
}

}  // namespace gz
