// merged_blocks: blocks of a topology with deltas, cut like those of a file without, with the rows of all files.
#pragma once

#include <mutex>
#include <vector>

#include "analytics/block_source.h"
#include "base/memory.h"
#include "storage/merged_rows.h"
#include "storage/page_requests.h"

namespace gz {

// Rows are copied from the mapping, which costs a pass a few percent; pages that are not in RAM are requested ahead.
template <class Id>
class MergedBlocks : public BlockSource {
 public:
  MergedBlocks(const Csr<Id>& csr, const RowArrays& arrays) : csr_(csr), arrays_(arrays) {}

  void start() override {
    const ArrayInfo& ids = *arrays_.indices;
    const auto cached = cached_bytes(*arrays_.file, ids.offset, ids.bytes);
    cold_ = !cached || *cached < ids.bytes;
    row_ = number_ = 0;
    stopped_ = false;
    chunk_.reset();
  }

  bool next(RawBlock& block) override {
    Slot* slot = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || row_ >= arrays_.rows) return false;
      const uint64_t in_chunk = row_ % kChunkRows, left = std::min(kChunkRows - in_chunk, arrays_.rows - row_);
      if (in_chunk == 0) {
        chunk_ = std::make_shared<std::vector<uint64_t>>(left + 1);
        fill_starts(csr_, row_, row_ + left, chunk_->data());
      }
      block.number = number_++;
      block.first_row = row_;
      block.indptr = chunk_->data() + in_chunk;
      row_ += rows_of_block(block.indptr, left, arrays_.most_edges());
      block.end_row = row_;
      block.slot = take_slot();
      slot = &*slots_[block.slot];
      slot->chunk = chunk_;
    }
    fill(block, *slot);
    return true;
  }

  void release(const RawBlock& block) override {
    const std::lock_guard lock(mutex_);
    slots_[block.slot]->chunk.reset();
    free_.push_back(block.slot);
  }

  void stop() noexcept override {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }

 private:
  struct Slot {
    Buffer ids, weights;
    std::shared_ptr<std::vector<uint64_t>> chunk;
  };

  uint32_t take_slot() {
    if (free_.empty()) {
      slots_.push_back(std::make_unique<Slot>());
      return static_cast<uint32_t>(slots_.size() - 1);
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void fill(RawBlock& block, Slot& slot) const {
    block.begin = block.indptr[0];
    block.end = block.indptr[block.end_row - block.first_row];
    if (block.begin > block.end || block.end > arrays_.edges) {
      fail_row(*arrays_.file, block.first_row, block.begin, block.end);
    }
    if (cold_) ask_for(block);
    block.indices = copied(block, *arrays_.indices, slot.ids);
    block.weights = arrays_.weights != nullptr ? copied(block, *arrays_.weights, slot.weights) : nullptr;
  }

  const std::byte* copied(const RawBlock& block, const ArrayInfo& array, Buffer& buffer) const {
    const uint64_t width = dtype_bytes(array.dtype), edges = block.end - block.begin;
    if (buffer.size() < edges * width) {
      buffer = Buffer();
      buffer = Buffer(std::max(edges * width, kBlockBytes), Purpose::kTables, Buffer::Pages::kSmall);
    }
    copy_rows(csr_, arrays_.file->bytes_of(array).data(), width, block.first_row, block.end_row, edges, buffer.data());
    return buffer.data();
  }

  void ask_for(const RawBlock& block) const {
    PagePrefetcher pages(*arrays_.file, 1);
    const auto* weights = arrays_.weights != nullptr
                              ? reinterpret_cast<const float*>(arrays_.file->bytes_of(*arrays_.weights).data())
                              : nullptr;
    for (uint64_t node = block.first_row; node < block.end_row; ++node) {
      const auto row = csr_.row(node);
      if (row.begin == row.end) continue;
      pages.add(csr_.indices + row.begin, row.degree());
      if (weights != nullptr) pages.add(weights + row.begin, row.degree());
    }
    pages.request_added();
  }

  const Csr<Id>& csr_;
  const RowArrays arrays_;
  bool cold_ = false;  // set before a pass
  std::mutex mutex_;
  uint64_t row_ = 0, number_ = 0;                 // guarded by mutex_, like all that follows
  std::shared_ptr<std::vector<uint64_t>> chunk_;  // where the rows of the current chunk start
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<uint32_t> free_;
  bool stopped_ = false;
};

}  // namespace gz
