// planned_reads: keeping the disk busy.
#include "sweep/planned_reads.h"

#include "base/error.h"

namespace gz {
namespace {

const File& source_of(const MountedFile& file) { return file.direct() != nullptr ? *file.direct() : file.file(); }

}  // namespace

PlannedReads::PlannedReads(const FeatureFile& file, const Matrix& matrix, std::shared_ptr<Reader> reader,
                           std::shared_ptr<ReadRoom> room, uint64_t segments)
    : started_(reader->depth()),
      by_segment_(segments, 0),
      reads_(
          file.file(), source_of(file.file()), std::move(reader),
          [this, name = matrix.name](const PageReads::Read& read) {
            return text("row ", started_[read.first].rows.front().row, " of '", name, "'");
          },
          std::move(room)) {
  for (size_t i = 0; i < started_.size(); ++i) free_.push_back(i);
}

void PlannedReads::start() {
  while (!planned_.empty() && !reads_.full()) {
    const size_t at = free_.back();
    if (!reads_.start({planned_.front().offset, planned_.front().bytes, at, at + 1})) return;
    free_.pop_back();
    started_[at] = std::move(planned_.front());
    planned_.pop_front();
  }
}

}  // namespace gz
