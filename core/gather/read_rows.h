// read_rows: explicit reads of rows: sorted by page, each page once, nearby rows in one read, many reads in flight.
#pragma once

#include <functional>
#include <memory>

#include "base/progress.h"
#include "gather/copy.h"
#include "gather/gather.h"
#include "gather/sorted_rows.h"
#include "storage/reader.h"

namespace gz {

struct ReadJob {
  const MountedFile* file = nullptr;
  const Matrix* matrix = nullptr;
  const RowCopier* copier = nullptr;
  std::byte* out = nullptr;
  std::span<const RowMove> moves;  // where row i of the batch goes; empty: to row first + i
  size_t first = 0;
  const File* source = nullptr;  // what is read: file->direct(), or file->file() through the page cache
  std::function<std::shared_ptr<Reader>()> reader;  // one for each worker
  int workers = 1;
  bool spare_resident = false;  // rows whose pages are in RAM are copied from the mapping
  Progress* progress = nullptr;
};

// Throws StorageError for a read that fails or ends early, after all reads in flight have completed, so that the
// readers can be reused.
void read_rows(const ReadJob& job, SortedRows& rows, GatherStats& stats);

}  // namespace gz
