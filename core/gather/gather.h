// gather: rows of a feature file -> one contiguous batch.
//
// Rows that are in RAM are copied from the mapping; rows that are not come through explicit, deep reads. Both give the
// same bytes. Called without the GIL, from any thread; a disk error is a StorageError, never a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/progress.h"
#include "storage/features.h"

namespace gz {

enum class Io {
  kAuto,   // the mapping for rows in RAM, reads for the others
  kMmap,   // the mapping for all: a page that is not in RAM is a fault, one at a time
  kUring,  // reads for all, by io_uring, past the page cache where the file system allows
  kPread,  // reads for all, by a pool of threads that call pread
};
Io io_from_name(std::string_view name);  // throws an ArgumentError that lists the names
const char* io_name(Io io);

struct GatherOptions {
  Io io = Io::kAuto;
  int threads = 0;                 // 0: one per processor
  std::optional<DType> out_dtype;  // nothing: as on disk; kFloat32 converts on the way
  // Reads bypass the page cache where the file system allows it, and the page cache is not searched: for callers that
  // cache rows themselves.
  bool past_page_cache = false;
};

struct GatherStats {
  uint64_t rows = 0;
  uint64_t rows_mapped = 0;   // copied from the mapping
  uint64_t rows_cached = 0;   // copied from a whole copy in RAM
  uint64_t bytes_useful = 0;  // rows times their size on disk
  uint64_t bytes_read = 0;    // by explicit reads, whole pages: bytes_read / bytes_useful is the amplification
  uint64_t reads = 0;
  double read_seconds = 0;  // waiting for reads, summed over threads
  double copy_seconds = 0;  // planning and copying, summed over threads

  void add(const GatherStats& other);
};

// The output dtype, and the bytes of one output row. Throws ArgumentError for a conversion that does not exist.
DType gathered_dtype(const Matrix& matrix, const GatherOptions& options);
uint64_t gathered_row_bytes(const Matrix& matrix, const GatherOptions& options);

// Throws IndexError for the first id that is negative or not below matrix.rows.
void check_row_ids(const FeatureFile& file, const Matrix& matrix, std::span<const int64_t> ids);

// Row ids[i] goes to out + i * gathered_row_bytes(). Ids are checked before any work and may repeat. `stats` is added
// to; `progress` may throw Cancelled. Throws IndexError, ArgumentError, StorageError.
void gather(const FeatureFile& file, const Matrix& matrix, std::span<const int64_t> ids, std::byte* out,
            const GatherOptions& options, GatherStats* stats = nullptr, Progress* progress = nullptr);

// One row to move: `from` counts rows at the source, `to` rows of the batch.
struct RowMove {
  uint64_t from, to;
};
// The same for any destination rows: row moves[i].from goes to row moves[i].to of `out`.
void gather(const FeatureFile& file, const Matrix& matrix, std::span<const RowMove> moves, std::byte* out,
            const GatherOptions& options, GatherStats* stats = nullptr, Progress* progress = nullptr);

}  // namespace gz
