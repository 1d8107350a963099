// mapped_blocks: blocks as views of the mapping.
#include <mutex>

#include "analytics/block_source.h"
#include "storage/page_requests.h"
#include "storage/residency.h"
#include "storage/topology.h"

namespace gz {
namespace {

class MappedBlocks : public BlockSource {
 public:
  explicit MappedBlocks(const RowArrays& arrays)
      : arrays_(arrays),
        indptr_(reinterpret_cast<const uint64_t*>(arrays.file->bytes_of(*arrays.indptr).data())),
        indices_(arrays.file->bytes_of(*arrays.indices).data()),
        weights_(arrays.weights != nullptr ? arrays.file->bytes_of(*arrays.weights).data() : nullptr) {}

  void start() override {
    const ArrayInfo& ids = *arrays_.indices;
    const auto cached = cached_bytes(*arrays_.file, ids.offset, ids.bytes);
    cold_ = !cached || *cached < ids.bytes;
    row_ = number_ = 0;
    stopped_ = false;
  }

  bool next(RawBlock& block) override {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || row_ >= arrays_.rows) return false;
      const uint64_t left = std::min(kChunkRows - row_ % kChunkRows, arrays_.rows - row_);
      block.number = number_++;
      block.first_row = row_;
      row_ += rows_of_block(indptr_ + row_, left, arrays_.most_edges());
      block.end_row = row_;
    }
    block.indptr = indptr_ + block.first_row;
    block.begin = block.indptr[0];
    block.end = indptr_[block.end_row];
    if (block.begin > block.end || block.end > arrays_.edges) {
      fail_row(*arrays_.file, block.first_row, block.begin, block.end);
    }
    block.indices = indices_ + block.begin * arrays_.id_bytes;
    block.weights = weights_ != nullptr ? weights_ + block.begin * sizeof(float) : nullptr;
    if (cold_ && block.begin < block.end) {
      const PagePrefetcher prefetcher(*arrays_.file, 1);
      prefetcher.request_whole(block.indices, (block.end - block.begin) * arrays_.id_bytes);
      if (weights_ != nullptr) prefetcher.request_whole(block.weights, (block.end - block.begin) * sizeof(float));
    }
    return true;
  }

  void release(const RawBlock&) override {}

  void stop() noexcept override {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }

 private:
  const RowArrays arrays_;
  const uint64_t* const indptr_;
  const std::byte* const indices_;
  const std::byte* const weights_;
  bool cold_ = false;  // set before a pass
  std::mutex mutex_;
  uint64_t row_ = 0, number_ = 0;  // guarded by mutex_
  bool stopped_ = false;           // guarded by mutex_
};

}  // namespace

std::unique_ptr<BlockSource> mapped_blocks(const RowArrays& arrays) { return std::make_unique<MappedBlocks>(arrays); }

}  // namespace gz
