// ordered_reads: what many batches read of one array of a topology, in the order of the file: each page once, near ones
// in one request, many requests in flight.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/sort_words.h"
#include "base/text.h"
#include "base/threads.h"
#include "sample/merged/merged.h"
#include "storage/page_reads.h"

namespace gz {

// What many batches read of one array, in the order of the file, a bounded part at a time.
//
// An item is one word: its place in the array above; its batch, and its number within the batch, below. One pass counts
// how many items each small stretch of the array has. Each further pass deals the items of as many stretches as there
// is room for into blocks, which the threads that take them sort while the reads of earlier blocks are in flight.
//
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
    stretches_.assign(1, first_);
    for (last_ = first_; last_ < counts_.size() && last_ - first_ < widest; ++last_) {
      if (items > 0 && items + counts_[last_] > room) break;
      if (items - borders_.back() >= kBlock) {
        borders_.push_back(items);
        stretches_.push_back(last_);
      }
      items += counts_[last_];
    }
    if (items > borders_.back()) borders_.push_back(items);
    deal(items);
    return true;
  }

  size_t blocks() const { return borders_.size() - 1; }
  // The items of a block, in the order of their places. Different ones may be taken at the same time.
  std::span<const uint64_t> take(size_t block) {
    uint64_t* const words = words_->template as<uint64_t>();
    uint64_t* at = words + borders_[block];
    for (size_t stretch = stretches_[block]; at < words + borders_[block + 1]; at += counts_[stretch++]) {
      sort_by_bits(std::span(at, counts_[stretch]), low_bits_, shift_);
    }
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
  size_t first_ = 0, last_ = 0;    // stretches of the part
  std::vector<uint64_t> borders_;  // where blocks begin among the items of the part, and the end
  std::vector<size_t> stretches_;  // the first of each block
  std::shared_ptr<Buffer> words_;
};

// An array of the file.
struct ReadArray {
  std::string name;
  uint64_t offset = 0, width = 0, bytes = 0;  // where it begins, bytes of one value, bytes of all
};

// How arrays are read; the same for all of a call.
struct ReadWay {
  const MountedFile* file = nullptr;
  const File* source = nullptr;
  std::function<std::shared_ptr<Reader>()> reader;
  int workers = 1;
  uint64_t gap = 0;
  bool spare_resident = false;  // pages that are in RAM are taken from the mapping
  Progress* progress = nullptr;
};

// An item wants length(item) values from its place on, a page of them at most. deliver(item, values) gets them, many
// threads at a time. deliver.ask(item), where there is one, prefetches what that looks at first, and ask_more(item) the
// rest.
template <class Order, class Length, class Deliver>
class OrderedReads {
 public:
  OrderedReads(const ReadWay& way, const ReadArray& array, Order& order, const Length& length, const Deliver& deliver)
      : way_(way), array_(array), order_(order), length_(length), deliver_(deliver) {}

  // Throws StorageError for a read that fails, and what `deliver` and the progress throw, after what is in flight has
  // come back.
  void run(MergedStats& stats) {
    const auto workers = static_cast<size_t>(std::max(way_.workers, 1));
    parallel_for(workers, 1, way_.workers, [&](size_t, size_t, int worker) {
      if (next_.load(std::memory_order_relaxed) >= order_.blocks()) return;
      try {
        Worker(*this).run(worker == 0);
      } catch (...) {
        stop_ = true;
        throw;
      }
    });
    stats.reads += done_.reads;
    stats.bytes_read += done_.bytes_read;
    stats.read_seconds += done_.read_seconds;
  }

 private:
  using Read = PageReads::Read;

  class Worker {
   public:
    explicit Worker(OrderedReads& job)
        : job_(job), reads_(*job.way_.file, *job.way_.source, job.way_.reader(), [this](const Read& read) {
            return text("value ", job_.order_.place(items_of(read)[0]), " of '", job_.array_.name, "'");
          }) {}

    ~Worker() {
      std::lock_guard lock(job_.mutex_);
      job_.done_.reads += reads_.reads();
      job_.done_.bytes_read += reads_.bytes_read();
      job_.done_.read_seconds += reads_.waited();
    }

    void run(bool caller) {
      for (bool more = true; !job_.stop_.load(std::memory_order_relaxed);) {
        more = more && fill();
        if (reads_.in_flight() > 0) {
          reads_.wait([this](const Read& read, const std::byte* bytes) { deliver(read, bytes); });
        } else if (!more) {
          break;
        }
        if (caller && job_.way_.progress != nullptr) {
          job_.way_.progress->report("sample", job_.next_.load(std::memory_order_relaxed), job_.order_.blocks());
        }
      }
    }

   private:
    static constexpr int kMostMapped = 256;  // reads that are served from RAM before the disk is looked after
    static constexpr uint64_t kAsked = 256;  // pages whose residency is queried at once
    static constexpr size_t kAhead = 8;      // prefetch distance

    // Starts reads until the reader is full; false when there is nothing left to start.
    bool fill() {
      for (int mapped = 0; mapped < kMostMapped && !reads_.full();) {
        if (at_ == items_.size() && !take_block()) return false;
        const Read read = next_read();
        if (resident(read)) {
          deliver(read, job_.way_.file->mapping().bytes().data() + read.offset);
          ++mapped;
        } else if (!reads_.start(read)) {
          return true;
        }
        at_ = read.last - base_;
      }
      return true;
    }

    bool take_block() {
      const size_t block = job_.next_.fetch_add(1, std::memory_order_relaxed);
      if (block >= job_.order_.blocks()) return false;
      items_ = job_.order_.take(block);
      base_ = static_cast<size_t>(items_.data() - job_.order_.items().data());
      at_ = 0;
      return true;
    }

    uint64_t begin_of(uint64_t item) const { return job_.array_.offset + job_.order_.place(item) * job_.array_.width; }
    uint64_t page_of(uint64_t item) const { return begin_of(item) & ~(kPageBytes - 1); }
    uint64_t page_after(uint64_t item) const {
      return round_up(begin_of(item) + job_.length_(item) * job_.array_.width, kPageBytes);
    }

    // The pages of item at_ and of those near it.
    Read next_read() const {
      const uint64_t start = page_of(items_[at_]);
      uint64_t end = page_after(items_[at_]);
      size_t last = at_ + 1;
      for (; last < items_.size(); ++last) {
        if (page_of(items_[last]) > end + job_.way_.gap) break;
        const uint64_t longer = std::max(end, page_after(items_[last]));
        if (longer - start > reads_.most_bytes()) break;
        end = longer;
      }
      return {start, static_cast<uint32_t>(end - start), base_ + at_, base_ + last};
    }

    bool resident(const Read& read) {
      const uint64_t first = read.offset / kPageBytes, count = read.bytes / kPageBytes;
      if (!job_.way_.spare_resident || count > kAsked) return false;  // longer reads go to the disk
      if (first < first_asked_ || first + count > first_asked_ + kAsked) ask(first);
      const auto at = pages_.begin() + static_cast<ptrdiff_t>(first - first_asked_);
      return std::all_of(at, at + static_cast<ptrdiff_t>(count), [](unsigned char page) { return (page & 1) != 0; });
    }

    // Which pages from `first` on are in RAM: a call costs as much as about sixteen pages.
    void ask(uint64_t first) {
      const Mapping& mapping = job_.way_.file->mapping();
      const auto offset = static_cast<size_t>(first * kPageBytes);
      const size_t bytes = std::min<size_t>(kAsked * kPageBytes, mapping.bytes().size() - offset);
      first_asked_ = first;
      pages_.fill(0);
      if (!mapping.resident(offset, bytes, pages_.data())) pages_.fill(0);
    }

    std::span<const uint64_t> items_of(const Read& read) const {
      return job_.order_.items().subspan(read.first, read.last - read.first);
    }

    // Items of one read belong to many batches: their destinations are prefetched.
    void deliver(const Read& read, const std::byte* bytes) const {
      const auto items = items_of(read);
      for (size_t i = 0; i < items.size(); ++i) {
        if constexpr (requires { job_.deliver_.ask(items[i]); }) {
          if (i + 2 * kAhead < items.size()) job_.deliver_.ask(items[i + 2 * kAhead]);
          if (i + kAhead < items.size()) job_.deliver_.ask_more(items[i + kAhead]);
        }
        job_.deliver_(items[i], bytes + (begin_of(items[i]) - read.offset));
      }
    }

    OrderedReads& job_;
    PageReads reads_;
    std::span<const uint64_t> items_;             // of the current block
    size_t base_ = 0, at_ = 0;                    // where the block begins among all items, how far it was prefetched
    uint64_t first_asked_ = UINT64_MAX - kAsked;  // the page that pages_ begins with
    std::array<unsigned char, kAsked> pages_{};
  };

  const ReadWay& way_;
  const ReadArray& array_;
  Order& order_;
  const Length& length_;
  const Deliver& deliver_;
  std::atomic<size_t> next_{0};    // first block that is not taken
  std::atomic<bool> stop_{false};  // a worker failed, or the caller wants to stop
  std::mutex mutex_;
  MergedStats done_;  // guarded by mutex_
};

}  // namespace gz
