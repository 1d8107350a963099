// read_buffers: a reader's arena divided into buffers of two sizes: most reads are a page or two, those of dense
// batches long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gz {

// The memory that reads go to, by number: 0 to count() - 1. Used by one thread.
class ReadBuffers {
 public:
  struct Taken {
    uint32_t index;
    std::byte* data;
  };
  virtual ~ReadBuffers() = default;
  virtual size_t count() const = 0;
  virtual size_t most_bytes() const = 0;  // the longest read
  virtual std::optional<Taken> take(size_t bytes) = 0;
  virtual void give_back(uint32_t index) = 0;
};

class FixedBuffers : public ReadBuffers {
 public:
  static constexpr size_t kSmall = size_t{16} << 10, kLarge = size_t{256} << 10;

  FixedBuffers(std::span<std::byte> arena, size_t depth) : arena_(arena), small_(depth > 1 ? depth : 0) {
    const size_t rest = arena.size() - small_ * kSmall;
    large_bytes_ = std::min(kLarge, rest);
    const size_t large = large_bytes_ < kSmall ? 0 : rest / large_bytes_;
    for (size_t i = small_ + large; i > small_; --i) free_large_.push_back(static_cast<uint32_t>(i - 1));
    for (size_t i = small_; i > 0; --i) free_small_.push_back(static_cast<uint32_t>(i - 1));
    count_ = small_ + large;
  }

  size_t count() const override { return count_; }
  size_t most_bytes() const override { return count_ > small_ ? large_bytes_ : kSmall; }

  std::optional<Taken> take(size_t bytes) override {
    auto& free = bytes <= kSmall && !free_small_.empty() ? free_small_ : free_large_;
    if (free.empty()) return std::nullopt;
    const uint32_t index = free.back();
    free.pop_back();
    return Taken{index, data_of(index)};
  }
  void give_back(uint32_t index) override { (index < small_ ? free_small_ : free_large_).push_back(index); }

 private:
  std::byte* data_of(uint32_t index) const {
    if (index < small_) return arena_.data() + index * kSmall;
    return arena_.data() + small_ * kSmall + (index - small_) * large_bytes_;
  }

  std::span<std::byte> arena_;
  size_t small_, count_ = 0, large_bytes_ = 0;
  std::vector<uint32_t> free_small_, free_large_;  // the last given back is taken first: its lines are warm
};

}  // namespace gz
