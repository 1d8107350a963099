// memory: the tally behind Buffer, and the pool of result buffers.
#include "base/memory.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "base/checked.h"

#ifdef _WIN32
#include <malloc.h>
#else
#include <pthread.h>
#include <sys/mman.h>
#endif

namespace gz {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHuge = size_t{2} << 20;
constexpr size_t kOwnMapping = size_t{64} << 10;
constexpr uint64_t kMostIdle = uint64_t{256} << 20;  // held though nobody uses it, where no loader asks for more

std::array<std::atomic<uint64_t>, kPurposes> g_held{};
std::atomic<uint64_t> g_total{0}, g_peak{0};

void count(Purpose purpose, uint64_t bytes) {
  g_held[static_cast<size_t>(purpose)] += bytes;
  const uint64_t total = g_total += bytes;
  uint64_t peak = g_peak.load();
  while (total > peak && !g_peak.compare_exchange_weak(peak, total)) {
  }
}

void uncount(Purpose purpose, uint64_t bytes) {
  g_held[static_cast<size_t>(purpose)] -= bytes;
  g_total -= bytes;
}

}  // namespace

const char* purpose_name(Purpose purpose) {
  constexpr std::array<const char*, kPurposes> names{"compile", "cache", "reads", "batches", "tables"};
  return names[static_cast<size_t>(purpose)];
}

uint64_t bytes_held(Purpose purpose) { return g_held[static_cast<size_t>(purpose)]; }
uint64_t bytes_held() { return g_total; }
uint64_t bytes_held_peak() { return g_peak; }
void reset_bytes_held_peak() { g_peak = g_total.load(); }

// Small buffers come from the C library; from 64 KiB up they are mappings of their own, so that a freed one goes back
// to the system at once and peak memory is what the tally says.
Buffer::Buffer(size_t bytes, Purpose purpose) : purpose_(purpose) {
  const auto rounded = checked_round_up(std::max<size_t>(bytes, 1), bytes >= kHuge ? kHuge : kPage);
  if (!rounded || *rounded > SIZE_MAX / 2) throw std::bad_alloc();
  size_ = static_cast<size_t>(*rounded);
#ifdef _WIN32
  data_ = static_cast<std::byte*>(_aligned_malloc(size_, kPage));
  if (data_ == nullptr) throw std::bad_alloc();
#else
  if (size_ < kOwnMapping) {
    data_ = static_cast<std::byte*>(::operator new(size_, std::align_val_t{kPage}));
    count(purpose_, size_);
    return;
  }
  void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(at);
#ifdef MADV_HUGEPAGE
  if (size_ >= kHuge) madvise(data_, size_, MADV_HUGEPAGE);
#endif
#endif
  count(purpose_, size_);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
#ifdef _WIN32
  _aligned_free(data_);
#else
  if (size_ < kOwnMapping) {
    ::operator delete(data_, std::align_val_t{kPage});
  } else {
    munmap(data_, size_);
  }
#endif
  uncount(purpose_, size_);
}

void Buffer::count_as(Purpose purpose) {
  if (purpose == purpose_) return;
  g_held[static_cast<size_t>(purpose_)] -= size_;
  g_held[static_cast<size_t>(purpose)] += size_;
  purpose_ = purpose;
}

namespace {

struct Shelf {
  std::mutex mutex;
  std::vector<Buffer> idle;   // guarded by mutex
  uint64_t idle_bytes = 0;    // guarded by mutex
  uint64_t most = kMostIdle;  // guarded by mutex
};

std::atomic<Shelf*> g_shelf{nullptr};

// Never destroyed: Python may drop arrays after statics are gone. A forked child starts with an empty one, since the
// parent may have held the lock.
Shelf& shelf() {
  Shelf* s = g_shelf.load(std::memory_order_acquire);
  if (s == nullptr) {
#ifndef _WIN32
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { g_shelf.store(nullptr); }); });
#endif
    auto* fresh = new Shelf;
    if (g_shelf.compare_exchange_strong(s, fresh)) return *fresh;
    delete fresh;
  }
  return *s;
}

void put_back(Buffer&& buffer) {
  Shelf& s = shelf();
  std::lock_guard lock(s.mutex);
  if (s.idle_bytes + buffer.size() > s.most) return;  // the destructor gives it to the system
  s.idle_bytes += buffer.size();
  s.idle.push_back(std::move(buffer));
}

}  // namespace

std::shared_ptr<Buffer> BufferPool::take(size_t bytes, Purpose purpose) {
  const auto with_return = [](Buffer&& buffer) {
    return std::shared_ptr<Buffer>(new Buffer(std::move(buffer)), [](Buffer* b) {
      put_back(std::move(*b));
      delete b;
    });
  };
  if (bytes < kOwnMapping) return std::make_shared<Buffer>(bytes, purpose);
  const size_t fresh = bytes + bytes / 8;  // room for the next batch, which is a little larger
  {
    Shelf& s = shelf();
    std::lock_guard lock(s.mutex);
    // The smallest that fits, and not one more than twice too large; what a fresh one is rounded up to is not that.
    auto best = s.idle.end();
    for (auto it = s.idle.begin(); it != s.idle.end(); ++it) {
      const bool fits = it->size() >= bytes && it->size() / 2 <= fresh;
      if (fits && (best == s.idle.end() || it->size() < best->size())) best = it;
    }
    if (best != s.idle.end()) {
      Buffer found = std::move(*best);
      s.idle.erase(best);
      s.idle_bytes -= found.size();
      found.count_as(purpose);
      return with_return(std::move(found));
    }
  }
  return with_return(Buffer(fresh, purpose));
}

BufferPool::Allowance::Allowance(uint64_t bytes) : bytes_(bytes), shelf_(&shelf()) {
  Shelf& s = shelf();
  std::lock_guard lock(s.mutex);
  s.most += bytes_;
}

BufferPool::Allowance::~Allowance() {
  Shelf& s = shelf();
  if (&s != shelf_) return;  // a forked child's shelf never saw the allowance
  std::lock_guard lock(s.mutex);
  s.most -= bytes_;
  while (s.idle_bytes > s.most) {
    s.idle_bytes -= s.idle.back().size();
    s.idle.pop_back();
  }
}

uint64_t BufferPool::idle_bytes() {
  Shelf& s = shelf();
  std::lock_guard lock(s.mutex);
  return s.idle_bytes;
}

void BufferPool::clear() {
  Shelf& s = shelf();
  std::lock_guard lock(s.mutex);
  s.idle.clear();
  s.idle_bytes = 0;
}

}  // namespace gz
