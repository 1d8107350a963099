// memory: buffers that the engine accounts for. Whatever can grow is a Buffer, so memory_report() can say what each
// purpose holds, and a budget can be checked against the truth.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>

namespace gz {

enum class Purpose : int { kCompile, kCache, kReads, kBatches, kTables };  // kReads: rings and their buffers
constexpr int kPurposes = 5;
const char* purpose_name(Purpose purpose);

// Bytes that live Buffers hold now, and the most they ever held together.
uint64_t bytes_held(Purpose purpose);
uint64_t bytes_held();
uint64_t bytes_held_peak();
void reset_bytes_held_peak();

// Makes the system allocate and clear the pages of unused memory, so that the first use does not wait for
// it. `memory` starts at a page. What is written there already stays as it is.
void populate(std::span<std::byte> memory) noexcept;

// Uninitialised, 4 KiB-aligned memory with an owner. Large ones ask for huge pages: a gathered batch is a fresh 200 MB,
// and 4 KiB faults would cost as much as the gather (benchmarks/gather).
class Buffer {
 public:
  Buffer() = default;
  // Memory that is filled little by little may ask for small pages: a huge page is cleared as a whole when it is first
  // touched, which takes milliseconds where a virtual machine gets its memory at that moment.
  enum class Pages { kHuge, kSmall };
  Buffer(size_t bytes, Purpose purpose, Pages pages = Pages::kHuge);                // throws std::bad_alloc
  static Buffer zeroed(size_t bytes, Purpose purpose, Pages pages = Pages::kHuge);  // without touching what is zero
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  void count_as(Purpose purpose);  // from now on
  bool page_locked() const { return page_locked_; }
  void set_page_locked() { page_locked_ = true; }  // a pool's mark, so that it unlocks what it locked
  explicit operator bool() const { return data_ != nullptr; }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  std::span<T> span_of() const {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(purpose_, other.purpose_);
    std::swap(page_locked_, other.page_locked_);
  }

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Purpose purpose_ = Purpose::kBatches;
  bool page_locked_ = false;
};

// A pool could not hand out a buffer within its limit: `needed` is what it would have to hold. The owner of
// the pool decides whether to wait, to make room, or to raise an error.
struct PoolFull : std::exception {
  explicit PoolFull(uint64_t needed_) : needed(needed_) {}
  const char* what() const noexcept override { return "a pool of buffers is full"; }
  uint64_t needed;
};

// How buffers are made known to a device, so that it copies from them at full speed. Called when a buffer is made and
// before it is given back to the system; reuse calls neither.
struct PageLock {
  std::function<bool(void* data, size_t bytes)> lock;  // false: the buffer is used as it is
  std::function<void(void* data)> unlock;
  explicit operator bool() const { return lock != nullptr; }
};

// Buffers that come back when the last owner drops them, and are handed out again already faulted in. What is handed
// out and what is idle stay within a limit together: idle ones are freed first, then take() throws PoolFull.
// Thread-safe; buffers may outlive their pool.
class BufferPool {
 public:
  static constexpr uint64_t kNoLimit = UINT64_MAX;

  explicit BufferPool(uint64_t limit = kNoLimit, uint64_t most_idle = kNoLimit, PageLock page_lock = {});
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // A buffer of at least `bytes`, perhaps reused; contents are anything.
  std::shared_ptr<Buffer> take(size_t bytes, Purpose purpose = Purpose::kBatches);

  // The buffer no longer counts towards the limit: the user owns it now, and may keep it for any time.
  static void write_off(const std::shared_ptr<Buffer>& buffer);

  // What a buffer of so many bytes takes when take() has to make it; more than requested.
  static uint64_t roomy_bytes(uint64_t bytes, Purpose purpose = Purpose::kBatches);

  // Waits briefly until so many bytes are free in addition to those in use; returns whether they are.
  bool wait_for_room(uint64_t bytes, int milliseconds) const;

  void set_limit(uint64_t limit);
  uint64_t limit() const;
  uint64_t used_bytes() const;  // handed out and not written off
  uint64_t peak_bytes() const;  // the most that was handed out at once since reset_peak()
  void reset_peak();
  uint64_t idle_bytes() const;
  void clear();  // frees what is idle

  // The pool that take_buffer() takes from in this thread: the innermost Use's, or the process's own, which hands out
  // without a limit and keeps a little that is idle.
  static BufferPool& current();
  static BufferPool& of_process();
  class Use {
   public:
    explicit Use(BufferPool& pool);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    BufferPool* const before_;
  };

 private:
  struct State;
  struct Return;
  std::shared_ptr<State> state_;
};

inline std::shared_ptr<Buffer> take_buffer(size_t bytes, Purpose purpose = Purpose::kBatches) {
  return BufferPool::current().take(bytes, purpose);
}

}  // namespace gz
