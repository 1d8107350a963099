// read_rows: explicit reads of rows: sorted by page, each page once, nearby rows in one read, many reads in flight.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/progress.h"
#include "gather/copy.h"
#include "gather/gather.h"
#include "storage/reader.h"

namespace gz {

// The rows of a batch in disk order. Each row is one word: its id in the upper bits, its index in the batch in the
// lower. One pass distributes the words to blocks, each a range of ids; a block is sorted by the worker that takes it,
// while the reads of the blocks before it are in flight.
class SortedRows {
 public:
  // Larger batches are processed in parts of at most this many rows.
  static size_t most_rows(uint64_t matrix_rows) { return size_t{1} << index_bits(matrix_rows); }

  // `id(i)` is the i-th row's id, below matrix_rows.
  template <class Id>
  SortedRows(size_t count, uint64_t matrix_rows, const Id& id)
      : index_bits_(index_bits(matrix_rows)), words_(count * sizeof(uint64_t), Purpose::kReads), count_(count) {
    uint64_t* words = words_.as<uint64_t>();
    uint64_t least = UINT64_MAX, most = 0;
    ascending_ = true;
    for (size_t i = 0; i < count; ++i) {
      words[i] = (static_cast<uint64_t>(id(i)) << index_bits_) | i;
      ascending_ = ascending_ && (i == 0 || words[i - 1] <= words[i]);
      least = std::min(least, words[i]);
      most = std::max(most, words[i]);
    }
    if (ascending_ || count <= kBlockRows) {
      for (size_t at = 0; at < count; at += kBlockRows) borders_.push_back(at);
      borders_.push_back(count);
    } else {
      deal(least >> index_bits_, most >> index_bits_);
    }
  }

  size_t size() const { return count_; }
  size_t blocks() const { return borders_.size() - 1; }

  // Rows [begin, end), in order from now on. Blocks ascend too; different ones may be taken at the same time.
  std::pair<size_t, size_t> take(size_t block) {
    uint64_t* words = words_.as<uint64_t>();
    if (!ascending_) std::sort(words + borders_[block], words + borders_[block + 1]);
    return {borders_[block], borders_[block + 1]};
  }

  uint64_t id(size_t i) const { return words_.as<uint64_t>()[i] >> index_bits_; }
  size_t index(size_t i) const {
    return static_cast<size_t>(words_.as<uint64_t>()[i] & ((uint64_t{1} << index_bits_) - 1));
  }
  // Overwrites row `to` with row `from`: for a worker that removes rows from its own block.
  void overwrite(size_t to, size_t from) { words_.as<uint64_t>()[to] = words_.as<uint64_t>()[from]; }

 private:
  static constexpr size_t kBlockRows = 2048;  // at least, if ids are spread: about 1 MiB of 512-byte rows
  static constexpr int kDigit = 11;

  // At most 22, 4 M rows: their words take 64 MiB while they are distributed.
  static int index_bits(uint64_t matrix_rows) {
    return std::min(22, 64 - static_cast<int>(std::bit_width(matrix_rows)));
  }

  // By the upper bits of the difference to the smallest id; small neighbouring ranges are joined to blocks.
  void deal(uint64_t least, uint64_t most) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - kDigit);
    Buffer dealt(count_ * sizeof(uint64_t), Purpose::kReads);
    const uint64_t* from = words_.as<uint64_t>();
    uint64_t* to = dealt.as<uint64_t>();
    const auto digit = [&](uint64_t word) { return ((word >> index_bits_) - least) >> shift; };
    std::array<size_t, size_t{1} << kDigit> starts{};
    for (size_t i = 0; i < count_; ++i) ++starts[digit(from[i])];
    size_t sum = 0;
    for (size_t& start : starts) {
      if (borders_.empty() || sum - borders_.back() >= kBlockRows) borders_.push_back(sum);
      sum += std::exchange(start, sum);
    }
    borders_.push_back(count_);
    for (size_t i = 0; i < count_; ++i) to[starts[digit(from[i])]++] = from[i];
    words_ = std::move(dealt);
  }

  int index_bits_;
  Buffer words_;
  size_t count_;
  bool ascending_ = false;
  std::vector<size_t> borders_;  // block b is [borders_[b], borders_[b + 1])
};

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
