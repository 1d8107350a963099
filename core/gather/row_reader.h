// row_reader: how the rows of one part of a batch are read. A loader has one reader for each part.
//
// Three kinds: FileRows reads the rows of a batch on demand, from the mapping or by explicit reads; WholeRows
// copies them from memory; SweepReader (sweep/sweep_reader.h) takes requests long before, and reads the
// rows of many batches together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/memory.h"
#include "base/progress.h"
#include "gather/gather.h"
#include "storage/features.h"

namespace gz {

// A reader's request for the rows of one batch.
class RowRequest {
 public:
  virtual ~RowRequest() = default;
};

// The rows of one part of a batch that a device assembles: those in its cache first, then the missing ones, which the
// host copies or the device reads. A missing row goes to its place in the batch, and may go to a slot of the cache.
struct OnDevice {
  uint64_t rows = 0, misses = 0, admissions = 0;
  uint64_t sequence = 0;    // among all batches that the cache was planned for: the device assembles them in this order
  uint64_t generation = 0;  // of the cache, which is emptied and resized with each
  uint64_t slots = 0;       // of that generation; as many as the matrix has rows: it holds all of them
  bool is_whole = false;    // all rows are there, at their own numbers; there are no lists
  bool reads_host = false;  // the device reads missing rows by their ids; the host copies none

  // One after the other in `lists`: ids of missing rows; where those go, a slot of -1 if they are not kept; where
  // cached rows are and go, in any order.
  struct Target {
    int32_t place = 0, slot = 0;  // in the batch, and of the cache
  };
  std::span<const int64_t> missing() const { return {lists->as<int64_t>(), misses}; }
  std::span<const Target> targets() const { return {reinterpret_cast<Target*>(lists->as<int64_t>() + misses), misses}; }
  std::span<const Target> cached() const {
    return {reinterpret_cast<Target*>(lists->as<int64_t>() + 2 * misses), rows - misses};
  }
  std::shared_ptr<Buffer> lists;
  // With room for one more of the last, where collecting them writes past the end.
  static uint64_t list_bytes(uint64_t rows, uint64_t misses) {
    return misses * sizeof(int64_t) + (rows + 1) * sizeof(Target);
  }
};

// Statistics of a reader that holds rows for coming batches; counters start when its memory is allocated.
struct WindowStats {
  uint64_t budget_bytes = 0;
  uint64_t capacity = 0;     // rows that fit
  uint64_t held = 0;         // rows held by batches
  uint64_t target = 0;       // batches that are read together, as adapted so far
  uint64_t circles = 0;      // passes of the sweep over the file
  uint64_t stalls = 0;       // times that no slot was free, so that the first batch in line was read directly
  uint64_t rows_read = 0;    // by the sweep
  uint64_t rows_shared = 0;  // that were in RAM for another batch
  uint64_t rows_taken = 0;   // copied from another rank of this host
  uint64_t reads = 0, bytes_read = 0;
  double read_seconds = 0;  // the sweep waiting for the disk,
  double rank_seconds = 0;  // and for other ranks of this host
};

// Thread-safe. cancel() and stop() wait for threads that run callbacks: the caller must not hold a lock that the
// callbacks take.
class RowReader {
 public:
  virtual ~RowReader() = default;

  // A request for the rows that batch `number` will need, to be submitted in the order of numbers. Preparing takes time
  // (the rows are sorted) and memory of the thread's pool, and may be done in any order: hence two steps. Null if this
  // reader takes no requests. Throws IndexError, PoolFull.
  virtual std::shared_ptr<RowRequest> prepare(uint64_t /*number*/, std::span<const int64_t> /*ids*/) { return nullptr; }
  virtual void submit(std::shared_ptr<RowRequest> /*request*/) {}  // does not wait

  // Whether copy() can proceed without reading. True for null.
  virtual bool ready(const RowRequest* /*request*/) const { return true; }

  // The part of the work that a device does, if copy() is to copy only its misses, as they are stored; null otherwise.
  // May be called again if it throws PoolFull.
  virtual std::shared_ptr<OnDevice> on_device(RowRequest* /*request*/, std::span<const int64_t> /*ids*/) {
    return nullptr;
  }

  // Copies the rows of a request that is ready and ends it; for null, reads them. `ids` are those of the request. Row
  // ids[i] goes to out + i * gathered_row_bytes(). Throws the error of a failed read, or Cancelled after cancel().
  virtual void copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                    GatherStats* stats, Progress* progress) = 0;

  // Drops all requests except those that are being copied. Afterwards none is in flight, and numbers may be reused.
  virtual void cancel() {}
  // Stops its threads; only copy(nullptr, ...) may be called afterwards.
  virtual void stop() {}

  virtual bool is_on_device() const { return false; }  // all rows are: copy() copies none
  virtual uint64_t batches() const { return 0; }  // to submit ahead, since they are read together; 0: takes no requests
  virtual std::optional<WindowStats> stats() const { return std::nullopt; }
};

// Reads each batch separately.
class FileRows : public RowReader {
 public:
  // `past_page_cache` bypasses the page cache unless options.io forces a way of reading.
  FileRows(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, bool past_page_cache)
      : file_(std::move(file)), matrix_(matrix), past_page_cache_(past_page_cache) {}
  void copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
            GatherStats* stats, Progress* progress) override;

 private:
  const std::shared_ptr<const FeatureFile> file_;
  const Matrix matrix_;
  const bool past_page_cache_;
};

// Copies from a copy of the whole matrix in memory, read once, in the order of the file.
class WholeRows : public RowReader {
 public:
  // Reads all rows, bypassing the page cache where possible. Throws StorageError.
  WholeRows(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, Progress* progress);

  static uint64_t bytes_for(const Matrix& matrix);
  const Matrix& matrix() const { return matrix_; }

  void copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
            GatherStats* stats, Progress* progress) override;

 private:
  const std::shared_ptr<const FeatureFile> file_;
  const Matrix matrix_;
  Buffer rows_;
};

}  // namespace gz
