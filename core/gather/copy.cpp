// copy: kernels that copy rows, with vector instructions if the processor has them, and the loops over rows.
#include "gather/copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/prefetch.h"
#include "gather/convert.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GZ_GATHER_X86 1
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace gz {
namespace {

void copy_plain(const std::byte* in, size_t bytes, std::byte* out, const float*) { std::memcpy(out, in, bytes); }

#ifdef GZ_GATHER_X86

constexpr size_t kLine = 64;  // bytes

__attribute__((target("avx2"))) inline void stream_line(const std::byte* from, std::byte* to) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), a);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to + 32), b);
}

__attribute__((target("avx2"))) void copy_streaming_avx2(const std::byte* in, size_t bytes, std::byte* out,
                                                         const float*) {
  size_t at = head_of(out, 64, bytes);
  std::memcpy(out, in, at);
  for (; at + kLine <= bytes; at += kLine) stream_line(in + at, out + at);
  std::memcpy(out + at, in + at, bytes - at);
}

__attribute__((target("avx512f"))) void copy_streaming_avx512(const std::byte* in, size_t bytes, std::byte* out,
                                                              const float*) {
  size_t at = head_of(out, 64, bytes);
  std::memcpy(out, in, at);
  for (; at + 64 <= bytes; at += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + at), _mm512_loadu_si512(in + at));
  }
  std::memcpy(out + at, in + at, bytes - at);
}

// Row i is about to be copied: prefetches the one that comes some distance after it.
template <class Row>
inline void prefetch_ahead(const std::byte* base, std::span<const Row> rows, size_t i, uint64_t row_bytes,
                           const Distance& distance) {
  if (i + distance.rows >= rows.size()) return;
  const std::byte* soon = base + from_of(rows[i + distance.rows]) * row_bytes;
  for (uint64_t q = 0; q < distance.bytes; q += kLine) prefetch_run(soon + q);
}

// The two differ only in the width of a store, but cannot be a template: the target attribute belongs to a function.
template <class Row>
__attribute__((target("avx512f"))) void lines_avx512(const std::byte* base, std::span<const Row> rows,
                                                     uint64_t row_bytes, std::byte* out) {
  const Distance distance = Distance::of(row_bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    prefetch_ahead(base, rows, i, row_bytes, distance);
    const std::byte* in = base + from_of(rows[i]) * row_bytes;
    std::byte* to = out + to_of(rows[i], i) * row_bytes;
    for (uint64_t q = 0; q < row_bytes; q += 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + q), _mm512_loadu_si512(in + q));
    }
  }
}

template <class Row>
__attribute__((target("avx2"))) void lines_avx2(const std::byte* base, std::span<const Row> rows, uint64_t row_bytes,
                                                std::byte* out) {
  const Distance distance = Distance::of(row_bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    prefetch_ahead(base, rows, i, row_bytes, distance);
    const std::byte* in = base + from_of(rows[i]) * row_bytes;
    std::byte* to = out + to_of(rows[i], i) * row_bytes;
    for (uint64_t q = 0; q < row_bytes; q += kLine) stream_line(in + q, to + q);
  }
}

// Consecutive rows of whole lines to an unaligned destination, such as a user's array: the output is still whole lines
// except at its two ends, with each row's first line shared with the previous row. Those are combined and streamed
// like the others: written in two halves, each would be read from memory first (benchmarks/gather).
struct alignas(kLine) Joint {
  std::byte bytes[3 * kLine];

  // The line that ends with the first `head` bytes of the next row.
  const std::byte* line() const { return bytes + kLine; }
  void end_with(const std::byte* last_line, size_t head) { std::memcpy(bytes + kLine - head, last_line, kLine); }
  void begin_next(const std::byte* first_line, size_t head) {
    std::memcpy(bytes + 2 * kLine - head, first_line, kLine);
  }
};

__attribute__((target("avx512f"))) void shifted_lines_avx512(const std::byte* base, std::span<const int64_t> rows,
                                                             uint64_t row_bytes, std::byte* out) {
  const Distance distance = Distance::of(row_bytes);
  const size_t head = head_of(out, kLine, kLine);
  Joint joint;
  for (size_t i = 0; i < rows.size(); ++i) {
    prefetch_ahead(base, rows, i, row_bytes, distance);
    const std::byte* in = base + from_of(rows[i]) * row_bytes;
    std::byte* to = out + i * row_bytes;
    if (i == 0) {
      std::memcpy(to, in, head);
    } else {
      joint.begin_next(in, head);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + head - kLine), _mm512_load_si512(joint.line()));
    }
    for (uint64_t q = head; q + kLine <= row_bytes; q += kLine) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + q), _mm512_loadu_si512(in + q));
    }
    joint.end_with(in + row_bytes - kLine, head);
  }
  if (!rows.empty()) std::memcpy(out + rows.size() * row_bytes + head - kLine, joint.line(), kLine - head);
}

__attribute__((target("avx2"))) void shifted_lines_avx2(const std::byte* base, std::span<const int64_t> rows,
                                                        uint64_t row_bytes, std::byte* out) {
  const Distance distance = Distance::of(row_bytes);
  const size_t head = head_of(out, kLine, kLine);
  Joint joint;
  for (size_t i = 0; i < rows.size(); ++i) {
    prefetch_ahead(base, rows, i, row_bytes, distance);
    const std::byte* in = base + from_of(rows[i]) * row_bytes;
    std::byte* to = out + i * row_bytes;
    if (i == 0) {
      std::memcpy(to, in, head);
    } else {
      joint.begin_next(in, head);
      stream_line(joint.line(), to + head - kLine);
    }
    for (uint64_t q = head; q + kLine <= row_bytes; q += kLine) stream_line(in + q, to + q);
    joint.end_with(in + row_bytes - kLine, head);
  }
  if (!rows.empty()) std::memcpy(out + rows.size() * row_bytes + head - kLine, joint.line(), kLine - head);
}

// Queried with cpuid: __builtin_cpu_supports needs a runtime that not every compiler links into a shared library.
Vectors supported() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0 || (c & bit_F16C) == 0) return Vectors::kPlain;
  unsigned saved = 0, high = 0;  // registers that the system saves for a thread: 6 for AVX, and e0 for AVX-512
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if ((saved & 0x6) != 0x6 || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b & bit_AVX2) == 0) {
    return Vectors::kPlain;
  }
  return (saved & 0xe0) == 0xe0 && (b & bit_AVX512F) != 0 ? Vectors::kAvx512 : Vectors::kAvx2;
}

#endif

RowKernel plain_copy([[maybe_unused]] const KernelChoice& choice) {
#ifdef GZ_GATHER_X86
  if (choice.streaming && choice.vectors == Vectors::kAvx512) return copy_streaming_avx512;
  if (choice.streaming && choice.vectors == Vectors::kAvx2) return copy_streaming_avx2;
#endif
  return copy_plain;
}

// `where(i)` is the address of row i, `move(i)` moves it; rows are prefetched some distance ahead.
template <class Where, class Move>
void interleave(size_t count, Distance distance, const Where& where, const Move& move) {
  const auto ask = [&](size_t i) {
    const std::byte* at = where(i);
    for (uint64_t q = 0; q < distance.bytes; q += 64) prefetch(at + q);
    prefetch(at + distance.bytes - 1);  // a row that starts inside a cache line ends in one more
  };
  const size_t ahead = std::min(distance.rows, count);
  for (size_t i = 0; i < ahead; ++i) ask(i);
  for (size_t i = 0; i + ahead < count; ++i) {
    ask(i + ahead);
    move(i);
  }
  for (size_t i = count - ahead; i < count; ++i) move(i);
}

}  // namespace

Vectors best_vectors() {
#ifdef GZ_GATHER_X86
  static const Vectors best = supported();
  return best;
#else
  return Vectors::kPlain;
#endif
}

RowKernel row_kernel(const KernelChoice& choice) {
  if (choice.from == choice.to) return plain_copy(choice);
  return choice.to == DType::kFloat32 ? conversion_kernel(choice) : nullptr;
}

template <class Row>
LinesKernel<Row> lines_kernel([[maybe_unused]] Vectors vectors) {
#ifdef GZ_GATHER_X86
  if (vectors == Vectors::kAvx512) return lines_avx512<Row>;
  if (vectors == Vectors::kAvx2) return lines_avx2<Row>;
#endif
  return nullptr;
}
template LinesKernel<int64_t> lines_kernel<int64_t>(Vectors vectors);
template LinesKernel<RowMove> lines_kernel<RowMove>(Vectors vectors);

LinesKernel<int64_t> shifted_lines_kernel([[maybe_unused]] Vectors vectors) {
#ifdef GZ_GATHER_X86
  if (vectors == Vectors::kAvx512) return shifted_lines_avx512;
  if (vectors == Vectors::kAvx2) return shifted_lines_avx2;
#endif
  return nullptr;
}

void finish_streaming() {
#ifdef GZ_GATHER_X86
  _mm_sfence();
#endif
}

RowCopier::RowCopier(const Matrix& matrix, DType out, bool streaming, Vectors vectors)
    : in_bytes_(matrix.row_bytes),
      out_bytes_(matrix.columns * dtype_bytes(out)),
      in_element_(dtype_bytes(matrix.dtype)),
      out_element_(dtype_bytes(out)),
      scale_(out == matrix.dtype || matrix.dtype != DType::kInt8 ? nullptr : matrix.scale),
      choice_{matrix.dtype, out, vectors, streaming, scale_ != nullptr},
      kernel_(row_kernel(choice_)),
      lines_(streaming && out == matrix.dtype && vectors != Vectors::kPlain) {}

// For many rows at once, where there is one for rows that go to `out`.
template <class Row>
ConvertRows<Row> RowCopier::convert_rows(const std::byte* out) const {
  constexpr uint64_t kAligned = 32;
  const bool is_aligned = out_bytes_ % kAligned == 0 && reinterpret_cast<uintptr_t>(out) % kAligned == 0;
  return is_aligned ? convert_rows_kernel<Row>(choice_) : nullptr;
}

void RowCopier::gather(const std::byte* base, std::span<const int64_t> ids, std::byte* out, size_t first) const {
  if (in_bytes_ == 0) return;
  std::byte* to = out + first * out_bytes_;
  if (whole_lines()) {
    const auto kernel = on_a_line(to) ? lines_kernel<int64_t>(choice_.vectors) : shifted_lines_kernel(choice_.vectors);
    return kernel(base, ids, in_bytes_, to);
  }
  if (const auto kernel = convert_rows<int64_t>(to)) return kernel(base, ids, in_bytes_ / in_element_, to, scale_);
  const auto where = [&](size_t i) { return base + static_cast<uint64_t>(ids[i]) * in_bytes_; };
  const auto run = [&](const auto& move) { interleave(ids.size(), Distance::of(in_bytes_), where, move); };
  if (in_bytes_ == 8 && out_bytes_ == 8) {  // labels and times: a call per row would cost more than the copy
    run([&](size_t i) { std::memcpy(to + i * 8, where(i), 8); });
  } else if (in_bytes_ == 4 && out_bytes_ == 4) {
    run([&](size_t i) { std::memcpy(to + i * 4, where(i), 4); });
  } else {
    run([&](size_t i) { kernel_(where(i), in_bytes_, to + i * out_bytes_, scale_); });
  }
}

void RowCopier::gather(const std::byte* base, std::span<const RowMove> moves, std::byte* out) const {
  if (in_bytes_ == 0) return;
  if (whole_lines() && on_a_line(out)) return lines_kernel<RowMove>(choice_.vectors)(base, moves, in_bytes_, out);
  if (const auto kernel = convert_rows<RowMove>(out)) return kernel(base, moves, in_bytes_ / in_element_, out, scale_);
  const auto where = [&](size_t i) { return base + moves[i].from * in_bytes_; };
  interleave(moves.size(), Distance::of(in_bytes_), where,
             [&](size_t i) { kernel_(where(i), in_bytes_, out + moves[i].to * out_bytes_, scale_); });
}

}  // namespace gz
