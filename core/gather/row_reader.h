// row_reader: how the rows of one part of a batch are read. A loader has one reader for each part.
//
// Three kinds: FileRows reads the rows of a batch when they are asked for, from the mapping or by explicit reads;
// WholeRows (whole_rows.h) copies them from memory; SweepReader (sweep/sweep_reader.h) wants to know of them long
// before, and reads those of many batches together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "gather/gather.h"
#include "storage/features.h"

namespace gz {

// The rows of one batch, as its reader knows them.
class RowRequest {
 public:
  virtual ~RowRequest() = default;
};

// Figures of a reader that holds rows for coming batches; those that count do so from when its memory was taken.
struct WindowStats {
  uint64_t budget_bytes = 0;
  uint64_t capacity = 0;     // rows that there is room for
  uint64_t held = 0;         // rows that a batch waits for or has
  uint64_t target = 0;       // batches that are read together, as learned so far
  uint64_t circles = 0;      // times that the sweep went round the file
  uint64_t stalls = 0;       // times that no slot was left, so that the first batch in line was read by itself
  uint64_t rows_read = 0;    // that the sweep brought
  uint64_t rows_shared = 0;  // that were there for another batch
  uint64_t rows_taken = 0;   // that another rank of this host had read
  uint64_t reads = 0, bytes_read = 0;
  double read_seconds = 0;  // the sweep waiting for the disk,
  double rank_seconds = 0;  // and for other ranks of this host
};

// All may be called from any thread. cancel() and stop() wait for threads that call back: hold no lock that the
// callbacks take.
class RowReader {
 public:
  virtual ~RowReader() = default;

  // A request for the rows that batch `number` will need, to be submitted in the order of numbers. It takes time (the
  // rows are sorted) and memory, of the thread's pool, and may be done in any order: hence two steps. Null where this
  // reader need not know. Throws IndexError, PoolFull.
  virtual std::shared_ptr<RowRequest> prepare(uint64_t number, std::span<const int64_t> ids);
  virtual void submit(std::shared_ptr<RowRequest> request);  // does not wait

  // Whether copy() need not read any more. True for null.
  virtual bool ready(const RowRequest* request) const;

  // Copies the rows of a request that is ready and ends it; for null, reads them. `ids` are those of the request. Row
  // ids[i] goes to out + i * gathered_row_bytes(). Throws what made a read fail, or Cancelled after cancel().
  virtual void copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                    GatherStats* stats, Progress* progress) = 0;

  // Forgets all requests but those that are being copied. Afterwards none is in flight, and numbers may go back.
  virtual void cancel();
  // Ends its threads; only copy(nullptr, ...) may be called afterwards.
  virtual void stop();

  virtual uint64_t batches() const;  // that are read together: so many should be submitted ahead; 0: none
  virtual std::optional<WindowStats> stats() const;
};

// Reads each batch by itself.
class FileRows : public RowReader {
 public:
  // `past_page_cache` keeps the rows out of the page cache unless options.io forces a way of reading.
  FileRows(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, bool past_page_cache);
  void copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
            GatherStats* stats, Progress* progress) override;

 private:
  const std::shared_ptr<const FeatureFile> file_;
  const Matrix matrix_;
  const bool past_page_cache_;
};

}  // namespace gz
