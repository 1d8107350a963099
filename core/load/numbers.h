// numbers: one whole number for each seed of a loader: the node ids, or the timestamps.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace gz {

// A range 0 to n - 1, which takes no memory, or an array of 32 or 64-bit integers that belongs to `owner` and is read
// in place. An array may be changed by its owner while epochs run, so each use checks the value again.
class Numbers {
 public:
  Numbers() = default;
  static Numbers range(uint64_t count) { return Numbers(nullptr, count, false, nullptr); }
  Numbers(const int64_t* data, uint64_t count, std::shared_ptr<void> owner)
      : Numbers(data, count, false, std::move(owner)) {}
  Numbers(const int32_t* data, uint64_t count, std::shared_ptr<void> owner)
      : Numbers(data, count, true, std::move(owner)) {}

  uint64_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool is_range() const { return data_ == nullptr; }

  int64_t at(uint64_t i) const {
    if (data_ == nullptr) return static_cast<int64_t>(i);
    return narrow_ ? static_cast<const int32_t*>(data_)[i] : static_cast<const int64_t*>(data_)[i];
  }

 private:
  Numbers(const void* data, uint64_t count, bool narrow, std::shared_ptr<void> owner)
      : data_(data), count_(count), narrow_(narrow), owner_(std::move(owner)) {}

  const void* data_ = nullptr;
  uint64_t count_ = 0;
  bool narrow_ = false;  // 32-bit
  std::shared_ptr<void> owner_;
};

}  // namespace gz
