// row_window: computes how many rows fit a budget.
#include "sweep/row_window.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gz {
namespace {

constexpr uint64_t kMostRow = uint64_t{64} << 10;
constexpr uint64_t kLeastRows = 64;

// The rows that fit. Throws before allocating if they are too few.
uint64_t capacity_of(const FeatureFile& file, const Matrix& matrix, uint64_t budget) {
  const uint64_t least = RowWindow::least_bytes(matrix);
  if (!RowWindow::supports(matrix) || budget < least) {
    throw BudgetError(text(file.file().path(), ": a window over '", matrix.name, "' needs at least ", least,
                           " bytes, the budget is ", budget),
                      least);
  }
  const uint64_t bitmap = HeldRows::bitmap_bytes(matrix.rows, budget);
  return std::min({(budget - bitmap) / HeldRows::row_cost(matrix.row_bytes), matrix.rows, uint64_t{UINT32_MAX} - 2});
}

}  // namespace

bool RowWindow::supports(const Matrix& matrix) {
  return matrix.row_bytes > 0 && matrix.row_bytes <= kMostRow && matrix.rows < UINT32_MAX;
}

uint64_t RowWindow::row_cost(const Matrix& matrix) { return HeldRows::row_cost(matrix.row_bytes); }

uint64_t RowWindow::least_bytes(const Matrix& matrix) {
  return std::max<uint64_t>(std::min(kLeastRows, matrix.rows), 1) * row_cost(matrix);
}

RowWindow::RowWindow(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes)
    : file_(std::move(file)),
      matrix_(matrix),
      rows_(capacity_of(*file_, matrix, budget_bytes), matrix.row_bytes,
            HeldRows::bitmap_bytes(matrix.rows, budget_bytes)) {
  stats_.budget_bytes = budget_bytes;
  stats_.capacity = rows_.capacity();
}

}  // namespace gz
