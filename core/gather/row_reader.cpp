// row_reader: defaults for readers that take no requests.
#include "gather/row_reader.h"

#include <utility>

namespace gz {

std::shared_ptr<RowRequest> RowReader::prepare(uint64_t, std::span<const int64_t>) { return nullptr; }
void RowReader::submit(std::shared_ptr<RowRequest>) {}
bool RowReader::ready(const RowRequest*) const { return true; }
void RowReader::cancel() {}
void RowReader::stop() {}
uint64_t RowReader::batches() const { return 0; }
std::optional<WindowStats> RowReader::stats() const { return std::nullopt; }

FileRows::FileRows(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, bool past_page_cache)
    : file_(std::move(file)), matrix_(matrix), past_page_cache_(past_page_cache) {}

void FileRows::copy(RowRequest*, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                    GatherStats* stats, Progress* progress) {
  GatherOptions how = options;
  how.past_page_cache = past_page_cache_ && options.io == Io::kAuto;
  gather(*file_, matrix_, ids, out, how, stats, progress);
}

}  // namespace gz
