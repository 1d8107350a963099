// copy: the loops over rows, and the choice of a kernel.
#include "gather/copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/prefetch.h"
#include "gather/kernels.h"

namespace gz {
namespace {

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

RowCopier::RowCopier(const Matrix& matrix, DType out, bool streaming, Vectors vectors)
    : in_bytes_(matrix.row_bytes),
      out_bytes_(matrix.columns * dtype_bytes(out)),
      in_element_(dtype_bytes(matrix.dtype)),
      out_element_(dtype_bytes(out)),
      scale_(out == matrix.dtype || matrix.dtype != DType::kInt8 ? nullptr : matrix.scale),
      kernel_(row_kernel({matrix.dtype, out, vectors, streaming, scale_ != nullptr})),
      vectors_(vectors),
      lines_(streaming && out == matrix.dtype && vectors != Vectors::kPlain) {}

void RowCopier::gather(const std::byte* base, std::span<const int64_t> ids, std::byte* out, size_t first) const {
  if (in_bytes_ == 0) return;
  std::byte* to = out + first * out_bytes_;
  if (whole_lines()) {
    const auto kernel = on_a_line(to) ? lines_kernel<int64_t>(vectors_) : shifted_lines_kernel(vectors_);
    return kernel(base, ids, in_bytes_, to);
  }
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
  if (whole_lines() && on_a_line(out)) return lines_kernel<RowMove>(vectors_)(base, moves, in_bytes_, out);
  const auto where = [&](size_t i) { return base + moves[i].from * in_bytes_; };
  interleave(moves.size(), Distance::of(in_bytes_), where,
             [&](size_t i) { kernel_(where(i), in_bytes_, out + moves[i].to * out_bytes_, scale_); });
}

}  // namespace gz
