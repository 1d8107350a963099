// mapping_posix: mmap on Linux and macOS, and the guard that turns SIGBUS in mapped pages into an error.
#ifndef _WIN32
#include <signal.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/fork.h"
#include "format/container.h"
#include "storage/mapping.h"

namespace gz {

// A node of a list that only grows; a node whose mapping is gone is used again. The handler reads it without locks.
struct Mapping::Guard {
  std::atomic<uintptr_t> begin{0}, end{0};  // end == 0: free
  std::atomic<int> protection{PROT_READ};
  std::atomic<bool> damaged{false};
  Guard* next = nullptr;  // immutable once linked
};

size_t system_page() {  // also asked before the handler can run
  static std::atomic<size_t> known{0};
  if (known == 0) known = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return known;
}

namespace {

std::atomic<Mapping::Guard*> g_guards{nullptr};
ForkSafeMutex& g_guards_mutex = *new ForkSafeMutex;  // taken by map() and ~Mapping(), never by the handler
struct sigaction g_previous;
std::atomic<uintptr_t> g_foreign{0};  // the last address that was not ours, and how often in a row
std::atomic<int> g_foreign_repeats{0};

#ifdef __linux__
bool kernel_from(int major, int minor) {
  utsname name;
  int m = 0, n = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &m, &n) != 2) return false;
  return m > major || (m == major && n >= minor);
}
#endif

// A part of a mapping in whole pages, as madvise and mincore want it.
struct Pages {
  size_t start, bytes;
};
Pages whole_pages(size_t offset, size_t bytes, size_t size) {
  const size_t start = offset & ~(system_page() - 1);
  const size_t end = bytes > size - offset ? size : offset + bytes;
  return {start, end - start};
}

// The signal is blocked while its handler runs: it is delivered again, and ends the process, on return.
void fall_to_default(int signal_number) {
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// Async-signal-safe: atomics and one mmap system call. The rest of the mapping becomes zero pages, so that a truncated
// file costs one signal instead of one per page; the kernels then see zeros, finish, and check() throws.
void on_sigbus(int signal_number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Mapping::Guard* g = g_guards.load(std::memory_order_acquire); g != nullptr; g = g->next) {
    const uintptr_t end = g->end.load(), begin = g->begin.load();
    if (address < begin || address >= end || g->end.load() != end) continue;  // the last: freed and reused meanwhile
    const uintptr_t page = address & ~(system_page() - 1);
    const int saved = errno;
    void* got = mmap(reinterpret_cast<void*>(page), end - page, g->protection.load(),
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (got == MAP_FAILED) break;
    g->damaged.store(true, std::memory_order_release);
    return;
  }
  // Not in a mapping of this library: do what the previous handler would have done. A handler that was installed later
  // and calls this one must not loop: where it does not help, the default ends the process.
  const bool again = g_foreign.exchange(address) == address;
  const int repeats = again ? g_foreign_repeats.load() + 1 : 0;
  g_foreign_repeats = repeats;
  if (repeats > 2) {
    fall_to_default(signal_number);
    return;
  }
  if ((g_previous.sa_flags & SA_SIGINFO) != 0 && g_previous.sa_sigaction != nullptr) {
    g_previous.sa_sigaction(signal_number, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN && g_previous.sa_handler != nullptr) {
    g_previous.sa_handler(signal_number);
  } else {
    fall_to_default(signal_number);
  }
}

// Again at every map(): a debugger aid such as faulthandler may have put itself in front since.
void install_handler() {  // g_guards_mutex held
  struct sigaction now;
  if (sigaction(SIGBUS, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_sigbus)
    return;
  struct sigaction ours {};
  ours.sa_sigaction = on_sigbus;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  system_page();
  g_previous = now;
  sigaction(SIGBUS, &ours, nullptr);
}

Mapping::Guard* add_guard(uintptr_t begin, uintptr_t end, int protection) {
  std::lock_guard lock(g_guards_mutex);
  install_handler();
  Mapping::Guard* g = g_guards.load();
  while (g != nullptr && g->end.load() != 0) g = g->next;
  const bool fresh = g == nullptr;
  if (fresh) g = new Mapping::Guard;
  g->damaged = false;
  g->protection = protection;
  g->begin = begin;
  g->end = end;
  if (fresh) {
    g->next = g_guards.load();
    g_guards.store(g, std::memory_order_release);
  }
  return g;
}

}  // namespace

namespace {

struct Protection {
  explicit Protection(Mapping::Access access) {
    const bool write = access == Mapping::Access::kCopyOnWrite;
    protection = write ? PROT_READ | PROT_WRITE : PROT_READ;
    flags = write ? MAP_PRIVATE : MAP_SHARED;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;  // a private map of a file larger than RAM must not count as promised memory
#endif
  }
  int protection, flags;
};

}  // namespace

std::shared_ptr<Mapping> Mapping::map(const std::string& path, std::span<const Part> parts, Access access) {
  if (system_page() != kPageBytes) {
    throw StorageError(text(path, ": has deltas, which need pages of 4096 bytes, but those of this system have ",
                            system_page(), "; merge them on another machine with graphzero compact"),
                       ENOTSUP, path);
  }
  std::shared_ptr<Mapping> mapping(new Mapping);
  mapping->path_ = path;
  uint64_t bytes = 0;
  for (const Part& part : parts) bytes += part.bytes;
  const auto [protection, flags] = Protection(access);
  // The address range is reserved first, and then replaced part by part.
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) fail_storage(path, text("cannot map ", bytes, " bytes"), errno);
  mapping->data_ = static_cast<std::byte*>(at);
  mapping->size_ = bytes;
  mapping->is_reported_ = true;
  const auto begin = reinterpret_cast<uintptr_t>(at);
  mapping->guard_ = add_guard(begin, begin + bytes, protection);
  std::byte* to = mapping->data_;
  for (const Part& part : parts) {
    const void* got = mmap(to, part.bytes, protection, flags | MAP_FIXED, static_cast<int>(part.file->handle()),
                           static_cast<off_t>(part.offset));
    if (got == MAP_FAILED) fail_storage(part.file->path(), text("cannot map ", part.bytes, " bytes"), errno);
    mapping->is_reported_ = mapping->is_reported_ && residency_is_reported(*part.file);
    to += part.bytes;
  }
  return mapping;
}

std::shared_ptr<Mapping> Mapping::map(const File& file, uint64_t bytes, Access access) {
  std::shared_ptr<Mapping> mapping(new Mapping);
  mapping->path_ = file.path();
  if (bytes == 0) return mapping;
  const auto [protection, flags] = Protection(access);
  void* at = mmap(nullptr, bytes, protection, flags, static_cast<int>(file.handle()), 0);
  if (at == MAP_FAILED) fail_storage(file.path(), text("cannot map ", bytes, " bytes"), errno);
  mapping->data_ = static_cast<std::byte*>(at);
  mapping->size_ = bytes;
  mapping->is_reported_ = residency_is_reported(file);
  const auto begin = reinterpret_cast<uintptr_t>(at);
  mapping->guard_ = add_guard(begin, begin + round_up(bytes, system_page()), protection);
  return mapping;
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  {
    std::lock_guard lock(g_guards_mutex);
    guard_->end = 0;  // begin stays: the handler never sees a range that is wider than one that was
  }
  munmap(data_, size_);
}

bool Mapping::damaged_at(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Guard* g = g_guards.load(std::memory_order_acquire); g != nullptr; g = g->next) {
    if (at >= g->begin.load() && at < g->end.load()) return g->damaged.load(std::memory_order_acquire);
  }
  return false;
}

bool Mapping::damaged() const { return guard_ != nullptr && guard_->damaged.load(std::memory_order_acquire); }

void Mapping::check() const {
  if (damaged()) {
    throw StorageError(text(path_,
                            ": a mapped page could not be read: the file was truncated by another process or the "
                            "disk failed; results may hold zeros. Restore the file and open it again"),
                       EIO, path_);
  }
}

void Mapping::advise(size_t offset, size_t bytes, Advice advice) const noexcept {
  if (offset >= size_ || bytes == 0) return;
  int how = MADV_NORMAL;
  if (advice == Advice::kRandom) how = MADV_RANDOM;
  if (advice == Advice::kSequential) how = MADV_SEQUENTIAL;
  if (advice == Advice::kWillNeed) how = MADV_WILLNEED;
  if (advice == Advice::kDontNeed) how = MADV_DONTNEED;
  const Pages pages = whole_pages(offset, bytes, size_);
  madvise(data_ + pages.start, pages.bytes, how);
}

bool Mapping::prefer_huge_pages(size_t offset, size_t bytes) const noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // Before Linux 5.18 the call succeeds and files are read by the page; with larger pages a huge one is far larger too.
  if (offset >= size_ || bytes == 0 || !kernel_from(5, 18) || system_page() != 4096) return false;
  const Pages pages = whole_pages(offset, bytes, size_);
  return madvise(data_ + pages.start, pages.bytes, MADV_HUGEPAGE) == 0;
#else
  (void)offset, (void)bytes;
  return false;
#endif
}

bool Mapping::populate(size_t offset, size_t bytes) const noexcept {
#ifdef MADV_POPULATE_READ
  if (offset >= size_ || bytes == 0) return true;
  const Pages pages = whole_pages(offset, bytes, size_);
  return madvise(data_ + pages.start, pages.bytes, MADV_POPULATE_READ) == 0;
#else
  (void)offset, (void)bytes;
  return false;
#endif
}

bool Mapping::resident(size_t offset, size_t bytes, unsigned char* pages) const noexcept {
  if (!is_reported_) return false;
  if (offset >= size_ || bytes == 0) return true;
  const Pages part = whole_pages(offset, bytes, size_);
#ifdef __linux__
  const auto ask = [&](unsigned char* to) { return mincore(data_ + part.start, part.bytes, to) == 0; };
#else
  const auto ask = [&](unsigned char* to) {
    return mincore(data_ + part.start, part.bytes, reinterpret_cast<char*>(to)) == 0;
  };
#endif
  if (system_page() == kPageBytes) return ask(pages);
  std::vector<unsigned char> larger(part.bytes / system_page() + 1);
  if (!ask(larger.data())) return false;
  spread_pages(larger.data(), system_page(), offset, std::min(bytes, size_ - offset), pages);
  return true;
}

}  // namespace gz
#endif
