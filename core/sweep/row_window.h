// row_window: memory for rows of one matrix, kept from one sweep to the next with its statistics.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "gather/row_reader.h"
#include "storage/features.h"
#include "sweep/held_rows.h"

namespace gz {

class RowWindow {
 public:
  // Rows of more than 64 KiB, and files of 2^32 rows, are read batch by batch.
  static bool supports(const Matrix& matrix);
  static uint64_t row_cost(const Matrix& matrix);     // memory per row, including its table entries
  static uint64_t least_bytes(const Matrix& matrix);  // the minimum for a window

  // Allocates the memory. Throws BudgetError if not even a few rows fit.
  RowWindow(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes);

  const std::shared_ptr<const FeatureFile>& file() const { return file_; }
  const Matrix& matrix() const { return matrix_; }
  HeldRows& rows() { return rows_; }  // used by the sweep; any thread may read the rows of a complete claim

  WindowStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void set_stats(const WindowStats& stats) {
    std::lock_guard lock(mutex_);
    stats_ = stats;
  }

 private:
  const std::shared_ptr<const FeatureFile> file_;
  const Matrix matrix_;
  HeldRows rows_;
  mutable std::mutex mutex_;
  WindowStats stats_;  // guarded by mutex_
};

}  // namespace gz
