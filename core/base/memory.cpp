// memory: the accounting behind Buffer, and the pool of result buffers.
#include "base/memory.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "base/per_process.h"

#ifdef _WIN32
#include <malloc.h>
#else
#include <sys/mman.h>
#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif
#endif

namespace gz {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHuge = size_t{2} << 20;
constexpr size_t kOwnMapping = size_t{64} << 10;
constexpr uint64_t kMostIdle = uint64_t{256} << 20;  // of the process's own pool

std::array<std::atomic<uint64_t>, kPurposes> g_held{};
std::atomic<uint64_t> g_total{0}, g_peak{0};

// What a Buffer of so many bytes takes: whole pages, and whole huge pages where it is large. A compile plans to the
// byte, so there only where that adds little.
std::optional<uint64_t> buffer_size(size_t bytes, Purpose purpose) {
  const size_t huge_from = purpose == Purpose::kCompile ? 32 * kHuge : purpose == Purpose::kTables ? 4 * kHuge : kHuge;
  return checked_round_up(std::max<size_t>(bytes, 1), bytes >= huge_from ? kHuge : kPage);
}

// A little more than requested, since the next batch may be a little larger; large ones are whole huge pages anyway.
size_t with_extra(size_t bytes) { return bytes + bytes / (bytes >= kHuge ? 32 : 8); }

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

void populate(std::span<std::byte> memory) noexcept {
#ifdef __linux__
  // EINVAL: the kernel is older than 5.14. Other errors are shortages of memory, which touching would make fatal.
  if (madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0 || errno != EINVAL) return;
#endif
  for (size_t at = 0; at < memory.size(); at += kPage) {
    auto& byte = const_cast<volatile std::byte&>(memory[at]);
    byte = byte;
  }
}

// Small buffers come from the C library; from 64 KiB up they are mappings of their own, so that a freed one goes back
// to the system at once and peak memory is what the counters say.
Buffer::Buffer(size_t bytes, Purpose purpose, [[maybe_unused]] Pages pages) : purpose_(purpose) {
  const auto rounded = buffer_size(bytes, purpose);
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
  if (size_ >= kHuge && pages == Pages::kHuge) madvise(data_, size_, MADV_HUGEPAGE);
#endif
#endif
  count(purpose_, size_);
}

Buffer Buffer::zeroed(size_t bytes, Purpose purpose, Pages pages) {
  Buffer buffer(bytes, purpose, pages);
#ifdef _WIN32
  const bool is_zero = false;
#else
  const bool is_zero = buffer.size_ >= kOwnMapping;  // a new mapping
#endif
  if (!is_zero) std::memset(buffer.data_, 0, buffer.size_);
  return buffer;
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

// Guarded by mutex, but for what is const. A forked child must not touch it: a thread of the parent may have held
// the mutex, so buffers that are dropped there are simply freed.
struct BufferPool::State {
  State(uint64_t limit_, uint64_t most_idle_, PageLock page_lock_)
      : is_unlimited(limit_ == kNoLimit), most_idle(most_idle_), page_lock(std::move(page_lock_)), limit(limit_) {}
  ~State() {
    for (Buffer& buffer : idle) forget(buffer);
  }

  const bool is_unlimited;  // from its making: small buffers are then not worth a pool
  const uint64_t most_idle;
  const PageLock page_lock;
  const int64_t process = process_id();
  std::mutex mutex;
  std::condition_variable less_used;
  std::vector<Buffer> idle;
  uint64_t idle_bytes = 0, used = 0, peak = 0;
  uint64_t limit;

  void add(uint64_t bytes) {
    used += bytes;
    peak = std::max(peak, used);
  }
  bool is_ours() const { return process == process_id(); }
  void forget(Buffer& buffer) const {  // before it goes back to the system
    if (buffer.page_locked() && is_ours()) page_lock.unlock(buffer.data());
  }
  bool keeps(uint64_t more) const {  // whether so much more may be kept idle
    return idle_bytes + more <= most_idle && used + idle_bytes + more <= limit;
  }
  Buffer remove(std::vector<Buffer>::iterator at) {
    Buffer found = std::move(*at);
    idle.erase(at);
    idle_bytes -= found.size();
    return found;
  }
  // Frees idle buffers, the largest first, until so much more fits.
  void make_room(uint64_t more, std::vector<Buffer>& freed) {
    while (!idle.empty() && used + idle_bytes + more > limit) {
      freed.push_back(remove(std::max_element(idle.begin(), idle.end(),
                                              [](const Buffer& a, const Buffer& b) { return a.size() < b.size(); })));
    }
  }
};

// What a dropped buffer does: back to its pool, or to the system.
struct BufferPool::Return {
  std::shared_ptr<State> state;
  bool counts = true;

  void operator()(Buffer* buffer) const {
    const std::unique_ptr<Buffer> dropped(buffer);
    if (!state->is_ours()) return;
    {
      std::lock_guard lock(state->mutex);
      if (counts) {
        state->used -= buffer->size();
        state->less_used.notify_all();
      }
      if (state->keeps(buffer->size())) {
        state->idle_bytes += buffer->size();
        state->idle.push_back(std::move(*buffer));
        return;
      }
    }
    state->forget(*buffer);
  }
};

BufferPool::BufferPool(uint64_t limit, uint64_t most_idle, PageLock page_lock)
    : state_(std::make_shared<State>(limit, most_idle, std::move(page_lock))) {}

BufferPool::~BufferPool() {
  if (!state_->is_ours()) return;
  set_limit(0);  // what still comes back goes to the system
}

std::shared_ptr<Buffer> BufferPool::take(size_t bytes, Purpose purpose) {
  State& s = *state_;
  if (bytes < kOwnMapping && !s.page_lock && s.is_unlimited) return std::make_shared<Buffer>(bytes, purpose);
  const auto leased = [&](Buffer&& buffer) {
    return std::shared_ptr<Buffer>(new Buffer(std::move(buffer)), Return{state_});
  };
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  const auto exact = buffer_size(bytes, purpose), roomy = buffer_size(with_extra(bytes), purpose);
  if (!exact || !roomy) throw std::bad_alloc();
  auto rounded = static_cast<size_t>(*roomy);
  std::vector<Buffer> freed;
  {
    std::lock_guard lock(s.mutex);
    // The smallest that fits, and not one more than twice too large; of equal ones that which came back last: more of
    // it is in a cache. A batch for a device takes a tenth less of the processors' time (benchmarks/gpu.py).
    auto best = s.idle.end();
    for (auto it = s.idle.begin(); it != s.idle.end(); ++it) {
      const bool fits = it->size() >= bytes && (it->size() / 2 <= rounded || it->size() <= kOwnMapping);
      if (fits && (best == s.idle.end() || it->size() <= best->size())) best = it;
    }
    if (best != s.idle.end()) {
      Buffer found = s.remove(best);
      found.count_as(purpose);
      s.add(found.size());
      return leased(std::move(found));
    }
    s.make_room(rounded, freed);
    if (s.used + s.idle_bytes + rounded > s.limit) rounded = static_cast<size_t>(*exact);  // without the extra
    if (s.used + s.idle_bytes + rounded > s.limit) throw PoolFull(s.used + rounded);
    s.add(rounded);  // a promise, so that others do not take the room
  }
  for (Buffer& buffer : freed) s.forget(buffer);
  freed.clear();
  try {
    Buffer fresh(rounded, purpose);
    // The system may refuse to lock more: such a buffer is slower to copy to a device, and otherwise as good.
    if (s.page_lock && s.page_lock.lock(fresh.data(), fresh.size())) fresh.set_page_locked();
    return leased(std::move(fresh));
  } catch (...) {
    std::lock_guard lock(s.mutex);
    s.used -= rounded;
    throw;
  }
}

void BufferPool::write_off(const std::shared_ptr<Buffer>& buffer) {
  Return* owner = buffer ? std::get_deleter<Return>(buffer) : nullptr;
  if (owner == nullptr || !owner->counts || !owner->state->is_ours()) return;
  std::lock_guard lock(owner->state->mutex);
  owner->state->used -= buffer->size();
  owner->counts = false;
  owner->state->less_used.notify_all();
}

uint64_t BufferPool::roomy_bytes(uint64_t bytes, Purpose purpose) {
  return bytes > SIZE_MAX / 2 ? bytes : buffer_size(with_extra(static_cast<size_t>(bytes)), purpose).value_or(bytes);
}

bool BufferPool::wait_for_room(uint64_t bytes, int milliseconds) const {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  return s.less_used.wait_for(lock, std::chrono::milliseconds(milliseconds),
                              [&] { return s.used <= s.limit && bytes <= s.limit - s.used; });
}

void BufferPool::set_limit(uint64_t limit) {
  std::vector<Buffer> freed;
  {
    std::lock_guard lock(state_->mutex);
    state_->limit = limit;
    state_->make_room(0, freed);
    state_->less_used.notify_all();
  }
  for (Buffer& buffer : freed) state_->forget(buffer);
}

uint64_t BufferPool::limit() const {
  std::lock_guard lock(state_->mutex);
  return state_->limit;
}

uint64_t BufferPool::used_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->used;
}

uint64_t BufferPool::peak_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->peak;
}

void BufferPool::reset_peak() {
  std::lock_guard lock(state_->mutex);
  state_->peak = state_->used;
}

uint64_t BufferPool::idle_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->idle_bytes;
}

void BufferPool::clear() {
  std::vector<Buffer> freed;
  {
    std::lock_guard lock(state_->mutex);
    freed.swap(state_->idle);
    state_->idle_bytes = 0;
  }
  for (Buffer& buffer : freed) state_->forget(buffer);
}

namespace {

thread_local BufferPool* t_pool = nullptr;

}  // namespace

BufferPool& BufferPool::of_process() {
  return per_process([] { return new BufferPool(kNoLimit, kMostIdle); });
}

BufferPool& BufferPool::current() { return t_pool != nullptr ? *t_pool : of_process(); }

BufferPool::Use::Use(BufferPool& pool) : before_(t_pool) { t_pool = &pool; }
BufferPool::Use::~Use() { t_pool = before_; }

}  // namespace gz
