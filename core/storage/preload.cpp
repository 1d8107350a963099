// preload: populate, two megabytes at a time.
#include "storage/preload.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "storage/residency.h"
#include "storage/system_memory.h"

namespace gz {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20, kLong = uint64_t{64} << 20;
constexpr int kReaders = 4;  // they wait for the disk more than they compute

}  // namespace

void load_range(const MountedFile& file, uint64_t begin, uint64_t end, int threads, Progress* progress) {
  const Mapping& mapping = file.mapping();
  begin &= ~(kHugePage - 1);
  end = std::min(end, file.container().file_bytes);
  const auto bytes = static_cast<size_t>(end - begin);
  const bool huge = mapping.prefer_huge_pages(static_cast<size_t>(begin), bytes);
  // Readahead keeps the disk busy, but goes megabytes past the end: not where that is much beside the range.
  const auto advice = huge && bytes < kLong ? Mapping::Advice::kRandom : Mapping::Advice::kNormal;
  mapping.advise(static_cast<size_t>(begin), bytes, advice);
  parallel_for(bytes, kHugePage, std::max(threads, kReaders), [&](size_t from, size_t to, int worker) {
    if (!mapping.populate(static_cast<size_t>(begin) + from, to - from)) {
      // An old kernel, or a page that cannot be read: then this tells which.
      std::vector<std::byte> read(to - from);
      file.file().read_at(read, begin + from);
    }
    // A virtual machine may be lent its memory at the first touch of each small page: better here, while others wait
    // for the disk, than in the midst of a kernel.
    const volatile std::byte* pages = mapping.bytes().data() + begin;
    for (size_t at = from; at < to; at += kPageBytes) static_cast<void>(pages[at]);
    if (worker == 0 && progress != nullptr) progress->report("reading into RAM", to, bytes);
  });
  file.check();
}

void preload(const MountedFile& file, int threads, Progress* progress) {
  const uint64_t bytes = file.container().file_bytes, left = available_memory();
  if (left > 0 && bytes > left) {
    throw BudgetError(text(file.path(), ": the file is ", bytes, " bytes, ", left,
                           " are available: leave it on disk, where sampling and gather read what they need"),
                      bytes);
  }
  load_range(file, 0, bytes, resolve_threads(threads), progress);
}

bool worth_preloading(const MountedFile& file, uint64_t reads, uint64_t reserved) {
  const uint64_t bytes = file.container().file_bytes, left = available_memory();
  if (reads < bytes / kPageBytes || left < reserved || bytes > (left - reserved) / 2) return false;
  const auto cached = cached_bytes(file.file(), file.mapping(), 0, bytes);
  return cached && *cached < bytes / 10 * 9;
}

}  // namespace gz
