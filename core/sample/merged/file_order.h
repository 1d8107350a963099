// file_order: what many batches read of one array, in the order of the file, a bounded part at a time.
//
// An item is one word: its place in the array above; its batch, and its number within the batch, below. One pass counts
// how many items each small stretch of the array has. Each further pass deals the items of as many stretches as there
// is room for into blocks, which the threads that take them sort while the reads of earlier blocks are in flight.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/threads.h"

namespace gz {

// Each: each(batch, emit) calls emit(place, number) for every item of the batch, the same every time; many batches at a
// time.
template <class Each>
class FileOrder {
 public:
  // `places` and `numbers` are above every place and every number. `progress` may be null.
  FileOrder(size_t batches, uint64_t places, uint64_t numbers, int threads, const Each& each,
            Progress* progress = nullptr)
      : batches_(batches),
        threads_(threads),
        each_(each),
        progress_(progress),
        number_bits_(static_cast<int>(std::bit_width(numbers))),
        low_bits_(number_bits_ + static_cast<int>(std::bit_width(batches))),
        shift_(std::max(0, static_cast<int>(std::bit_width(places)) - kDigit)),
        counts_(static_cast<size_t>(places >> shift_) + 1) {
    if (low_bits_ + shift_ > 64) {
      fail<ArgumentError>(batches, " batches of up to ", numbers, " rows are too many to sample together");
    }
    count();
  }

  // Goes on to the next part; false when there is none.
  bool next() {
    first_ = last_;
    while (first_ < counts_.size() && counts_[first_] == 0) ++first_;
    if (first_ == counts_.size()) return false;
    const uint64_t room = std::max<uint64_t>(kLeastRoom, total_ / kMostParts);
    const uint64_t widest = low_bits_ + shift_ == 64 ? 1 : uint64_t{1} << std::min(63, 64 - low_bits_ - shift_);
    uint64_t items = 0;
    borders_.assign(1, 0);
    for (last_ = first_; last_ < counts_.size() && last_ - first_ < widest; ++last_) {
      if (items > 0 && items + counts_[last_] > room) break;
      if (items - borders_.back() >= kBlock) borders_.push_back(items);
      items += counts_[last_];
    }
    if (items > borders_.back()) borders_.push_back(items);
    deal(items);
    return true;
  }

  size_t blocks() const { return borders_.size() - 1; }
  // The items of a block, in order. Different ones may be taken at the same time; again costs little.
  std::span<const uint64_t> take(size_t block) {
    uint64_t* words = words_->template as<uint64_t>();
    std::sort(words + borders_[block], words + borders_[block + 1]);
    return {words + borders_[block], words + borders_[block + 1]};
  }

  // All items of the part; those of blocks that were taken are in order.
  std::span<const uint64_t> items() const { return {words_->template as<uint64_t>(), borders_.back()}; }

  uint64_t place(uint64_t word) const { return (static_cast<uint64_t>(first_) << shift_) + (word >> low_bits_); }
  size_t batch(uint64_t word) const {
    return static_cast<size_t>((word & ((uint64_t{1} << low_bits_) - 1)) >> number_bits_);
  }
  size_t number(uint64_t word) const { return static_cast<size_t>(word & ((uint64_t{1} << number_bits_) - 1)); }

  uint64_t bytes() const { return (words_ ? words_->size() : 0) + 2 * counts_.size() * sizeof(uint64_t); }

 private:
  static constexpr int kDigit = 14;
  static constexpr uint64_t kBlock = 4096;                   // items of a block, at least
  static constexpr uint64_t kLeastRoom = uint64_t{1} << 21;  // items of a part: 16 MiB
  static constexpr uint64_t kMostParts = 8;                  // each is one more pass over all items

  void count() {
    std::vector<std::vector<uint64_t>> counts(static_cast<size_t>(threads_));
    parallel_for(batches_, 1, threads_, [&](size_t begin, size_t end, int worker) {
      auto& mine = counts[static_cast<size_t>(worker)];
      mine.resize(counts_.size());
      for (size_t b = begin; b < end; ++b) each_(b, [&](uint64_t place, size_t) { ++mine[place >> shift_]; });
      if (worker == 0 && progress_ != nullptr) progress_->report("sample", begin, batches_);
    });
    for (const auto& mine : counts) {
      for (size_t i = 0; i < mine.size(); ++i) counts_[i] += mine[i], total_ += mine[i];
    }
  }

  void deal(uint64_t items) {
    if (!words_ || words_->size() < items * sizeof(uint64_t)) {
      words_.reset();
      words_ = take_buffer(static_cast<size_t>(items) * sizeof(uint64_t), Purpose::kTables);
    }
    uint64_t* words = words_->template as<uint64_t>();
    const auto starts = std::make_unique<std::atomic<uint64_t>[]>(last_ - first_);
    uint64_t sum = 0;
    for (size_t i = first_; i < last_; ++i) starts[i - first_] = sum, sum += counts_[i];
    const uint64_t base = static_cast<uint64_t>(first_) << shift_;
    parallel_for(batches_, 1, threads_, [&](size_t begin, size_t end, int worker) {
      for (size_t b = begin; b < end; ++b) {
        each_(b, [&](uint64_t place, size_t number) {
          const size_t digit = static_cast<size_t>(place >> shift_) - first_;  // wraps around below the part
          if (digit >= last_ - first_) return;
          const uint64_t low = static_cast<uint64_t>(b) << number_bits_ | number;
          words[starts[digit].fetch_add(1, std::memory_order_relaxed)] = (place - base) << low_bits_ | low;
        });
      }
      if (worker == 0 && progress_ != nullptr) progress_->report("sample", begin, batches_);
    });
  }

  const size_t batches_;
  const int threads_;
  const Each& each_;
  Progress* const progress_;
  const int number_bits_, low_bits_, shift_;
  std::vector<uint64_t> counts_;  // items of each stretch of 2^shift_ places
  uint64_t total_ = 0;
  size_t first_ = 0, last_ = 0;  // stretches of the part
  std::vector<uint64_t> borders_;
  std::shared_ptr<Buffer> words_;
};

}  // namespace gz
