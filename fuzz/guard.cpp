// guard: mmap with guard pages (the linker's --wrap), poison, and a limit on allocations.
#include "guard.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kGuardBytes = size_t{1} << 20;
std::atomic<size_t> g_most{0};

size_t whole_pages(size_t bytes) { return (bytes + 4095) & ~size_t{4095}; }

void check_size(size_t bytes) {
  const size_t most = g_most.load();
  if (most == 0 || bytes <= most) return;
  g_most = 0;  // what follows allocates too
  std::fprintf(stderr, "fuzz: an allocation of %zu bytes, the limit for this file is %zu\n", bytes, most);
  std::abort();
}

}  // namespace

// Part of every sanitizer runtime, though GCC ships no header for it.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));

// Names given by the linker: --wrap=mmap redirects the core's calls to these.
extern "C" {
void* __real_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* at, size_t bytes);

void* __wrap_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if ((flags & MAP_FIXED) != 0 || bytes == 0) return __real_mmap(at, bytes, protection, flags, fd, offset);
  if ((flags & MAP_ANONYMOUS) != 0) check_size(bytes);
  const size_t size = whole_pages(bytes);
  void* room =
      __real_mmap(nullptr, size + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  void* inside = static_cast<char*>(room) + kGuardBytes;
  void* got = __real_mmap(inside, bytes, protection, flags | MAP_FIXED, fd, offset);
  if (got == MAP_FAILED) __real_munmap(room, size + 2 * kGuardBytes);
  return got;
}

int __wrap_munmap(void* at, size_t bytes) {
  return __real_munmap(static_cast<char*>(at) - kGuardBytes, whole_pages(bytes) + 2 * kGuardBytes);
}
}

namespace gz::fuzz {

OnlyArrays::OnlyArrays(const MountedFile& file) : all_(file.mapping().bytes()) {
  std::vector<ArrayInfo> arrays = file.container().arrays;
  std::sort(arrays.begin(), arrays.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint64_t at = 0;
  for (const ArrayInfo& array : arrays) {
    // Arrays of 0.2 files may overlap: reading such a file gives meaningless values, but is never out of bounds.
    if (array.offset > at) ASAN_POISON_MEMORY_REGION(all_.data() + at, array.offset - at);
    at = std::max(at, array.offset + array.bytes);
  }
  if (at < all_.size()) ASAN_POISON_MEMORY_REGION(all_.data() + at, all_.size() - at);
}

OnlyArrays::~OnlyArrays() { ASAN_UNPOISON_MEMORY_REGION(all_.data(), all_.size()); }

void limit_allocations(size_t bytes) {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, size_t size) { check_size(size); }, [](const volatile void*) {});
  (void)installed;
  g_most = bytes;
}

}  // namespace gz::fuzz
