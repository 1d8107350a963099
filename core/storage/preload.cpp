// preload: populate, two megabytes at a time.
#include "storage/preload.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/threads.h"
#include "storage/residency.h"

namespace gz {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr int kReaders = 4;  // they wait for the disk more than they compute

}  // namespace

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
      file.file().read_at(read, begin);
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
  const auto cached = cached_bytes(file.file(), file.mapping(), 0, bytes);
  return cached && *cached < bytes / 10 * 9;
}

}  // namespace gz
