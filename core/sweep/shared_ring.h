// shared_ring: what a rank has just read of a file, in memory that the other ranks of the host can see.
//
// Reads are put one behind the other, round and round. A chunk has a number while its bytes are there, and loses it
// before they are overwritten: a rank that copied from it looks at the number again, and knows whether the copy is
// good. There are no locks, so no rank can die with one.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "storage/local_ranks.h"
#include "storage/slots.h"

namespace gz {

// The head of a sweep's part of a member's block; the ring's bytes lie behind it. Atomics, since others look at them
// while they change; of a member that has another file or another layout, identity differs.
struct SweepBlock {
  static constexpr size_t kChunks = 1024;
  struct Chunk {
    std::atomic<uint64_t> number;  // 0: none
    std::atomic<uint64_t> offset;  // in the file
    std::atomic<uint32_t> bytes, at;
  };
  std::atomic<uint64_t> identity;  // of file and matrix; 0: no sweep
  std::atomic<uint64_t> where;     // see SharedSweep
  std::atomic<uint64_t> ring_bytes;
  std::atomic<uint64_t> numbers;    // of chunks so far: a later sweep gives others
  std::atomic<uint32_t> news;       // counts all changes: what others wait on
  std::atomic<uint32_t> waits_for;  // the rank whose news its owner waits for, plus one,
  std::atomic<uint64_t> until;      // and the segment that one must have planned, or read where kRead is set
  static constexpr uint64_t kRead = uint64_t{1} << 63;
  Chunk chunks[kChunks];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

constexpr uint64_t kMostRing = uint64_t{48} << 20;
constexpr uint64_t kSweepHead = uint64_t{64} << 10;       // bytes before the ring, in whole pages
constexpr uint64_t kSweepBytes = kSweepHead + kMostRing;  // of each part in a member's block
static_assert(sizeof(SweepBlock) <= kSweepHead);

// This rank's own ring: room for its reads.
class SharedRing : public ReadRoom {
 public:
  // Over a part of this process's block, of which one sweep makes use at a time.
  SharedRing(std::span<std::byte> part, uint64_t ring_bytes);

  std::span<std::byte> arena() const { return arena_; }
  SweepBlock& block() const { return block_; }
  size_t most_in_flight() const { return arena_.size() / 3; }  // bytes: the rest is what was read before

  size_t count() const override { return SweepBlock::kChunks; }
  size_t most_bytes() const override { return std::min(Slots::kLarge, arena_.size() / 8 & ~size_t{4095}); }
  std::optional<Slot> take(size_t bytes) override;
  void give_back(uint32_t index) override;

  // Shows a read that has arrived at `data` to the others.
  void publish(uint64_t offset, uint32_t bytes, const std::byte* data);

 private:
  struct Held {
    uint64_t number, begin, end;  // begin and end in bytes that were ever put into the ring
    bool in_flight = true;
  };
  Held& held(uint32_t index);

  SweepBlock& block_;
  const std::span<std::byte> arena_;
  std::deque<Held> held_;  // the oldest first
  uint64_t end_ = 0;
  size_t in_flight_ = 0;                 // bytes
  std::vector<uint32_t> index_of_page_;  // of the chunk that begins there
};

// The chunks of other ranks that lie in one stretch of the file.
class SharedChunks {
 public:
  void clear() { chunks_.clear(); }
  // Those in [begin, end) of the file that a member's part shows.
  void add(const std::shared_ptr<const LocalMember>& member, const SweepBlock& block, uint64_t begin, uint64_t end);
  void sort();
  bool empty() const { return chunks_.empty(); }
  // Copies bytes of the file; false where no chunk has them all, or has them no longer. Offsets ascend between sorts.
  bool copy(uint64_t offset, size_t bytes, std::byte* to);

 private:
  struct Chunk {
    uint64_t offset;
    uint32_t bytes;
    const std::byte* data;
    const std::atomic<uint64_t>* number;
    uint64_t seen;
    std::shared_ptr<const LocalMember> member;  // keeps it mapped
  };
  std::vector<Chunk> chunks_;
  size_t at_ = 0;
};

}  // namespace gz
