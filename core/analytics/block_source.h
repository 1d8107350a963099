// block_source: the rows of one direction of a topology, cut into blocks, from the mapping or by direct reads.
//
// Blocks are whole rows: at most kChunkRows of them, with at most kBlockBytes of neighbour ids unless a single row has
// more. Cuts depend on the file only, so that a sum by block is the same for any number of threads and either way of
// reading.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "storage/mounted.h"

namespace gz {

// The arrays of one direction.
struct RowArrays {
  const MountedFile* file = nullptr;
  const ArrayInfo* indptr = nullptr;
  const ArrayInfo* indices = nullptr;
  const ArrayInfo* weights = nullptr;  // null: not needed
  uint64_t rows = 0, edges = 0;
  uint32_t id_bytes = 4;

  uint64_t bytes() const { return indptr->bytes + indices->bytes + (weights != nullptr ? weights->bytes : 0); }
  uint64_t most_edges() const;  // of a block that is not a single row
};

struct RawBlock {
  uint64_t number = 0;  // in file order
  uint64_t first_row = 0, end_row = 0, begin = 0, end = 0;
  const uint64_t* indptr = nullptr;    // of first_row
  const std::byte* indices = nullptr;  // at position `begin`
  const std::byte* weights = nullptr;  // the same, or null
  uint32_t slot = 0, chunk = 0;
};

// One pass at a time: start(), then next() and release() by any number of threads until next() returns false.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual void start() = 0;
  // Waits for the next block in file order; false at the end of the pass, or after stop(). Throws StorageError where a
  // read fails.
  virtual bool next(RawBlock& block) = 0;
  virtual void release(const RawBlock& block) = 0;
  virtual void stop() noexcept = 0;  // ends the pass early
};

std::unique_ptr<BlockSource> mapped_blocks(const RowArrays& arrays);
// By direct reads on a thread of its own, some blocks ahead. read_blocks_bytes() is the memory it takes.
std::unique_ptr<BlockSource> read_blocks(const RowArrays& arrays);
uint64_t read_blocks_bytes(const RowArrays& arrays);

constexpr uint64_t kChunkRows = uint64_t{1} << 16;  // row pointers that are read together
// Neighbour ids of a block: they stay in the second-level cache between the check of ids and their use.
constexpr uint64_t kBlockBytes = uint64_t{256} << 10;

inline uint64_t RowArrays::most_edges() const { return kBlockBytes / id_bytes; }

// The number of rows of the block that starts at a row, whose pointer is *indptr and with which `rows` are left.
inline uint64_t rows_of_block(const uint64_t* indptr, uint64_t rows, uint64_t most_edges) {
  const uint64_t* past = std::upper_bound(indptr + 1, indptr + rows + 1, *indptr + most_edges);
  return std::max<uint64_t>(static_cast<uint64_t>(past - indptr) - 1, 1);
}

}  // namespace gz
