// copy: moves rows to their place in the batch, unchanged or converted.
//
// Every kernel produces the same bytes; the scalar ones are the reference for the others.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "gather/gather.h"
#include "storage/features.h"

namespace gz {

// How far ahead rows are prefetched, and how much of each.
struct Distance {
  size_t rows;
  uint64_t bytes;

  static Distance of(uint64_t row_bytes) {
    constexpr uint64_t kAhead = 8192;           // bytes in flight
    constexpr uint64_t kMostPrefetched = 1024;  // of one row; the hardware prefetcher handles longer runs
    const auto rows = static_cast<size_t>(std::clamp<uint64_t>(kAhead / row_bytes, 2, 64));
    return {rows, std::min(row_bytes, kMostPrefetched)};
  }
};

// Where a row comes from, and where row i of a list goes to.
inline uint64_t from_of(int64_t id) { return static_cast<uint64_t>(id); }
inline uint64_t from_of(const RowMove& move) { return move.from; }
inline uint64_t to_of(int64_t, size_t i) { return i; }
inline uint64_t to_of(const RowMove& move, size_t) { return move.to; }

// Bytes to the next multiple of `unit`, at most `bytes`: streaming stores need alignment. The cache lines at
// both ends of a row are shared with its neighbours and use ordinary stores.
inline size_t head_of(const std::byte* out, size_t unit, size_t bytes) {
  return std::min((unit - reinterpret_cast<uintptr_t>(out) % unit) % unit, bytes);
}

enum class Vectors { kPlain, kAvx2, kAvx512 };
Vectors best_vectors();  // the widest that this processor has

// Moves a run of `bytes` bytes of a row. `scale` is that of the run's first element, or null.
using RowKernel = void (*)(const std::byte* in, size_t bytes, std::byte* out, const float* scale);

struct KernelChoice {
  DType from = DType::kFloat32, to = DType::kFloat32;
  Vectors vectors = Vectors::kPlain;
  // Streaming stores, which bypass the caches: a batch larger than the caches would evict everything else and pay for
  // reading lines that it overwrites completely (benchmarks/gather).
  bool streaming = false;
  bool scaled = false;  // int8 with float scales
};
// Null if the conversion does not exist: `to` is `from`, or kFloat32.
RowKernel row_kernel(const KernelChoice& choice);

// Many rows at once, for rows that are whole, aligned cache lines: avoids a call per row, which takes a third of the
// time of a 512-byte row (benchmarks/gather). `Row` is int64_t (ids, to consecutive rows) or RowMove.
template <class Row>
using LinesKernel = void (*)(const std::byte* base, std::span<const Row> rows, uint64_t row_bytes, std::byte* out);
// Null if the processor has no streaming vector stores.
template <class Row>
LinesKernel<Row> lines_kernel(Vectors vectors);
// The same for consecutive rows to a destination that is not aligned.
LinesKernel<int64_t> shifted_lines_kernel(Vectors vectors);

// Many rows at once with streaming stores: avoids a call per row, which takes a tenth of the time of a row of 128 int8
// (423,000 random rows take 14.6 ms instead of 16.4 on an AMD EPYC). `out` must be aligned to 32 bytes, and `columns` a
// multiple of 8.
template <class Row>
using ConvertRows = void (*)(const std::byte* base, std::span<const Row> rows, size_t columns, std::byte* out,
                             const float* scale);

// Whether a batch of so many bytes is streamed: larger ones exceed the core's caches.
constexpr bool is_streamed(uint64_t bytes) { return bytes > uint64_t{1} << 20; }

// Moves rows of one matrix. Cheap to construct; immutable.
class RowCopier {
 public:
  RowCopier(const Matrix& matrix, DType out, bool streaming, Vectors vectors = best_vectors());

  // Row ids[i] at `base` to row first + i of `out`.
  void gather(const std::byte* base, std::span<const int64_t> ids, std::byte* out, size_t first) const;
  void gather(const std::byte* base, std::span<const RowMove> moves, std::byte* out) const;
  // The part of row `to` that starts `skip` bytes into the row on disk: for rows that arrive in pieces.
  void piece(const std::byte* in, uint64_t skip, size_t bytes, std::byte* out, uint64_t to) const {
    kernel_(in, bytes, out + to * out_bytes_ + skip / in_element_ * out_element_,
            scale_ == nullptr ? nullptr : scale_ + skip / in_element_);
  }

 private:
  template <class Row>
  ConvertRows<Row> convert_rows(const std::byte* out) const;
  bool whole_lines() const { return lines_ && in_bytes_ % 64 == 0; }
  static bool on_a_line(const std::byte* out) { return reinterpret_cast<uintptr_t>(out) % 64 == 0; }

  uint64_t in_bytes_, out_bytes_;
  uint32_t in_element_, out_element_;
  const float* scale_;
  KernelChoice choice_;
  RowKernel kernel_;
  bool lines_;  // stream without conversion
};

// Makes streaming stores of this thread visible to others; needed once before a batch is handed to another thread.
void finish_streaming();

}  // namespace gz
