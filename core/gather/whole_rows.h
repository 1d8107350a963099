// whole_rows: a copy of a whole matrix in memory, read once, in the order of the file.
#pragma once

#include <memory>

#include "base/memory.h"
#include "base/progress.h"
#include "gather/row_reader.h"

namespace gz {

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
  const std::byte* first_ = nullptr;  // row 0
};

}  // namespace gz
