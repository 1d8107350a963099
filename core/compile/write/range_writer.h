// range_writer: writes parts of the arrays of a container that another process creates and publishes.
//
// Several processes, on several hosts, write one file: each its own ranges of bytes. A range is written in whole pages;
// the bytes of pages at its ends, which are shared with a neighbour, are returned, so that no page has two writers.
// Writing is idempotent: the work of a writer that died can be repeated at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/threads.h"
#include "compile/write/container_writer.h"
#include "storage/file.h"

namespace gz {

// The digest of an array from the checksums of its pieces, in order.
uint64_t digest_of(std::span<const BlockSum> sums);

class RangeWriter : public ArraySink {
 public:
  struct Range {
    std::string name;     // of the array
    uint64_t offset = 0;  // where the array starts in the file
    uint64_t begin = 0;   // the range, in bytes of the array
    uint64_t end = 0;
  };
  // Twice `staging_bytes` is held for each range.
  RangeWriter(const std::string& path, std::vector<Range> ranges, size_t staging_bytes);
  RangeWriter(const RangeWriter&) = delete;
  RangeWriter& operator=(const RangeWriter&) = delete;

  size_t index_of(std::string_view name) const override;
  using ArraySink::append;
  void append(size_t index, std::span<const std::byte> bytes) override;

  struct Fragment {   // bytes to be written by the owner of the file
    uint64_t at = 0;  // in the array
    std::vector<std::byte> bytes;
  };
  struct Written {
    std::vector<BlockSum> sums;
    std::vector<Fragment> fragments;
  };
  // One for each range, which must be complete. The bytes are on the device.
  std::vector<Written> finish();

 private:
  struct Stream {
    Range range;
    uint64_t at = 0;              // the next byte, in the array
    uint64_t flushed = 0;         // end of the whole pages that were written or are being written
    std::vector<std::byte> head;  // bytes before the first whole page
    Buffer staging, writing;      // bytes from `flushed` on; what `written` is writing
    BackgroundTask written;
    BlockSum open{};  // of the current block
    std::vector<BlockSum> sums;
  };

  void flush(Stream& stream, size_t bytes);

  File file_, bulk_;
  const size_t staging_bytes_;
  std::deque<Stream> streams_;
};

}  // namespace gz
