// memory: buffers that the engine accounts for. Whatever can grow is a Buffer, so memory_report() can say what each
// purpose holds, and a budget can be checked against the truth.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
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

// Uninitialised, 4 KiB-aligned memory with an owner. Large ones ask for huge pages: a gathered batch is a fresh 200 MB,
// and 4 KiB faults would cost as much as the gather (benchmarks/gather).
class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t bytes, Purpose purpose);  // throws std::bad_alloc
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
  }

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Purpose purpose_ = Purpose::kBatches;
};

// Result buffers come back here when Python drops the array, and are handed out again already faulted in. Thread-safe.
class BufferPool {
 public:
  // A buffer of at least `bytes`, perhaps reused; contents are anything.
  static std::shared_ptr<Buffer> take(size_t bytes, Purpose purpose = Purpose::kBatches);
  static uint64_t idle_bytes();
  static void clear();

  // While one lives, the pool may hold this much more that nobody uses. A loader takes one for the batches it has in
  // flight: a buffer that was in use and is idle now is no more memory than before, and a fresh one costs its faults.
  class Allowance {
   public:
    explicit Allowance(uint64_t bytes);
    ~Allowance();
    Allowance(const Allowance&) = delete;
    Allowance& operator=(const Allowance&) = delete;

   private:
    const uint64_t bytes_;
    const void* const shelf_;  // the one that was told
  };
};

}  // namespace gz
