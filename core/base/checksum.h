// checksum: CRC-32C for pages and blocks, and the digest of an array that is made of its blocks (FORMAT 4).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gz {

// CRC-32C (Castagnoli), continuing from `crc`; the empty message has 0.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same by table, whatever the processor offers: the oracle of the fast one.
uint32_t crc32c_plain(std::span<const std::byte> bytes, uint32_t crc = 0);

// The CRC-32C of two messages, one after the other, from those of each and the length of the second.
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes);

constexpr size_t kBlockBytes = size_t{1} << 20;  // a digest's block: 1 MiB

// Folds the CRCs of an array's blocks, in order, into 64 bits. Blocks may be summed in parallel and folded afterwards.
class Digest {
 public:
  void add(uint32_t block_crc);
  // The blocks of `bytes`, on `threads` threads. Only the last call may end in the middle of a block.
  void add_blocks(std::span<const std::byte> bytes, int threads);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0x9e3779b97f4a7c15ull;
  uint64_t blocks_ = 0;
};

// The CRC of some bytes of an array within one of its blocks.
struct BlockSum {
  uint32_t crc, bytes;
};

// Adds bytes that begin at byte `at` of their array to the open block, and calls done(block) for each that is full.
template <class Done>
void sum_blocks(std::span<const std::byte> bytes, uint64_t at, BlockSum& open, const Done& done) {
  while (!bytes.empty()) {
    const size_t take = std::min<uint64_t>(bytes.size(), kBlockBytes - at % kBlockBytes);
    open.crc = crc32c(bytes.first(take), open.crc);
    open.bytes += static_cast<uint32_t>(take);
    at += take;
    bytes = bytes.subspan(take);
    if (at % kBlockBytes != 0) continue;
    done(open);
    open = {};
  }
}

// A digest fed with bytes in any pieces, in order.
class StreamDigest {
 public:
  void add(std::span<const std::byte> bytes);
  uint64_t finish();  // closes the last, short block

 private:
  Digest digest_;
  BlockSum open_{};
};

// The digest of a whole array, on `threads` threads.
uint64_t digest(std::span<const std::byte> bytes, int threads);

}  // namespace gz
