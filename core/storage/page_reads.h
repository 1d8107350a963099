// page_reads: one thread's explicit reads of a mounted file, in whole pages, as many in flight as its reader holds.
//
// Short reads are continued from where they ended; reads that the kernel asks to retry are retried; a read
// that fails or meets the end of the file is a StorageError that names what was read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "storage/mounted.h"
#include "storage/reader.h"

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

// Parts of a reader's arena, of two sizes: most reads are a page or two, those of dense batches long.
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

class PageReads {
 public:
  struct Read {
    uint64_t offset = 0;
    uint32_t bytes = 0;          // whole pages
    size_t first = 0, last = 0;  // the items it brings, as the caller numbers them
  };
  using Name = std::function<std::string(const Read&)>;  // what a read brings, for errors: "row 3 of 'x'"

  // `source` is what is read: file.direct(), or file.file() through the page cache. `buffers` are parts of the reader's
  // arena and may keep what was read for others; by default a read goes to any free part.
  PageReads(const MountedFile& file, const File& source, std::shared_ptr<Reader> reader, Name name,
            std::shared_ptr<ReadBuffers> buffers = nullptr);
  ~PageReads();  // waits for what is in flight: nothing may write to the arena afterwards
  PageReads(const PageReads&) = delete;
  PageReads& operator=(const PageReads&) = delete;

  size_t most_bytes() const { return buffers_->most_bytes(); }  // the longest read
  size_t in_flight() const { return reader_->in_flight(); }
  size_t depth() const { return reader_->depth(); }
  size_t arena_bytes() const { return reader_->arena().size(); }
  bool full() const { return reader_->in_flight() >= reader_->depth(); }

  // Queues a read of at most most_bytes(), while not full(). False where no buffer of that size is free: wait() first.
  bool start(const Read& read);

  // Waits until something comes back, and calls deliver(read, bytes) for each read that is now complete, up to some;
  // the bytes are gone when it returns. Something must be in flight.
  template <class Deliver>
  void wait(const Deliver& deliver) {
    wait(deliver, [](const Read&, const std::exception_ptr& error) { std::rethrow_exception(error); });
  }

  // The same for callers that go on after a read that fails: failed(read, error) is called for it.
  template <class Deliver, class Failed>
  void wait(const Deliver& deliver, const Failed& failed) {
    take(collect(), deliver, failed);
  }

  // The same without waiting. Whether more may have come back.
  template <class Deliver, class Failed>
  bool poll(const Deliver& deliver, const Failed& failed) {
    const size_t got = reader_->in_flight() > 0 ? reader_->poll(results_) : 0;
    take(got, deliver, failed);
    return got == results_.size();
  }

  uint64_t reads() const { return reads_; }
  uint64_t bytes_read() const { return bytes_read_; }
  double waited() const { return waited_; }  // seconds

 private:
  template <class Deliver, class Failed>
  void take(size_t got, const Deliver& deliver, const Failed& failed) {
    for (size_t i = 0; i < got; ++i) {
      const Pending& pending = pending_[results_[i].tag];
      std::exception_ptr error;
      try {
        if (!complete(results_[i])) continue;
      } catch (const Error&) {
        error = std::current_exception();
      }
      if (error) {
        failed(pending.read, error);
      } else {
        deliver(pending.read, static_cast<const std::byte*>(pending.to));
      }
      buffers_->give_back(results_[i].tag);
    }
  }

  struct Pending {
    Read read;
    std::byte* to = nullptr;
    uint32_t arrived = 0;  // bytes that earlier, short reads brought
    int tries = 0;
    bool direct = false;  // past the page cache
  };

  size_t collect();
  bool complete(const ReadResult& result);
  void queue(uint32_t buffer, const File& source);
  void retry_or_fail(const ReadResult& result);
  [[noreturn]] void fail_end(const Pending& pending, uint64_t arrived) const;

  const MountedFile& file_;
  const File* source_;  // file_.file() once direct reads were refused
  std::shared_ptr<Reader> reader_;
  const Name name_;
  const std::shared_ptr<ReadBuffers> buffers_;
  std::vector<Pending> pending_;  // by buffer
  std::vector<ReadResult> results_;
  uint64_t reads_ = 0, bytes_read_ = 0;
  double waited_ = 0;
};

}  // namespace gz
