// read_rows: each worker takes blocks of the sorted rows, keeps its reader full, and copies rows as reads complete.
#include "gather/read_rows.h"

#include <atomic>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/threads.h"
#include "storage/page_reads.h"
#include "storage/residency.h"

namespace gz {
namespace {

constexpr uint64_t kGap = 2 * kPageBytes;  // unneeded bytes worth reading to save a request (benchmarks/gather)

// What the workers of one job share.
struct Shared {
  std::atomic<size_t> next{0};    // first block that is not taken
  std::atomic<size_t> done{0};    // rows delivered
  std::atomic<bool> stop{false};  // a worker failed, or the caller cancelled
  std::mutex mutex;
  GatherStats stats;  // guarded by mutex
};

// Reads rows [first, last) or parts of them.
using Read = PageReads::Read;

class Worker {
 public:
  Worker(const ReadJob& job, SortedRows& rows, Shared& shared, bool caller)
      : job_(job),
        rows_(rows),
        shared_(shared),
        caller_(caller),
        reads_(*job.file, *job.source, job.reader(), [this](const Read& read) {
          return text("row ", rows_.id(read.first), " of '", job_.matrix->name, "'");
        }) {}

  ~Worker() {
    stats_.reads += reads_.reads();
    stats_.bytes_read += reads_.bytes_read();
    stats_.read_seconds += reads_.waited();
    std::lock_guard lock(shared_.mutex);
    shared_.stats.add(stats_);
  }

  void run() {
    const auto start = Clock::now();
    while (!shared_.stop.load(std::memory_order_relaxed)) {
      fill();
      if (reads_.in_flight() == 0 && mapped_.empty()) break;
      if (reads_.in_flight() > 0) {
        reads_.wait([this](const Read& read, const std::byte* bytes) { deliver(read, bytes); });
      }
      copy_mapped();
      if (caller_ && job_.progress != nullptr) job_.progress->report("gather", shared_.done.load(), rows_.size());
    }
    finish_streaming();
    stats_.copy_seconds += seconds_since(start) - reads_.waited();
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
    while (!reads_.full()) {
      if (at_ == end_ && !take_block()) return;
      if (at_ == end_) continue;  // a block of rows that were all in RAM
      const Read read = next_read();
      if (!reads_.start(read)) return;
      advance(read);
    }
  }

  // The next block of rows without those in the mapping; false at the end.
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
    const uint64_t most = reads_.most_bytes();
    const uint64_t start = resume_ != 0 ? resume_ : offset_of(at_) & ~(kPageBytes - 1);
    uint64_t end = round_up(offset_of(at_) + row_bytes(), kPageBytes);
    size_t last = at_ + 1;
    if (end - start > most) {
      end = start + most;
    } else {
      for (; last < end_; ++last) {
        const uint64_t begins = offset_of(last) & ~(kPageBytes - 1);
        const uint64_t ends = round_up(offset_of(last) + row_bytes(), kPageBytes);
        if (begins < start) break;  // the same large row again: its beginning is not in this read
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

  void deliver(const Read& read, const std::byte* bytes) {
    const uint64_t end = read.offset + read.bytes;
    size_t finished = 0;
    for (size_t i = read.first; i < read.last; ++i) {
      const uint64_t begins = offset_of(i);
      const uint64_t from = std::max(begins, read.offset), to = std::min(begins + row_bytes(), end);
      job_.copier->piece(bytes + (from - read.offset), from - begins, to - from, job_.out, place_of(i));
      finished += to == begins + row_bytes() ? 1 : 0;
    }
    shared_.done.fetch_add(finished, std::memory_order_relaxed);
  }

  const ReadJob& job_;
  SortedRows& rows_;
  Shared& shared_;
  const bool caller_;  // the thread that may report progress
  PageReads reads_;
  size_t at_ = 0, end_ = 0;  // rows of the block that were not requested yet
  uint64_t resume_ = 0;      // where the remainder of row at_ begins, 0: at its start
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
