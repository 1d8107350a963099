// read_rows: each worker takes blocks of the sorted rows, keeps its reader full, and copies rows out as reads come
// back.
#include "gather/read_rows.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/threads.h"
#include "gather/slots.h"
#include "storage/residency.h"

namespace gz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kGap = 2 * kPageBytes;  // pages nobody asked for that are read to save a request (benchmarks/gather)
constexpr int kMostTries = 100;            // of a read that the kernel wants to be asked for again

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What the workers of one job share.
struct Shared {
  std::atomic<size_t> next{0};    // first block that nobody took
  std::atomic<size_t> done{0};    // rows delivered
  std::atomic<bool> stop{false};  // a worker failed, or the caller wants to stop
  std::mutex mutex;
  GatherStats stats;  // guarded by mutex
};

// A read in flight: bytes [offset, offset + bytes) of the file, which hold rows [first, last) or parts of them.
struct Read {
  uint64_t offset = 0;
  uint32_t bytes = 0;    // whole pages
  uint32_t arrived = 0;  // bytes that earlier, short reads brought
  size_t first = 0, last = 0;
  std::byte* to = nullptr;
  int tries = 0;
};

class Worker {
 public:
  Worker(const ReadJob& job, SortedRows& rows, Shared& shared, bool caller)
      : job_(job),
        rows_(rows),
        shared_(shared),
        caller_(caller),
        reader_(job.reader()),
        slots_(reader_->arena(), reader_->depth()),
        reads_(slots_.count()),
        results_(reader_->depth()) {}

  // Whatever happened, nothing may write to the arena after this.
  ~Worker() {
    try {
      while (reader_->in_flight() > 0) reader_->wait(results_);
    } catch (const Error&) {
      // The ring itself is broken: the pool does not take back a reader with reads in flight.
    }
    std::lock_guard lock(shared_.mutex);
    shared_.stats.add(stats_);
  }

  void run() {
    const auto start = Clock::now();
    while (!shared_.stop.load(std::memory_order_relaxed)) {
      fill();
      if (reader_->in_flight() == 0 && mapped_.empty()) break;
      const auto asked = Clock::now();
      const size_t got = reader_->in_flight() > 0 ? reader_->wait(results_) : 0;
      stats_.read_seconds += seconds_since(asked);
      copy_mapped();
      for (size_t i = 0; i < got; ++i) take(results_[i]);
      if (caller_ && job_.progress != nullptr) job_.progress->report("gather", shared_.done.load(), rows_.size());
    }
    finish_streaming();
    stats_.copy_seconds += seconds_since(start) - stats_.read_seconds;
  }

 private:
  uint64_t offset_of(size_t i) const { return job_.matrix->offset + rows_.id(i) * job_.matrix->row_bytes; }
  uint64_t place_of(size_t i) const {
    const size_t index = rows_.index(i);
    return job_.moves.empty() ? job_.first + index : job_.moves[index].to;
  }
  uint64_t row_bytes() const { return job_.matrix->row_bytes; }

  // Queues reads until the reader is full or there are no rows left.
  void fill() {
    while (reader_->in_flight() < reader_->depth()) {
      if (at_ == end_ && !take_block()) return;
      if (at_ == end_) continue;  // a block of rows that were all in RAM
      const Read read = next_read();
      const auto slot = slots_.take(read.bytes);
      if (!slot) return;
      advance(read);
      reads_[slot->index] = read;
      reads_[slot->index].to = slot->data;
      queue(slot->index);
    }
  }

  // The next block of rows, less those that the mapping has; false when there is none.
  bool take_block() {
    if (!mapped_.empty()) return false;  // copy those first
    const size_t block = shared_.next.fetch_add(1, std::memory_order_relaxed);
    if (block >= rows_.blocks()) return false;
    std::tie(at_, end_) = rows_.take(block);
    resume_ = 0;
    if (job_.spare_resident) split_resident();
    return true;
  }

  void split_resident() {
    resident_.assign(end_ - at_, false);
    mark_resident(
        job_.file->mapping(), end_ - at_, row_bytes(), [&](size_t i) { return offset_of(at_ + i); }, resident_);
    size_t kept = at_;
    for (size_t i = at_; i < end_; ++i) {
      if (resident_[i - at_]) {
        mapped_.push_back({rows_.id(i), place_of(i)});
      } else {
        rows_.overwrite(kept++, i);
      }
    }
    end_ = kept;
  }

  void copy_mapped() {
    if (mapped_.empty()) return;
    job_.copier->gather(job_.matrix->data, std::span<const RowMove>(mapped_), job_.out);
    stats_.rows_mapped += mapped_.size();
    shared_.done += mapped_.size();
    mapped_.clear();
  }

  // The pages of row at_ (from resume_ on, when a row larger than a slot is half read) and of the rows near it.
  Read next_read() const {
    const uint64_t most = slots_.most_bytes();
    const uint64_t start = resume_ != 0 ? resume_ : offset_of(at_) & ~(kPageBytes - 1);
    uint64_t end = round_up(offset_of(at_) + row_bytes(), kPageBytes);
    size_t last = at_ + 1;
    if (end - start > most) {
      end = start + most;
    } else {
      for (; last < end_; ++last) {
        const uint64_t begins = offset_of(last) & ~(kPageBytes - 1);
        const uint64_t ends = round_up(offset_of(last) + row_bytes(), kPageBytes);
        if (begins < start) break;  // the same large row once more: its beginning is not in this read
        if (begins > end + kGap || ends - start > most) break;
        end = std::max(end, ends);
      }
    }
    Read read;
    read.offset = start;
    read.bytes = static_cast<uint32_t>(end - start);
    read.first = at_;
    read.last = last;
    return read;
  }

  void advance(const Read& read) {
    const uint64_t end = read.offset + read.bytes;
    const bool whole = end >= offset_of(read.last - 1) + row_bytes();
    at_ = whole ? read.last : read.last - 1;
    resume_ = whole ? 0 : end;
  }

  void queue(uint32_t slot, const File* source = nullptr) {
    const Read& read = reads_[slot];
    reader_->queue(source == nullptr ? *job_.source : *source,
                   {read.to + read.arrived, read.bytes - read.arrived, read.offset + read.arrived, slot});
    ++stats_.reads;
  }

  void take(const ReadResult& result) {
    Read& read = reads_[result.tag];
    if (result.result < 0) {
      retry_or_fail(result);
      return;
    }
    stats_.bytes_read += static_cast<uint64_t>(result.result);
    const uint64_t arrived = read.arrived + static_cast<uint64_t>(result.result);
    // The last page of a file from before page boundaries is a short one.
    const uint64_t wanted = std::min<uint64_t>(read.bytes, job_.file->container().file_bytes - read.offset);
    if (arrived < wanted) {
      if (result.result == 0) fail_end(read, arrived);
      read.arrived = static_cast<uint32_t>(arrived);
      queue(result.tag, &job_.file->file());  // the rest may begin anywhere, which direct reads cannot
      return;
    }
    deliver(read);
    slots_.give_back(result.tag);
  }

  void retry_or_fail(const ReadResult& result) {
    Read& read = reads_[result.tag];
    const int code = -result.result;
    const bool again = code == EAGAIN || code == EINTR;
    const bool unaligned = code == EINVAL && job_.source != &job_.file->file();  // a stricter device than the probe saw
    if ((again || unaligned) && ++read.tries < kMostTries) {
      queue(result.tag, unaligned ? &job_.file->file() : nullptr);
      return;
    }
    fail_storage(job_.file->path(),
                 text("cannot read ", read.bytes, " bytes at byte ", read.offset, " (row ", rows_.id(read.first),
                      " of '", job_.matrix->name, "') of"),
                 code);
  }

  [[noreturn]] void fail_end(const Read& read, uint64_t arrived) const {
    throw StorageError(
        text(job_.file->path(), ": the file ends at byte ", read.offset + arrived, ", inside row ",
             rows_.id(read.first), " of '", job_.matrix->name, "': it was ", job_.file->container().file_bytes,
             " bytes when it was opened. Restore the file and open it again"),
        EIO, job_.file->path());
  }

  void deliver(const Read& read) {
    const uint64_t end = read.offset + read.bytes;
    size_t finished = 0;
    for (size_t i = read.first; i < read.last; ++i) {
      const uint64_t begins = offset_of(i);
      const uint64_t from = std::max(begins, read.offset), to = std::min(begins + row_bytes(), end);
      job_.copier->piece(read.to + (from - read.offset), from - begins, to - from, job_.out, place_of(i));
      finished += to == begins + row_bytes() ? 1 : 0;
    }
    shared_.done.fetch_add(finished, std::memory_order_relaxed);
  }

  const ReadJob& job_;
  SortedRows& rows_;
  Shared& shared_;
  const bool caller_;  // the thread that may report progress
  std::shared_ptr<Reader> reader_;
  Slots slots_;
  std::vector<Read> reads_;  // by slot
  std::vector<ReadResult> results_;
  size_t at_ = 0, end_ = 0;  // rows of the block that are not yet asked for
  uint64_t resume_ = 0;      // where the rest of row at_ begins, 0 for its beginning
  std::vector<RowMove> mapped_;
  std::vector<bool> resident_;
  GatherStats stats_;
};

}  // namespace

void read_rows(const ReadJob& job, SortedRows& rows, GatherStats& stats) {
  Shared shared;
  const auto workers = static_cast<size_t>(std::max(job.workers, 1));
  parallel_for(workers, 1, job.workers, [&](size_t, size_t, int worker) {
    if (shared.next.load(std::memory_order_relaxed) >= rows.blocks()) return;
    try {
      Worker(job, rows, shared, worker == 0).run();
    } catch (...) {
      shared.stop = true;
      throw;
    }
  });
  stats.add(shared.stats);
  if (job.progress != nullptr) job.progress->report("gather", rows.size(), rows.size());
}

}  // namespace gz
