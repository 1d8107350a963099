// mapping_posix: mmap on Linux and macOS, and the guard that turns SIGBUS in our pages into an error.
#ifndef _WIN32
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "base/checked.h"
#include "base/error.h"
#include "storage/mapping.h"

namespace gz {

// A node of a list that only grows; a node whose mapping is gone is used again. The handler reads it without locks.
struct Mapping::Guard {
  std::atomic<uintptr_t> begin{0}, end{0};  // begin == end: free
  std::atomic<int> protection{PROT_READ};
  std::atomic<bool> damaged{false};
  Guard* next = nullptr;  // immutable once linked
};

namespace {

std::atomic<Mapping::Guard*> g_guards{nullptr};
std::mutex g_guards_mutex;  // taken by map() and ~Mapping(), never by the handler
struct sigaction g_previous;

// Async-signal-safe: atomics and one mmap system call. The rest of the mapping becomes zero pages, so that a truncated
// file costs one signal and not one a page; the kernels then see zeros, finish, and check() throws.
void on_sigbus(int signal_number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Mapping::Guard* g = g_guards.load(std::memory_order_acquire); g != nullptr; g = g->next) {
    const uintptr_t begin = g->begin.load(std::memory_order_acquire), end = g->end.load(std::memory_order_acquire);
    if (address < begin || address >= end) continue;
    const uintptr_t page = address & ~uintptr_t{4095};
    const int saved = errno;
    void* got = mmap(reinterpret_cast<void*>(page), end - page, g->protection.load(),
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (got == MAP_FAILED) break;
    g->damaged.store(true, std::memory_order_release);
    return;
  }
  // Not ours: do what would have been done without us.
  if ((g_previous.sa_flags & SA_SIGINFO) != 0 && g_previous.sa_sigaction != nullptr) {
    g_previous.sa_sigaction(signal_number, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN && g_previous.sa_handler != nullptr) {
    g_previous.sa_handler(signal_number);
  } else {
    signal(signal_number, SIG_DFL);  // the access is repeated on return and ends the process as usual
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

std::shared_ptr<Mapping> Mapping::map(const File& file, uint64_t bytes, Access access) {
  std::shared_ptr<Mapping> mapping(new Mapping);
  mapping->path_ = file.path();
  if (bytes == 0) return mapping;
  const bool write = access == Access::kCopyOnWrite;
  const int protection = write ? PROT_READ | PROT_WRITE : PROT_READ;
  int flags = write ? MAP_PRIVATE : MAP_SHARED;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE;  // a private map of a file larger than RAM must not count as promised memory
#endif
  void* at = mmap(nullptr, bytes, protection, flags, static_cast<int>(file.handle()), 0);
  if (at == MAP_FAILED) fail_storage(file.path(), text("cannot map ", bytes, " bytes"), errno);
  mapping->data_ = static_cast<std::byte*>(at);
  mapping->size_ = bytes;
  const auto begin = reinterpret_cast<uintptr_t>(at);
  mapping->guard_ = add_guard(begin, begin + round_up(bytes, 4096), protection);
  return mapping;
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  {
    std::lock_guard lock(g_guards_mutex);
    guard_->begin = 0;
    guard_->end = 0;
  }
  munmap(data_, size_);
}

bool Mapping::damaged() const { return guard_ != nullptr && guard_->damaged.load(std::memory_order_acquire); }

void Mapping::check() const {
  if (damaged()) {
    throw StorageError(text(path_,
                            ": a mapped page could not be read: the file was truncated by someone else or the "
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
  const size_t start = offset & ~size_t{4095};  // madvise wants whole pages
  const size_t end = offset + bytes > size_ ? size_ : offset + bytes;
  madvise(data_ + start, end - start, how);
}

bool Mapping::populate(size_t offset, size_t bytes) const noexcept {
#ifdef MADV_POPULATE_READ
  if (offset >= size_ || bytes == 0) return true;
  const size_t start = offset & ~size_t{4095};
  const size_t end = offset + bytes > size_ ? size_ : offset + bytes;
  return madvise(data_ + start, end - start, MADV_POPULATE_READ) == 0;
#else
  (void)offset, (void)bytes;
  return false;
#endif
}

bool Mapping::resident(size_t offset, size_t bytes, unsigned char* pages) const noexcept {
  if (offset >= size_ || bytes == 0) return true;
  const size_t start = offset & ~size_t{4095};
  const size_t end = offset + bytes > size_ ? size_ : offset + bytes;
#ifdef __linux__
  return mincore(data_ + start, end - start, pages) == 0;
#else
  return mincore(data_ + start, end - start, reinterpret_cast<char*>(pages)) == 0;
#endif
}

}  // namespace gz
#endif
