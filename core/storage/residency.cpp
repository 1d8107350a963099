// residency: cachestat and mincore.
#include "storage/residency.h"

#include <algorithm>
#include <mutex>

#include "storage/mounted.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace gz {
namespace {

std::optional<uint64_t> by_mincore(const Mapping& mapping, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t kStep = uint64_t{1} << 26;
  std::vector<unsigned char> pages(kStep / kPageBytes + 1);
  uint64_t resident = 0;
  for (uint64_t at = offset; at < offset + bytes; at += kStep) {
    const uint64_t step = std::min(kStep, offset + bytes - at);
    if (!mapping.resident(at, step, pages.data())) return std::nullopt;
    const uint64_t count = ((at + step + kPageBytes - 1) / kPageBytes) - at / kPageBytes;
    for (uint64_t i = 0; i < count; ++i) resident += pages[i] & 1;
  }
  return std::min(resident * kPageBytes, bytes);
}

}  // namespace

// By cachestat where the kernel has it (6.5), mincore otherwise.
std::optional<uint64_t> cached_bytes(const MountedFile& file, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return 0;
#ifdef __linux__
  if (const auto pages = file.cached_pages(offset, bytes)) {
    return std::min(*pages * static_cast<uint64_t>(system_page()), bytes);
  }
#endif
  return by_mincore(file.mapping(), offset, bytes);
}

void spread_pages(const unsigned char* by_system_page, size_t page_bytes, size_t offset, size_t bytes,
                  unsigned char* out) {
  const size_t first = offset / page_bytes;
  for (size_t page = offset / kPageBytes, end = (offset + bytes + kPageBytes - 1) / kPageBytes; page < end; ++page) {
    *out++ = by_system_page[page * kPageBytes / page_bytes - first];
  }
}

bool Warmth::recent(uint64_t array_offset) const {
  std::lock_guard lock(mutex_);
  const auto found = until_.find(array_offset);
  return found != until_.end() && std::chrono::steady_clock::now() < found->second;
}

void Warmth::remember(uint64_t array_offset, std::chrono::steady_clock::duration cost) {
  using namespace std::chrono_literals;
  constexpr int kWorth = 50;  // looking again takes at most a fiftieth of the time
  const auto life = std::clamp<std::chrono::steady_clock::duration>(cost * kWorth, 50ms, 5s);
  std::lock_guard lock(mutex_);
  until_[array_offset] = std::chrono::steady_clock::now() + life;
}

bool residency_is_reported(const File& file) {
#ifdef __linux__
  struct stat info;
  if (fstat(static_cast<int>(file.handle()), &info) != 0) return false;
  constexpr uid_t kUnmapped = 65534;  // an owner outside this user namespace, over whose files its root has no rights
  const uid_t user = geteuid();
  return user == info.st_uid || (user == 0 && info.st_uid != kUnmapped) ||
         faccessat(AT_FDCWD, file.path().c_str(), W_OK, AT_EACCESS) == 0;
#elif defined(_WIN32)
  (void)file;
  return false;
#else
  (void)file;
  return true;
#endif
}

}  // namespace gz
